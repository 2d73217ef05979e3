package yaml

import (
	"strings"
	"testing"
)

// Nesting is limited in every notation, because the parser's time and stack grow
// with it.
func TestNesting(t *testing.T) {
	indented := func(levels int, line string) string {
		var text strings.Builder
		for i := range levels {
			text.WriteString(strings.Repeat(" ", i) + line + "\n")
		}
		return text.String()
	}
	for _, c := range []struct{ name, text, want string }{
		{"brackets", strings.Repeat("[", 101), "brackets nest deeper than 100"},
		{"mappings by indentation", indented(101, "a:"), "line 101: lists and mappings nest deeper than 100"},
		{"lists in one line", "\n" + strings.Repeat("- ", 101) + "a", "line 2: lists and mappings nest deeper than 100"},
		{"many of them", strings.Repeat("- ", 32<<10), "line 1: lists and mappings nest deeper than 100"},
		{"keys in one line", strings.Repeat("? ", 32<<10), "line 1: lists and mappings nest deeper than 100"},
		{"lists by indentation", indented(101, "-"), "line 101: lists and mappings nest deeper than 100"},
		{"as deep as allowed", indented(99, "a:") + strings.Repeat(" ", 99) + "a: 1\n", ""},
		{"a long list", strings.Repeat("- a\n", 200), ""},
		{"a long text", "a: |\n" + strings.Repeat("  - x\n", 200), ""},
		{"comments", "a: 1\n" + indented(200, "# -"), ""},
	} {
		_, err := Parse([]byte(c.text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
