package simulate

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/internal/nearest"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/telemetry"
)

// A World is a policy and what the harnesses under it will do. [Parse] reads
// one; its zero value is of no use.
type World struct {
	policy  attempt.Policy
	adapter []lifeloop.Manifest // of each profile
	grace   time.Duration
	success map[int]bool
	codes   map[int]attempt.Cause
	meta    map[string]string
	scripts map[string][]script // by profile; the last one repeats
	control []control           // by time
}

// A script is what one launch does.
type script []step

type step struct {
	path string
	act  act
	wait time.Duration
	text string // of an output, a checkpoint's id, a failure's message
	// Of a signal: what it tells, what the tool was given and gave, and the
	// cause that an error names.
	signal telemetry.Signal
	in     json.RawMessage
	out    json.RawMessage
	cause  attempt.Cause // of a failure too
	number int           // exit code or signal
}

// An act is what a step does, by its one key.
type act string

const (
	wait       act = "wait_ms"
	output     act = "output"
	signal     act = "signal"
	checkpoint act = "checkpoint"
	fail       act = "fail"
	exit       act = "exit"
	killed     act = "killed"
	startFails act = "start_fails"
	hang       act = "hang"
	ignoreTerm act = "ignore_term"
)

// acts are what a step can be. Here and below a list is made when it is asked
// for: every start of the program would pay for it otherwise.
func acts() []string {
	return []string{string(wait), string(output), string(signal), string(checkpoint), string(fail), string(exit), string(killed),
		string(startFails), string(hang), string(ignoreTerm)}
}

type control struct {
	at time.Duration
	do string
}

const (
	doAbort  = "abort"
	doPause  = "pause"
	doResume = "resume"
	doRenew  = "renew"
)

// abortGrace is what a launch has from TERM to KILL when the plan does not
// say, as with `run`: 0 is not to say. A world whose harness ignores TERM would
// hang for ever without it.
const abortGrace = 5 * time.Second

// The members of a plan and of what is in it. The configuration's attempts
// block has the same.
const (
	worldMembers     = "plan launches control"
	planMembers      = "profiles retry timeouts_ms continuation checkpoint_every guardrails drift zero_output success_codes exit_codes on_limit crash_loop meta"
	profileMembers   = "name adapter command accepts_continuation"
	retryMembers     = "attempts max_retries retry_on backoff"
	backoffMembers   = "kind base_ms max_ms jitter"
	timeoutMembers   = "initial inter tool session idle abort_grace"
	guardrailMembers = "id on pattern severity recoverable"
	driftMembers     = "repeat"
	crashLoopMembers = "launches within_ms quarantine_ms"
	controlMembers   = "at_ms do"
)

func words(s string) []string { return strings.Fields(s) }

// Parse reads a world. It is strict: a member it does not know, a value of the
// wrong type, a step of two keys is an error that names the place, what was
// expected and what was found.
func Parse(data []byte) (World, error) {
	var w World
	doc, err := parseNode(data)
	if err != nil {
		return w, err
	}
	r := &reader{}
	m := r.object(doc, words(worldMembers)...)
	plan, given := m["plan"]
	if !given {
		r.fail("", `a world needs a plan: {"plan":{"profiles":[{"name":"a"}]},"launches":{"a":[[{"output":"hello"}]]}}`)
	}
	if given {
		w.plan(r, plan)
	}
	w.scripts = map[string][]script{}
	if n, ok := m["launches"]; ok {
		w.launches(r, n)
	}
	if n, ok := m["control"]; ok {
		for _, item := range r.list(n) {
			w.control = append(w.control, readControl(r, item))
		}
		slices.SortStableFunc(w.control, func(a, b control) int { return cmp.Compare(a.at, b.at) })
	}
	return w, r.err
}

func (w *World) plan(r *reader, n node) {
	m := r.object(n, words(planMembers)...)
	p := &w.policy
	w.profiles(r, m["profiles"], n.path)
	if n, ok := m["retry"]; ok {
		w.retry(r, n)
	}
	w.grace = abortGrace
	if n, ok := m["timeouts_ms"]; ok {
		w.timeouts(r, n)
	}
	if n, ok := m["continuation"]; ok {
		p.Continuation = r.flag(n)
	}
	if n, ok := m["checkpoint_every"]; ok {
		p.CheckpointEvery = r.count(n, most)
	}
	if n, ok := m["guardrails"]; ok {
		for _, item := range r.list(n) {
			w.guardrail(r, item)
		}
	}
	if n, ok := m["drift"]; ok {
		if n, ok := r.object(n, words(driftMembers)...)["repeat"]; ok {
			p.Repeat = int(r.count(n, most))
		}
	}
	if n, ok := m["zero_output"]; ok {
		p.ZeroOutput = r.flag(n)
	}
	if n, ok := m["success_codes"]; ok {
		w.success = map[int]bool{}
		for _, item := range r.list(n) {
			w.success[int(r.count(item, 255))] = true
		}
		if len(w.success) == 0 {
			r.fail(n.path, "an empty list; no attempt could succeed")
		}
	}
	if n, ok := m["exit_codes"]; ok {
		w.exitCodes(r, n)
	}
	if n, ok := m["on_limit"]; ok {
		if word := r.word(n, "off", string(attempt.LimitWait), string(attempt.LimitFallback), string(attempt.LimitExit)); word != "off" {
			p.OnLimit = attempt.OnLimit(word)
		}
	}
	if n, ok := m["crash_loop"]; ok {
		p.Loop = attempt.DefaultCrashLoop()
		m := r.object(n, words(crashLoopMembers)...)
		if n, ok := m["launches"]; ok {
			p.Loop.Launches = int(r.count(n, most))
		}
		if n, ok := m["within_ms"]; ok {
			p.Loop.Within = r.ms(n)
		}
		if n, ok := m["quarantine_ms"]; ok {
			p.Loop.Quarantine = r.ms(n)
		}
	}
	if n, ok := m["meta"]; ok {
		w.meta = map[string]string{}
		for _, m := range r.names(n) {
			w.meta[m.name] = r.text(m.node)
		}
	}
}

func (w *World) profiles(r *reader, n node, plan string) {
	if n.path == "" || len(n.items) == 0 && n.kind == list {
		r.fail(join(plan, "profiles"), `a plan needs a profile at least: [{"name":"a"}]`)
		return
	}
	for _, item := range r.list(n) {
		m := r.object(item, words(profileMembers)...)
		p := attempt.Profile{Adapter: manifests.Generic}
		name, ok := m["name"]
		if !ok {
			r.fail(item.path, "a profile needs a name")
		} else if p.Name = r.name(name); slices.ContainsFunc(w.policy.Profiles, func(q attempt.Profile) bool { return q.Name == p.Name }) {
			r.fail(name.path, "a second profile %q; names are unique", p.Name)
		}
		if n, ok := m["adapter"]; ok {
			p.Adapter = r.word(n, manifests.IDs()...)
		}
		if n, ok := m["command"]; ok { // of a plan that is a configuration's too; nothing is run here
			for _, item := range r.list(n) {
				r.text(item)
			}
		}
		if n, ok := m["accepts_continuation"]; ok {
			p.AcceptsContinuation = r.flag(n)
		}
		w.policy.Profiles = append(w.policy.Profiles, p)
		manifest, _ := manifests.Get(p.Adapter) // there is one, or an error that says so
		w.adapter = append(w.adapter, manifest)
	}
}

func (w *World) retry(r *reader, n node) {
	m := r.object(n, words(retryMembers)...)
	p := &w.policy
	if n, ok := m["attempts"]; ok {
		p.Attempts = int(r.count(n, most))
	}
	p.MaxRetries = attempt.DefaultMaxRetries(p.Attempts, len(p.Profiles))
	if n, ok := m["max_retries"]; ok {
		p.MaxRetries = int(r.count(n, most))
	}
	p.On = attempt.DefaultOn()
	if n, ok := m["retry_on"]; ok {
		p.On = map[attempt.Cause]bool{}
		for _, item := range r.list(n) {
			p.On[attempt.Cause(r.word(item, texts(attempt.Causes())...))] = true
		}
	}
	n, ok := m["backoff"]
	if !ok {
		return
	}
	m = r.object(n, words(backoffMembers)...)
	b := &p.Backoff
	b.Kind, b.Jitter = attempt.Fixed, attempt.NoJitter
	if n, ok := m["kind"]; ok {
		b.Kind = attempt.BackoffKind(r.word(n, string(attempt.Exponential), string(attempt.Linear), string(attempt.Fixed)))
	}
	if n, ok := m["base_ms"]; ok {
		b.Base = r.ms(n)
	}
	if n, ok := m["max_ms"]; ok {
		b.Max = r.ms(n)
	}
	if n, ok := m["jitter"]; ok {
		b.Jitter = attempt.Jitter(r.word(n, string(attempt.NoJitter), string(attempt.FullJitter), string(attempt.FixedJitter)))
	}
}

func (w *World) timeouts(r *reader, n node) {
	m := r.object(n, words(timeoutMembers)...)
	p := &w.policy
	timers := []*time.Duration{&p.Initial, &p.Inter, &p.Tool, &p.Session, &p.Idle} // as timeoutMembers has them
	for i, d := range timers {
		if n, ok := m[words(timeoutMembers)[i]]; ok {
			*d = r.ms(n)
		}
	}
	if n, ok := m["abort_grace"]; ok {
		if d := r.ms(n); d > 0 {
			w.grace = d
		}
	}
}

func (w *World) guardrail(r *reader, n node) {
	m := r.object(n, words(guardrailMembers)...)
	rule := attempt.Rule{On: attempt.OnOutput, Severity: attempt.Error, Recoverable: true}
	id, ok := m["id"]
	if !ok {
		r.fail(n.path, "a guardrail needs an id")
	} else if rule.ID = r.name(id); slices.ContainsFunc(w.policy.Rules, func(q attempt.Rule) bool { return q.ID == rule.ID }) {
		r.fail(id.path, "a second guardrail %q; ids are unique", rule.ID)
	}
	if n, ok := m["on"]; ok {
		rule.On = attempt.RuleOn(r.word(n, string(attempt.OnOutput), string(attempt.OnExit)))
	}
	if n, ok := m["severity"]; ok {
		rule.Severity = attempt.Severity(r.word(n, string(attempt.Warning), string(attempt.Error), string(attempt.Grave)))
	}
	if n, ok := m["recoverable"]; ok {
		rule.Recoverable = r.flag(n)
	}
	pattern, ok := m["pattern"]
	if !ok {
		r.fail(n.path, "a guardrail needs a pattern")
		return
	}
	text := r.text(pattern)
	if text == "" {
		r.fail(pattern.path, "an empty pattern matches everything")
	}
	var err error
	if rule.Pattern, err = regexp.Compile(text); err != nil {
		r.fail(pattern.path, "expected a regular expression: %v", err)
	}
	w.policy.Rules = append(w.policy.Rules, rule)
}

// told are the causes that a step can name. The others are what the policy
// itself finds.
func told() []string {
	return texts([]attempt.Cause{attempt.Model, attempt.Network, attempt.RateLimit, attempt.ServerError, attempt.Fatal, attempt.Unknown})
}

// failures are what an exit code may mean: those, and that the harness ran out
// of time by its own clock.
func failures() []string { return append(told(), string(attempt.Timeout)) }

func (w *World) exitCodes(r *reader, n node) {
	w.codes = map[int]attempt.Cause{}
	for _, m := range r.names(n) {
		code, err := strconv.Atoi(m.name)
		if err != nil || code < 0 || code > 255 || strconv.Itoa(code) != m.name {
			r.fail(m.path, "an exit code is 0 to 255, found %q", m.name)
		}
		if w.success[code] || w.success == nil && code == 0 {
			r.fail(m.path, "%d is a code of success too", code)
		}
		w.codes[code] = attempt.Cause(r.word(m.node, failures()...))
	}
}

func (w *World) launches(r *reader, n node) {
	for _, m := range r.names(n) {
		if !slices.ContainsFunc(w.policy.Profiles, func(p attempt.Profile) bool { return p.Name == m.name }) {
			var names []string
			for _, p := range w.policy.Profiles {
				names = append(names, p.Name)
			}
			r.fail(m.path, "no profile %q in the plan; the nearest is %q", m.name, nearest.Word(m.name, names))
		}
		for _, item := range r.list(m.node) {
			var s script
			steps := r.list(item)
			for _, n := range steps {
				s = append(s, readStep(r, n, len(steps)))
			}
			w.scripts[m.name] = append(w.scripts[m.name], s)
		}
	}
}

// readStep reads one of the steps of a launch.
func readStep(r *reader, n node, of int) step {
	m := r.object(n, append([]string{"message"}, acts()...)...)
	s := step{path: n.path}
	var keys []string
	for _, member := range n.members {
		if member.name != "message" {
			keys = append(keys, member.name)
		}
	}
	switch {
	case len(keys) > 1:
		r.fail(n.path, "a step has one key, found %s", strings.Join(keys, " and "))
		return s
	case len(keys) == 0:
		r.fail(n.path, "expected one of %s, found %s", strings.Join(acts(), ", "), n.found())
		return s
	}
	v := m[keys[0]]
	s.act = act(keys[0])
	if message, ok := m["message"]; ok {
		if s.text = r.text(message); s.act != fail {
			r.fail(message.path, "a message belongs to fail, found beside %s", s.act)
		}
	}
	switch s.act {
	case wait:
		s.wait = r.ms(v)
	case output:
		s.text = r.text(v)
	case signal:
		readSignal(r, v, &s)
	case checkpoint:
		s.text = r.name(v)
	case fail:
		s.cause = attempt.Cause(r.word(v, told()...))
	case exit:
		s.number = int(r.count(v, 255))
	case killed:
		deadly := kernel.FatalSignals()
		s.number = deadly[r.word(v, slices.Sorted(maps.Keys(deadly))...)]
	case startFails:
		s.text = r.word(v, "not_found", "not_executable", "transport")
		if s.number = map[string]int{"not_found": 127, "not_executable": 126}[s.text]; s.number == 0 {
			s.number = 125
		}
		if of > 1 {
			r.fail(n.path, "start_fails is the only step of a launch, found %d steps", of)
		}
	case hang, ignoreTerm:
		r.yes(v)
	}
	return s
}

// signalMembers are what each kind of signal carries besides its kind.
func signalMembers() map[string][]string {
	return map[string][]string{
		"usage":        {"tokens_used", "window_tokens"},
		"frame_opened": {"frame_id"},
		"frame_ended":  {"frame_id", "outcome"},
		"compacted":    {"trigger"},
		"tool_call":    {"id", "name", "arguments"},
		"tool_result":  {"id", "result", "error"},
		"needs_input":  {},
		"limit":        {"resets_at_ms"},
		"error":        {"error_kind", "error", "message"}, // error is error_kind by another name
		"alive":        {},
	}
}

// readSignal reads what a source tells.
func readSignal(r *reader, n node, s *step) {
	if n.kind != object {
		r.expected(n, "an object")
		return
	}
	i := slices.IndexFunc(n.members, func(m member) bool { return m.name == "kind" })
	if i < 0 {
		r.fail(n.path, "a signal needs a kind: one of %s", strings.Join(slices.Sorted(maps.Keys(signalMembers())), ", "))
		return
	}
	kind := r.word(n.members[i].node, slices.Sorted(maps.Keys(signalMembers()))...)
	if kind == "" || r.err != nil {
		return
	}
	m := r.object(n, append([]string{"kind"}, signalMembers()[kind]...)...)
	need := func(name string) (node, bool) {
		v, ok := m[name]
		if !ok {
			r.fail(n.path, "%s needs %s", kind, name)
		}
		return v, ok
	}
	sig := &s.signal
	sig.Source, sig.Detail = source, n.path
	switch kind {
	case "usage":
		sig.Kind, sig.Usage = telemetry.UsageSeen, &telemetry.Usage{}
		if v, ok := need("tokens_used"); ok {
			sig.Usage.Used = r.count(v, most)
		}
		if v, ok := m["window_tokens"]; ok {
			sig.Window, sig.WindowSource = r.count(v, most), "reported"
		}
	case "frame_opened":
		sig.Kind = telemetry.Prompt
		if v, ok := m["frame_id"]; ok {
			sig.Turn = r.name(v)
		}
	case "frame_ended":
		sig.Kind, sig.Outcome = telemetry.TurnEnd, telemetry.Completed
		if v, ok := m["frame_id"]; ok {
			sig.Turn = r.name(v)
		}
		if v, ok := m["outcome"]; ok {
			sig.Outcome = telemetry.Outcome(r.word(v, string(telemetry.Completed), string(telemetry.Failed), string(telemetry.Interrupted), "abandoned"))
		}
	case "compacted":
		sig.Kind, sig.Compaction = telemetry.Compacted, &telemetry.Compaction{Half: "record", Trigger: "unknown"}
		if v, ok := m["trigger"]; ok {
			sig.Compaction.Trigger = r.word(v, "auto", "manual", "reactive", "unknown")
		}
	case "tool_call":
		sig.Kind = telemetry.ToolStart
		if v, ok := need("id"); ok {
			sig.Tool = r.name(v)
		}
		if v, ok := need("name"); ok {
			sig.ToolName = r.name(v)
		}
		if v, ok := m["arguments"]; ok {
			s.in, sig.Args = v.raw, sized(v.raw)
		}
	case "tool_result":
		sig.Kind = telemetry.ToolEnd
		if v, ok := need("id"); ok {
			sig.Tool = r.name(v)
		}
		result, good := m["result"]
		trouble, bad := m["error"]
		switch {
		case good && bad:
			r.fail(n.path, "a tool_result has a result or an error, found both")
		case good:
			s.out, sig.Result = result.raw, sized(result.raw)
		case bad:
			s.text, sig.ToolError = r.text(trouble), telemetry.ToolFailed
		}
	case "needs_input":
		sig.Kind = telemetry.NeedsInput
	case "limit":
		sig.Kind = telemetry.LimitWait
		if v, ok := m["resets_at_ms"]; ok {
			sig.Until = Start().Add(r.ms(v))
		}
	case "error":
		sig.Kind, s.cause = telemetry.Fault, attempt.Unknown
		for _, name := range []string{"error_kind", "error"} {
			if v, ok := m[name]; ok {
				s.cause = attempt.Cause(r.word(v, told()...))
			}
		}
		if v, ok := m["message"]; ok {
			s.text = r.text(v)
		}
	case "alive":
		sig.Kind = telemetry.Alive
	}
}

func readControl(r *reader, n node) control {
	m := r.object(n, words(controlMembers)...)
	var c control
	if at, ok := m["at_ms"]; ok {
		c.at = r.ms(at)
	} else {
		r.fail(n.path, "a control needs at_ms")
	}
	if do, ok := m["do"]; ok {
		c.do = r.word(do, doAbort, doPause, doResume, doRenew)
	} else {
		r.fail(n.path, "a control needs do: one of abort, pause, resume, renew")
	}
	return c
}

func texts[S ~string](words []S) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
