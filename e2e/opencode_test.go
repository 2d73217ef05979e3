//go:build e2e && linux

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lifeloop/e2e/mock"
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

// opencodeIdle reports whether OpenCode has no busy session. OpenCode may never
// answer a request that arrives during its start, nor those after it.
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

// opencodeTurns is a script that sends prompts, waits for the end of each turn
// and leaves with /exit.
func opencodeTurns(prompts ...string) func(r *run) {
	return func(r *run) {
		opencodeReady(r)
		for _, p := range prompts {
			opencodeTurn(r, p)
		}
		opencodeQuits(r)
	}
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

func TestOpencode(t *testing.T) {
	stories{
		"no turn": {
			script: opencodeTurns(),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  opencodeTurns("run it (p1)", "thanks (p2)"),
		},
		"Esc while the model answers": {
			replies: []mock.Reply{hanging(), mock.Says("back")},
			script: func(r *run) {
				opencodeReady(r)
				opencodeInterrupted(r, "hello (p1)")
				opencodeTurn(r, "continue (p2)")
				opencodeQuits(r)
			},
		},
	}.play(t, story{harness: opencode, argv: opencodeArgs(), tty: true, emits: onlyProcess(0)})
}

func TestOpencodeRun(t *testing.T) {
	stories{
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(400)},
			exit:    1,
			emits:   onlyProcess(1),
		},
	}.play(t, story{harness: opencode, argv: []string{"opencode", "run", "hello-(p1)"}, emits: onlyProcess(0)})
}
