//go:build e2e && linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lifeloop/internal/mock"
)

// openclaw is OpenClaw with the mock as its model provider.
var openclaw = kind{
	name: "openclaw", version: "2026.9.6", folder: "openclaw",
	records: ".openclaw/agents/main/agent/openclaw-agent.sqlite",
	env:     []string{"TMPDIR=" + openclawTemp},
	seed: func(t *testing.T) {
		require.NoError(t, os.MkdirAll(openclawTemp, 0o755))
		require.NoError(t, os.MkdirAll(openclawLocks, 0o700))
		require.NoError(t, unix.Mount("tmpfs", openclawLocks, "tmpfs", 0, "mode=700"))
		require.NoError(t, os.MkdirAll(filepath.Join(home, ".openclaw", "tmp"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, ".openclaw", "openclaw.json"), []byte(openclawConfig), 0o600))
	},
}

// openclawTemp is the temporary folder of a world. OpenClaw keeps locks in this folder,
// named after the path of the state folder. That path is the same in all worlds.
const openclawTemp = "/home/openclaw-tmp"

// openclawLocks is another folder with such locks. It does not depend on the
// temporary folder, and each world has its own.
const openclawLocks = "/tmp/openclaw-state-locks-0"

// openclawConfig turns the heartbeat off: it would get one of the replies, and a gateway that
// gets SIGTERM during a heartbeat may wait minutes for its end.
const openclawConfig = `{"models":{"providers":{"mock":{"baseUrl":"http://127.0.0.1:8787/v1","apiKey":"none","api":"openai-completions",
	"models":[{"id":"m1","name":"M1","reasoning":false,"input":["text"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":200000,"maxTokens":8000}]}}},
	"agents":{"defaults":{"heartbeat":{"every":"0m"},"model":{"primary":"mock/m1"},"workspace":"/home/dev/project"}},
	"gateway":{"mode":"local","auth":{"mode":"token","token":"none-at-all"}}}`

func openclawAgent(message string) []string {
	return []string{"openclaw", "agent", "--local", "--agent", "main", "--session-key", "agent:main:story", "--message", message}
}

var (
	openclawRuns    = []mock.Reply{mock.Runs("touch made"), mock.Says("made")}
	openclawOneTurn = sequence(starts("S? S1", "startup"), frame("S1 F1", "completed", pressure("low", "S1 F1")), ends("S1", "exit 0"))
)

// gatewayGrace gives a gateway the time that it needs to end on a busy machine.
var gatewayGrace = []string{"--abort-grace", "60s"}

// TestOpenclaw plays turns in the wrapped process itself, in a wrapped gateway, and in a
// gateway that is not wrapped.
func TestOpenclaw(t *testing.T) {
	gateway := []string{"openclaw", "gateway", "run", "--bind", "loopback"}
	var other *exec.Cmd // the gateway that is not wrapped
	for name, s := range map[string]story{
		"turn": {
			argv: openclawAgent("run it (p1)"), clients: []client{sessionPayload, promptPayload}, replies: openclawRuns, emits: openclawOneTurn,
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				rec.checkDelivered(t, promptPayload)
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 1}, promptPayload.body: {1, 1}})
				r.checkOpenclawLeft(openclawConfig)
			},
		},
		// /new, /reset and a call of the gateway's method sessions.reset keep the
		// id of the session. The daily reset does not keep the id. A reset of a
		// session without a prompt is not reported.
		"resets in a gateway": {
			argv: gateway, tty: true, clients: []client{sessionPayload, promptPayload}, exitWrapped: 128 + int(syscall.SIGTERM), flags: gatewayGrace,
			files:   map[string]string{".openclaw/openclaw.json": openclawDaily},
			replies: append(openclawRuns, mock.Says("two"), mock.Says("three"), mock.Says("four")),
			script: func(r *run) {
				r.await("the gateway", func() bool { return openclawReady(r.shown()) })
				r.openclawAsks("run it (p1)", "made")
				r.openclawAsks("/new", "New session started.")
				r.openclawAsks("again (p2)", "two")
				r.openclawAsks("/reset", "Session reset.")
				r.openclaw("gateway", "call", "sessions.reset", "--params", `{"key":"agent:main:story"}`, "--token", "none-at-all")
				r.openclawAsks("again (p3)", "three")
				r.ages()
				r.openclawAsks("again (p4)", "four")
				r.signals(whatWasStarted, syscall.SIGTERM)
			},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed", pressure("low", "S1 F1")),
				ends("S1", "clear"), starts("S1", "clear"), frame("S1 F2", "completed", pressure("low", "S1 F2")),
				ends("S1", "clear"), starts("S1", "clear"), frame("S1 F3", "completed", pressure("low", "S1 F3")),
				ends("S1", "clear"), starts("S2", "clear"), frame("S2 F4", "completed", pressure("low", "S2 F4")),
				ends("S2", "shutdown")),
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				rec.checkDelivered(t, promptPayload)
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 1, 1, 1, 1}, promptPayload.body: {1, 1, 1, 1, 1},
					"(p1)": {1, 1, 0, 0, 0}, "(p2)": {0, 0, 1, 0, 0}, "(p3)": {0, 0, 0, 1, 0}, "(p4)": {0, 0, 0, 0, 1}})
				r.checkOpenclawLeft(openclawDaily)
			},
		},
		// The turn runs in a gateway of the user, which is not wrapped. Only the wrapped
		// process is reported, and nothing is injected into either process.
		"a gateway that runs already": {
			argv:    []string{"openclaw", "agent", "--agent", "main", "--session-key", "agent:main:story", "--message", "run it (p1)"},
			clients: []client{sessionPayload, promptPayload}, flags: []string{"--hooks", "always"}, replies: openclawRuns,
			beside: func(w *world) {
				log, err := os.Create(w.path("gateway.log"))
				require.NoError(w.t, err)
				defer log.Close()
				other = exec.Command(gateway[0], gateway[1:]...)
				other.Dir, other.Env, other.Stdout, other.Stderr = project, w.env, log, log
				require.NoError(w.t, other.Start())
				w.await("the gateway", func() bool { return openclawReady(w.gatewayLog()) })
			},
			script: func(r *run) {
				r.await("the answer", func() bool { return strings.Contains(r.shown(), "made") })
				require.NoError(r.t, other.Process.Signal(syscall.SIGTERM))
				require.NoError(r.t, other.Wait(), r.gatewayLog())
			},
			emits: sequence(starts("S?", "startup"), ends("S?", "exit 0")),
			and: func(t *testing.T, r *run, _ record) {
				r.checkAsked(map[string][]int{sessionPayload.body: {0, 0}, promptPayload.body: {0, 0}})
				require.Contains(t, r.gatewayLog(), "made")
				require.NotContains(t, r.gatewayLog(), "lifeloop")
				facts, err := r.tool("events", "last", "--as", "facts")
				require.NoError(t, err)
				require.Contains(t, facts, "the session runs in a separate gateway process")
				r.checkOpenclawLeft(openclawConfig)
			},
		},
	} {
		s.harness = openclaw
		t.Run(name, s.play)
	}
}

// TestOpenclawRefused: with any policy, even one that allows everything, a launch whose turn
// runs in another process is refused.
func TestOpenclawRefused(t *testing.T) {
	s := story{harness: openclaw, argv: []string{"openclaw", "agent", "--agent", "main", "--message", "run it (p1)"}, replies: openclawRuns,
		files: map[string]string{"policy.yaml": "default_verdict: allow\n"}, flags: []string{"--policy", filepath.Join(home, "policy.yaml")}}
	alone(t, openclaw, func(t *testing.T) {
		r := newWorld(t, s).start(s, true)
		r.leavesWith(125)
		require.Contains(t, r.stderr.String(), "the session runs in a separate gateway process")
		require.Empty(t, r.model.Calls())
	})
}

// openclawDaily is the configuration with a reset of each session at a time of the day.
var openclawDaily = strings.TrimSuffix(openclawConfig, "}") + `,"session":{"reset":{"mode":"daily","atHour":4}}}`

// openclawReady reports whether a gateway has printed that it is ready.
func openclawReady(log string) bool { return strings.Contains(log, "\x1b[36mready\x1b[") }

// gatewayLog is the output of the gateway that is not wrapped.
func (w *world) gatewayLog() string {
	w.t.Helper()
	log, err := os.ReadFile(w.path("gateway.log"))
	require.NoError(w.t, err)
	return string(log)
}

// openclaw runs another command of OpenClaw to its end and returns what it printed.
func (r *run) openclaw(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(openclaw.name, args...)
	cmd.Dir, cmd.Env = project, r.env
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, string(out))
	return string(out)
}

// openclawAsks sends a message to the session of the story in the gateway.
func (r *run) openclawAsks(message, answer string) {
	r.t.Helper()
	require.Contains(r.t, r.openclaw("agent", "--agent", "main", "--session-key", "agent:main:story", "--message", message), answer)
}

// ages makes OpenClaw's sessions two days older.
func (r *run) ages() {
	r.t.Helper()
	cmd := exec.Command("node", "-e", `
		const db = new (require("node:sqlite").DatabaseSync)(process.argv[1])
		const then = Date.now() - 2 * 86400e3
		db.exec("PRAGMA busy_timeout = 30000")
		db.prepare("UPDATE session_nodes SET entry_json = json_set(entry_json, '$.sessionStartedAt', ?, '$.lastInteractionAt', ?)").run(then, then)`,
		filepath.Join(home, openclaw.records))
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, string(out))
}

// checkOpenclawLeft checks that no lock for our configuration is left in the home, and
// that the user's configuration has not changed.
func (r *run) checkOpenclawLeft(want string) {
	r.t.Helper()
	left, err := filepath.Glob(filepath.Join(home, ".openclaw/tmp/openclaw-0/gateway.[0-9a-f]*.lock.sqlite*"))
	require.NoError(r.t, err)
	theirs := sha256.Sum256([]byte(filepath.Join(home, ".openclaw/openclaw.json"))) // an unwrapped gateway has this lock
	require.Subset(r.t, []string{fmt.Sprintf("%s/.openclaw/tmp/openclaw-0/gateway.%x.lock.sqlite", home, theirs[:4])}, left)
	config, err := os.ReadFile(filepath.Join(home, ".openclaw/openclaw.json"))
	require.NoError(r.t, err)
	require.Equal(r.t, want, string(config))
}
