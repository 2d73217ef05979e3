package kernel

import (
	"slices"
	"strings"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file compares the harness's version with the versions that the manifest's claims
// were tested with (DECISIONS L8). An untested version may write its records
// differently, so capabilities that depend on records are only partial until they have
// worked in this launch, or in an earlier session with this version. A VersionSeen fact
// records each version that is reported in a launch. When a session first sees a
// version, capability.degraded events name all capabilities that become partial. In a
// later launch with that version, these events name only the negotiated capabilities.

type (
	// VersionSeen records the harness's version and, if it was not tested, its
	// unproven capabilities.
	VersionSeen struct {
		Version  string   `json:"version"`
		Source   string   `json:"source"`
		Detail   string   `json:"detail,omitempty"`
		Adapter  string   `json:"adapter_id,omitempty"`
		Unproven []string `json:"unproven,omitempty"`
		// Before lists capabilities that count as proven, because earlier sessions saw
		// them with this version.
		Before []string `json:"proven_before,omitempty"`
		// Here lists the other capabilities that worked in this launch before the
		// harness's version was known.
		Here []string `json:"proven_here,omitempty"`
	}
	// CapabilityProven records that the harness itself caused the event of an
	// unproven capability, which then has its claimed support again. Proven is how
	// many capabilities of this launch were proven so far, and Unproven how many
	// are still unproven.
	CapabilityProven struct {
		Capability string           `json:"capability"`
		Support    lifeloop.Support `json:"support"`
		Source     string           `json:"source"`
		Detail     string           `json:"detail,omitempty"`
		Proven     int              `json:"proven"`
		Unproven   int              `json:"unproven"`
	}
)

func (VersionSeen) key() (string, bool) { return "version_told", false }
func (f VersionSeen) apply(k *Kernel) {
	h := &k.health.hard
	h.Versions, h.Early = append(h.Versions, f.Version), nil
	if len(f.Unproven) > 0 && !slices.Contains(h.Announced, f.name()) {
		h.Announced = append(h.Announced, f.name())
	}
	for _, c := range f.Unproven {
		h.Unproven[c] = true
		if now, changed := h.Support[c]; !changed || now.Stronger(lifeloop.Partial) {
			h.Support[c] = lifeloop.Partial
		}
	}
}

// early stores in hard.Early a capability that worked in this launch before the
// harness's version was known.
func (h *health) early(f Observed) {
	if len(h.hard.Versions) == 0 && slices.Contains(dialect, f.Record.Event) && Proves(f.Record.Event, f.Record.Evidence, f.Record.Data, true) {
		h.hard.Early[string(f.Record.Event)] = true
	}
}

// name returns the adapter and the version.
func (f VersionSeen) name() string { return f.Adapter + " " + f.Version }

func (CapabilityProven) key() (string, bool) { return "capability_proven", false }
func (f CapabilityProven) apply(k *Kernel) {
	h := &k.health.hard
	delete(h.Unproven, f.Capability)
	h.Support[f.Capability], h.Proven = f.Support, f.Proven
}

// dialect lists the capabilities that depend on the format of a harness's records
// and hooks, and that clients need most. Each is an event, and is proven when the
// harness causes that event.
var dialect = []lifeloop.Event{
	lifeloop.FrameOpening, lifeloop.FrameOpened, lifeloop.ContextPressureObserved, lifeloop.ContextCompacted, lifeloop.FrameEnded,
}

// packageSource is the Source of a version that was read from the harness's package.
const packageSource = "package"

// maxVersions is how many reported versions of one launch are considered; usually
// there is one.
const maxVersions = 8

// version handles the version that a source reports for the current harness session.
// Each version is considered only once in a launch, so that sources which
// contradict each other do not change the support back and forth.
func (h *health) version(s *step, sig telemetry.Signal) {
	if sig.Version == "" || sig.Session != "" && sig.Session != s.scopes.current().ID ||
		len(h.hard.Versions) == maxVersions || slices.Contains(h.hard.Versions, sig.Version) {
		return
	}
	if !sig.At.IsZero() && s.attempts.launchedAfter(sig.At, s.now) {
		return // the record is older than this launch: an earlier program with its own version wrote it
	}
	f := VersionSeen{Version: sig.Version, Source: sig.Source, Detail: sig.Detail, Adapter: s.cfg.Manifest.AdapterID}
	var weaker []SupportChange
	if len(s.cfg.Tested) > 0 && !slices.Contains(s.cfg.Tested, sig.Version) {
		for _, event := range dialect {
			capability := string(event)
			if h.hard.Unproven[capability] || !h.claimed(s, capability).Stronger(lifeloop.Partial) {
				continue
			}
			if slices.Contains(s.cfg.Proven[sig.Version], capability) {
				f.Before = append(f.Before, capability)
				continue
			}
			if h.hard.Early[capability] {
				f.Here = append(f.Here, capability)
				continue
			}
			f.Unproven = append(f.Unproven, capability)
			if now := h.support(s, capability); now.Stronger(lifeloop.Partial) {
				weaker = append(weaker, SupportChange{capability, now, lifeloop.Partial})
			}
		}
	}
	known := slices.Contains(h.hard.Announced, f.name())
	s.record(f)
	if known { // the version was announced before, so only negotiated capabilities are announced again
		weaker = slices.DeleteFunc(weaker, func(c SupportChange) bool { return !s.negotiated(c.Capability) })
	}
	h.announce(s, weaker, s.cfg.Manifest.DisplayName+" "+sig.Version+
		" is not a tested version (tested: "+strings.Join(s.cfg.Tested, ", ")+"): capabilities that depend on its formats count as partial until a session shows that they work")
}

// prove records that an unproven capability has its claimed support again, once the
// harness itself has caused the capability's event. prove emits an event about the
// change only if the capability was negotiated.
func (h *health) prove(s *step, e emission) {
	capability := string(e.event)
	if !h.hard.Unproven[capability] || !Proves(e.event, e.evidence, e.data, s.cfg.Hooks) {
		return
	}
	ev, before, now := e.evidence[0], h.support(s, capability), h.proven(s, s.claims(), capability)
	s.record(CapabilityProven{Capability: capability, Support: now, Source: ev.Source, Detail: ev.Detail,
		Proven: h.hard.Proven + 1, Unproven: len(h.hard.Unproven) - 1})
	if now != before && s.negotiated(capability) {
		h.announce(s, []SupportChange{{capability, before, now}}, "seen in this session, reported by the "+ev.Source+": "+ev.Detail)
	}
}

// Proves reports whether an event proves that its own capability works. hooks says
// whether hooks were injected into the launch.
func Proves(event lifeloop.Event, evidence []lifeloop.Evidence, data map[string]any, hooks bool) bool {
	if !byHarness(evidence) {
		return false
	}
	switch event {
	case lifeloop.FrameOpening: // with hooks, only the hook of the prompt is a proof, because payloads need that hook
		return !hooks || evidence[0].Source == "hook"
	case lifeloop.FrameEnded: // the end of an abandoned frame was not reported, but inferred from a later event
		return data["outcome"] != "abandoned"
	case lifeloop.ContextPressureObserved:
		return data["window_tokens"] != nil
	case lifeloop.ContextCompacted:
		return data["inferred"] != true
	}
	return true
}

// Provable returns the capabilities that are only partial with an untested version
// until they are proven.
func Provable() []lifeloop.Event { return slices.Clone(dialect) }
