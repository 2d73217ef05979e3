package profiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lifeloop/telemetry"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// world is the host of a launch, with the files that it can read.
type world struct {
	adapter string
	host    Host
	files   map[string]string
}

func newWorld(adapter string) *world {
	w := &world{adapter: adapter, files: map[string]string{}}
	w.host = Host{
		Env:    []string{"HOME=/home/dev", "PATH=/bin"},
		Dir:    "/home/dev/project",
		Hook:   []string{"/opt/ll", "hook"},
		RunDir: "/run/ll",
		Socket: "/run/ll/door",
		Key:    "/run/ll/key",

		Instructions: "http://127.0.0.1:4712/instructions",
		SessionID:    "ll-1",
		NewID:        "NEW-ID",
		ReadFile: func(path string) ([]byte, error) {
			if data, ok := w.files[path]; ok {
				return []byte(data), nil
			}
			return nil, fs.ErrNotExist
		},
	}
	return w
}

// TestLaunches runs the stories in testdata. Commands:
//
//	file /a/path       the input is the content of that file
//	env                the input is more environment
//	prepare [adapter=ID] [terminal] [hooks=always|never] [needs=WHAT] [root] [guards] [otlp] [full] [number=N] [resume=ID]
//	                   the input is a command line, whose words are split at
//	                   blanks and newlines outside '…'; prints the launch;
//	                   `full` also prints the whole hooks of Claude Code
//	                   and Codex, and the whole plugins
//
// Files and environment stay until the end of the story.
func TestLaunches(t *testing.T) {
	datadriven.Walk(t, "testdata/launches", func(t *testing.T, path string) {
		adapter := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".txt")
		adapter, _, _ = strings.Cut(adapter, "-")
		w := newWorld(adapter)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				w.files[d.CmdArgs[0].Key] = d.Input
				return ""
			case "env":
				w.host.Env = append(w.host.Env, strings.Fields(d.Input)...)
				return ""
			case "prepare":
				w.host.Guards = d.HasArg("guards")
				h := w.host
				h.Terminal = d.HasArg("terminal")
				d.MaybeScanArgs(t, "hooks", (*string)(&h.Hooks))
				d.MaybeScanArgs(t, "needs", &h.Needs)
				if d.HasArg("root") {
					h.Guarded = func(string) bool { return true }
				}
				if d.HasArg("otlp") {
					h.OTLP = "http://127.0.0.1:4711/secret"
				}
				if d.HasArg("number") {
					d.ScanArgs(t, "number", &h.Number)
				}
				if d.HasArg("resume") {
					d.ScanArgs(t, "resume", &h.Resume)
				}
				adapter := w.adapter
				d.MaybeScanArgs(t, "adapter", &adapter)
				p, ok := For(adapter)
				require.True(t, ok, adapter)
				l, err := p.Prepare(words(d.Input), h)
				if err != nil {
					return "error: " + err.Error()
				}
				return render(t, l, w.host, d.HasArg("full"))
			}
			d.Fatalf(t, "no such command")
			return ""
		})
	})
}

// words splits a command line at blanks outside '…'.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, inWord := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, inWord = !quoted, true
		case !quoted && (r == ' ' || r == '\n'):
			if inWord {
				out = append(out, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		out = append(out, word.String())
	}
	return out
}

// render prints most of the non-zero fields of a launch, and the differences of its
// environment from the host's.
func render(t *testing.T, l Launch, h Host, full bool) string {
	t.Helper()
	var b strings.Builder
	argv := l.Argv
	if !full {
		argv = withoutCodexHooks(argv, h.Hook)
	}
	for i, a := range argv {
		if a == "" || strings.ContainsAny(a, " '\"\n") {
			argv[i] = quote(a)
		}
	}
	fmt.Fprintf(&b, "argv: %s\n", strings.Join(argv, " "))
	for _, kv := range h.Env {
		if !slices.Contains(l.Env, kv) {
			fmt.Fprintf(&b, "env: -%s\n", kv)
		}
	}
	for _, kv := range l.Env {
		if !slices.Contains(h.Env, kv) {
			fmt.Fprintf(&b, "env: +%s\n", kv)
		}
	}
	for _, f := range l.Files {
		fmt.Fprintf(&b, "file: %s %s\n", f.Path, strings.TrimSpace(shown(t, f, h, full)))
	}
	for _, f := range l.Overlay.Folders {
		fmt.Fprintf(&b, "overlay: %s links to %s, files %v, dirs %v, ours %v\n", filepath.Join(l.Overlay.Root, f.Path), f.Real, f.Files, f.Dirs, f.Ours)
	}
	for _, s := range l.Sources {
		fmt.Fprintf(&b, "source: %s %s %s whole=%t\n", s.Name, decoderName(s.Decoder), strings.TrimSuffix(s.Path+" "+s.Pattern, " "), s.Form == Whole)
	}
	if l.Typing.Lines != nil {
		fmt.Fprintf(&b, "other sessions: %s, by %s%s\n", l.Typing.Pattern, l.Typing.List, strings.TrimRight(" "+filepath.Join(l.Typing.Place.Dir, l.Typing.Place.Pattern), " "))
	}
	if l.Chats.Dir != "" {
		fmt.Fprintf(&b, "other sessions: %s below %s, a new one %s\n", l.Chats.Pattern, l.Chats.Dir, l.Chats.New)
	}
	if l.OSC != nil {
		fmt.Fprintf(&b, "osc: %v %s\n", l.OSC, decoderName(l.OSCDecoder))
	}
	if l.Export.Decoder != nil {
		fmt.Fprintf(&b, "export: %s, passed on to %q\n", decoderName(l.Export.Decoder), l.Export.Chain)
		for _, name := range slices.Sorted(maps.Keys(l.Export.Headers)) {
			fmt.Fprintf(&b, "export: with %s: %s\n", name, l.Export.Headers[name])
		}
	}
	if l.Requests != nil {
		fmt.Fprintf(&b, "requests: %s\n", decoderName(func() telemetry.Decoder { return l.Requests() }))
	}
	if l.SessionID != "" {
		fmt.Fprintf(&b, "session: %s\n", l.SessionID)
	}
	if l.Cause != "" {
		fmt.Fprintf(&b, "cause: %s\n", l.Cause)
	}
	for _, f := range []struct {
		name string
		on   bool
	}{{"hooks", l.Hooks}, {"plugin", l.Plugin}, {"statusline", l.Statusline}, {"first hook with the first prompt", l.HookAtPrompt}, {"cleared by a hook", l.Clears}, {"plain", l.Plain}} {
		if f.on {
			fmt.Fprintln(&b, f.name)
		}
	}
	switch {
	case l.Guards:
		fmt.Fprintln(&b, "guards")
	case h.Guards:
		fmt.Fprintf(&b, "guards nothing: %s\n", l.Unguarded)
	}
	for _, lock := range l.Locks {
		fmt.Fprintf(&b, "lock: %s\n", lock)
	}
	if l.Evidence != ByExit {
		fmt.Fprintf(&b, "evidence: %s\n", l.Evidence)
	}
	weaknesses(&b, l.Weak)
	return b.String()
}

// weaknesses prints one line per reason, because the same reason usually applies to
// many capabilities.
func weaknesses(b *strings.Builder, weak []Weakness) {
	var reasons []string
	lost := map[string][]string{}
	for _, w := range weak {
		if lost[w.Reason] == nil {
			reasons = append(reasons, w.Reason)
		}
		lost[w.Reason] = append(lost[w.Reason], w.Capability)
	}
	for _, r := range reasons {
		fmt.Fprintf(b, "weak: %s: %s\n", strings.Join(lost[r], " "), r)
	}
}

// shown returns the content of a file. Unless full is set, it checks and shortens the
// part that every launch has.
func shown(t *testing.T, f File, h Host, full bool) string {
	t.Helper()
	switch {
	case full:
	case strings.Contains(f.Path, "claude"):
		return withoutClaudeHooks(t, f.Data, h.Hook)
	case strings.HasSuffix(f.Path, ".js"):
		return withoutPlugin(t, string(f.Data), h)
	}
	return string(f.Data)
}

// withoutCodexHooks replaces the overrides that inject our hooks with one word,
// which gives the number of hooks.
func withoutCodexHooks(argv, hook []string) []string {
	var out []string
	hooks := 0
	for i := 0; i < len(argv); i++ {
		if argv[i] == "-c" && i+1 < len(argv) {
			if strings.HasPrefix(argv[i+1], "hooks.state={\"/<session-flags>") {
				out = append(out, fmt.Sprintf("<%d hooks, %d trusted>", hooks, strings.Count(argv[i+1], "trusted_hash=")))
				i++
				continue
			}
			if strings.Contains(argv[i+1], strings.Trim(tomlString(hookCommand(hook, "")), `"`)) {
				hooks++
				i++
				continue
			}
		}
		out = append(out, argv[i])
	}
	return out
}

// withoutClaudeHooks removes the injected groups from a settings file. It checks
// that each group is complete and the last in its list.
func withoutClaudeHooks(t *testing.T, data []byte, hook []string) string {
	t.Helper()
	var file struct {
		Hooks map[string][]json.RawMessage
	}
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &file))
	require.NoError(t, json.Unmarshal(data, &members))
	n, awaits := 0, ""
	for event, want := range claudeGroups(hook, false, 0) {
		groups := file.Hooks[event]
		if event == "SessionStart" && len(groups) == 0 {
			continue // missing hooks change the number that is printed below
		}
		n++
		if later := notAwaited(want); event == "SessionStart" && len(groups) >= len(later) && strings.Contains(string(groups[len(groups)-2]), `"async"`) {
			want, awaits = later, ", a new session's start not awaited"
		}
		require.GreaterOrEqual(t, len(groups), len(want), event)
		theirs := len(groups) - len(want)
		require.JSONEq(t, string(encode(want)), string(encode(groups[theirs:])), event)
		file.Hooks[event] = groups[:theirs]
		if theirs == 0 {
			delete(file.Hooks, event)
		}
	}
	delete(members, "hooks")
	if len(file.Hooks) > 0 {
		members["hooks"] = encode(file.Hooks)
	}
	return fmt.Sprintf("<%d hooks%s> + ", n, awaits) + string(encode(members))
}

// withoutPlugin checks that a plugin contains the socket and the key, and returns the
// other values that were written into it.
func withoutPlugin(t *testing.T, text string, h Host) string {
	t.Helper()
	require.Contains(t, text, "const socket = "+string(encode(h.Socket))+"\n")
	require.Contains(t, text, "const keyFile = "+string(encode(h.Key))+"\n")
	if _, rest, guards := strings.Cut(text, "const theirs = "); guards {
		require.Contains(t, text, "const limit = "+guardLimit(0)+" ")
		theirs, _, _ := strings.Cut(rest, " //")
		return "<guard, theirs " + theirs + ">"
	}
	if before, rest, has := strings.Cut(text, "const lock = "); has {
		_, limit, _ := strings.Cut(before, "const limit = ")
		limit, _, _ = strings.Cut(limit, " //")
		lock, _, _ := strings.Cut(rest, " //")
		return "<plugin, limit " + limit + ", lock " + lock + ">"
	}
	_, rest, _ := strings.Cut(text, "const attached = ")
	attached, _, _ := strings.Cut(rest, " ===")
	return "<plugin, attached " + attached + ">"
}

func TestNoCommandLine(t *testing.T) {
	for _, adapter := range Adapters() {
		p, _ := For(adapter)
		for _, argv := range [][]string{nil, {""}} {
			if _, err := p.Prepare(argv, Host{}); err == nil {
				t.Errorf("%s: a launch of %q has no error", adapter, argv)
			}
		}
	}
}

// Prepare must work with an empty Host.
func TestBareHost(t *testing.T) {
	for _, adapter := range Adapters() {
		p, _ := For(adapter)
		for _, read := range []func(string) ([]byte, error){nil, func(string) ([]byte, error) { return nil, errors.New("no disk") }} {
			l, err := p.Prepare([]string{"prog", "--settings", "x"}, Host{ReadFile: read})
			require.NoError(t, err, adapter)
			if l.Argv[0] != "prog" || l.Plain {
				t.Errorf("%s: %+v", adapter, l)
			}
		}
	}
}

// decoderName names a decoder by its type: claude-registry for *claude.registry.
func decoderName(constructor func() telemetry.Decoder) string {
	return strings.ReplaceAll(strings.TrimPrefix(fmt.Sprintf("%T", constructor()), "*"), ".", "-")
}
