//go:build e2e && linux

package e2e

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// opencode is OpenCode with the mock as its model provider. Its whole configuration
// is in a variable; its home is empty.
var opencode = kind{
	name: "opencode", version: "1.18.33",
	records: ".local/share/opencode/opencode.db",
	env: []string{
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		`OPENCODE_CONFIG_CONTENT={"model":"mock/m1","small_model":"mock/m1","provider":{"mock":{"npm":"@ai-sdk/openai-compatible",` +
			`"options":{"baseURL":"http://127.0.0.1:8787/v1","apiKey":"none"},"models":{"m1":{"limit":{"context":200000,"output":8000}}}}}}`,
	},
	seed: func(*testing.T) {},
}

// The server of OpenCode's terminal interface reports whether a turn is over; its
// screen does not.
const opencodeServer = "http://127.0.0.1:4096"

func opencodeArgs(args ...string) []string {
	return append([]string{"opencode", "--port", "4096"}, args...)
}

// opencodeIdle reports whether OpenCode has no busy session. If a request arrives during
// OpenCode's start, OpenCode may answer neither this request nor any later one.
func opencodeIdle() bool {
	asks := http.Client{Timeout: time.Second}
	resp, err := asks.Get(opencodeServer + "/session/status")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	busy, err := io.ReadAll(resp.Body)
	return err == nil && strings.TrimSpace(string(busy)) == "{}"
}

// opencodeReady waits for the prompt: earlier input is lost.
func opencodeReady(r *run) {
	r.t.Helper()
	r.await("OpenCode to be ready", func() bool { return strings.Contains(r.shown(), "Ask anything") })
}

func opencodeTurn(r *run, prompt string) {
	r.t.Helper()
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	r.await("the turn of "+prompt, func() bool { return r.modelRests() && opencodeIdle() })
}

func opencodeQuits(r *run) {
	r.t.Helper()
	sendsPatiently(r, "/exit", r.over)
}

// opencodeInterrupted sends a prompt and presses Esc once the answer has begun.
// OpenCode asks for a second Esc.
func opencodeInterrupted(r *run, prompt string) {
	r.t.Helper()
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	midStream(r)
	next := time.Now()
	r.await("the interruption", func() bool {
		if r.modelRests() && opencodeIdle() {
			return true
		}
		if time.Now().After(next) {
			r.types("\x1b")
			next = time.Now().Add(500 * time.Millisecond)
		}
		return false
	})
}

// opencodeAsks makes OpenCode ask before it runs a command.
var opencodeAsks = []string{`OPENCODE_PERMISSION={"bash":"ask"}`}

// opencodeAsked sends a prompt whose turn asks for a permission, and presses a key
// in the dialog.
func opencodeAsked(r *run, prompt, key string) {
	r.t.Helper()
	since := len(r.shown())
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	r.await("the question", func() bool { return strings.Contains(r.shown()[since:], "Permission required") })
	next := time.Now()
	r.await("the end of the turn of "+prompt, func() bool {
		if opencodeIdle() {
			return true
		}
		if time.Now().After(next) {
			r.types(key)
			next = time.Now().Add(3 * time.Second)
		}
		return false
	})
}

// opencodeCommand enters a command and waits until done reports its effect.
func opencodeCommand(r *run, command string, done func(since int) bool) {
	r.t.Helper()
	since := len(r.shown())
	sendsPatiently(r, command, func() bool { return done(since) })
}

// opencodeNew begins a new session and waits for the text that is on the screen at a
// start.
func opencodeNew(r *run) {
	r.t.Helper()
	opencodeCommand(r, "/new", func(since int) bool { return strings.Contains(r.shown()[since:], "Ask anything") })
}

// opencodeDuringTool is a script that acts while a tool runs.
func opencodeDuringTool(act func(r *run)) func(r *run) {
	return func(r *run) {
		opencodeReady(r)
		sendsPatiently(r, "run it (p1)", func() bool { return r.modelSaw("run it (p1)") > 0 })
		midTool(r)
		act(r)
	}
}

// terminalStarts are the events of the start of the terminal interface, which has no
// session yet.
func terminalStarts() string { return starts("S?", "startup") }

// slowly adds the events that may come on a very busy machine. OpenCode may begin a turn
// there more than 10 s before it fetches its instructions from lifeloop-wrap's URL.
func slowly(emits string) string {
	return emits + `
		? capability.degraded S? frame.opening unavailable
		? capability.degraded S? frame.opening native
		? capability.degraded S1 frame.opening unavailable
		? capability.degraded S1 frame.opening native`
}

// TestOpencode plays stories in the terminal interface.
func TestOpencode(t *testing.T) {
	merged(opencodeTalks(), opencodeStarts(), opencodeSignals()).play(t, story{harness: opencode, argv: opencodeArgs(), tty: true})
}

// opencodeTalks are long sessions, because the start takes most of a story's time.
func opencodeTalks() stories {
	return stories{
		"answers": {
			env: opencodeAsks, clients: []client{sessionPayload, promptPayload},
			replies: []mock.Reply{mock.Runs("touch made"), mock.Says("made"), mock.Runs("touch other"), mock.Fails(400), hanging(), mock.Says("back")},
			script: func(r *run) {
				opencodeReady(r)
				opencodeAsked(r, "run it (p1)", "\r")
				opencodeAsked(r, "run another (p2)", "\x1b") // the user denies the permission
				opencodeTurn(r, "hello (p3)")                // this turn fails with an error
				opencodeInterrupted(r, "go on (p4)")
				opencodeTurn(r, "continue (p5)")
				opencodeQuits(r)
			},
			emits: slowly(sequence(terminalStarts(), frame("S1 F1", "completed"), pressure("low", "S1 F1"), frame("S1 F2", "interrupted"),
				frame("S1 F3", "failed invalid_request"), frame("S1 F4", "interrupted"), frame("S1 F5", "completed"), ends("S1", "exit 0"))),
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				rec.checkDelivered(t, promptPayload)
				// The first turn has two requests.
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 0, 0, 0, 0, 0}, promptPayload.body: {1, 0, 1, 1, 1, 1}})
				r.checkAsking()
			},
		},
		"contexts": {
			clients: []client{sessionPayload},
			replies: []mock.Reply{mock.Says("one"), mock.Says("two"), mock.Says("noted").Using(195_000), mock.Says("still here"), mock.Says("four")},
			script: func(r *run) {
				opencodeReady(r)
				opencodeTurn(r, "hello (p1)")
				before := len(r.model.Calls())
				opencodeCommand(r, "/compact", func(int) bool { return len(r.model.Calls()) > before })
				r.await("the compaction", func() bool { return r.modelRests() && opencodeIdle() })
				opencodeTurn(r, "continue (p2)")
				opencodeTurn(r, "read a lot (p3)") // compacts, and continues by itself
				opencodeNew(r)
				opencodeTurn(r, "again (p4)")
				opencodeQuits(r)
			},
			emits: slowly(sequence(terminalStarts(), frame("S1 F1", "completed"), "context.compacted S1 manual", frame("S1 F2", "completed"),
				frame("S1 F3", "completed", "context.compacted S1 F3 auto"), ends("S1", "clear"), starts("S2", "clear"), frame("S2 F4", "completed"),
				ends("S2", "exit 0"), pressure("low", "S1 F1"), pressure("low", "S1 F2"), pressure("critical", "S1 F3"), pressure("low", "S1 F3"), pressure("low", "S2 F4"))),
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 0, 0, 0, 1}})
			},
		},
	}
}

// opencodeStarts are command lines with a session or a prompt.
func opencodeStarts() stories {
	return stories{
		"--session": {
			earlier: [][]string{{"opencode", "run", "one"}}, argv: opencodeArgs("--session", earlierID),
			script: func(r *run) {
				r.await("OpenCode to show the session", func() bool { return strings.Contains(r.shown(), "commands") })
				opencodeTurn(r, "two (p2)")
				opencodeQuits(r)
			},
			emits: slowly(sequence(starts("S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
			and:   func(t *testing.T, r *run, rec record) { rec.checkEarlier(t, r.earlier) },
		},
	}
}

// opencodeSignals are sessions that a signal ends.
func opencodeSignals() stories {
	tool := []mock.Reply{mock.Runs("sleep 300")}
	cut := func(reason string) string {
		return slowly(sequence(terminalStarts(), frame("S1 F1", "abandoned"), ends("S1", reason)))
	}
	return stories{
		"SIGTERM to the harness while a tool runs": {
			replies: tool, script: opencodeDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGTERM) }), emits: cut("exit 0"),
		},
		"SIGTERM to what was started": {
			script: func(r *run) {
				opencodeReady(r)
				opencodeTurn(r, "hello (p1)")
				r.observed("frame.ended") // the signal may be faster than OpenCode's events
				r.signals(whatWasStarted, syscall.SIGTERM)
			},
			exitWrapped: 143, // the wrapper was aborted
			emits:       slowly(sequence(terminalStarts(), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
		},
		"SIGKILL of the harness while a tool runs": {
			replies: tool, script: opencodeDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }), exit: 137, emits: cut("SIGKILL"),
		},
	}
}

// checkEarlier checks that every event is about the earlier session, whose id the
// command line contains.
func (rec record) checkEarlier(t *testing.T, id string) {
	t.Helper()
	for _, e := range rec.events {
		if deref(e.HarnessSessionID) != id {
			t.Errorf("%s is about session %q, want %s", e.Event, deref(e.HarnessSessionID), id)
		}
	}
}

// observed waits until a wrapped run has emitted an event.
func (r *run) observed(event string) {
	r.t.Helper()
	if r.wrapped {
		r.await(event, func() bool {
			text, _ := os.ReadFile(r.path("events.jsonl"))
			return strings.Contains(string(text), `"event":"`+event+`"`)
		})
	}
}

// checkAsked counts texts in the requests of the main conversation.
func (r *run) checkAsked(want map[string][]int) {
	r.t.Helper()
	asked := r.questions()
	for text, counts := range want {
		var got []int
		for _, body := range asked {
			got = append(got, strings.Count(body, text))
		}
		if !slices.Equal(got, counts) {
			r.t.Errorf("%s is in the requests %v times, want %v", text, got, counts)
		}
	}
}

// checkAsking checks that the plugin reported that OpenCode asked the user, and that
// the turn continued after the answer.
func (r *run) checkAsking() {
	r.t.Helper()
	var moves []string
	for _, f := range r.facts("activity_moved") {
		if f.Source == "plugin" {
			moves = append(moves, f.To)
		}
	}
	if i := slices.Index(moves, "needs_input"); i < 0 || !slices.Contains(moves[i:], "idle") {
		r.t.Errorf("the plugin reported the activities %v, want needs_input and then idle", moves)
	}
}

// An activityFact holds the members of an activity_moved fact that the tests use.
type activityFact struct {
	To     string `json:"to"`
	Source string `json:"source"`
}

// facts reads the facts of a kind from the ledger.
func (w *world) facts(kind string) (out []activityFact) {
	w.t.Helper()
	segments, err := filepath.Glob(w.path("state/sessions/*/ledger-*.jsonl"))
	require.NoError(w.t, err)
	for _, path := range segments {
		text, err := os.ReadFile(path)
		require.NoError(w.t, err)
		for _, entry := range lines[struct {
			Kind string       `json:"kind"`
			Body activityFact `json:"body"`
		}](w.t, string(text)) {
			if entry.Kind == kind {
				out = append(out, entry.Body)
			}
		}
	}
	return out
}

// TestOpencodeRun plays stories in print mode, where the wrapper reads the context window
// from the settings.
func TestOpencodeRun(t *testing.T) {
	begins := starts("S? S1", "startup")
	whole := slowly(sequence(begins, frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0")))
	tool := []mock.Reply{mock.Runs("sleep 300")}
	stories{
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")}, clients: []client{sessionPayload, promptPayload},
			emits: whole,
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				rec.checkDelivered(t, promptPayload)
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 0}, promptPayload.body: {1, 0}})
			},
		},
		"an error that passes": {
			replies: []mock.Reply{mock.Fails(503), mock.Says("better")}, clients: []client{promptPayload}, emits: whole,
			// OpenCode repeats the whole request.
			and: func(t *testing.T, r *run, _ record) { r.checkAsked(map[string][]int{promptPayload.body: {1, 1}}) },
		},
		"denied tool": {
			env: opencodeAsks, replies: []mock.Reply{mock.Runs("touch made")},
			emits: slowly(sequence(begins, frame("S1 F1", "interrupted"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(400)}, exit: 1,
			emits: slowly(sequence(begins, frame("S1 F1", "failed invalid_request"), ends("S1", "exit 1"))),
		},
		"--session": {
			earlier: [][]string{{"opencode", "run", "one"}}, argv: []string{"opencode", "run", "--session", earlierID, "two"},
			emits: slowly(sequence(starts("S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
			and:   func(t *testing.T, r *run, rec record) { rec.checkEarlier(t, r.earlier) },
		},
		"auto-compaction in the middle of a turn": {
			replies: []mock.Reply{mock.Runs("echo hi").Using(195_000), mock.Says("done")},
			emits: slowly(sequence(begins, frame("S1 F1", "completed", "context.compacted S1 F1 auto"),
				pressure("critical", "S1 F1", "context.compacted F1"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
		},
		"SIGTERM to what was started": {
			replies: tool, exit: 143, script: func(r *run) { midTool(r); r.signals(whatWasStarted, syscall.SIGTERM) },
			emits: slowly(sequence(begins, frame("S1 F1", "abandoned"), ends("S1", "SIGTERM"))),
		},
		"SIGKILL of the harness": {
			replies: tool, exit: 137, script: func(r *run) {
				midTool(r)
				r.await("the text before the tool", func() bool { return strings.Contains(r.shown(), "let me see") })
				r.signals(theHarness, syscall.SIGKILL)
			},
			emits: slowly(sequence(begins, frame("S1 F1", "abandoned"), ends("S1", "SIGKILL"))),
		},
	}.play(t, story{harness: opencode, argv: []string{"opencode", "run", "hello-(p1)"}})
}

// TestOpencodeHome: OpenCode adds the same text to the user's configuration file as in a
// bare run, and no other program writes the file.
func TestOpencodeHome(t *testing.T) {
	const inVariable = "OPENCODE_CONFIG_CONTENT="
	i := slices.IndexFunc(opencode.env, func(v string) bool { return strings.HasPrefix(v, inVariable) })
	story{
		harness: opencode, argv: []string{"opencode", "run", "hello-(p1)"}, env: []string{inVariable},
		files: map[string]string{".config/opencode/opencode.json": strings.TrimPrefix(opencode.env[i], inVariable)},
		emits: slowly(sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
	}.play(t)
}

// TestOpencodeAttached plays a turn in the terminal interface of a running server. The
// interface's plugin reports the turn; the server is not wrapped, so no payload is placed.
func TestOpencodeAttached(t *testing.T) {
	s := story{harness: opencode, tty: true, argv: []string{"opencode", "attach", opencodeServer}}
	s.plays(t, func(w *world) {
		server := exec.Command("opencode", "serve", "--port", "4096")
		server.Dir, server.Env = project, w.env
		out, err := server.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, server.Start())
		t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
		}
		r := w.start(s, true)
		opencodeReady(r)
		opencodeTurn(r, "hello (p1)")
		opencodeQuits(r)
		r.leavesWith(0)
		compareEvents(t, sequence(terminalStarts(), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0")), w.recorded().events)
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestOpencodeWithoutHooks: the command line and the environment stay as they are.
func TestOpencodeWithoutHooks(t *testing.T) {
	story{
		harness: opencode, argv: []string{"opencode", "run", "hello-(p1)"}, flags: []string{"--no-hooks"}, clients: []client{promptPayload}, emits: onlyProcess(0),
		and: func(t *testing.T, r *run, _ record) { r.checkAsked(map[string][]int{promptPayload.body: {0}}) },
	}.play(t)
}
