package kernel_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/internal/document"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/simulate"
)

// The worlds of TestLaws give a kernel any input. The worlds of this file behave as
// harnesses do. Each world is drawn as a JSON document that `simulate` reads (a
// policy, and a script for every launch), so that a failing world can be played
// again by hand. A stage adds clients and crashes. The worlds are in this package
// because the judge is.

var manyWorlds = flag.Int("worlds", 400, "how many random worlds to simulate")

// overseen is a kernel for a simulation. The judge checks each of its steps.
type overseen struct{ *judge }

func (o overseen) Step(now time.Time, in input.Input) kernel.Output {
	o.now = now
	return o.step(in)
}

func (o overseen) Deadline() (time.Time, bool) { return o.k.Deadline() }

func (o overseen) Done() (kernel.Result, bool) { return o.k.Done() }

type object = map[string]any

// drawWorld draws a plan, what each launch does, and the commands. Numbers are
// small and few, so that events often fall into the same millisecond.
func drawWorld(r *rapid.T) []byte {
	plan := object{}
	names := []string{"a", "b", "c"}[:pick(r, "profiles", 1, 1, 2, 3)]
	var profiles []object
	for _, name := range names {
		profiles = append(profiles, object{"name": name, "adapter": pick(r, "adapter", "generic", "claude", "codex"), "accepts_continuation": chance(r, "accepts", 2)})
	}
	plan["profiles"] = profiles
	if !chance(r, "no retry", 8) {
		retry := object{"attempts": pick(r, "attempts", 0, 1, 2, 3), "backoff": object{
			"kind": pick(r, "backoff", "fixed", "linear", "exponential"), "base_ms": pick(r, "base", 0, 1, 3, 6000),
			"max_ms": pick(r, "longest", 0, 6000, 10000), "jitter": pick(r, "jitter", "none", "none", "full", "fixed")}}
		if chance(r, "max retries", 2) {
			retry["max_retries"] = pick(r, "max retries", 0, 1, 3, 6)
		}
		if chance(r, "decide", 3) {
			retry["decide"] = object{"command": []string{"decide"}, "timeout_ms": pick(r, "time to decide", 2, 50, 5000)}
		}
		if chance(r, "retry on", 4) {
			retry["retry_on"] = pick(r, "retry on", []string{}, []string{"model", "unknown"}, []string{"network", "timeout", "rate_limit", "drift", "zero_output"})
		}
		plan["retry"] = retry
	}
	timers := object{"initial": pick(r, "initial", 0, 0, 1, 20, 7000), "inter": pick(r, "inter", 0, 0, 2, 20, 7000), "tool": pick(r, "tool", 0, 1, 2, 20)}
	if chance(r, "bounded", 4) {
		timers["session"], timers["idle"] = pick(r, "session", 0, 20, 7000), pick(r, "idle", 0, 3, 7000)
	}
	if chance(r, "grace", 2) {
		timers["abort_grace"] = pick(r, "grace", 0, 1, 7000)
	}
	plan["timeouts_ms"] = timers
	plan["continuation"], plan["checkpoint_every"] = chance(r, "continuation", 2), pick(r, "every", 0, 1, 2)
	plan["zero_output"], plan["drift"] = chance(r, "zero output", 3), object{"repeat": pick(r, "repeat", 0, 2, 3)}
	var rules []object
	for i := range pick(r, "rules", 0, 0, 1, 2, 3) {
		rules = append(rules, object{"id": fmt.Sprint("g", i), "on": pick(r, "on", "output", "exit"), "pattern": pick(r, "pattern", "bad", "^$", "x"),
			"severity": pick(r, "severity", "warning", "error", "fatal"), "recoverable": chance(r, "recoverable", 2)})
	}
	plan["guardrails"] = rules
	if rules == nil {
		delete(plan, "guardrails")
	}
	plan["on_limit"] = pick(r, "on limit", "off", "off", "wait", "fallback", "exit")
	if chance(r, "loop", 4) {
		plan["crash_loop"] = object{"launches": pick(r, "launches", 1, 2), "within_ms": pick(r, "within", 2, 100), "quarantine_ms": pick(r, "quarantine", 50, 9000)}
	}
	if chance(r, "codes", 5) {
		plan["success_codes"], plan["exit_codes"] = []int{0, 1}, object{"3": pick(r, "code means", "network", "rate_limit", "fatal", "unknown")}
	}
	world := object{"plan": plan}
	renewal := pick(r, "renewal", nil, nil, object{"profile": "handoff"}, object{"profile": "handoff", "paths": []string{"in_place"}},
		object{"profile": "handoff", "paths": []string{"in_place", "relaunch"}})
	if renewal != nil {
		world["renewal"] = renewal
	}
	launches := object{}
	for i, name := range names {
		scripts := []any{}
		for range pick(r, "scripts", 0, 1, 2, 3) {
			script := drawScript(r)
			if renewal["paths"] != nil && profiles[i]["adapter"] != "generic" {
				script = resets(r, script)
			}
			scripts = append(scripts, script)
		}
		launches[name] = scripts
	}
	control := []object{}
	for range pick(r, "control", 0, 0, 0, 0, 1, 2, 4) {
		control = append(control, object{"at_ms": pick(r, "at", 0, 1, 2, 3, 5, 10, 6005),
			"do": pick(r, "do", "pause", "pause", "resume", "resume", "resume", "renew", "abort", "approve", "deny")})
	}
	world["launches"], world["control"] = launches, control
	if chance(r, "guarded", 2) {
		world["policy"], world["approval_wait_ms"] = drawGatePolicy(r), pick(r, "approval wait", 0, 0, 4, 7000)
	}
	doc, err := json.Marshal(world)
	require.NoError(r, err)
	return doc
}

// drawGatePolicy draws a policy of the gate whose rules may refuse launches, renewals and
// tools.
func drawGatePolicy(r *rapid.T) object {
	rules := []object{}
	for i := range pick(r, "gate rules", 0, 1, 1, 2) {
		rules = append(rules, object{"name": fmt.Sprint("r", i), "priority": pick(r, "priority", 1, 1, 2), "effect": pick(r, "effect", "block", "require_approval", "dry_run", "allow"),
			"match": pick(r, "match", object{"tool_names": []string{"tool.bash"}}, object{"data_classes": []string{"outside_write"}},
				object{"tool_names": []string{"harness.renew"}}, object{"tool_names": []string{"harness.launch"}, "target_values": []string{"b"}})})
	}
	return object{"default_verdict": pick(r, "default", "allow", "allow", "allow", "allow", "require_approval", "block"), "rules": rules}
}

func drawScript(r *rapid.T) []any {
	if chance(r, "does not start", 12) {
		return []any{object{"start_fails": pick(r, "start fails", "not_found", "not_executable", "transport")}}
	}
	steps := []any{}
	for range roll(r, "steps", 6) {
		again := 1
		if chance(r, "over and over", 6) {
			again = 3
		}
		if chance(r, "a turn", 6) {
			steps = append(steps, turn(fmt.Sprint("f", len(steps)), pick(r, "outcome", "completed", "failed", "interrupted"))...)
		}
		for step := drawStep(r); again > 0; again-- {
			steps = append(steps, step)
		}
	}
	return steps
}

// resets adds reset steps to a script. At a reset step the launch waits until a
// renewal resets the harness in place.
func resets(r *rapid.T, script []any) []any {
	for i := range script {
		if step, is := script[i].(object); is && step["hang"] == nil && step["start_fails"] == nil && chance(r, "reset", 3) {
			script = slices.Insert(script, i, any(object{"reset": pick(r, "does", "works", "works", "ignored", "fails", "dialog", "line")}))
		}
	}
	return script
}

// turn returns the steps of an ordinary turn: a prompt, a tool, output and the end.
func turn(frame, outcome string) []any {
	return []any{
		object{"signal": object{"kind": "frame_opened", "frame_id": frame}}, object{"signal": object{"kind": "tool_call", "id": frame, "name": "write"}},
		object{"signal": object{"kind": "tool_result", "id": frame, "result": 1}}, object{"output": "done " + frame + "\n"},
		object{"signal": object{"kind": "frame_ended", "frame_id": frame, "outcome": outcome}},
	}
}

func drawStep(r *rapid.T) object {
	switch pick(r, "step", "output", "output", "output", "signal", "signal", "signal", "wait", "wait", "checkpoint", "end", "end", "hang", "ignore", "tool", "tool") {
	case "tool":
		return object{"tool": object{"command": pick(r, "command", "ls", "rm -rf /", "rm -rf build", "eval $x"), "can_ask": chance(r, "can ask", 2)}}
	case "output":
		return object{"output": pick(r, "text", "ok\n", "ok\n", "bad\n", "x", "", " ", "\x1b[2J")}
	case "wait":
		return object{"wait_ms": pick(r, "wait", 0, 1, 2, 3, 20, 21, 7000)}
	case "checkpoint":
		return object{"checkpoint": pick(r, "checkpoint", "T1", "T2")}
	case "hang":
		return object{"hang": true}
	case "ignore":
		return object{"ignore_term": true}
	case "end":
		return pick(r, "end", object{"exit": pick(r, "code", 0, 1, 3)}, object{"killed": pick(r, "killed", "SIGKILL", "SIGTERM", "SIGSEGV")},
			object{"fail": pick(r, "fail", "model", "network", "rate_limit", "server_error", "fatal", "unknown"), "message": "it says so"})
	}
	id := pick(r, "id", "1", "2")
	sig := pick(r, "signal",
		object{"kind": "usage", "tokens_used": pick(r, "used", 0, 10, 60, 95), "window_tokens": 100}, object{"kind": "frame_opened", "frame_id": id},
		object{"kind": "frame_ended", "frame_id": id, "outcome": pick(r, "outcome", "completed", "failed", "interrupted", "abandoned")},
		object{"kind": "compacted", "trigger": "auto"}, object{"kind": "tool_call", "id": id, "name": "read", "arguments": object{"path": id}},
		object{"kind": "tool_result", "id": id, "result": "text"}, object{"kind": "tool_result", "id": id, "error": "denied"}, object{"kind": "needs_input"},
		object{"kind": "limit", "resets_at_ms": pick(r, "resets", 0, 4, 8000)}, object{"kind": "limit"},
		object{"kind": "error", "error_kind": pick(r, "error", "model", "network", "rate_limit", "fatal"), "message": "it says so"}, object{"kind": "alive"})
	return object{"signal": sig}
}

// plain is a test without the method Helper, which testify would call at each check.
// Each call walks the stack, and a world makes so many checks that the calls would make
// up a tenth of the running time.
type plain struct{ require.TestingT }

// playWorld plays one world under the checks of the judge, and returns what the world reached.
func playWorld(r *rapid.T) map[string]int {
	doc := drawWorld(r)
	defer func() { r.Logf("%s", doc) }() // rapid prints only the log of a failing world
	tree, err := document.ParseJSON(doc)
	require.NoError(r, err)
	w, err := simulate.Parse(tree)
	require.NoError(r, err, "the generator draws valid worlds")
	clients, sets := drawClients(r), []time.Duration(nil)
	// The clock is set only in worlds that do not depend on the time of day. The end
	// of a limit is a time of day. After a crash, timers count from the times in the
	// facts, which are times of day too.
	if clients.dies == 0 && !strings.Contains(string(doc), "resets_at_ms") {
		for range 3 {
			sets = append(sets, pick(r, "set", 0, time.Hour, -time.Hour, 24*time.Hour, -30*time.Millisecond))
		}
	}
	config := func() kernel.Config {
		cfg := clients.config(w.Config())
		cfg.Session, cfg.Began.SessionID = "sess", "sess" // the id that the judge expects
		return cfg
	}
	j := newJudge(plain{r}, config(), simulate.Start())
	result := w.RunOn(&stage{mortal: overseen{j}, drawnClients: clients})
	require.Equal(r, len(result.Launches), j.launched)
	require.Equal(r, result.Stuck, !result.State.Terminal())
	require.Len(r, j.l0.entries, len(result.Entries), "the judge saw every fact")
	if result.Stuck {
		require.True(r, strings.Contains(string(doc), `"hang"`) || strings.Contains(string(doc), `"reset"`) || strings.Contains(string(doc), `"pause"`), "it is stuck without a reason: %s", result.Why)
		j.reach["stuck"]++
	} else {
		j.ended()
	}
	// A second run has no judge, and the clock of its machine is set while it runs. The
	// session must be the same.
	cfg := config()
	again := w.RunOn(&stage{mortal: &clocked{bare: bare{Kernel: kernel.New(cfg), cfg: cfg}, sets: sets}, drawnClients: clients})
	require.Equal(r, len(result.Entries), len(again.Entries))
	require.Equal(r, []any{result.Launches, result.State, result.Code, result.Why}, []any{again.Launches, again.State, again.Code, again.Why})
	for _, e := range result.Entries {
		if l, ok := e.Fact.(kernel.Launching); ok && l.Checkpoint != "" {
			j.reach["continued"]++
		}
	}
	if len(result.Launches) > 2 {
		j.reach["many launches"]++
	}
	return j.reach
}

// TestWorlds plays -worlds random worlds to their end, on all processors.
func TestWorlds(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	shards := runtime.GOMAXPROCS(0)
	require.NoError(t, checks.Value.Set(fmt.Sprint((*manyWorlds+shards-1)/shards)))
	defer func() { require.NoError(t, checks.Value.Set(before)) }()

	var mu sync.Mutex // protects the map reached
	reached := map[string]int{}
	began := time.Now()
	t.Run("shards", func(t *testing.T) {
		for i := range shards {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(r *rapid.T) {
					reach := playWorld(r)
					mu.Lock()
					defer mu.Unlock()
					for what := range reach {
						reached[what]++
					}
				})
			})
		}
	})
	t.Logf("%d worlds in %s", *manyWorlds, time.Since(began).Round(time.Second))
	wanted := often
	if *manyWorlds >= 20_000 {
		wanted = slices.Concat(often, seldom)
	}
	for _, what := range wanted {
		if *manyWorlds >= 2000 && reached[what] == 0 && !t.Failed() {
			t.Errorf("no world reached %q; they reached %v", what, slices.Sorted(maps.Keys(reached)))
		}
	}
}

// The variables often and seldom are lists of cases. At least one world in a hundred
// reaches each case in often, and at least one in a thousand each case in seldom.
var (
	often = []string{"stuck", "many launches", "continued", "effect Suspend", "effect Continue", "reply capability_unsupported", "reply state_conflict",
		"state REJECTED", "state PAUSED", "state ABORTED", "state COMPLETED", "state FAILED", "launch for retry", "launch for fallback",
		"timed out initial", "timed out inter", "frame completed", "frame failed", "frame abandoned", "fact checkpoint_saved", "fact limit_met",
		"attempt guardrail retry", "attempt guardrail halt", "attempt zero_output retry", "attempt abort halt", "attempt fatal fallback",
		"answered true", "answered false", "answered true timeout", "crash", "launch for restart", "receipt replayed", "document of an earlier launch", "document of another adapter",
		"gate harness.launch allow", "gate harness.launch block", "gate harness.tool allow", "gate harness.tool block", "gate harness.tool require_approval",
		"gate timeout", "gate invalid_request", "approved true ", "approved false timeout",
		"renewal delivered", "delivered in place", "rerouted to relaunch", "keys taken back"}
	seldom = []string{"timed out tool", "timed out session", "timed out idle", "fact checkpoint_dropped", "frame interrupted",
		"attempt drift retry", "attempt rate_limit retry", "attempt unknown halt"}
)
