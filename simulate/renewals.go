package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// This file simulates renewals: the commands of the profile, and a harness that is
// launched again or reset in place.

// renewing is the active renewal profile of a world.
type renewing struct {
	profile string // the name of the profile; empty if none is active
	paths   []renewal.Path
	client  *scripted // the client that asks for renewals; nil if the world has no client
}

// A scripted client gets the events of one kind (the field on), and answers each after a
// delay (the field after). Its answers are counted from 1. An answer whose number is in
// the field asks is a request for a renewal.
type scripted struct {
	on    lifeloop.Event
	asks  []int
	after time.Duration
}

const (
	clientID      = "client"
	clientTimeout = time.Minute
)

func (r *renewing) read(v document.Value) error {
	text := struct {
		Profile string         `yaml:"profile"`
		Paths   []renewal.Path `yaml:"paths"`
		Client  document.Value `yaml:"client"`
	}{Paths: []renewal.Path{renewal.Relaunch}}
	if err := document.Decode(v, &text, "renewal", nil); err != nil {
		return err
	}
	if text.Profile == "" {
		return fault("renewal", `a renewal needs a profile: {"profile":"handoff"}`)
	}
	if len(text.Paths) == 0 {
		return fault("renewal.paths", "name at least one way to reset the context: %s", strings.Join(paths(), ", "))
	}
	for i, path := range text.Paths {
		at := fmt.Sprintf("renewal.paths[%d]", i)
		if err := policy.Word(at, string(path), paths()); err != nil {
			return err
		}
		if slices.Contains(text.Paths[:i], path) {
			return fault(at, "%s is given twice", path)
		}
	}
	r.profile, r.paths = text.Profile, text.Paths
	if _, given := v.Member("client"); given {
		return r.readClient(text.Client)
	}
	return nil
}

func (r *renewing) readClient(v document.Value) error {
	text := struct {
		On    lifeloop.Event `yaml:"on"`
		Asks  []int          `yaml:"asks"`
		After time.Duration  `yaml:"after_ms,ms"`
	}{On: lifeloop.FrameEnded}
	if err := document.Decode(v, &text, "renewal.client", nil); err != nil {
		return err
	}
	if err := policy.Word("renewal.client.on", string(text.On), policy.Words(lifeloop.Events()...)); err != nil {
		return err
	}
	for i, n := range text.Asks {
		if n < 1 {
			return fault(fmt.Sprintf("renewal.client.asks[%d]", i), "answers are counted from 1")
		}
	}
	if text.After > clientTimeout {
		return fault("renewal.client.after_ms", "the client must answer within %d ms", clientTimeout.Milliseconds())
	}
	r.client = &scripted{text.On, text.Asks, text.After}
	return nil
}

// clients returns the clients of a world.
func (r *renewing) clients() (known []setup.Client, ids []string) {
	if r.client == nil {
		return nil, []string{}
	}
	return []setup.Client{{ID: clientID, Events: map[lifeloop.Event]bool{r.client.on: true}, Timeout: clientTimeout}}, []string{clientID}
}

// An answer is what the client answers, and when.
type answer struct {
	at time.Time
	input.Returned
}

// call calls the world's client. If a core has other clients, the core calls them.
func (p *player) call(e effect.Dispatch) {
	if p.world.renewal.client == nil || e.Client != clientID {
		return
	}
	p.calls++
	a := answer{p.now.Add(p.world.renewal.client.after), input.Returned{Call: e.Call, Response: &lifeloop.CallbackResponse{Status: lifeloop.Observed}}}
	if slices.Contains(p.world.renewal.client.asks, p.calls) {
		a.Renew = p.world.renewal.profile
	}
	p.answers = append(p.answers, a)
}

// cancel drops the answer of a call that the kernel has given up.
func (p *player) cancel(call string) {
	p.answers = slices.DeleteFunc(p.answers, func(a answer) bool { return a.Call == call })
}

func paths() []string { return policy.Words(renewal.Paths()...) }

// A reaction is what happens when the keys of a reset in place are typed, or the
// plugin is asked for the reset.
type reaction string

const (
	works   reaction = "works"   // a fresh session begins
	ignored reaction = "ignored" // no fresh session begins
	fails   reaction = "fails"   // not all keys can be typed, or the plugin reports a failure
	dialog  reaction = "dialog"  // a dialog opens before the last key
	line    reaction = "line"    // the user has begun to type a line, so no keys are typed
)

func reactions() []string { return policy.Words(works, ignored, fails, dialog, line) }

// checkReset checks that the harness of a profile, whose script has the reset step
// s, can be reset in place.
func (w *World) checkReset(s step, profile int) error {
	switch adapter := w.policy.Profiles[profile].Adapter; {
	case !slices.Contains(w.renewal.paths, renewal.InPlace):
		return fault(s.path, `a reset needs a renewal with the path in_place: "renewal":{"profile":"handoff","paths":["in_place"]}`)
	case !w.fresh(profile).Clears:
		return fault(s.path, "adapter %s cannot be reset in place", adapter)
	}
	return nil
}

// renews reports whether the wrapper can renew the harness of a profile.
func (w World) renews(profile int) bool { return w.can(profile, negotiate.WrapperReset) }

func (w World) can(profile int, capability string) bool {
	return w.renewal.profile != "" && negotiate.Support(w.adapter[profile], capability) != lifeloop.Unavailable
}

// fresh says how the harness of a profile can be given a fresh session.
func (w World) fresh(profile int) setup.Fresh {
	f := setup.Fresh{Renews: w.renews(profile), Clears: w.can(profile, negotiate.NativeReset)}
	if !f.Clears {
		return f
	}
	adapter, _ := profiles.For(w.adapter[profile].AdapterID)
	if f.KeepsLine = adapter.Keys.Aside != nil; len(adapter.Keys.Reset) == 0 {
		f.Means, f.KeepsLine = renewal.ByPlugin, true
	}
	return f
}

// continuation is the output of the prepare and continue programs in the simulated renewal with this id.
func continuation(id string) string { return "continue after " + id }

// begins reports the harness session of a launch, as the first hook of a harness does.
func (p *player) begins(e effect.Launch) {
	if e.Resume != "" {
		p.session(e.Resume, "launch", "resume")
		return
	}
	p.session(p.nextSession(), "launch", "startup")
}

func (p *player) nextSession() string {
	p.sessions++
	return fmt.Sprintf("session-%06d", p.sessions)
}

func (p *player) session(id, detail, cause string) {
	p.launch.hooks = id
	p.cause(p.hook("session", telemetry.SlotSession, telemetry.Signal{Kind: telemetry.SessionLive, Source: source, Detail: detail, Session: id, Cause: cause}))
}

// keys types keys into the harness, or asks its plugin. If the script's next step is a
// reset, that step says how the harness reacts; otherwise the keys work. Keys that undo
// earlier keys always work.
func (p *player) keys(e effect.TypeKeys) {
	l := &p.launch
	typed := input.KeysTyped{Renewal: e.Renewal, Undo: e.Undo}
	if e.Undo || !l.alive {
		p.cause(typed)
		return
	}
	does, path := works, "keys"
	if l.next < len(l.script) && l.script[l.next].act == reset {
		does, path = l.script[l.next].reaction, l.script[l.next].path
		l.next++
		p.plan()
	}
	switch does {
	case works:
		p.cause(typed)
		p.cause(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.SessionGone, Source: source, Detail: path, Session: l.hooks, Reason: "clear"}}})
		p.session(p.nextSession(), path, "clear")
	case fails:
		typed.Failure = "the script's reset step says that the reset fails"
		p.cause(typed)
	case dialog:
		l.typed, l.asking = e.Renewal, true
		p.cause(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.NeedsInput, Source: source, Detail: path}}})
	case line:
		typed.Busy = true
		p.cause(typed)
	case ignored:
		p.cause(typed)
	}
}

// stopTyping stops keys that are being typed.
func (p *player) stopTyping(e effect.Cancel) {
	if l := &p.launch; l.typed != "" && l.typed == e.Call {
		l.typed = ""
		p.cause(input.KeysTyped{Renewal: e.Call, Failure: "interrupted before the last key"})
	}
}
