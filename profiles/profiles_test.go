package profiles

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/manifests"
)

func TestInfer(t *testing.T) {
	for _, c := range []struct{ program, want string }{
		{"claude", "claude"},
		{"/usr/local/bin/claude", "claude"},
		{"./codex", "codex"},
		{`C:\Tools\codex.exe`, "codex"},
		{`C:\Tools\Claude.EXE`, "generic"}, // program names are case-sensitive
		{"claude.EXE", "claude"},
		{"gemini", "gemini"},
		{"opencode.exe", "opencode"},
		{"openclaw", "openclaw"},
		{"hermes", "hermes"},
		{"claude/", "generic"},
		{"claude-code", "generic"},
		{"myclaude", "generic"},
		{"claude.sh", "generic"},
		{".exe", "generic"},
		{"", "generic"},
	} {
		if got := Infer(c.program); got != c.want {
			t.Errorf("Infer(%q) = %q, want %q", c.program, got, c.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	ids := Adapters()
	if !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(manifests.IDs()))) {
		t.Errorf("profiles for %v, manifests for %v", ids, manifests.IDs())
	}
	if last := ids[len(ids)-1]; last != Generic {
		t.Errorf("the last profile is %s, want generic", last)
	}
	if p, ok := For("cursor"); ok {
		t.Errorf("there is a profile for cursor: %+v", p)
	}
	for _, id := range ids {
		p, ok := For(id)
		require.True(t, ok, id)
		if p.Adapter != id || p.Prepare == nil {
			t.Errorf("the profile of %s is incomplete: %+v", id, p)
		}
		page, err := os.ReadFile("../docs/harnesses/" + id + ".md")
		for _, v := range p.Tested {
			require.NoError(t, err)
			if !strings.Contains(string(page), v) {
				t.Errorf("docs/harnesses/%s.md does not mention the tested version %s", id, v)
			}
		}
		for _, name := range p.Programs {
			if got := Infer(name); got != id {
				t.Errorf("Infer(%q) = %q, but it is a program of %s", name, got, id)
			}
		}
	}
}

// Each observable source has a decoder, and sources of rows have a query.
func TestSourcesAreComplete(t *testing.T) {
	for _, id := range Adapters() {
		p, _ := For(id)
		l, err := p.Prepare([]string{"prog"}, Host{Env: []string{"HOME=/h"}, Dir: "/d"})
		require.NoError(t, err)
		for _, s := range append(l.Sources, p.Observable()...) {
			if s.Decoder == nil || s.Decoder() == nil {
				t.Errorf("%s: source %s has no decoder", id, s.Name)
			}
			if (s.Form == Rows) != (s.Query != "") {
				t.Errorf("%s: source %s of form %q has the query %q", id, s.Name, s.Form, s.Query)
			}
		}
	}
}

func TestAnswer(t *testing.T) {
	const text = "a <b> & \"c\"\nd"
	const said = `"additionalContext":"a <b> & \"c\"\nd"}}`
	for _, c := range []struct{ adapter, event, context, want string }{
		{"claude", "UserPromptSubmit", text, `{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit",` + said},
		{"claude", "SessionStart", text, `{"hookSpecificOutput":{"hookEventName":"SessionStart",` + said},
		{"claude", "PostToolBatch", text, `{"hookSpecificOutput":{"hookEventName":"PostToolBatch",` + said},
		{"claude", "Stop", text, ""}, // an answer to Stop would make the model continue
		{"claude", "SessionEnd", text, ""},
		{"claude", "Statusline", text, ""},
		{"claude", "SessionStart", "", ""},
		{"codex", "PostToolUse", text, `{"hookSpecificOutput":{"hookEventName":"PostToolUse",` + said},
		{"codex", "PostToolBatch", text, ""},
		{"codex", "Stop", text, ""},
		{"codex", "UserPromptSubmit", "", ""},
		{"gemini", "SessionStart", text, `{"hookSpecificOutput":{"hookEventName":"SessionStart",` + said},
		{"gemini", "BeforeAgent", text, `{"hookSpecificOutput":{"hookEventName":"BeforeAgent",` + said},
		{"gemini", "AfterTool", text, `{"hookSpecificOutput":{"hookEventName":"AfterTool",` + said},
		{"gemini", "AfterAgent", text, ""}, // this hook cannot pass context to the model
		{"gemini", "BeforeAgent", "", ""},
		{"opencode", "chat.message", text, `{"context":"a <b> & \"c\"\nd"}`},
		{"opencode", "chat.message", "", ""},
		{"opencode", "session.idle", text, ""},
		{"generic", "SessionStart", text, ""},
	} {
		p, _ := For(c.adapter)
		if got := string(p.Answer(c.event, c.context)); got != c.want {
			t.Errorf("%s answers %s with %s, want %s", c.adapter, c.event, got, c.want)
		}
	}
}
