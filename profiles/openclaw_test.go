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
import { existsSync } from "node:fs"
// once waits for a file of the test.
const once = async (name) => {
  while (!existsSync(process.argv[2].replace(/[^/]*$/, name))) await new Promise((done) => setTimeout(done, 5))
}
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
  // The wrapper asks for a reset as soon as the plugin has connected.
  renewal: async () => {
    const whole = async (n, session) => (await turn(n, session), await hook("agent_end", { messages: [], success: true }, user(n, session)))
    const next = process.argv[4]
    if (next === "running") await turn(1)
    else if (next !== "none") await whole(1)
    await hook("gateway_start", { port: 18789 }, {})
    await once("replied")
    if (next === "elsewhere") await whole(2, "s2")
    if (next !== "running") await whole(3)
    if (next !== "running") await whole(4)
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
globalThis.hook = hook
await runs[process.argv[3]]()
`

// standInGateway is the module of OpenClaw that the plugin imports for a reset. The file
// gateway.json says what the gateway answers, and each call of a method is printed.
const standInGateway = `
import { readFileSync } from "node:fs"
export const callGatewayFromCli = async (method, opts, params) => {
  const says = JSON.parse(readFileSync(process.argv[2].replace(/[^/]*$/, "gateway.json"), "utf8"))
  console.log(method, opts.port, JSON.stringify(params))
  if (says.refuses === method) throw Object.assign(new Error("secret"), { name: says.error, kind: says.kind })
  if (method === "sessions.list") return { sessions: says.sessions }
  if (says.hooks) {
    await globalThis.hook("session_end", { sessionId: "s1", reason: "reset", nextSessionId: says.hooks }, {})
    await globalThis.hook("session_start", { sessionId: says.hooks, resumedFrom: "s1" }, {})
  }
  if (says.late) throw new Error("secret")
  return { ok: true, entry: { sessionId: says.hooks ?? "s1" } }
}
`

// clawWorld is a folder with the plugin of a launch and the socket that the plugin calls.
type clawWorld struct {
	t     *testing.T
	dir   string
	node  string
	calls chan string // "OP BODY" of each call
	// requests are what the plugin is asked on its stream, and replies what it answered.
	requests string
	replies  chan string
	// answers are the answers to the calls of the hooks that wait; "" closes the
	// connection without one.
	answers map[string]string
}

func newClawWorld(t *testing.T, guards bool) *clawWorld {
	t.Helper()
	return startClaw(t, guards, "agent", "--local", "-m", "hi")
}

// startClaw returns a clawWorld with the plugin of the launch `openclaw ARGS`.
func startClaw(t *testing.T, guards bool, args ...string) *clawWorld {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	dir, err := os.MkdirTemp("/tmp", "claw-") // a socket's address holds 108 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &clawWorld{t, dir, node, make(chan string, 100), "", make(chan string, 10), map[string]string{"session_start": `{"context":"FIRST"}`, "before_prompt_build": `{"context":"NEXT"}`, "before_tool_call": "pass\n"}}
	w.write("hook", "#!/bin/sh\n{ printf 'left %s ' \"$1\"; cat; echo; } >> "+filepath.Join(dir, "left")+"\n", 0o700)
	h := Host{Env: []string{"HOME=" + dir}, Dir: dir, RunDir: dir, Socket: filepath.Join(dir, "s.sock"), Key: filepath.Join(dir, "key"), Guards: guards, Needs: "a client",
		Hook: []string{filepath.Join(dir, "hook")}, ReadFile: func(string) ([]byte, error) { return []byte("{}"), nil }}
	w.write("key", "THE-KEY", 0o600)
	p, _ := For("openclaw")
	l, err := p.Prepare(append([]string{"openclaw"}, args...), h)
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

// serve answers the calls of the plugin, each connection in its own goroutine.
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
			go func() {
				w.answer(conn)
				conn.Close()
			}()
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
	if head.Op == "stream" {
		w.asks(conn, in)
		return
	}
	w.calls <- head.Op + " " + string(body)
	if out := w.answers[head.Event]; head.Op == "hook" && out != "" {
		bytes, _ := json.Marshal(len(out))
		_, _ = io.WriteString(conn, `{"bytes":`+string(bytes)+"}\n"+out)
		_, _ = io.Copy(io.Discard, in)
	}
}

// asks sends the requests to a plugin and reads one reply.
func (w *clawWorld) asks(conn net.Conn, in *bufio.Reader) {
	_, _ = io.WriteString(conn, w.requests)
	reply, _ := in.ReadString('\n')
	w.replies <- strings.TrimSpace(reply)
	_ = os.WriteFile(filepath.Join(w.dir, "replied"), nil, 0o600)
	_, _ = io.Copy(io.Discard, in)
}

// run drives the plugin. It returns what the plugin's process printed, and the calls
// that the plugin made.
func (w *clawWorld) run(name string, more ...string) (out string, calls []string) {
	w.t.Helper()
	cmd := exec.Command(w.node, append([]string{filepath.Join(w.dir, "drive.mjs"), filepath.Join(w.dir, "plugin.mjs"), name}, more...)...)
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

// TestOpenclawPlugin: a turn is reported in order, once, and without text. The end of a
// turn is reported even if the process exits at once.
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

// TestOpenclawPluginFollowsOneSession: the plugin reports one session of a gateway at a
// time. A heartbeat and the run of a sub-agent do not count as turns.
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

// TestOpenclawPluginKeepsContext: the text that the wrapper returns at a reset is added to
// the next prompt of the session that the reset began, and to no other prompt. If that
// session is reset again before its first prompt, the text is added to the first prompt of
// the session that follows it. A prompt of another session in between does not change this.
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

// TestOpenclawPluginGuards: under a policy the plugin lets a tool run only after the
// answer that allows it, and only with the arguments that the gate was asked about.
func TestOpenclawPluginGuards(t *testing.T) {
	const unanswered = `{"block":true,"blockReason":"lifeloop-wrap: the gate did not answer, so this tool call is denied"}`
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

// TestOpenclawPluginResets: on request the plugin lets the gateway reset the session, by
// the session's key and id, unless the session has an active run. The plugin asks for the
// fresh session's context at the next prompt, unless that prompt is for another session.
func TestOpenclawPluginResets(t *testing.T) {
	const (
		fresh   = `{"op":"fresh","id":"rnw_1"}` + "\n"
		stop    = `{"op":"stop","id":"rnw_1"}` + "\n"
		idle    = `"sessions":[{"key":"agent:main:s","sessionId":"s9"},{"key":"agent:main:s1","sessionId":"s1"}]`
		list    = `sessions.list 18789 {"search":"agent:main:s1","includeGlobal":true,"includeUnknown":true}`
		reset   = `sessions.reset 18789 {"key":"agent:main:s1","expectedSessionId":"s1"}`
		started = `hook session_start s1 startup`
		cleared = `tell session_reset s1 clear`
		context = `hook session_context s1`
	)
	for name, c := range map[string]struct {
		ask, says, then string
		reply           string // the JSON members that follow the id in the plugin's reply
		methods         []string
		starts          []string // the calls about the start of a session
		prompts         []string // the context before each turn's prompt; "": none
	}{
		"the id stays":       {fresh, `{` + idle + `,"hooks":"s1"}`, "", ``, []string{list, reset}, []string{started, cleared, context}, []string{"FIRST", "NOTE", ""}},
		"no hook is called":  {fresh, `{` + idle + `}`, "", ``, []string{list, reset}, []string{started, cleared, context}, []string{"FIRST", "NOTE", ""}},
		"the reply is lost":  {fresh, `{` + idle + `,"hooks":"s1","late":true}`, "", ``, []string{list, reset}, []string{started, cleared, context}, []string{"FIRST", "NOTE", ""}},
		"a prompt elsewhere": {fresh, `{` + idle + `,"hooks":"s1"}`, "elsewhere", ``, []string{list, reset}, []string{started, cleared, "hook session_start s2 startup", "hook session_start s1 resume"}, []string{"FIRST", "FIRST", "FIRST", ""}},
		"no session":         {fresh, `{` + idle + `}`, "none", `,"failure":"no_session"`, nil, []string{started}, []string{"FIRST", ""}},
		"a turn runs":        {fresh, `{` + idle + `}`, "running", `,"busy":true`, nil, []string{started}, []string{"FIRST"}},
		"another run":        {fresh, `{"sessions":[{"key":"agent:main:s1","sessionId":"s1","hasActiveRun":true}]}`, "", `,"busy":true`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"another id":         {fresh, `{"sessions":[{"key":"agent:main:s1","sessionId":"s2"}]}`, "", `,"failure":"not_found"`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"given up":           {stop + fresh, `{` + idle + `}`, "", `,"failure":"stopped"`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"no credentials":     {fresh, `{"refuses":"sessions.list","error":"GatewayCredentialsRequiredError"}`, "", `,"failure":"no_credentials"`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"late":               {fresh, `{"refuses":"sessions.list","error":"GatewayTransportError","kind":"timeout"}`, "", `,"busy":true`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"not reached":        {fresh, `{"refuses":"sessions.list","error":"GatewayTransportError","kind":"closed"}`, "", `,"failure":"not_accepted"`, []string{list}, []string{started}, []string{"FIRST", "", ""}},
		"refused":            {fresh, `{` + idle + `,"refuses":"sessions.reset","error":"GatewayClientRequestError"}`, "", `,"failure":"not_accepted"`, []string{list, reset}, []string{started}, []string{"FIRST", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startClaw(t, false, "gateway", "run")
			w.requests, w.answers["session_context"], w.answers["before_prompt_build"] = c.ask, `{"context":"NOTE"}`, "{}"
			sdk := filepath.Join("node_modules", "openclaw")
			require.NoError(t, os.MkdirAll(filepath.Join(w.dir, sdk), 0o700))
			w.write(filepath.Join(sdk, "package.json"), `{"name":"openclaw","type":"module","exports":{"./plugin-sdk/gateway-runtime":"./gateway.js"}}`, 0o600)
			w.write(filepath.Join(sdk, "gateway.js"), standInGateway, 0o600)
			w.write("gateway.json", c.says, 0o600)
			w.serve()
			out, calls := w.run("renewal", c.then)
			require.Equal(t, `{"k":"fresh","o":{"id":"rnw_1"`+c.reply+`}}`, <-w.replies)
			var methods, prompts, starts []string
			for line := range strings.Lines(out + "\n") {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "sessions.") {
					methods = append(methods, line)
				}
			}
			for _, call := range calls {
				op, body, _ := strings.Cut(call, " ")
				var in struct {
					Event  string `json:"hook_event_name"`
					ID     string `json:"session_id"`
					Source string
				}
				require.NoError(t, json.Unmarshal([]byte(body), &in), call)
				if strings.HasPrefix(in.Event, "session_") {
					starts = append(starts, strings.TrimSpace(strings.Join([]string{op, in.Event, in.ID, in.Source}, " ")))
				}
			}
			for line := range strings.Lines(out + "\n") {
				if answer, is := strings.CutPrefix(line, "before_prompt_build "); is {
					var a struct{ PrependContext string }
					require.NoError(t, json.Unmarshal([]byte(answer), &a))
					prompts = append(prompts, a.PrependContext)
				}
			}
			require.Equal(t, c.methods, methods)
			require.Equal(t, c.starts, starts)
			require.Equal(t, slices.DeleteFunc(c.prompts, func(p string) bool { return p == "" }), prompts)
		})
	}
}
