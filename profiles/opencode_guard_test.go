package profiles

import (
	"bufio"
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

// driveGuard loads the plugin as OpenCode's server would, and lets it judge one call of
// a tool. It prints the decision, a line for each later change of the arguments that
// succeeds, and the environment variables of a tool and of MCP servers.
const driveGuard = `
const { LifeloopGuard } = await import(process.argv[2])
const hooks = await LifeloopGuard({ directory: "/p" })
const args = { command: "ls", list: ["a"] }
try {
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: "ses_1", callID: "c1" }, { args })
  console.log("allowed")
} catch (e) {
  console.log(e.message)
}
for (const change of [() => (args.command = "rm"), () => args.list.push("b")]) {
  try {
    change()
    console.log("changed")
  } catch {}
}
const output = { env: {} }
await hooks["shell.env"]({ cwd: "/p" }, output)
console.log(JSON.stringify({ ...output.env, npm_config_offline: String(output.env.npm_config_offline) }))
const config = { mcp: { a: { type: "local", environment: { A: "1" } }, b: { type: "remote" }, c: { type: "local", environment: { npm_config_offline: "theirs" } } } }
await hooks.config(config)
await hooks.config({})
console.log(JSON.stringify(config.mcp))
`

// TestGuardPlugin: the plugin lets a tool run only after the answer that allows it.
// A killed wrapper closes the connection. A stopped wrapper does not answer.
func TestGuardPlugin(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	const unanswered = "lifeloop-wrap: the gate did not answer, so this tool call is denied"
	for name, c := range map[string]struct {
		reply   string // empty: the wrapper does not answer
		closes  bool
		alone   bool // no wrapper listens on the socket
		without bool // the plugin has no key
		want    string
	}{
		"allowed":              {reply: "{\"bytes\":5}\npass\n", want: "allowed"},
		"allowed in two parts": {reply: "{\"bytes\":5,\"more\":1}\npa|ss\n", want: "allowed"},
		"half a refusal":       {reply: "{\"bytes\":36}\n" + `{"decision":"deny","reason":"no <b>"`, want: unanswered},
		"refused by the gate":  {reply: "{\"bytes\":37}\n" + `{"decision":"deny","reason":"no <b>"}`, want: "no <b>"},
		"no reason":            {reply: "{\"bytes\":2}\n{}", want: unanswered},
		"an empty answer":      {reply: "{\"bytes\":0}\n", want: unanswered},
		"an error":             {reply: "{\"error\":\"no\"}\n", want: unanswered},
		"cut off":              {reply: "{\"bytes\":5}\npas", closes: true, want: unanswered},
		"killed":               {closes: true, want: unanswered},
		"stopped":              {want: unanswered},
		"no wrapper":           {alone: true, want: unanswered},
		"no key":               {alone: true, without: true, want: unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "guard-") // a socket's address holds 108 bytes
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			h := Host{Dir: dir, RunDir: dir, Socket: filepath.Join(dir, "s.sock"), Key: filepath.Join(dir, "key"), Guards: true,
				Env: []string{"HOME=" + dir, `OPENCODE_CONFIG_CONTENT={"model":"m"}`}}
			if !c.without {
				require.NoError(t, os.WriteFile(h.Key, []byte("THE-KEY"), 0o600))
			}
			p, _ := For("opencode")
			l, err := p.Prepare([]string{"opencode", "run", "hi"}, h)
			require.NoError(t, err)
			require.True(t, l.Guards)
			plugin, drive := filepath.Join(dir, "plugin.mjs"), filepath.Join(dir, "drive.mjs")
			text := string(l.Files[len(l.Files)-1].Data)
			if name == "stopped" { // only this case waits until the limit, so the limit is shortened
				text = strings.Replace(text, "= "+guardLimit(0), "= 300", 1)
			}
			require.NoError(t, os.WriteFile(plugin, []byte(text), 0o600))
			require.NoError(t, os.WriteFile(drive, []byte(driveGuard), 0o600))

			asked := make(chan string, 1)
			if !c.alone {
				serveGuard(t, h.Socket, c.reply, c.closes, asked)
			}
			cmd := exec.Command(node, drive, plugin)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, c.want+`
{"OPENCODE_CONFIG_CONTENT":"{\"model\":\"m\"}","npm_config_offline":"undefined"}
{"a":{"type":"local","environment":{"npm_config_offline":"","A":"1"}},"b":{"type":"remote"},"c":{"type":"local","environment":{"npm_config_offline":"theirs"}}}
`, string(out))
			if !c.alone {
				require.Equal(t, `{"op":"hook","key":"THE-KEY","event":"tool.execute.before","bytes":154}
{"session_id":"ses_1","hook_event_name":"tool.execute.before","tool_name":"bash","tool_use_id":"c1","tool_input":{"command":"ls","list":["a"]},"cwd":"/p"}`, <-asked)
			}
		})
	}
}

// serveGuard answers one call with the parts of a reply, and then closes the connection
// or waits until the plugin does.
func serveGuard(t *testing.T, socket, reply string, closes bool, asked chan<- string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() { // until the connection, or the listener, is closed
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		line, _ := in.ReadString('\n')
		var head struct{ Bytes int }
		_ = json.Unmarshal([]byte(line), &head)
		body := make([]byte, head.Bytes)
		_, _ = io.ReadFull(in, body)
		asked <- line + string(body)
		for part := range strings.SplitSeq(reply, "|") {
			_, _ = io.WriteString(conn, part)
		}
		if !closes {
			_, _ = io.Copy(io.Discard, in)
		}
	}()
}
