package profiles

import (
	"bufio"
	"encoding/json"
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

// runTerminal runs the plugin and returns its first line, and the records as words.
func runTerminal(t *testing.T, attached bool, args ...string) (first string, records []string) {
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
	p, _ := For("opencode")
	argv := []string{"opencode"}
	if attached {
		argv = []string{"opencode", "attach", "http://127.0.0.1:4096"}
	}
	l, err := p.Prepare(argv, h)
	require.NoError(t, err)
	plugin := filepath.Join(dir, "plugin.mjs")
	for _, f := range l.Files {
		if strings.HasSuffix(f.Path, ".js") {
			require.NoError(t, os.WriteFile(plugin, f.Data, 0o600))
		}
	}
	drive := filepath.Join(dir, "drive.mjs")
	require.NoError(t, os.WriteFile(drive, []byte(driveTerminal), 0o600))

	listener, err := net.Listen("unix", h.Socket)
	require.NoError(t, err)
	defer listener.Close()
	cmd := exec.Command(node, append([]string{drive, plugin}, args...)...)
	require.NoError(t, cmd.Start())
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	lines := bufio.NewScanner(conn)
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
	require.NoError(t, cmd.Wait())
	return first, records
}

func TestTerminalPlugin(t *testing.T) {
	turn := []string{"event message.updated a", "event message.part.updated a", "chat.params a", "event message.updated a",
		"event message.part.updated a", "event permission.asked a", "event session.status a", "event session.idle a"}
	first, records := runTerminal(t, false)
	require.Equal(t, `{"op":"stream","key":"THE-KEY","event":"plugin","bytes":0}`, first)
	require.Equal(t, append([]string{"init", "event session.created a", "event session.created b"}, turn...), records)

	// In the interface of a running server, a session is reported when it is shown.
	_, records = runTerminal(t, true)
	require.Equal(t, append(append([]string{"init", "event session.created a"}, turn...), "event session.created b"), records)

	// A turn that began before the plugin was loaded is repeated.
	_, records = runTerminal(t, false, "busy")
	require.Equal(t, []string{"init a", "event message.updated a", "event message.part.updated a", "event message.updated a", "event session.created a"}, records[:5])
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
