package profiles

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
)

func TestWhereThePluginIsInstalled(t *testing.T) {
	p, _ := For("opencode")
	for name, c := range map[string]struct {
		project bool
		env     []string
		path    string
	}{
		"user":            {false, []string{"HOME=/home/dev"}, "/home/dev/.config/opencode/plugin/lifeloop.js"},
		"user, elsewhere": {false, []string{"HOME=/home/dev", "XDG_CONFIG_HOME=/c"}, "/c/opencode/plugin/lifeloop.js"},
		"project":         {true, nil, "/repo/sub/.opencode/plugin/lifeloop.js"},
	} {
		in, err := p.Install(c.project, Host{Env: c.env, Dir: "/repo/sub", Exe: "/opt/lifeloop-wrap"})
		require.NoError(t, err)
		if in.Path != c.path || in.Shared != c.project || len(in.Hooks) > 0 || in.Trust != nil {
			t.Errorf("%s: %+v", name, in)
		}
	}
	for name, h := range map[string]Host{
		"without a home":                {Dir: "/d", Exe: "/x"},
		"with a path that is not UTF-8": {Dir: "/d", Exe: "/\xff", Env: []string{"HOME=/h"}},
	} {
		if _, err := p.Install(false, h); err == nil {
			t.Error(name)
		}
	}
}

// An unchanged plugin is ours, for any path of the program. A plugin with a
// changed character is not.
func TestPluginIsRecognised(t *testing.T) {
	p, _ := For("opencode")
	install := func(exe string) Installation {
		in, err := p.Install(false, Host{Env: []string{"HOME=/h"}, Dir: "/d", Exe: exe})
		require.NoError(t, err)
		return in
	}
	const odd = `/it's/a "b"\n` + "\n" + `/<lifeloop-wrap>`
	in := install(odd)
	if !strings.Contains(in.Whole, "const exe = "+string(encode(odd))+"\n") {
		t.Error("it does not name the program")
	}
	for _, text := range []string{in.Whole, install("/old/lifeloop-wrap").Whole} {
		if !in.Ours(text) {
			t.Errorf("not recognised: %.200s", text)
		}
	}
	head, body, _ := strings.Cut(in.Whole, "\n")
	for _, text := range []string{"", "\n", head, head + "\n", body, in.Whole + " ", strings.Replace(in.Whole, "5000", "9000", 1), "// mine\n" + in.Whole} {
		if in.Ours(text) {
			t.Errorf("taken for ours: %.200s", text)
		}
	}
}

// A launch without hooks lists as weak exactly the claims of the manifest that the
// launch lacks.
func TestLaunchesWithoutHooksListMissingClaims(t *testing.T) {
	for adapter, reads := range map[string]bool{"gemini": true, "opencode": false} { // whether a launch reads the harness's files
		m, ok := manifests.Get(adapter)
		require.True(t, ok)
		want := map[string]bool{}
		for _, s := range m.TelemetrySources {
			if s.Kind == "hook" || !reads && s.Kind != "terminal" {
				want["telemetry."+s.Name] = true
			}
		}
		for e, claim := range m.LifecycleEvents {
			if claim.Support != lifeloop.Unavailable && !slices.Contains(claim.Modes, lifeloop.LauncherWrapper) {
				want[string(e)] = true
			}
		}
		for p, claim := range m.Placement {
			if claim.Support != lifeloop.Unavailable {
				want["placement."+string(p)] = true
			}
		}
		if m.ApprovalSurface.Support != lifeloop.Unavailable {
			want["approval_surface"] = true
		}
		for capability := range RestsOf(adapter) {
			if !reads || strings.HasPrefix(capability, "renewal.") {
				want[capability] = true
			}
		}
		p, _ := For(adapter)
		l, err := p.Prepare([]string{adapter}, Host{Env: []string{"HOME=/h"}, Dir: "/d", NewID: "NEW-ID"})
		require.NoError(t, err)
		var got []string
		for _, w := range l.Weak {
			got = append(got, w.Capability)
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(want)), got, adapter)
	}
}

// drive runs the plugin as OpenCode would and prints the parts of a message.
const drive = `
const { Lifeloop } = await import(process.argv[2])
const hooks = await Lifeloop({ directory: process.cwd() })
await Lifeloop({ directory: process.cwd() }) // in a terminal it is made twice
const event = (type, sessionID, properties) => hooks.event?.({ event: { type, properties: { sessionID, ...properties } } })
const message = async (sessionID, id, role = "user") => {
  const output = { message: { id, role }, parts: [{ id: "prt_1", text: "secret" }] }
  await hooks["chat.message"]?.({ sessionID }, output)
  console.log(id, ...output.parts.slice(1).map((p) => [p.text, p.messageID, p.sessionID, p.synthetic, p.id > "prt_1"].join("|")))
}
await event("session.created", "s1", { info: { title: "secret" } })
await message("s1", "m1")
await event("session.idle", "s1")
await event("session.idle", "s1")
await message("s1", "m2")
await event("session.error", "s1", { error: { name: "APIError", data: { message: "secret" } } })
await event("session.idle", "s1")
await event("session.idle", "s1")
await message("s1", "m3")
await event("session.error", "s1", { error: { name: "APIError" } })
await event("session.status", "s1", { status: { type: "busy" } })
await event("session.compacted", "s1")
await event("session.idle", "s1")
await message("s1", "m5")
await event("session.status", "s1", { status: { type: "busy" } })
await message("s1", "m6")
await event("message.updated", "s1", { info: { role: "assistant", finish: "tool-calls", time: { completed: 1 } } })
await event("session.idle", "s1")
await message("s1", "m7")
await event("session.status", "s1", { status: { type: "busy" } })
await event("message.updated", "s1", { info: { role: "assistant", finish: "tool-calls", time: { completed: 1 } } })
await event("message.updated", "s1", { info: { role: "assistant", finish: "stop", time: { completed: 2 } } })
await event("session.idle", "s1")
await message("s1", "m8")
await event("session.status", "s1", { status: { type: "busy" } })
await event("message.updated", "s1", { info: { role: "assistant", time: { completed: 1 } } })
await event("session.idle", "s1")
await event("session.created", "s2", { info: { parentID: "s1" } })
await message("s2", "m4")
await event("session.idle", "s2")
await event("server.connected")
await hooks.event?.({})
await hooks["chat.message"]?.({}, {})
await hooks.dispose?.()
`

func TestPluginReportsAndAddsContext(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here to run the plugin with")
	}
	dir := t.TempDir()
	file := func(name, text string, perm os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), perm))
		return path
	}
	patience := ""
	run := func(exe string, env ...string) (printed string, calls []string) {
		p, _ := For("opencode")
		in, err := p.Install(false, Host{Env: []string{"HOME=" + dir}, Dir: dir, Exe: exe})
		require.NoError(t, err)
		log := file("calls", "", 0o600)
		cmd := exec.Command(node, file("drive.mjs", drive, 0o600), file("plugin.mjs", strings.Replace(in.Whole, "patience = 5000", "patience = "+cmp.Or(patience, "5000"), 1), 0o600))
		cmd.Dir = dir
		cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "CALLS_LOG=" + log}, env)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		return string(out), strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}

	good := file("good", "#!/bin/sh\nprintf '%s ' \"$@\" >>\"$CALLS_LOG\"; cat >>\"$CALLS_LOG\"; echo >>\"$CALLS_LOG\"\n[ $4 = chat.message ] && echo '{\"context\":\"for you\"}'\nexit 0\n", 0o700)
	printed, calls := run(good)
	const part = " for you|%|s1|true|true\n"
	var want strings.Builder
	for _, m := range []string{"m1", "m2", "m3", "m5", "m6", "m7", "m8"} {
		if want.WriteString(m); m == "m6" { // sent into a running turn
			want.WriteByte('\n')
			continue
		}
		want.WriteString(strings.Replace(part, "%", m, 1))
	}
	require.Equal(t, want.String()+"m4\n", printed)
	for i, line := range calls {
		require.NotContains(t, line, "secret")
		words := strings.SplitN(line, " ", 5)
		require.Equal(t, []string{"hook", "--host", "opencode"}, words[:3])
		var in map[string]string
		require.NoError(t, json.Unmarshal([]byte(words[4]), &in))
		require.Equal(t, words[3], in["hook_event_name"])
		require.Equal(t, "s1", in["session_id"])
		calls[i] = strings.Join([]string{words[3], in["turn_id"], in["error"]}, " ")
	}
	require.Equal(t, []string{"session.created  ", "chat.message m1 ", "session.idle m1 ", "chat.message m2 ", "session.idle m2 APIError",
		"chat.message m3 ", "session.compacted m3 ", "session.idle m3 ", "chat.message m5 ", "session.idle m5 MessageAbortedError",
		"chat.message m7 ", "session.idle m7 ", "chat.message m8 ", "session.idle m8 MessageAbortedError"}, calls)

	// Whatever the program does, the user's message stays.
	for _, bad := range []string{
		filepath.Join(dir, "nothing here"),
		file("fails", "#!/bin/sh\necho '{\"context\":\"no\"}'\nexit 1\n", 0o700),
		file("babbles", "#!/bin/sh\necho 'no JSON'\n", 0o700),
		file("numbers", "#!/bin/sh\necho '{\"context\":7}'\n", 0o700),
	} {
		printed, _ := run(bad)
		require.Equal(t, "m1\nm2\nm3\nm5\nm6\nm7\nm8\nm4\n", printed, bad)
	}
	// The plugin waits no longer than its timeout, and not for children of the program.
	patience = "100"
	printed, _ = run(file("hangs", "#!/bin/sh\nsleep 300 &\necho $! >>"+filepath.Join(dir, "left")+"\nwait\n", 0o700))
	require.Equal(t, "m1\nm2\nm3\nm5\nm6\nm7\nm8\nm4\n", printed)
	if left, err := os.ReadFile(filepath.Join(dir, "left")); err == nil {
		_ = exec.Command("kill", strings.Fields(string(left))...).Run()
	}
	patience = ""

	// Under the wrapper the plugin does nothing.
	printed, calls = run(good, "LIFELOOP_SOCKET=/x")
	require.Equal(t, "m1\nm2\nm3\nm5\nm6\nm7\nm8\nm4\n", printed)
	require.Equal(t, []string{""}, calls)
}
