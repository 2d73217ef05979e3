package profiles

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The names that Claude Code 2.1.197 gives to these folders.
func TestClaudeSlug(t *testing.T) {
	for dir, want := range map[string]string{
		"/home/dev/my_project.v2":                                "-home-dev-my-project-v2",
		"/home/café 😀":                                           "-home-caf----",
		"/" + strings.Repeat("a", 199):                           "-" + strings.Repeat("a", 199),
		"/" + strings.Repeat("a", 200):                           "-" + strings.Repeat("a", 199) + "-b6ymvl",
		"/" + strings.Repeat("b", 100) + strings.Repeat("😀", 60): "-" + strings.Repeat("b", 100) + strings.Repeat("-", 99) + "-e8h0bn",
	} {
		if got := claudeSlug(dir); got != want {
			t.Errorf("the folder of %q is %q, want %q", dir, got, want)
		}
	}
}

// The package has hand-written matchers, because compiling regular expressions
// would delay every hook call. They must match the same texts as these
// expressions.
func TestHandWrittenPatterns(t *testing.T) {
	rule := regexp.MustCompile(`^(\w+)\(/[^/]`)
	off := regexp.MustCompile(`(^|[{,])\s*"?hooks"?\s*=\s*false\b`)
	on := regexp.MustCompile(`(^|[{,])\s*"?hooks"?\s*=\s*true\b`)

	pieces := rapid.SampledFrom([]string{
		"hooks", "hook", `"`, "=", " ", "\t", "{", "}", ",", "true", "false", "_", "x", "Read", "Bash", "(", "/", "é", "\xff", "\n",
	})
	text := rapid.Custom(func(t *rapid.T) string {
		s := ""
		for _, piece := range rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces") {
			s += piece
		}
		return s
	})
	check := func(t *rapid.T, s string) {
		m := rule.FindStringSubmatch(s)
		if got, want := relativeRule(s), m != nil && m[1] != "Bash"; got != want {
			t.Fatalf("%q is a relative rule: %v, want %v", s, got, want)
		}
		gotOff, gotSet := inlineHooksOff(s)
		wantOff := off.MatchString(s)
		if wantSet := wantOff || on.MatchString(s); gotOff != wantOff || gotSet != wantSet {
			t.Fatalf("%q: off %v, set %v; want %v, %v", s, gotOff, gotSet, wantOff, wantSet)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, text.Draw(t, "text"))
		// Random strings are rarely like the texts that the matchers are used for,
		// so also check strings that are more like these texts.
		check(t, rapid.StringMatching(`(\{| )?x?,? ?"?hooks"? ?= ?(true|false)[ ,}x_]?`).Draw(t, "table")+text.Draw(t, "rest"))
		check(t, rapid.StringMatching(`(Read|Bash|Edit)?\(//?[a/é]?`).Draw(t, "rule"))
	})
}
