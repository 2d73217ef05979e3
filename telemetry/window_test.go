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
