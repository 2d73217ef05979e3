package profiles

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// mergeHooks appends our hooks to the user's hooks, keeps the user's hooks in their
// order, and changes no other setting.
func TestMergeKeepsTheUsersHooks(t *testing.T) {
	injected := claudeGroups([]string{"/opt/ll", "hook"}, false, 0)
	events := append(slices.Collect(maps.Keys(injected)), "Setup", "PreToolUse", "some new event")
	slices.Sort(events)
	group := rapid.Custom(func(t *rapid.T) json.RawMessage {
		g := map[string]any{"hooks": []any{map[string]any{
			"type": "command", "command": rapid.String().Draw(t, "command"), "timeout": rapid.IntRange(0, 600).Draw(t, "timeout"),
		}}}
		if rapid.Bool().Draw(t, "matched") {
			g["matcher"] = rapid.StringMatching(`[A-Za-z|*]{0,8}`).Draw(t, "matcher")
		}
		return encode(g)
	})
	rapid.Check(t, func(t *rapid.T) {
		hooks := map[string][]json.RawMessage{}
		for _, e := range rapid.SliceOfNDistinct(rapid.SampledFrom(events), 0, len(events), rapid.ID).Draw(t, "events") {
			hooks[e] = rapid.SliceOfN(group, 0, 3).Draw(t, "groups of "+e)
			if hooks[e] == nil {
				hooks[e] = []json.RawMessage{}
			}
		}
		user := settings{}
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			user[fmt.Sprint("member", i)] = encode(rapid.String().Draw(t, "value"))
		}
		if len(hooks) > 0 || rapid.Bool().Draw(t, "empty hooks") {
			user["hooks"] = encode(hooks)
		}

		merged, err := mergeHooks(user, injected)
		if err != nil {
			t.Fatal(err)
		}
		for name, raw := range user {
			if name != "hooks" && string(merged[name]) != string(raw) {
				t.Fatalf("%s was %s and is %s", name, raw, merged[name])
			}
		}
		if more := len(merged) - len(user); more != 0 && !(more == 1 && user["hooks"] == nil) {
			t.Fatalf("%d members were added", more)
		}
		var got map[string][]json.RawMessage
		if err := json.Unmarshal(merged["hooks"], &got); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			want := slices.Clone(hooks[e])
			if ours, ok := injected[e]; ok {
				for _, g := range ours {
					want = append(want, encode(g))
				}
			}
			if fmt.Sprintf("%s", got[e]) != fmt.Sprintf("%s", want) {
				t.Fatalf("%s has\n%s\nwant\n%s", e, got[e], want)
			}
		}
	})
}

// A lineWriter composes a random command line of Claude Code and records its
// meaning.
type lineWriter struct {
	*rapid.T
	options        map[string]option
	byArity        map[arity][]string
	word, anything *rapid.Generator[string]

	args       []string
	settingsAt []int
	seen       map[string]bool
	prompts    int
	open       bool // the last option would take the next word as its value
}

func newLineWriter() lineWriter {
	w := lineWriter{options: claudeOptions(), byArity: map[arity][]string{}}
	w.word = rapid.StringMatching(`[a-z]{1,6}( [a-z]{1,4})?`).Filter(func(s string) bool { return !slices.Contains(claudeCommands, s) })
	// anything draws a value for an option that takes the next word, even if that
	// word looks like an option.
	w.anything = rapid.OneOf(w.word, rapid.SampledFrom([]string{"--settings", "--version", "-h", "mcp", "--session-id", "-"}))
	for name, o := range w.options {
		if o.name == "--settings" || o.name == "--help" || o.name == "--version" || o.name == "--print" {
			continue
		}
		w.byArity[o.arity] = append(w.byArity[o.arity], name)
	}
	for _, names := range w.byArity {
		slices.Sort(names)
	}
	return w
}

func (w *lineWriter) option(a arity) string {
	name := rapid.SampledFrom(w.byArity[a]).Draw(w.T, "option")
	w.seen[w.options[name].name] = true
	return name
}

func (w *lineWriter) part() {
	add := func(open bool, words ...string) { w.args, w.open = append(w.args, words...), open }
	switch rapid.SampledFrom([]string{"flag", "value", "attached", "optional", "variadic", "settings", "prompt"}).Draw(w.T, "part") {
	case "flag":
		add(false, w.option(flag))
	case "value":
		add(false, w.option(value), w.anything.Draw(w.T, "value"))
	case "attached":
		name := w.option(value)
		if strings.HasPrefix(name, "--") {
			name += "="
		}
		add(false, name+w.word.Draw(w.T, "value"))
	case "optional":
		add(true, w.option(optional))
		if rapid.Bool().Draw(w.T, "with value") {
			add(false, w.word.Draw(w.T, "value"))
		}
	case "variadic":
		add(true, w.option(variadic))
		add(true, rapid.SliceOfN(w.word, 1, 3).Draw(w.T, "values")...)
	case "settings":
		if rapid.Bool().Draw(w.T, "attached") {
			add(false, "--settings="+w.word.Draw(w.T, "path"))
		} else {
			add(false, "--settings", w.anything.Draw(w.T, "path"))
		}
		w.settingsAt = append(w.settingsAt, len(w.args)-1)
	case "prompt":
		if !w.open {
			add(false, w.word.Draw(w.T, "prompt"))
			w.prompts++
		}
	}
}

// A command line composed of parts with a known meaning is parsed with that
// meaning, in any order of the parts.
func TestParseClaudeKeepsTheMeaning(t *testing.T) {
	fresh := newLineWriter()
	rapid.Check(t, func(t *rapid.T) {
		w := fresh
		w.T, w.seen = t, map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			w.part()
		}
		command := ""
		if !w.open && w.prompts == 0 && rapid.Bool().Draw(t, "subcommand") {
			command = rapid.SampledFrom(claudeCommands).Draw(t, "command")
			w.args = append(w.args, command, "--version", "--settings", "x")
		}

		l, _ := parseClaude(w.args)
		if l.command != command {
			t.Fatalf("%q: subcommand %q, want %q", w.args, l.command, command)
		}
		var at []int
		for _, p := range l.commandLine {
			switch {
			case p.name == "--settings":
				at = append(at, p.at)
			case p.name != "" && !w.seen[p.name]:
				t.Fatalf("%q: found %s, which was not given", w.args, p.name)
			}
		}
		if !slices.Equal(at, w.settingsAt) {
			t.Fatalf("%q: --settings at %v, want %v", w.args, at, w.settingsAt)
		}
		for name := range w.seen {
			if !l.has(name) {
				t.Fatalf("%q: missed %s", w.args, name)
			}
		}
	})
}

// FuzzPrepare checks any command line: it can be launched, it keeps the user's
// words in their order, and the environment has one socket.
func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		"claude\x00--settings\x00{}", "claude\x00--settings", "claude\x00--allowedTools\x00a\x00--settings=x\x00b", "claude\x00-cpr\x00x",
		"codex\x00exec\x00-c", "codex\x00-chooks.Stop=[]", "codex\x00-i\x00a\x00resume", "codex\x00-c\x00hooks.state={}", "x\x00--\x00-", "claude\x00-",
	} {
		f.Add(seed, "{\"hooks\":{}}", true)
	}
	f.Fuzz(func(t *testing.T, line, file string, terminal bool) {
		argv := strings.Split(line, "\x00")
		if argv[0] == "" {
			t.Skip("no program")
		}
		host := Host{
			Env: []string{"HOME=/h", "LIFELOOP_SOCKET=/outer", "A=b"}, Dir: "/d", Hook: []string{"/opt/ll", "hook"}, RunDir: "/run/ll",
			Socket: "/door", SessionID: "s", NewID: "n", Terminal: terminal,
			ReadFile: func(path string) ([]byte, error) {
				if path == "" {
					return nil, fs.ErrNotExist
				}
				return []byte(file), nil
			},
		}
		for _, adapter := range Adapters() {
			p, _ := For(adapter)
			before := slices.Clone(argv)
			l, err := p.Prepare(argv, host)
			if err != nil {
				t.Fatalf("%s: %v", adapter, err)
			}
			if !slices.Equal(argv, before) {
				t.Fatalf("%s: the caller's command line was changed to %q", adapter, argv)
			}
			if l.Argv[0] != argv[0] {
				t.Fatalf("%s: starts %q instead of %q", adapter, l.Argv[0], argv[0])
			}
			tail := l.Argv[len(l.Argv)-len(argv)+1:]
			for i, word := range argv[1:] {
				ours := tail[i] == "/run/ll/claude-settings.json" || tail[i] == "--settings=/run/ll/claude-settings.json"
				if tail[i] != word && !ours {
					t.Fatalf("%s: word %d of %q became %q", adapter, i+1, argv, tail[i])
				}
			}
			if l.Plain && (len(l.Argv) != len(argv) || l.Hooks || l.Files != nil) {
				t.Fatalf("%s: a plain launch has something injected: %+v", adapter, l)
			}
			// If our hooks are injected into Claude Code in a terminal, the environment
			// also has claudeHintVariable.
			hinted := adapter == "claude" && terminal && l.Hooks
			env := slices.DeleteFunc(slices.Clone(l.Env), func(kv string) bool { return hinted && strings.HasPrefix(kv, claudeHintVariable+"=") })
			if want := []string{"HOME=/h", "A=b", "LIFELOOP_SESSION_ID=s", "LIFELOOP_SOCKET=/door"}; !slices.Equal(env, want) {
				t.Fatalf("%s: environment %q, want %q", adapter, l.Env, want)
			}
			for _, file := range l.Files {
				if !json.Valid(file.Data) {
					t.Fatalf("%s: %s is not JSON: %s", adapter, file.Path, file.Data)
				}
			}
		}
	})
}

// A later launch in the same session shares no file and no new id with the first.
func TestLaterLaunchSharesNothing(t *testing.T) {
	for _, adapter := range Adapters() {
		p, _ := For(adapter)
		for _, line := range []string{"prog", "prog -p hi", "prog --session-id FIRST -p hi", "prog exec hi", "prog run hi", "prog --settings {} hi"} {
			prepare := func(number int, id string) Launch {
				l, err := p.Prepare(strings.Fields(line), Host{
					Env: []string{"HOME=/h"}, Dir: "/d", Hook: []string{"/opt/ll", "hook"}, RunDir: "/run/ll", Socket: "/door", SessionID: "s",
					NewID: id, Number: number, OTLP: "http://127.0.0.1:1/" + id, ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
				})
				require.NoError(t, err, adapter)
				return l
			}
			first, second := prepare(1, "FIRST"), prepare(2, "SECOND")
			require.Equal(t, fmt.Sprintf("%+v", prepare(0, "FIRST")), fmt.Sprintf("%+v", first), "no number is the first")
			if strings.Contains(line, "FIRST") && first.SessionID != "FIRST" {
				continue // this harness has no option for the session id
			}
			said := slices.Concat(second.Argv, second.Env, []string{second.SessionID, second.Export.Chain})
			for i, f := range second.Files {
				require.NotEqual(t, first.Files[i].Path, f.Path, "%s: %s", adapter, line)
				said = append(said, string(f.Data))
			}
			require.Len(t, first.Files, len(second.Files))
			require.NotContains(t, strings.Join(said, "\n"), "FIRST", "%s: %s", adapter, line)
		}
	}
}

// A real shell parses a quoted word to the same word.
func TestQuoteIsOneWordOfTheShell(t *testing.T) {
	var script strings.Builder
	var want []string
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.OneOf(
			rapid.SampledFrom([]rune("'\"\\$`!*?[]{}()<>|&;#~ \t\n\r")),
			rapid.Rune().Filter(func(r rune) bool { return r != 0 }),
		)).Draw(t, "word")
		want = append(want, s)
		fmt.Fprintf(&script, "printf '%%s\\0' %s\n", quote(s))
	})
	out, err := exec.Command("sh", "-c", script.String()).Output()
	require.NoError(t, err)
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	require.Len(t, got, len(want))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the shell read %q as %q", want[i], got[i])
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "''", "a'b", `\'`, "$(x)", "a\nb", "-n", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip("no command line holds a zero byte")
		}
		out, err := exec.Command("sh", "-c", "printf %s "+quote(s)).Output()
		if err != nil || string(out) != s {
			t.Fatalf("the shell read %q as %q (%v)", s, out, err)
		}
	})
}

// A real shell parses a hook command into our program with its arguments and
// the event. For a status line, the user's command follows as one argument.
func TestHookCommandInTheShell(t *testing.T) {
	const user = `printf '%s' "it's $HOME"; exit 3`
	for _, hook := range [][]string{{"/opt/it's/ll", "hook"}, {"/opt/it's/ll-hook"}, {"/opt/ll", "two words", "", "$x", "-v"}} {
		raw, ok := chain(encode(map[string]any{"type": "command", "command": user, "padding": 1}), hook)
		require.True(t, ok)
		var line struct {
			Command string
			Padding int
		}
		require.NoError(t, json.Unmarshal(raw, &line))
		if line.Padding != 1 {
			t.Errorf("padding %d, want 1", line.Padding)
		}
		out, err := exec.Command("sh", "-c", `printf '<%s>' `+line.Command).Output()
		require.NoError(t, err)
		if want := "<" + strings.Join(hook, "><") + "><Statusline><--then><" + user + ">"; string(out) != want {
			t.Errorf("the shell reads %s, want %s", out, want)
		}
	}
}

// FuzzStrings checks that the result of tomlString contains no raw control character, and
// that this result, decoded as JSON, is the original string.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "\"\\/", "\x00\x1f\x7f\b\f\n\r\t", "\u2028é😀", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("not UTF-8; nothing such is ever spelt")
		}
		var back string
		if err := json.Unmarshal([]byte(tomlString(s)), &back); err != nil || back != s {
			t.Fatalf("%s reads as %q (%v), want %q", tomlString(s), back, err, s)
		}
		if i := strings.IndexFunc(tomlString(s), func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
			t.Fatalf("TOML %q holds a control character", tomlString(s))
		}
	})
}
