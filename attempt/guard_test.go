package attempt

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func rule(id string, on RuleOn, pattern string, severity Severity, recoverable bool) Rule {
	return Rule{ID: id, On: on, Pattern: regexp.MustCompile(pattern), Severity: severity, Recoverable: recoverable}
}

// text passes b in one call as output of a single stream, and returns the
// findings.
func text(w *Watch, b string, whole bool) (found []Finding) {
	for f := range w.Text(time.Time{}, 0, []byte(b), whole) {
		if f.Rules != nil || f.Drift {
			found = append(found, f)
		}
	}
	return found
}

func TestRulesSeePartialLines(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{
		rule("mild", OnOutput, "damn", Warning, true),
		rule("key", OnOutput, `^sk-\d+$`, Grave, false),
		rule("late", OnOutput, "not in this text", Error, true),
		rule("whole", OnExit, "(?s)begin.*end", Error, true),
	}}})
	require.Empty(t, text(w, "begin\nda", false))
	require.Equal(t, []Finding{{Units: 2, Rules: []RuleResult{
		{ID: "mild", Severity: Warning, Recoverable: true},
		{ID: "key", Passed: true, Severity: Grave},
		{ID: "late", Passed: true, Severity: Error, Recoverable: true},
	}}}, text(w, "mn\ndamn again\n", false), "a line may come in pieces, and a broken rule is reported once")
	_, broken := w.Broken()
	require.False(t, broken, "a warning does not fail the attempt")

	require.Empty(t, text(w, "sk-12 \nxsk-34\n", false), "an anchored pattern sees one line")
	found := text(w, "\x1b[1msk-\x1b[0m56\r\nend\n", false)
	require.Equal(t, []Finding{{Units: 6, Rules: []RuleResult{
		{ID: "mild", Passed: true, Severity: Warning, Recoverable: true},
		{ID: "key", Severity: Grave},
		{ID: "late", Passed: true, Severity: Error, Recoverable: true},
	}}}, found, "colours are not text")
	r, broken := w.Broken()
	require.True(t, broken && r.Stops())
	require.Equal(t, "key", r.ID)
	require.Equal(t, []RuleResult{{ID: "whole", Severity: Error, Recoverable: true}}, w.End())
}

// TestAFatalRuleHidesNoOther checks that every rule that a line breaks is
// reported. So a rule that ends the attempt is found even if a fatal rule that
// allows a retry is broken first.
func TestAFatalRuleHidesNoOther(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{rule("worst", OnOutput, "X", Grave, true), rule("stops", OnOutput, "Y", Error, false),
		rule("first", OnExit, "X", Grave, true), rule("second", OnExit, "Y", Error, true)}}})
	require.Equal(t, []Finding{{Units: 1, Rules: []RuleResult{{ID: "worst", Severity: Grave, Recoverable: true}, {ID: "stops", Severity: Error}}}}, text(w, "X Y\n", false))
	r, broken := w.Broken()
	require.True(t, broken && r.Stops())
	require.Equal(t, "stops", r.ID)
	require.Equal(t, []RuleResult{{ID: "first", Severity: Grave, Recoverable: true}, {ID: "second", Severity: Error, Recoverable: true}}, w.End())
}

// TestCleanOutput checks that rules which were not broken have results too.
func TestCleanOutput(t *testing.T) {
	p := &Policy{Checks: Checks{Rules: []Rule{rule("a", OnOutput, "x", Warning, true), rule("b", OnExit, "y", Error, true), rule("c", OnOutput, "z", Error, false)}}}
	w := NewWatch(p)
	text(w, "fine\n", false)
	require.Equal(t, []RuleResult{{ID: "a", Passed: true, Severity: Warning, Recoverable: true}, {ID: "c", Passed: true, Severity: Error}}, w.Clean())
	text(w, "x\n", false)
	require.Empty(t, w.Clean(), "the violation was reported with the results of the other rules")
	require.Empty(t, NewWatch(&Policy{}).Clean())
}

func TestDriftIsRepetition(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Repeat: 3}})
	require.Empty(t, text(w, "again\n  again \n\nother\nagain\nagain\n", false), "empty lines are ignored, other lines end the series")
	require.Equal(t, []Finding{{Units: 7, Drift: true}}, text(w, "\x1b[2Kagain\n", false), "spaces and colours are ignored")
	require.Empty(t, text(w, "again\nagain\n", false), "drift is reported once")

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	piece := strings.Repeat("x", 64<<10) + "\n" // a line longer than loopLimit is not compared for drift
	require.Empty(t, text(w, piece+piece+piece, false))

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	require.False(t, w.Tool("Bash", "sha256:1"))
	require.False(t, w.Tool("Bash", "sha256:2"))
	require.True(t, w.Tool("Bash", "sha256:2"), "the same call with the same arguments")

	w = NewWatch(&Policy{Checks: Checks{Repeat: 2}})
	require.Empty(t, text(w, "spin", true))
	require.Equal(t, []Finding{{Units: 2, Drift: true}}, text(w, "spin", true), "a whole piece needs no newline")
	require.Equal(t, int64(2), w.units)
}

func TestPrinted(t *testing.T) {
	for output, want := range map[string]bool{
		"": false, " \t\r\n": false, "\x1b[?25l\x1b[2J\x1b]0;title\x07\x1b(B": false, "\x1bP1$r0m\x1b\\": false, "\x00\x07\x7f": false, " ": false,
		"x": true, "\x1b[31mx": true, "·": true, "\x1b]0;t\x1b\\y": true,
	} {
		w := NewWatch(&Policy{Checks: Checks{ZeroOutput: true}})
		text(w, output, false)
		for range w.Close() {
		}
		require.Equal(t, want, w.Printed(), "%q", output)
	}
}

// The lines of each stream are checked separately, and the last line needs no
// newline.
func TestStreamsDoNotMix(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Repeat: 2, Rules: []Rule{rule("key", OnOutput, "^sk-1$", Error, true), rule("whole", OnExit, "sk-\nout", Error, true)}}})
	var units []int64
	see := func(stream int, b string) {
		for f := range w.Text(time.Time{}, stream, []byte(b), false) {
			require.Empty(t, f.Rules)
			require.False(t, f.Drift)
			units = append(units, f.Units)
		}
	}
	see(0, "out")
	see(1, "sk-")
	see(0, "put\nsk-")
	see(1, "\n1\n")
	see(0, "\nout")
	require.Equal(t, []int64{1, 2, 3, 4}, units)
	for f := range w.Close() {
		units = append(units, f.Units)
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5}, units)
	require.False(t, w.End()[0].Passed)
}

// An incomplete line is checked only if its rest does not arrive in time.
func TestPartOfALine(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{rule("prompt", OnOutput, "Password:$", Error, true)}}})
	see := func(ms, stream int, b string) {
		for range w.Text(at(ms), stream, []byte(b), false) {
		}
	}
	examined := func(ms int) (found []Finding) { return slices.Collect(w.Examine(at(ms))) }
	see(0, 0, "Pass")
	see(100, 0, "word:")
	see(150, 1, "x")
	require.Equal(t, at(0), w.Oldest())
	require.Empty(t, examined(-1))
	require.Len(t, examined(0), 1)
	require.Equal(t, at(150), w.Oldest(), "that of the other stream")
	see(200, 1, "\ny")
	require.Equal(t, at(200), w.Oldest(), "each line has its own time")
	require.Empty(t, examined(200))
	require.Zero(t, w.Oldest())
}

// TestPiecesMakeNoDifference checks that no result depends on how the text is
// divided into reads.
func TestPiecesMakeNoDifference(t *testing.T) {
	policy := &Policy{Checks: Checks{Repeat: 3, Rules: []Rule{rule("a", OnOutput, "ab+c", Warning, true), rule("c", OnOutput, "^b", Error, true),
		rule("b", OnExit, `a\nb`, Error, true), rule("f", OnOutput, `ca`, Grave, false), rule("d", OnOutput, `c$`, Error, true)}}}
	long := strings.Repeat("yb", lineLimit/3)
	parts := []string{"a", "b", "c", "\n", "\r\n", "\r", "\x1b[1m", "\x1b]2;x\x07", " ", "é", "\u00a0", long}
	rapid.Check(t, func(r *rapid.T) {
		output := strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(r, "text"), "")
		check := func(cut func(n int) int) (results []any) {
			w := NewWatch(policy)
			add := func(f Finding) { results = append(results, f) }
			for rest := output; len(rest) > 0; {
				n := cut(len(rest))
				for f := range w.Text(time.Time{}, 0, []byte(rest[:n]), false) {
					add(f)
				}
				rest = rest[n:]
			}
			for f := range w.Close() {
				add(f)
			}
			return append(results, w.End(), w.broken, w.units, w.Printed(), w.text)
		}
		whole := check(func(n int) int { return n })
		require.Equal(r, whole, check(func(n int) int { return rapid.IntRange(1, n).Draw(r, "cut") }))
	})
}

func TestALongTextIsBounded(t *testing.T) {
	w := NewWatch(&Policy{Checks: Checks{Rules: []Rule{rule("end", OnExit, `z$`, Error, true), rule("far", OnExit, "^A", Error, true), rule("line", OnOutput, "needle", Error, true)}}})
	text(w, "A", false)
	chunk := strings.Repeat("y", 1<<20)
	for range 12 {
		text(w, chunk, false)
	}
	text(w, "needlez", false)
	for range w.Close() {
	}
	require.LessOrEqual(t, len(w.text), 2*textLimit+1<<20)
	require.LessOrEqual(t, cap(w.streams[0].line), 2*lineLimit)
	require.Equal(t, []bool{false, true}, []bool{w.End()[0].Passed, w.End()[1].Passed}, "exit rules see the last bytes")
	require.True(t, w.broken["line"])
}

// TestUnitsOfAFinding checks that a finding has the number of its line. A line is
// examined when it is complete, or before that if its rest is late.
func TestUnitsOfAFinding(t *testing.T) {
	policy := &Policy{Checks: Checks{Rules: []Rule{rule("secret", OnOutput, "SECRET", Error, true)}}}
	for output, line := range map[string]int64{
		"a\nb\nSECRET tail":              3,
		"a\nb\nSECRET tail\n":            3,
		"a\r\nSECRET tail\r\nok\r\n":     2,
		"a\r\r\nSECRET tail\r\r\nok\r\n": 2, // a pty makes "\r\r\n" of "\r\n"
		"a\n1%\r2% SECRET\r3%\n":         2,
		strings.Repeat("y", lineLimit) + "SECRET" + strings.Repeat("y", lineLimit) + "\n": 1,
	} {
		for _, piece := range []int{len(output), 7, 1} {
			w := NewWatch(policy)
			var units []int64
			add := func(all iter.Seq[Finding]) {
				for f := range all {
					if f.Rules != nil {
						units = append(units, f.Units)
					}
				}
			}
			for chunk := range slices.Chunk([]byte(output), piece) {
				add(w.Text(time.Time{}, 0, chunk, false))
				if piece < 7 || len(output) < lineLimit {
					add(w.Examine(time.Time{}))
				}
			}
			add(w.Close())
			require.Equal(t, []int64{line}, units, "%.40q in pieces of %d", output, piece)
		}
	}
	w := NewWatch(policy)
	text(w, "one", true)
	require.EqualValues(t, 2, text(w, strings.Repeat("y", lineLimit)+"SECRET"+strings.Repeat("y", lineLimit), true)[0].Units, "a whole piece is one unit")
}

// TestACharacterInPieces checks that no rule sees half of a character, wherever the
// output is examined or cut.
func TestACharacterInPieces(t *testing.T) {
	policy := &Policy{Checks: Checks{Rules: []Rule{rule("garbled", OnOutput, `\x{FFFD}`, Error, true), rule("all", OnExit, `\x{FFFD}`, Error, true)}}}
	for output, garbled := range map[string]bool{
		"é\n": false, "a€": false, "😀!\n": false, "é\r€\r\n": false,
		strings.Repeat("€", lineLimit) + "\n": false, strings.Repeat("😀", lineLimit/3) + "é": false,
		strings.Repeat("€", textLimit) + "!\n": false,
		"a\xe2\x82\n":                          true, "a\xe2\x82": true, "\xe9a\n": true, "\x80": true, strings.Repeat("y", lineLimit) + "\xe2\n": true,
	} {
		piece := 1 + len(output)/lineLimit*1000
		w := NewWatch(policy)
		for chunk := range slices.Chunk([]byte(output), piece) {
			for range w.Text(time.Time{}, 0, chunk, false) {
			}
			for range w.Examine(time.Time{}) {
			}
			require.True(t, w.Oldest().IsZero(), "%.20q", output)
		}
		for range w.Close() {
		}
		require.Equal(t, garbled, w.broken["garbled"], "%.20q", output)
		require.Equal(t, !garbled, w.End()[0].Passed, "%.20q", output)
	}
}
