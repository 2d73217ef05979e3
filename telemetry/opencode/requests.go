package opencode

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// OpenCode's setting "instructions" lists URLs, and one of the URLs is ours. Before each
// request to its model, OpenCode reads these URLs and waits for the answers. A reading is
// one such read of our URL. It does not show for which session and turn OpenCode reads
// the URL. This file finds the session and the turn of each reading.

// The names of the hook calls that report a reading of the instructions.
const (
	sessionRequest = "instructions.session" // before the first request of a session
	promptRequest  = "instructions.prompt"  // before the first request of a turn
)

// requestCall returns a hook call that reports a reading of the instructions. event is
// sessionRequest or promptRequest.
func requestCall(event, slot, session string, signals ...telemetry.Signal) telemetry.HookCall {
	call := telemetry.HookCall{Event: event, Session: session}
	call.Fill(slot)
	for _, s := range signals {
		if s.Kind == telemetry.SessionLive || s.Kind == telemetry.Prompt {
			s.Source, s.Detail = "hook", event
		}
		call.Add(s)
	}
	return call
}

// unnamed returns the hook calls for the first reading of our URL, for a launch in
// which no event has shown the session.
func unnamed(cause string) telemetry.Request {
	return telemetry.Request{Calls: []telemetry.HookCall{
		requestCall(sessionRequest, telemetry.SlotSession, "", telemetry.Signal{Kind: telemetry.SessionLive, Cause: cause}),
		requestCall(promptRequest, telemetry.SlotLeading, "", telemetry.Signal{Kind: telemetry.Prompt}),
	}}
}

// oneTurn handles a launch of only one turn, without a plugin that sends events. The
// turn begins when OpenCode first reads our URL.
type oneTurn struct {
	telemetry.Tally
	cause string
	asked bool
}

// OneTurn returns the decoder for `opencode run`, which loads no terminal plugin.
// cause is the cause of the launch's session.
func OneTurn(cause string) telemetry.Requests { return &oneTurn{cause: cmp.Or(cause, "startup")} }

func (d *oneTurn) Decode([]byte) []telemetry.Signal {
	d.Miss(telemetry.Malformed)
	return nil
}

func (d *oneTurn) Request(bool) (telemetry.Request, bool) {
	if d.asked {
		return telemetry.Request{}, true
	}
	d.asked = true
	return unnamed(d.cause), true
}

func (d *oneTurn) End() []telemetry.Signal { return nil }

// terminal handles a launch of the terminal interface. Our plugin in that interface sends
// the events of the sessions. OpenCode's readings of our URL arrive separately:
//
//	plugin        message ─ busy ─ answer begins ─────────── part ─ … ─ idle
//	instructions                                  reading
//
// Each answer that begins is a step. A reading is OpenCode's read of our URL for one
// step. The reading for a turn's first step is reported as the hook of that turn's
// prompt. So the prompt and the signals after it are held back until that reading
// arrives, or until an event shows that OpenCode sent the step's request to its model
// without a reading.
type terminal struct {
	bus
	cause string // the cause of the first session, according to the launch
	reads bool   // OpenCode reads the URL of our instructions; otherwise no signal is held back
	sends bool   // the plugin has sent a record
	owed  int    // number of answered readings of our URL whose steps the plugin has not reported yet

	known map[string]bool // sessions that were reported
	own   map[string]bool // sessions that the plugin created on request; false for one that the plugin removed again
	held  []telemetry.Signal
	since time.Time // the time since which signals are held back
	steps []step    // the steps for which OpenCode has not read our URL yet, oldest first
}

// A step is one answer of the model.
type step struct {
	session *session
	turn    string // the turn that this step begins; empty for a later step of a turn
}

const (
	pluginSource = "plugin"
	// heldFor is the longest time for which a prompt is held back. OpenCode loads its
	// tools after the first answer has begun and before OpenCode reads our URL. On a
	// busy machine, loading them can take a minute.
	heldFor = 5 * time.Minute
)

// Terminal returns the decoder for a launch of the terminal interface. cause is the
// cause of the first session, empty for a new one. reads means that OpenCode reads
// our URL.
func Terminal(cause string, reads bool) telemetry.Requests {
	return &terminal{bus: bus{fold: fold{source: pluginSource}}, cause: cause, reads: reads, known: map[string]bool{}, own: map[string]bool{}}
}

func (d *terminal) Decode(record []byte) []telemetry.Signal {
	d.sends, d.began = true, nil
	var hook string
	var input []byte
	if scan.Object(record, scan.Word("k", &hook), scan.Raw("o", &input)); hook == "init" {
		return d.init(input)
	}
	signals := d.introduce(d.bus.Decode(record))
	free := !d.reads || d.owed > 0
	d.begins(signals)
	if len(d.held) == 0 {
		i := slices.IndexFunc(signals, opens)
		if free || i < 0 {
			return signals
		}
		d.held, d.since = slices.Clone(signals[i:]), d.now
		return signals[:i]
	}
	d.held = append(d.held, signals...)
	if d.waits() {
		return nil
	}
	return d.End()
}

// opens reports whether a signal begins a session or a turn.
func opens(s telemetry.Signal) bool {
	return s.Kind == telemetry.SessionLive || s.Kind == telemetry.Prompt
}

// init reads the plugin's first record, which shows that the terminal is ready
// and which session it displays, if any.
func (d *terminal) init(input []byte) []telemetry.Signal {
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: pluginSource, Detail: "init", Cause: cmp.Or(d.cause, "startup")}
	scan.Object(input, scan.Name("sessionID", &live.Session), scan.Word("version", &live.Version))
	if live.Session != "" {
		d.known[live.Session] = true
	}
	return []telemetry.Signal{live, {Kind: telemetry.Idle, Source: pluginSource, Detail: "init", Session: live.Session}}
}

// introduce sets the causes of sessions that begin. It also reports that an older
// session is live, before the first signal of that session in this launch.
func (d *terminal) introduce(signals []telemetry.Signal) []telemetry.Signal {
	var out []telemetry.Signal
	for _, s := range signals {
		switch kept, own := d.own[s.Session]; {
		case own && (!kept || s.Kind == telemetry.SessionLive):
			continue // the plugin removed the session, or freshCall has reported its start
		case s.Kind == telemetry.SessionLive:
			s.Cause = d.causeOf("clear") // `/new` sends no event; the next prompt creates the session
			d.known[s.Session] = true
		case s.Agent == "" && s.Session != "" && !d.known[s.Session]:
			out = append(out, telemetry.Signal{Kind: telemetry.SessionLive, Source: s.Source, Detail: s.Detail, At: s.At, Session: s.Session,
				Cause: d.causeOf("resume")})
			d.known[s.Session] = true
		case s.Kind == telemetry.TurnEnd, s.Kind == telemetry.Idle:
			d.owed = 0 // the turn has ended, so no reading still waits for a report of its step
		}
		out = append(out, s)
	}
	return out
}

// causeOf returns why a session was opened: for the first session the cause of
// the launch, for the others the value of later.
func (d *terminal) causeOf(later string) string {
	if len(d.known) > 0 {
		return later
	}
	return cmp.Or(d.cause, "startup")
}

// begins adds a step if the decoded event began an answer. If the reading for that
// answer arrived before the event, begins only decrements owed.
func (d *terminal) begins(signals []telemetry.Signal) {
	switch {
	case d.began == nil || !d.reads:
		return
	case d.owed > 0:
		d.owed--
		return
	}
	st := step{session: d.began}
	for _, s := range signals {
		if s.Kind == telemetry.Prompt {
			st.turn = s.Turn
		}
	}
	d.steps = append(d.steps, st)
}

// waits reports whether the held signals must stay held back: none of them is a prompt
// yet, or OpenCode has not read our URL for a step that begins a turn. It returns false
// after the end of a turn, and after heldFor.
func (d *terminal) waits() bool {
	rests := slices.ContainsFunc(d.held, func(s telemetry.Signal) bool { return s.Kind == telemetry.Idle || s.Kind == telemetry.TurnEnd })
	if rests || d.now.Sub(d.since) > heldFor {
		return false
	}
	d.forget()
	return d.prompt("") < 0 || slices.ContainsFunc(d.steps, func(st step) bool { return st.turn != "" })
}

// forget removes the steps whose requests to the model were already sent or will not
// be sent.
func (d *terminal) forget() {
	d.steps = slices.DeleteFunc(d.steps, func(st step) bool { return st.session.sent() })
}

// prompt returns the index in d.held of the prompt of a turn, or of the first prompt
// if turn is empty. It returns -1 if d.held has no such prompt.
func (d *terminal) prompt(turn string) int {
	return slices.IndexFunc(d.held, func(s telemetry.Signal) bool {
		return s.Kind == telemetry.Prompt && (turn == "" || turn == s.Turn)
	})
}

// End implements telemetry.Requests.
func (d *terminal) End() []telemetry.Signal {
	out := d.held
	d.held = nil
	return out
}

// Request implements telemetry.Requests.
func (d *terminal) Request(late bool) (telemetry.Request, bool) {
	d.forget()
	switch {
	case len(d.steps) > 0:
	case !d.sends && d.owed > 0:
		d.owed++
		return telemetry.Request{}, true // the plugin was not loaded, so no event will show the turn
	case !late:
		return telemetry.Request{}, false
	default:
		if d.owed++; d.sends {
			return telemetry.Request{Then: d.End()}, true
		}
		return unnamed(cmp.Or(d.cause, "startup")), true
	}
	st := d.steps[0]
	d.steps = d.steps[1:]
	i := d.prompt(st.turn)
	switch {
	case st.turn == "" || i < 0:
		return telemetry.Request{}, true
	case slices.ContainsFunc(d.steps, func(other step) bool { return other.turn != "" }):
		return telemetry.Request{Then: d.End()}, true // two sessions begin a turn, and it is unknown which one asks
	}
	return d.named(st, i), true
}

// named returns the hook calls that report a reading of our URL. OpenCode made this reading
// for the step st, which is the first step of a turn. The prompt of that turn is d.held[i].
func (d *terminal) named(st step, i int) (out telemetry.Request) {
	before, prompt := d.held[:i:i], d.held[i]
	out.Then, d.held = d.held[i+1:], nil
	if slices.ContainsFunc(before, func(s telemetry.Signal) bool { return s.Kind == telemetry.SessionLive && s.Session == st.session.id }) {
		out.Calls = append(out.Calls, requestCall(sessionRequest, telemetry.SlotSession, st.session.id, before...))
		before = nil
	}
	call := requestCall(promptRequest, telemetry.SlotLeading, st.session.id, append(before, prompt)...)
	call.Turn = st.turn
	out.Calls = append(out.Calls, call)
	return out
}
