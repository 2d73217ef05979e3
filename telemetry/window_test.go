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
