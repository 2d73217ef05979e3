package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/internal/nearest"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/telemetry"
)

// A World is a policy, with scripts for the harnesses that run under the policy. Use
// [Parse] to make one.
type World struct {
	policy  attempt.Policy
	adapter []lifeloop.Manifest // the manifest of each profile
	grace   time.Duration
	success map[int]bool
	codes   map[int]attempt.Cause
	meta    map[string]string
	scripts map[string][]script // the scripts of each profile; the last one is repeated
	control []control           // in the order of their times
	renewal renewing
	guards
}

// A script lists the steps of one launch.
type script []step

type step struct {
	path     string // where the step is in the document, such as launches.a[0][1]
	act      act
	wait     time.Duration
	text     string // the text of an output, the id of a checkpoint, or the message of a failure
	signal   telemetry.Signal
	use      *telemetry.ToolUse // the tool call of the step
	in       json.RawMessage    // a tool's arguments
	out      json.RawMessage    // a tool's result
	cause    attempt.Cause      // the cause of an error or of a failure
	number   int                // an exit code, or the number of a signal
	reaction reaction           // what a reset in place does
}

// An act is what a step does: the name of the step's only key besides message.
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
	tool       act = "tool"
	reset      act = "reset"
)

// stepKeys lists the keys of a step. It is not a variable, so that starting the
// program does not build the list.
func stepKeys() []string {
	return policy.Words(wait, output, signal, checkpoint, fail, exit, killed, startFails, hang, ignoreTerm, tool, reset)
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

	doApprove = "approve"
	doDeny    = "deny"
)

// Parse reads a world from its document. An unknown key, a value of the wrong
// type, a step with two keys and the like are a [document.Error].
func Parse(doc document.Value) (World, error) {
	var w World
	err := w.read(doc)
	if fault, ok := errors.AsType[*document.Error](err); ok && fault.Line == 0 {
		at := doc.Near(fault.Path)
		fault.Line, fault.Column = at.Line, at.Column
	}
	return w, err
}

func fault(path, format string, args ...any) error {
	return &document.Error{Path: path, What: fmt.Sprintf(format, args...)}
}

func (w *World) read(doc document.Value) error {
	var text struct {
		Plan         document.Value                `yaml:"plan"`
		Launches     map[string][][]document.Value `yaml:"launches"`
		Control      []document.Value              `yaml:"control"`
		Renewal      document.Value                `yaml:"renewal"`
		Policy       document.Value                `yaml:"policy"`
		ApprovalWait time.Duration                 `yaml:"approval_wait_ms,ms"`
	}
	if err := document.Decode(doc, &text, "", nil); err != nil {
		return err
	}
	if _, given := doc.Member("plan"); !given {
		return fault("", `a world needs a plan: {"plan":{"profiles":[{"name":"a"}]},"launches":{"a":[[{"output":"hello"}]]}}`)
	}
	if err := w.plan(text.Plan); err != nil {
		return err
	}
	if _, given := doc.Member("renewal"); given {
		if err := w.renewal.read(text.Renewal); err != nil {
			return err
		}
	}
	if err := w.guard(doc, text.Policy, text.ApprovalWait); err != nil {
		return err
	}
	w.scripts = map[string][]script{}
	for _, name := range slices.Sorted(maps.Keys(text.Launches)) {
		if err := w.launches(name, text.Launches[name]); err != nil {
			return err
		}
	}
	for i, c := range text.Control {
		if err := w.addControl(c, fmt.Sprintf("control[%d]", i)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(w.control, func(a, b control) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// plan reads the policy. A plan has the members of the block "attempts" in a
// configuration, and also on_limit, which a configuration has at its top level.
func (w *World) plan(v document.Value) error {
	var p struct {
		policy.Attempts
		OnLimit string `yaml:"on_limit"`
	}
	p.Attempts, p.OnLimit = policy.Default(), "off"
	if err := document.Decode(v, &p, "plan", nil); err != nil {
		return err
	}
	if len(p.Profiles) == 0 {
		return fault("plan.profiles", `a plan needs at least one profile: [{"name":"a"}]`)
	}
	var profiles []attempt.Profile
	for i, profile := range p.Profiles {
		adapter := cmp.Or(profile.Adapter, manifests.Generic)
		manifest, ok := manifests.Get(adapter)
		if !ok {
			return policy.Word(fmt.Sprintf("plan.profiles[%d].adapter", i), adapter, manifests.IDs())
		}
		w.adapter = append(w.adapter, manifest)
		profiles = append(profiles, attempt.Profile{Name: profile.Name, Adapter: adapter, AcceptsContinuation: profile.AcceptsContinuation})
	}
	if err := p.Check("plan"); err != nil {
		return err
	}
	if err := policy.Word("plan.on_limit", p.OnLimit, policy.Enum("on_limit")); err != nil {
		return err
	}
	if _, given := v.Member("crash_loop"); !given { // in a plan, crash_loop is off unless it is given
		p.CrashLoop = attempt.CrashLoop{}
	}
	w.policy = p.Policy(profiles, p.OnLimit)
	w.grace, w.success, w.codes, w.meta = p.Timeouts.AbortGrace, p.Success(), p.Codes(), p.Meta
	return nil
}

// stepCauses are the causes that a step can name. The kernel itself finds the other
// causes.
func stepCauses() []string {
	return policy.Words(attempt.Model, attempt.Network, attempt.RateLimit, attempt.ServerError, attempt.Fatal, attempt.Unknown)
}

// launches reads the scripts of one profile.
func (w *World) launches(profile string, launches [][]document.Value) error {
	var names []string
	for _, p := range w.policy.Profiles {
		names = append(names, p.Name)
	}
	path := document.Join("launches", profile)
	if !slices.Contains(names, profile) {
		return fault(path, "no profile %q in the plan%s", profile, nearest.Hint(profile, names))
	}
	for i, steps := range launches {
		var s script
		for j, v := range steps {
			step, err := readStep(v, fmt.Sprintf("%s[%d][%d]", path, i, j), len(steps))
			if err != nil {
				return err
			}
			if step.act == reset {
				if err := w.checkReset(step, slices.Index(names, profile)); err != nil {
					return err
				}
			}
			s = append(s, step)
		}
		w.scripts[profile] = append(w.scripts[profile], s)
	}
	return nil
}

// A stepText is a step as written in the document: one of the keys, and possibly
// a message.
type stepText struct {
	Wait       time.Duration  `yaml:"wait_ms,ms"`
	Output     string         `yaml:"output"`
	Signal     document.Value `yaml:"signal"`
	Checkpoint string         `yaml:"checkpoint"`
	Fail       string         `yaml:"fail"`
	Exit       int            `yaml:"exit"`
	Killed     string         `yaml:"killed"`
	StartFails string         `yaml:"start_fails"`
	Hang       bool           `yaml:"hang"`
	IgnoreTerm bool           `yaml:"ignore_term"`
	Tool       document.Value `yaml:"tool"`
	Reset      string         `yaml:"reset"`
	Message    string         `yaml:"message"`
}

// readStep reads one of the steps of a launch.
func readStep(v document.Value, path string, steps int) (step, error) {
	s := step{path: path}
	var text stepText
	if err := document.Decode(v, &text, path, nil); err != nil {
		return s, err
	}
	var keys []string
	for _, m := range v.Members {
		if m.Name != "message" {
			keys = append(keys, m.Name)
		}
	}
	switch {
	case len(keys) > 1:
		return s, fault(path, "a step has one key, found %s", strings.Join(keys, " and "))
	case len(keys) == 0:
		return s, fault(path, "expected one of %s, found none", strings.Join(stepKeys(), ", "))
	}
	s.act = act(keys[0])
	if _, given := v.Member("message"); given && s.act != fail {
		return s, fault(path+".message", "only fail can have a message, not %s", s.act)
	}
	return s, s.fill(text, path+"."+keys[0], steps)
}

// fill sets the fields that the step's act needs. path is the path of the act's
// value.
func (s *step) fill(text stepText, path string, steps int) (err error) {
	switch s.act {
	case wait:
		s.wait = text.Wait
	case output:
		s.text = text.Output
	case signal:
		return s.readSignal(text.Signal, path)
	case checkpoint:
		s.text = text.Checkpoint
		return needName(path, s.text)
	case fail:
		s.cause, s.text = attempt.Cause(text.Fail), text.Message
		return policy.Word(path, text.Fail, stepCauses())
	case exit:
		if s.number = text.Exit; s.number > 255 {
			return fault(path, "expected a whole number from 0 to 255, found %d", s.number)
		}
	case killed:
		deadly := kernel.FatalSignals()
		s.number = deadly[text.Killed]
		return policy.Word(path, text.Killed, slices.Sorted(maps.Keys(deadly)))
	case startFails:
		codes := map[string]int{"not_found": 127, "not_executable": 126, "transport": 125}
		s.text, s.number = text.StartFails, codes[text.StartFails]
		if steps > 1 {
			return fault(s.path, "start_fails must be the only step of its launch, found %d steps", steps)
		}
		return policy.Word(path, s.text, []string{"not_found", "not_executable", "transport"})
	case tool:
		return s.readTool(text.Tool, path)
	case reset:
		s.reaction = reaction(text.Reset)
		return policy.Word(path, text.Reset, reactions())
	case hang, ignoreTerm:
		if !text.Hang && !text.IgnoreTerm {
			return fault(path, "expected true, found false")
		}
	}
	return nil
}

func needName(path, name string) error {
	if name == "" {
		return fault(path, "expected a name, found an empty string")
	}
	return nil
}

// signalMembers lists, for each kind of signal, the members that the document may
// give; "!" marks a required one.
func signalMembers() map[string][]string {
	return map[string][]string{
		"usage":        {"!tokens_used", "window_tokens"},
		"frame_opened": {"frame_id"},
		"frame_ended":  {"frame_id", "outcome"},
		"compacted":    {"trigger"},
		"tool_call":    {"!id", "!name", "arguments"},
		"tool_result":  {"!id", "result", "error"},
		"needs_input":  {},
		"idle":         {},
		"limit":        {"resets_at_ms"},
		"error":        {"error_kind", "error", "message"}, // error is another name for error_kind
		"alive":        {},
	}
}

// A signalText is a signal as written in the document.
type signalText struct {
	Kind      string         `yaml:"kind"`
	Tokens    int64          `yaml:"tokens_used"`
	Window    int64          `yaml:"window_tokens"`
	Frame     string         `yaml:"frame_id"`
	Outcome   string         `yaml:"outcome"`
	Trigger   string         `yaml:"trigger"`
	ID        string         `yaml:"id"`
	Name      string         `yaml:"name"`
	Arguments document.Value `yaml:"arguments"`
	Result    document.Value `yaml:"result"`
	Error     string         `yaml:"error"`
	ErrorKind string         `yaml:"error_kind"`
	Message   string         `yaml:"message"`
	ResetsAt  time.Duration  `yaml:"resets_at_ms,ms"`
}

// readSignal reads a signal of the harness into the step.
func (s *step) readSignal(v document.Value, path string) error {
	text := signalText{Outcome: string(telemetry.Completed), Trigger: "unknown", ErrorKind: string(attempt.Unknown)}
	if err := document.Decode(v, &text, path, nil); err != nil {
		return err
	}
	kinds := slices.Sorted(maps.Keys(signalMembers()))
	given := func(name string) bool { _, ok := v.Member(name); return ok }
	if !given("kind") {
		return fault(path, "a signal needs a kind: one of %s", strings.Join(kinds, ", "))
	}
	if err := policy.Word(path+".kind", text.Kind, kinds); err != nil {
		return err
	}
	if err := checkMembers(v, path, text.Kind); err != nil {
		return err
	}
	if err := s.fillSignal(text, path, given); err != nil {
		return err
	}
	if given("arguments") {
		s.in = text.Arguments.JSON()
		s.signal.Args = sized(s.in)
	}
	if given("result") {
		s.out = text.Result.JSON()
		s.signal.Result = sized(s.out)
	}
	if given("resets_at_ms") {
		s.signal.Until = Start().Add(text.ResetsAt)
	}
	return nil
}

// fillSignal sets the fields that the signal's kind needs.
func (s *step) fillSignal(text signalText, path string, given func(string) bool) error {
	sig := &s.signal
	*sig = telemetry.Signal{Source: source, Detail: path}
	switch text.Kind {
	case "usage":
		sig.Kind, sig.Usage = telemetry.UsageSeen, &telemetry.Usage{Used: text.Tokens}
		if given("window_tokens") {
			sig.Window, sig.WindowSource = text.Window, "reported"
		}
	case "frame_opened":
		sig.Kind, sig.Turn = telemetry.Prompt, text.Frame
	case "frame_ended":
		sig.Kind, sig.Turn, sig.Outcome = telemetry.TurnEnd, text.Frame, telemetry.Outcome(text.Outcome)
		return policy.Word(path+".outcome", text.Outcome, append(policy.Words(telemetry.Completed, telemetry.Failed, telemetry.Interrupted), "abandoned"))
	case "compacted":
		sig.Kind, sig.Compaction = telemetry.Compacted, &telemetry.Compaction{Half: "record", Trigger: text.Trigger}
		return policy.Word(path+".trigger", text.Trigger, []string{"auto", "manual", "reactive", "unknown"})
	case "tool_call":
		sig.Kind, sig.Tool, sig.ToolName = telemetry.ToolStart, text.ID, text.Name
	case "tool_result":
		sig.Kind, sig.Tool, s.text = telemetry.ToolEnd, text.ID, text.Error
		if given("error") {
			sig.ToolError = telemetry.ToolFailed
			if given("result") {
				return fault(path, "a tool_result has a result or an error, found both")
			}
		}
	case "needs_input":
		sig.Kind = telemetry.NeedsInput
	case "idle":
		sig.Kind = telemetry.Idle
	case "error":
		member := ".error_kind"
		if given("error") {
			member, text.ErrorKind = ".error", text.Error
		}
		sig.Kind, s.cause, s.text = telemetry.Fault, attempt.Cause(text.ErrorKind), text.Message
		return policy.Word(path+member, text.ErrorKind, stepCauses())
	case "limit":
		sig.Kind = telemetry.LimitWait
	case "alive":
		sig.Kind = telemetry.Alive
	}
	return nil
}

// checkMembers checks that a signal of this kind has the required members, and
// none that belong to another kind.
func checkMembers(v document.Value, path, kind string) error {
	known := []string{"kind"}
	for _, name := range signalMembers()[kind] {
		name, needed := strings.CutPrefix(name, "!")
		known = append(known, name)
		val, given := v.Member(name)
		if needed && !given {
			return fault(path, "%s needs %s", kind, name)
		}
		if given && slices.Contains([]string{"id", "name", "frame_id"}, name) {
			if err := needName(path+"."+name, val.Text); err != nil {
				return err
			}
		}
	}
	for _, m := range v.Members {
		if !slices.Contains(known, m.Name) {
			return fault(path, "%s has no %s; it has %s", kind, m.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// addControl reads one entry of the document's list "control".
func (w *World) addControl(v document.Value, path string) error {
	var text struct {
		At time.Duration `yaml:"at_ms,ms"`
		Do string        `yaml:"do"`
	}
	if err := document.Decode(v, &text, path, nil); err != nil {
		return err
	}
	words := []string{doAbort, doPause, doResume, doRenew, doApprove, doDeny}
	if _, given := v.Member("at_ms"); !given {
		return fault(path, `a control needs the member "at_ms"`)
	}
	if _, given := v.Member("do"); !given {
		return fault(path, `a control needs the member "do": one of %s`, strings.Join(words, ", "))
	}
	w.control = append(w.control, control{text.At, text.Do})
	return policy.Word(path+".do", text.Do, words)
}
