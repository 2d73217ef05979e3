package profiles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// driveTerminal loads the plugin as OpenCode's terminal interface would. It emits
// events with texts that must not leave the program. Session b belongs to another
// client of the server, until it is shown.
const driveTerminal = `
const plugin = (await import(process.argv[2])).default
const handlers = {}
const route = { current: { name: "home" } }
const model = { limit: { context: 200000 } }
const api = {
  app: { version: "1.18.33" }, route,
  event: { on: (kind, handler) => (handlers[kind] = handler) },
  state: {
    provider: [{ id: "mock", models: { m1: model } }],
    session: { status: () => ({ type: process.argv[3] ?? "idle" }), messages: () => [{ id: "m1", role: "user" }, { id: "m2", role: "assistant", parentID: "m1" }] },
  },
}
if (process.argv[3]) route.current = { name: "session", params: { sessionID: "a" } }
await plugin.tui(api)
const emit = (type, properties) => handlers[type]({ id: "evt_1", type, properties })
emit("session.created", { sessionID: "a", info: { id: "a", title: "secret", directory: "/p" } })
emit("session.created", { sessionID: "b", info: { id: "b", title: "secret" } })
route.current = { name: "session", params: { sessionID: "a" } }
emit("message.updated", { sessionID: "a", info: { id: "m1", role: "user", summary: { title: "secret" } } })
emit("message.part.updated", { sessionID: "a", part: { messageID: "m1", type: "text", text: "secret" } })
emit("message.updated", { sessionID: "a", info: { id: "m2", role: "assistant", providerID: "mock", modelID: "m1", agent: "build", error: { name: "APIError", data: { statusCode: 400, message: "secret" } } } })
emit("message.part.updated", { sessionID: "a", part: { messageID: "m2", type: "tool", callID: "c", tool: "bash", state: { status: "running", input: { command: "secret" }, output: "secret" } } })
emit("permission.asked", { sessionID: "a", permission: "bash", patterns: ["secret"], metadata: { command: "secret" } })
emit("session.status", { sessionID: "a", status: { type: "retry", next: 5, message: "secret" } })
emit("session.error", {})
emit("session.idle", { sessionID: "a" })
route.current = { name: "session", params: { sessionID: "b" } }
setTimeout(() => process.exit(0), 400)
`

// A pluginProgram is a program that has loaded the plugin, and the plugin's connection.
type pluginProgram struct {
	net.Conn
	cmd   *exec.Cmd
	stdin io.Closer
	out   bytes.Buffer
}

// startTerminal starts the plugin in a program.
func startTerminal(t *testing.T, attached bool, program string, args ...string) *pluginProgram {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	dir, err := os.MkdirTemp("/tmp", "plugin-") // a socket's address holds 108 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := Host{Dir: dir, RunDir: dir, Socket: filepath.Join(dir, "s.sock"), Key: filepath.Join(dir, "key"), Terminal: true, Instructions: "http://127.0.0.1:1/x"}
	require.NoError(t, os.WriteFile(h.Key, []byte("THE-KEY"), 0o600))
	opencode, _ := For("opencode")
	argv := []string{"opencode"}
	if attached {
		argv = []string{"opencode", "attach", "http://127.0.0.1:4096"}
	}
	l, err := opencode.Prepare(argv, h)
	require.NoError(t, err)
	plugin := filepath.Join(dir, "plugin.mjs")
	for _, f := range l.Files {
		if strings.HasSuffix(f.Path, ".js") {
			require.NoError(t, os.WriteFile(plugin, f.Data, 0o600))
		}
	}
	drive := filepath.Join(dir, "drive.mjs")
	require.NoError(t, os.WriteFile(drive, []byte(program), 0o600))

	listener, err := net.Listen("unix", h.Socket)
	require.NoError(t, err)
	defer listener.Close()
	p := &pluginProgram{cmd: exec.Command(node, append([]string{drive, plugin}, args...)...)}
	p.cmd.Stdout = &p.out
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.Conn, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// runTerminal runs the plugin and returns what the plugin sent: the first line, and
// each later record in a few words.
func runTerminal(t *testing.T, attached bool, args ...string) (first string, records []string) {
	t.Helper()
	p := startTerminal(t, attached, driveTerminal, args...)
	lines := bufio.NewScanner(p)
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "secret")
		if first == "" {
			first = lines.Text()
			continue
		}
		var r struct {
			K string
			O struct {
				Type, SessionID string
				Properties      struct{ SessionID string }
			}
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		records = append(records, strings.Join(strings.Fields(r.K+" "+r.O.Type+" "+r.O.SessionID+r.O.Properties.SessionID), " "))
	}
	require.NoError(t, p.cmd.Wait())
	return first, records
}

func TestTerminalPlugin(t *testing.T) {
	turn := []string{"event message.updated a", "event message.part.updated a", "chat.params a", "event message.updated a",
		"event message.part.updated a", "event permission.asked a", "event session.status a", "event session.idle a"}
	first, records := runTerminal(t, false)
	require.Equal(t, `{"op":"stream","key":"THE-KEY","event":"plugin","bytes":0}`, first)
	require.Equal(t, append([]string{"init", "event session.created a", "event session.created b"}, turn...), records)

	// If the interface attaches to a running server, a session is reported only when it
	// is shown.
	_, records = runTerminal(t, true)
	require.Equal(t, append(append([]string{"init", "event session.created a"}, turn...), "event session.created b"), records)

	// The plugin also reports a turn that began before the plugin was loaded.
	_, records = runTerminal(t, false, "busy")
	require.Equal(t, []string{"init a", "event message.updated a", "event message.part.updated a", "event message.updated a", "event session.created a"}, records[:5])
}

// resetTerminal loads the plugin in an interface with a simulated server. The first
// argument is the id of the session on the screen: in "busy" a turn runs, and in "asks"
// the user is asked for a permission. The second argument names what fails.
const resetTerminal = `
const plugin = (await import(process.argv[2])).default
const [from, fails] = process.argv.slice(3)
const route = { current: from ? { name: "session", params: { sessionID: from } } : { name: "home" } }
const did = []
const sessions = {}
const api = {
  app: { version: "1.18.33" },
  event: { on: () => {} },
  route: {
    get current() { return route.current },
    navigate: (name, params) => {
      did.push("show " + (params?.sessionID ?? name))
      if (fails !== "show" || params?.sessionID !== "new") route.current = { name, params }
    },
  },
  state: {
    session: {
      status: (id) => ({ type: id === "busy" ? "busy" : "idle" }),
      permission: (id) => (id === "asks" ? [{}] : []),
      messages: (id) => sessions[id] ?? [],
    },
  },
  client: {
    session: {
      create: async () => (fails === "create" ? { error: {} } : (did.push("create"), { data: { id: "new" } })),
      delete: async ({ sessionID }) => did.push("delete " + sessionID),
      prompt: async ({ sessionID, noReply, parts }) => {
        if (fails === "prompt") throw new Error("no")
        did.push(["prompt", sessionID, noReply, parts.length, parts[0].synthetic, JSON.stringify(parts[0].text)].join(" "))
        sessions[sessionID] = [{}]
        return { data: {} }
      },
    },
  },
}
await plugin.tui(api)
process.stdin.on("end", () => { console.log(did.join(", ")); process.exit(0) }).resume()
`

// TestTerminalPluginResets checks that the plugin begins a fresh session on request, unless
// that would disturb the user, and puts a text into it once.
func TestTerminalPluginResets(t *testing.T) {
	const fresh, place = `{"op":"fresh","id":"rnw_1"}`, `{"op":"place","id":"hook_1","sessionID":"new","text":"a\nb"}`
	const began = `fresh {"id":"rnw_1","sessionID":"new"}`
	for _, tc := range []struct {
		name, from, fails string
		ask, replies      []string
		did               string
	}{
		{name: "a session", from: "a", ask: []string{fresh, place}, replies: []string{began, `placed {"id":"hook_1"}`},
			did: "create, show new, prompt new true 1 true \"a\\nb\""},
		{name: "the start page", ask: []string{fresh}, replies: []string{began}, did: "create, show new"},
		{name: "a turn runs", from: "busy", ask: []string{fresh}, replies: []string{`fresh {"id":"rnw_1","busy":true}`}},
		{name: "the user is asked", from: "asks", ask: []string{fresh}, replies: []string{`fresh {"id":"rnw_1","busy":true}`}},
		{name: "none is created", from: "a", fails: "create", ask: []string{fresh}, replies: []string{`fresh {"id":"rnw_1","failure":"not_created"}`}},
		{name: "it is not shown", from: "a", fails: "show", ask: []string{fresh}, replies: []string{`fresh {"id":"rnw_1","failure":"not_shown","sessionID":"new"}`},
			did: "create, show new, delete new"},
		{name: "given up", from: "a", ask: []string{`{"op":"stop","id":"rnw_1"}`, fresh}, replies: []string{`fresh {"id":"rnw_1","failure":"stopped","sessionID":"new"}`},
			did: "create, delete new"},
		{name: "a prompt came first", from: "a", ask: []string{fresh, place, place}, replies: []string{began, `placed {"id":"hook_1"}`, `placed {"id":"hook_1","failure":"too_late"}`},
			did: "create, show new, prompt new true 1 true \"a\\nb\""},
		{name: "the text is refused", from: "a", fails: "prompt", ask: []string{fresh, place}, replies: []string{began, `placed {"id":"hook_1","failure":"error"}`},
			did: "create, show new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := startTerminal(t, false, resetTerminal, tc.from, tc.fails)
			lines := bufio.NewScanner(p)
			var replies []string
			for n := 0; len(replies) < len(tc.replies) && lines.Scan(); n++ {
				var r struct {
					K string
					O json.RawMessage
				}
				require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
				reply := r.K == "fresh" || r.K == "placed"
				if reply {
					replies = append(replies, r.K+" "+string(r.O))
				}
				for asked := n != 1 && !reply; !asked && len(tc.ask) > 0; tc.ask = tc.ask[1:] { // the requests are sent after the second line, and after each reply
					_, err := p.Write([]byte(tc.ask[0] + "\n"))
					require.NoError(t, err)
					asked = !strings.Contains(tc.ask[0], `"stop"`) // a stop request has no reply
				}
			}
			require.Equal(t, tc.replies, replies)
			require.NoError(t, p.stdin.Close())
			require.NoError(t, p.cmd.Wait())
			require.Equal(t, tc.did, strings.TrimSpace(p.out.String()))
		})
	}
}

// Without a wrapper the plugin does nothing, and OpenCode continues.
func TestTerminalPluginWithoutASocket(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"plugin.mjs": string(opencodeTerminal), "drive.mjs": driveTerminal} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "KEY"), []byte("k"), 0o600))
	cmd := exec.Command(node, filepath.Join(dir, "drive.mjs"), filepath.Join(dir, "plugin.mjs"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
}
