package profiles

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// driveOpenclaw loads the plugin as OpenClaw would, registers it twice, and prints what
// its hooks answer. The events have texts that must not leave the program.
const driveOpenclaw = `
const plugin = (await import(process.argv[2])).default
const handlers = {}
const api = { runtime: { version: "2026.9.6" }, on: (hook, handler, options) => (handlers[hook] = [handler, options]) }
plugin.register(api)
plugin.register(api)
const hook = async (name, e, c) => {
  const answer = await handlers[name][0](e, c)
  if (answer !== undefined && Object.keys(answer).length) console.log(name, JSON.stringify(answer))
}
const user = (n, session = "s1") => ({ runId: "r" + n, sessionId: session, sessionKey: "agent:main:" + session, trigger: "user", workspaceDir: "/p" })
const answer = (n, stopReason = "stop") => ({ role: "assistant", content: "secret", stopReason, responseId: "c" + n, provider: "mock", model: "m1", usage: { input: 10, output: 2, cost: {} } })
const said = { role: "user", content: "secret" }
const turn = (n, session, messages = []) => hook("before_prompt_build", { prompt: "secret", messages }, user(n, session))
const call = { contextTokenBudget: 200000, model: "m1", outcome: "completed" }
const runs = {
  turn: async () => {
    await turn(1)
    await turn(1) // again, for another model
    await hook("model_call_started", call, { runId: "r1", sessionId: "s1" })
    await hook("before_tool_call", { toolName: "exec", toolCallId: "t1", params: { command: "ls" } }, user(1))
    await hook("after_tool_call", { toolName: "exec", toolCallId: "t1", result: "x", error: "secret" }, user(1))
    await hook("model_call_ended", { ...call, outcome: "error", failureKind: "timeout", errorCategory: "secret" }, user(1))
    await hook("model_call_ended", call, user(1))
    await hook("before_agent_finalize", { lastAssistantMessage: "secret" }, user(1))
    hook("agent_end", { messages: [said, answer(1), answer(2)], success: true, error: "secret" }, user(1))
    process.exit(0) // at once
  },
  sessions: async () => {
    await turn(1, "s1", [said, answer(0)])
    await turn(2, "s2") // while a turn of s1 runs
    await hook("agent_end", { messages: [], success: true }, user(2, "s2"))
    await hook("before_prompt_build", {}, { ...user(3), trigger: "heartbeat" })
    await hook("agent_end", { messages: [answer(3)], success: true }, { ...user(3), trigger: "heartbeat" })
    await hook("before_prompt_build", {}, { ...user(4), sessionKey: "agent:main:subagent:x" })
    await hook("agent_end", { messages: [answer(4)], success: true }, { ...user(4), sessionKey: "agent:main:subagent:x" })
    await hook("agent_end", { messages: [said, answer(0), said, answer(5, "aborted")], success: false }, user(1))
    await hook("before_reset", { messages: ["secret"] }, user(1)).catch(() => {})
    await hook("session_end", { sessionId: "s2", reason: "reset", nextSessionId: "s2" }, {})
    await hook("session_end", { sessionId: "s1", reason: "reset", nextSessionId: "s1" }, {})
    await hook("session_start", { sessionId: "s1", resumedFrom: "s1" }, {})
    await turn(5)
    await hook("agent_end", { messages: [], success: true }, user(5))
    await turn(6, "s2")
    await hook("after_compaction", { messageCount: 3 }, { sessionId: "s2" })
    await hook("session_end", { sessionId: "s2", reason: "shutdown" }, {})
    process.exit(0)
  },
  resets: async () => {
    const reset = async (from, to) => {
      await hook("session_end", { sessionId: from, reason: "daily", nextSessionId: to }, {})
      await hook("session_start", { sessionId: to, resumedFrom: from }, {})
    }
    const whole = async (n, session) => (await turn(n, session), await hook("agent_end", { messages: [], success: true }, user(n, session)))
    await whole(1)
    await reset("s1", "s1")
    await reset("s1", "s3") // before any prompt
    await whole(2, "s2") // another session comes first
    await whole(3, "s3")
    await whole(4, "s3")
    process.exit(0)
  },
  tool: async () => {
    await turn(1)
    await hook("before_tool_call", { toolName: "exec", toolCallId: "t1", params: { command: "ls" } }, user(1))
    await hook("before_tool_call", { toolName: "exec", toolCallId: "t2", params: {} }, { sessionKey: "agent:main:subagent:x" })
    console.log(JSON.stringify(handlers.before_tool_call[1]))
    process.exit(0)
  },
}
await runs[process.argv[3]]()
`

// clawWorld is a folder with the plugin of a launch, and the socket that it calls.
type clawWorld struct {
	t     *testing.T
	dir   string
	node  string
	calls chan string // "OP BODY" of each call
	// answers are the answers to the calls of the hooks that wait; "" closes the
	// connection without one.
	answers map[string]string
}

func newClawWorld(t *testing.T, guards bool) *clawWorld {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	dir, err := os.MkdirTemp("/tmp", "claw-") // a socket's address holds 108 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &clawWorld{t, dir, node, make(chan string, 100), map[string]string{"session_start": `{"context":"FIRST"}`, "before_prompt_build": `{"context":"NEXT"}`, "before_tool_call": "pass\n"}}
	w.write("hook", "#!/bin/sh\n{ printf 'left %s ' \"$1\"; cat; echo; } >> "+filepath.Join(dir, "left")+"\n", 0o700)
	h := Host{Env: []string{"HOME=" + dir}, Dir: dir, RunDir: dir, Socket: filepath.Join(dir, "s.sock"), Key: filepath.Join(dir, "key"), Guards: guards, Needs: "a client",
		Hook: []string{filepath.Join(dir, "hook")}, ReadFile: func(string) ([]byte, error) { return []byte("{}"), nil }}
	w.write("key", "THE-KEY", 0o600)
	p, _ := For("openclaw")
	l, err := p.Prepare([]string{"openclaw", "agent", "--local", "-m", "hi"}, h)
	require.NoError(t, err)
	require.True(t, l.Hooks)
	w.write("plugin.mjs", string(l.Files[len(l.Files)-1].Data), 0o600)
	w.write("drive.mjs", driveOpenclaw, 0o600)
	return w
}

func (w *clawWorld) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), mode))
}

// serve answers the calls of the plugin, one connection after another.
func (w *clawWorld) serve() {
	w.t.Helper()
	listener, err := net.Listen("unix", filepath.Join(w.dir, "s.sock"))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { listener.Close() })
	go func() { // until the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.answer(conn)
			conn.Close()
		}
	}()
}

func (w *clawWorld) answer(conn net.Conn) {
	in := bufio.NewReader(conn)
	line, _ := in.ReadString('\n')
	var head struct {
		Op, Key, Event string
		Bytes          int
	}
	_ = json.Unmarshal([]byte(line), &head)
	body := make([]byte, head.Bytes)
	if _, err := io.ReadFull(in, body); err != nil || head.Key != "THE-KEY" {
		return
	}
	w.calls <- head.Op + " " + string(body)
	if out := w.answers[head.Event]; head.Op == "hook" && out != "" {
		bytes, _ := json.Marshal(len(out))
		_, _ = io.WriteString(conn, `{"bytes":`+string(bytes)+"}\n"+out)
		_, _ = io.Copy(io.Discard, in)
	}
}

// run drives the plugin. It returns what it printed and the calls.
func (w *clawWorld) run(name string) (out string, calls []string) {
	w.t.Helper()
	cmd := exec.Command(w.node, filepath.Join(w.dir, "drive.mjs"), filepath.Join(w.dir, "plugin.mjs"), name)
	text, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(text))
	left, _ := os.ReadFile(filepath.Join(w.dir, "left"))
	for len(w.calls) > 0 {
		calls = append(calls, <-w.calls)
	}
	for line := range strings.Lines(string(left)) {
		calls = append(calls, strings.TrimSpace(line))
	}
	for _, c := range calls {
		require.NotContains(w.t, c, "secret")
	}
	return strings.TrimSpace(string(text)), calls
}

// TestOpenclawPlugin: a turn is reported in order, once, and without text. A turn whose
// end is the end of the process is reported too.
func TestOpenclawPlugin(t *testing.T) {
	w := newClawWorld(t, false)
	w.serve()
	out, calls := w.run("turn")
	require.Equal(t, `before_prompt_build {"prependContext":"FIRST","appendContext":"NEXT"}
before_prompt_build {"prependContext":"FIRST","appendContext":"NEXT"}`, out)
	require.Equal(t, []string{
		`hook {"hook_event_name":"session_start","session_id":"s1","source":"startup","version":"2026.9.6","cwd":"/p"}`,
		`hook {"hook_event_name":"before_prompt_build","session_id":"s1","turn_id":"r1"}`,
		`tell {"hook_event_name":"model_call_started","session_id":"s1","turn_id":"r1","model":"m1","contextTokenBudget":200000}`,
		`tell {"hook_event_name":"before_tool_call","session_id":"s1","turn_id":"r1","tool_name":"exec","tool_use_id":"t1","tool_input":{"command":"ls"}}`,
		`tell {"hook_event_name":"after_tool_call","session_id":"s1","turn_id":"r1","tool_name":"exec","tool_use_id":"t1","tool_response":"x","failed":true}`,
		`tell {"hook_event_name":"model_call_ended","session_id":"s1","turn_id":"r1","error":"timeout"}`,
		`tell {"hook_event_name":"before_agent_finalize","session_id":"s1","turn_id":"r1"}`,
		`left agent_end {"hook_event_name":"agent_end","session_id":"s1","turn_id":"r1","success":true,"error":"","contextTokenBudget":200000,"messages":[` +
			`{"role":"assistant","stopReason":"stop","responseId":"c1","provider":"mock","model":"m1","usage":{"input":10,"output":2},"__openclaw":{}},` +
			`{"role":"assistant","stopReason":"stop","responseId":"c2","provider":"mock","model":"m1","usage":{"input":10,"output":2},"__openclaw":{}}]}`,
	}, calls)
}

// TestOpenclawPluginFollowsOneSession: of a gateway's sessions one is reported at a time,
// and a heartbeat and a sub-agent are no turns.
func TestOpenclawPluginFollowsOneSession(t *testing.T) {
	w := newClawWorld(t, false)
	w.serve()
	_, calls := w.run("sessions")
	var short []string
	for _, c := range calls {
		var in struct {
			Event  string `json:"hook_event_name"`
			ID     string `json:"session_id"`
			Turn   string `json:"turn_id"`
			Source string
			Reason string
			Side   string
			Calls  []struct{ StopReason string } `json:"messages"`
		}
		_, body, _ := strings.Cut(c, " ")
		require.NoError(t, json.Unmarshal([]byte(body), &in), c)
		word := strings.Join(strings.Fields(strings.Join([]string{in.Event, in.ID, in.Turn, in.Source, in.Reason, in.Side}, " ")), " ")
		for _, m := range in.Calls {
			word += " " + m.StopReason
		}
		short = append(short, word)
	}
	require.Equal(t, []string{
		"session_start s1 resume", "before_prompt_build s1 r1", "agent_end s1 r3 heartbeat stop", "agent_end s1 r1 aborted",
		"session_start s1 clear", "before_prompt_build s1 r5", "agent_end s1 r5",
		"session_start s2 startup", "before_prompt_build s2 r6", "after_compaction s2", "session_end s2 shutdown",
	}, short)
}

// TestOpenclawPluginKeepsContext: the context of a session that was reset is in the next
// prompt of that session and in no other, also after another reset or a prompt elsewhere.
func TestOpenclawPluginKeepsContext(t *testing.T) {
	w := newClawWorld(t, false)
	w.serve()
	out, calls := w.run("resets")
	require.Equal(t, `before_prompt_build {"prependContext":"FIRST","appendContext":"NEXT"}
before_prompt_build {"prependContext":"FIRST","appendContext":"NEXT"}
before_prompt_build {"prependContext":"FIRST\n\nFIRST\n\nFIRST","appendContext":"NEXT"}
before_prompt_build {"appendContext":"NEXT"}`, out)
	starts := slices.DeleteFunc(calls, func(c string) bool { return !strings.Contains(c, `"session_start"`) })
	require.Equal(t, []string{
		`hook {"hook_event_name":"session_start","session_id":"s1","source":"startup","version":"2026.9.6","cwd":"/p"}`,
		`hook {"hook_event_name":"session_start","session_id":"s1","source":"clear","version":"2026.9.6"}`,
		`hook {"hook_event_name":"session_start","session_id":"s3","source":"clear","version":"2026.9.6"}`,
		`hook {"hook_event_name":"session_start","session_id":"s2","source":"startup","version":"2026.9.6","cwd":"/p"}`,
		`hook {"hook_event_name":"session_start","session_id":"s3","source":"resume","version":"2026.9.6","cwd":"/p"}`,
	}, starts)
}

// TestOpenclawPluginGuards: under a policy the plugin lets a tool run only after that
// very answer, with the arguments that were asked about.
func TestOpenclawPluginGuards(t *testing.T) {
	const unanswered = `{"block":true,"blockReason":"lifeloop-wrap: the gate did not answer, so this call of a tool is denied"}`
	for name, c := range map[string]struct{ answer, first, second string }{
		"allowed":         {"pass\n", `{"params":{"command":"ls"}}`, `{"params":{}}`},
		"refused":         {`{"decision":"deny","reason":"no <b>"}`, `{"block":true,"blockReason":"no <b>"}`, `{"block":true,"blockReason":"no <b>"}`},
		"no reason":       {"{}", unanswered, unanswered},
		"half an answer":  {"pass", unanswered, unanswered},
		"closed":          {"", unanswered, unanswered},
		"without a world": {"none", unanswered, unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			w := newClawWorld(t, true)
			if w.answers["before_tool_call"] = c.answer; c.answer != "none" {
				w.serve()
			}
			out, calls := w.run("tool")
			lines := strings.Split(out, "\n")
			require.Equal(t, []string{"before_tool_call " + c.first, "before_tool_call " + c.second, `{"priority":-1000000000,"timeoutMs":20000}`}, lines[len(lines)-3:])
			if c.answer != "none" {
				require.Equal(t, []string{
					`hook {"hook_event_name":"before_tool_call","session_id":"s1","turn_id":"r1","tool_name":"exec","tool_use_id":"t1","tool_input":{"command":"ls"},"aside":false}`,
					`hook {"hook_event_name":"before_tool_call","session_id":"agent:main:subagent:x","tool_name":"exec","tool_use_id":"t2","tool_input":{},"aside":true}`,
				}, calls[len(calls)-2:])
			}
		})
	}
}
