package kernel

import (
	"fmt"
	"slices"
	"strings"

	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

// This file records what was negotiated, announces changes of support (DECISIONS L8),
// and handles their consequences for clients and payloads. Each changed capability that
// a client or the owner negotiated gets its own event. The first event also names the
// changed capabilities that were not negotiated. If no changed capability was
// negotiated, one event names all of them.

// A SupportChange is the previous and the current support of a capability.
type SupportChange struct {
	Capability      string           `json:"capability"`
	PreviousSupport lifeloop.Support `json:"previous_support"`
	CurrentSupport  lifeloop.Support `json:"current_support"`
}

func (c SupportChange) weaker() bool { return c.PreviousSupport.Stronger(c.CurrentSupport) }

// Negotiated records one requirement of a client, or of the owner if Client is
// empty, and its result.
type Negotiated struct {
	Client     string `json:"client"`
	Capability string `json:"capability"`
	Level      string `json:"level"`
	Outcome    string `json:"outcome"`
	Have       string `json:"have"`
}

func (Negotiated) key() (string, bool) { return "negotiated", false }
func (f Negotiated) apply(k *Kernel)   { k.health.agreed(f) }

func negotiatedOf(client string, r negotiate.Result) Negotiated {
	return Negotiated{Client: client, Capability: r.Want.Capability, Level: string(r.Want.Level), Outcome: string(r.Outcome), Have: string(r.Have)}
}

// assess compares the current support of every capability with what was last
// reported, and announces the changes.
func (h *health) assess(s *step, evidence string) {
	var weaker, stronger []SupportChange
	claims := s.claims()
	for _, name := range negotiate.Names(claims) {
		c := SupportChange{name, h.support(s, name), h.worth(s, claims, name)}
		switch {
		case c.PreviousSupport == c.CurrentSupport:
		case c.weaker():
			weaker = append(weaker, c)
		default:
			stronger = append(stronger, c)
		}
	}
	h.announce(s, weaker, evidence)
	h.announce(s, stronger, evidence)
}

// announce emits capability.degraded for changes in one direction, weaker or
// stronger. Each capability that a client or the owner negotiated has its own
// event; the first event also names the capabilities that were not negotiated.
func (h *health) announce(s *step, changes []SupportChange, evidence string) {
	var own, also []SupportChange
	for _, c := range changes {
		if s.negotiated(c.Capability) {
			own = append(own, c)
		} else {
			also = append(also, c)
		}
	}
	if len(own) == 0 && len(also) > 0 {
		own, also = also[:1], also[1:]
	}
	for _, c := range own {
		s.degrade(c, also, evidence)
		also = nil
	}
	if len(changes) > 0 {
		h.renegotiate(s, evidence)
	}
	for _, c := range changes {
		if class, is := strings.CutPrefix(c.Capability, "placement."); is && c.CurrentSupport == lifeloop.Unavailable {
			s.slots.lost(s, lifeloop.Placement(class), "its placement is not available any more: "+evidence)
		}
	}
}

// degrade emits one capability.degraded, for support that became weaker or stronger.
func (s *step) degrade(c SupportChange, also []SupportChange, evidence string) {
	retry := lifeloop.RetryAfterReconfigure
	if !c.weaker() {
		retry = lifeloop.SafeRetry // the support has returned, so a retry is safe
	}
	d := &lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: c.Capability, PreviousSupport: c.PreviousSupport,
		CurrentSupport: c.CurrentSupport, ObservedAtEpochS: s.now.Unix(), Evidence: evidence, RetryClass: retry}
	data := map[string]any{"capability": c.Capability, "previous_support": string(c.PreviousSupport), "current_support": string(c.CurrentSupport),
		"observed_at_epoch_s": d.ObservedAtEpochS, "evidence": evidence, "retry_class": string(retry)}
	if len(also) == 0 {
		also = nil // a fact that is read from the ledger has nil too, because the ledger omits an empty list
	} else {
		names := make([]any, len(also))
		for i, other := range also {
			names[i] = other.Capability
		}
		data["also"] = names
	}
	s.emit(emission{event: lifeloop.CapabilityDegraded, evidence: own(evidence), degradation: d, also: also, data: data})
}

// degradations returns the degradations that a call about capability.degraded
// reports: the event's own degradation, and one for each capability in Also.
func (k *call) degradations() []lifeloop.Degradation {
	if k.Degradation == nil {
		return nil
	}
	all := []lifeloop.Degradation{*k.Degradation}
	for _, c := range k.Also {
		d := *k.Degradation
		d.Capability, d.PreviousSupport, d.CurrentSupport = c.Capability, c.PreviousSupport, c.CurrentSupport
		all = append(all, d)
	}
	return all
}

// negotiated reports whether a client, or the owner, asked for a capability.
func (s *step) negotiated(capability string) bool {
	asked := func(wants []negotiate.Want) bool {
		return slices.ContainsFunc(wants, func(w negotiate.Want) bool { return w.Capability == capability })
	}
	return asked(s.cfg.Wants) || slices.ContainsFunc(s.cfg.Clients, func(c setup.Client) bool { return asked(c.Wants) })
}

// renegotiate evaluates the requirements of the owner and the clients again, and
// records each result that changed. For a preferred or optional capability that
// became weaker, the client's next receipt has a warning. For a required one there
// is a separate event and receipt.
func (h *health) renegotiate(s *step, evidence string) {
	now := h.manifest(s)
	evaluate := func(client string, wants []negotiate.Want) {
		for _, r := range negotiate.Capabilities(now, wants, s.cfg.profiles()...) {
			before, known := h.hard.Agreed[agreement(client, r.Want.Capability)]
			if !known || before == r.Have {
				continue
			}
			s.record(negotiatedOf(client, r))
			if before.Stronger(r.Have) && r.Want.Level != lifeloop.Required {
				s.router.warn(s, client, fmt.Sprintf("%s was %s and is %s now: %s", r.Want.Capability, before, r.Have, evidence))
			}
		}
	}
	evaluate("", s.cfg.Wants)
	for _, c := range s.cfg.Clients {
		evaluate(c.ID, c.Wants)
	}
}

// relaunched compares the claims of a new launch with the negotiated results,
// because a fallback may support less than the harness that it replaces.
func (h *health) relaunched(s *step) {
	var weaker []SupportChange
	add := func(client string, wants []negotiate.Want) {
		for _, w := range wants {
			before, known := h.hard.Agreed[agreement(client, w.Capability)]
			c := SupportChange{w.Capability, before, h.support(s, w.Capability)}
			if known && c.weaker() && !slices.Contains(weaker, c) {
				weaker = append(weaker, c)
			}
		}
	}
	add("", s.cfg.Wants)
	for _, c := range s.cfg.Clients {
		add(c.ID, c.Wants)
	}
	why := "launch " + s.attempts.run() + " of " + s.cfg.Manifest.AdapterID + " supports less"
	h.announce(s, weaker, why)
	h.renegotiate(s, why)
}

// agreed stores the result of a negotiation.
func (h *health) agreed(f Negotiated) {
	h.hard.Agreed[agreement(f.Client, f.Capability)] = lifeloop.Support(f.Have)
}

func agreement(client, capability string) string { return client + "\x00" + capability }

// unmet returns the failure class for the receipt of a call about weaker
// capabilities: set if one of them is now weaker than the call's client requires,
// otherwise empty.
func (s *step) unmet(k *call) lifeloop.FailureClass {
	i := slices.IndexFunc(s.cfg.Clients, func(c setup.Client) bool { return c.ID == k.Client })
	if i < 0 {
		return ""
	}
	for _, d := range k.degradations() {
		for _, w := range s.cfg.Clients[i].Wants {
			if w.Capability != d.Capability || !d.PreviousSupport.Stronger(d.CurrentSupport) {
				continue
			}
			switch class := negotiate.Evaluate(w, d.CurrentSupport).Failure; class {
			case "":
			case lifeloop.IdentityUnavailable:
				return class
			default:
				return lifeloop.DegradedCapability
			}
		}
	}
	return ""
}
