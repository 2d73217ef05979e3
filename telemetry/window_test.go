package telemetry

import "testing"

func TestModelWindow(t *testing.T) {
	for _, c := range []struct {
		model  string
		tokens int64
		source string
	}{
		{"claude-opus-4-8[1m]", 1_000_000, "suffix"},
		{"claude-sonnet-4-5[1m]", 1_000_000, "suffix"},
		{"claude-sonnet-4-5", 200_000, "table"},
		{"claude-sonnet-4-5-20250929", 200_000, "table"},
		{"claude-sonnet-4-6", 200_000, "table"},
		{"claude-opus-4-6", 200_000, "table"},
		{"claude-opus-4-8", 0, ""},
		{"claude-sonnet-4-50", 0, ""},
		{"claude-opus-5-5", 1_000_000, "table"},
		{"claude-opus-5-5-20261101", 1_000_000, "table"},
		{"claude-sonnet-5", 1_000_000, "table"},
		{"claude-opus-5", 0, ""},
		{"gpt-5.2-codex", 0, ""},
		{"gemini-2.5-pro", 1_048_576, "table"},
		{"gemini-3-flash-preview", 1_048_576, "table"},
		{"gemma-4-31b-it", 256_000, "table"},
		{"gemma-3-27b-it", 0, ""},
		{"geminid", 0, ""},
		{"", 0, ""},
	} {
		tokens, source := ModelWindow(c.model)
		if tokens != c.tokens || source != c.source {
			t.Errorf("ModelWindow(%q) = %d, %q; want %d, %q", c.model, tokens, source, c.tokens, c.source)
		}
	}
}

func TestWindowOf(t *testing.T) {
	windows := map[string]int64{"local": 32_000, "local-coder": 131_072, "claude-opus-4-8[1m]": 900_000}
	for model, want := range map[string]int64{"local": 32_000, "local-7b": 32_000, "local-coder-7b": 131_072, "local-coder@2": 131_072,
		"locally": 0, "claude-opus-4-8[1m]": 900_000, "claude-opus-4-8": 0, "": 0} {
		if got := WindowOf(windows, model); got != want {
			t.Errorf("WindowOf(%q) = %d, want %d", model, got, want)
		}
	}
}

func TestSameModel(t *testing.T) {
	for _, same := range [][2]string{
		{"claude-opus-4-8", "claude-opus-4-8[1m]"}, {"claude-sonnet-4-5", "claude-sonnet-4-5-20250929[1m]"},
		{"us.anthropic.claude-opus-4-8-20260101-v1:0", "claude-opus-4-8"}, {"claude-opus-4-8@20260101", "claude-opus-4-8"},
		{"anthropic/claude-opus-4-8", "claude-opus-4-8-latest"}, {"opus[1m]", "claude-opus-4-8"}, {"gpt-9", "gpt-9"},
	} {
		if !SameModel(same[0], same[1]) || !SameModel(same[1], same[0]) {
			t.Errorf("SameModel(%q) = false", same)
		}
	}
	for _, differ := range [][2]string{
		{"claude-opus-4", "claude-opus-4-8"}, {"claude-opus-4-8", "claude-sonnet-4-8"}, {"opus", "claude-sonnet-4-8"}, {"gpt-5.2", "gpt-5.2-codex"},
		{"gemini-2.5-flash", "gemini-2.5-flash-lite"}, {"opus", ""}, {"", "claude-opus-4-8"},
	} {
		if SameModel(differ[0], differ[1]) || SameModel(differ[1], differ[0]) {
			t.Errorf("SameModel(%q) = true", differ)
		}
	}
}
