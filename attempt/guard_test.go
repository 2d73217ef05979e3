package attempt

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func rule(id string, on RuleOn, pattern string, severity Severity, recoverable bool) Rule {
	return Rule{ID: id, On: on, Pattern: regexp.MustCompile(pattern), Severity: severity, Recoverable: recoverable}
}

func TestRulesSeePartialLines(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{
		rule("mild", OnOutput, "damn", Warning, true),
		rule("key", OnOutput, `^sk-\d+$`, Grave, false),
		rule("late", OnOutput, "never checked after a fatal one", Error, true),
		rule("whole", OnExit, "(?s)begin.*end", Error, true),
	}}})
	require.Empty(t, w.Text([]byte("begin\nda"), false))
	require.Equal(t, []Finding{{Rules: []RuleResult{
		{ID: "mild", Severity: Warning, Recoverable: true},
		{ID: "key", Passed: true, Severity: Grave},
		{ID: "late", Passed: true, Severity: Error, Recoverable: true},
	}}}, w.Text([]byte("mn\ndamn again\n"), false), "a line may come in pieces, and a broken rule is reported once")
	_, broken := w.Broken()
	require.False(t, broken, "a warning does not fail the attempt")

	require.Empty(t, w.Text([]byte("sk-12 \nxsk-34\n"), false), "an anchored pattern sees one line")
	found := w.Text([]byte("\x1b[1msk-\x1b[0m56\r\nend\n"), false)
	require.Equal(t, []Finding{{Rules: []RuleResult{
		{ID: "mild", Passed: true, Severity: Warning, Recoverable: true},
		{ID: "key", Severity: Grave},
	}}}, found, "colours are not text, and fatal stops later rules")
	r, broken := w.Broken()
	require.True(t, broken && r.Stops())
	require.Equal(t, "key", r.ID)
	require.Equal(t, []RuleResult{{ID: "whole", Severity: Error, Recoverable: true}}, w.End())
}

func TestDriftIsRepetition(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Repeat: 3}})
	require.Empty(t, w.Text([]byte("again\n  again \n\nother\nagain\nagain\n"), false), "empty lines are ignored, other lines end the series")
	require.Equal(t, []Finding{{Drift: true}}, w.Text([]byte("\x1b[2Kagain\n"), false), "spaces and colours are ignored")
	require.Empty(t, w.Text([]byte("again\nagain\n"), false), "drift is reported once")

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	piece := strings.Repeat("x", 64<<10) + "\n" // the pieces of an endless line are alike
	require.Empty(t, w.Text([]byte(piece+piece+piece), false))

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	require.False(t, w.Tool("Bash", "sha256:1"))
	require.False(t, w.Tool("Bash", "sha256:2"))
	require.True(t, w.Tool("Bash", "sha256:2"), "the same call with the same arguments")

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	require.Empty(t, w.Text([]byte("spin"), true))
	require.Equal(t, []Finding{{Drift: true}}, w.Text([]byte("spin"), true), "a whole piece needs no newline")
	require.Equal(t, int64(2), w.Units())
}

func TestPrinted(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, " \t\r\n": false, "\x1b[?25l\x1b[2J\x1b]0;title\x07\x1b(B": false, "\x1bP1$r0m\x1b\\": false, "\x00\x07\x7f": false, " ": false,
		"x": true, "\x1b[31mx": true, "·": true, "\x1b]0;t\x1b\\y": true,
	} {
		w := NewWatch(&Policy{Checks: Checks{ZeroOutput: true}})
		w.Text([]byte(text), false)
		require.Equal(t, want, w.Printed(), "%q", text)
	}
}

// TestPiecesMakeNoDifference checks that the findings do not depend on how the text
// is cut.
func TestPiecesMakeNoDifference(t *testing.T) {
	policy := &Policy{Checks: Checks{Repeat: 3, Rules: []Rule{rule("a", OnOutput, "ab+c", Warning, true), rule("b", OnExit, `a\nb`, Error, true)}}}
	rapid.Check(t, func(r *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "\n", "\r\n", "\r", "\x1b[1m", "\x1b]2;x\x07", " ", "é"})).Draw(r, "text"), ""))
		whole, pieces := NewWatch(policy), NewWatch(policy)
		drift := func(fs []Finding) (n int) {
			for _, f := range fs {
				if f.Drift {
					n++
				}
			}
			return n
		}
		a := drift(whole.Text(text, false))
		b := 0
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(r, "cut")
			b += drift(pieces.Text(rest[:n], false))
			rest = rest[n:]
		}
		require.Equal(r, a, b)
		require.Equal(r, whole.End(), pieces.End())
		require.Equal(r, whole.broken, pieces.broken)
		require.Equal(r, whole.Units(), pieces.Units())
		require.Equal(r, whole.Printed(), pieces.Printed())
	})
}

func TestALongTextIsBounded(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{rule("end", OnExit, `z$`, Error, true), rule("far", OnExit, "^A", Error, true), rule("line", OnOutput, "needle", Error, true)}}})
	w.Text([]byte("A"), false)
	chunk := bytes.Repeat([]byte("y"), 1<<20)
	for range 12 {
		w.Text(chunk, false)
	}
	w.Text([]byte("needlez"), false)
	require.LessOrEqual(t, len(w.text), 2*textLimit+1<<20)
	require.LessOrEqual(t, len(w.line), 2<<20)
	require.Equal(t, []bool{false, true}, []bool{w.End()[0].Passed, w.End()[1].Passed}, "exit rules see the last bytes")
	require.True(t, w.broken["line"])
}
