package kernel_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
)

// TestPiecesAndTheirTimesMakeNoDifference: the same output gives the same facts,
// however it is cut into pieces and whenever the pieces come, if each line is complete
// within 200 ms.
func TestPiecesAndTheirTimesMakeNoDifference(t *testing.T) {
	rule := func(id, pattern string, severity attempt.Severity, recoverable bool) attempt.Rule {
		return attempt.Rule{ID: id, On: attempt.OnOutput, Pattern: regexp.MustCompile(pattern), Severity: severity, Recoverable: recoverable}
	}
	cfg := defaults()
	cfg.NoTelemetry = true
	cfg.Policy = attempt.Policy{Continuation: true, CheckpointEvery: 2, Retries: attempt.Retries{Attempts: 1, MaxRetries: 1, On: attempt.DefaultOn()},
		Checks: attempt.Checks{Repeat: 3, ZeroOutput: true, Rules: []attempt.Rule{
			rule("polite", "damn", attempt.Warning, true), rule("plain", "^ok$", attempt.Error, true),
			rule("no-errors", "ERR", attempt.Error, false), rule("no-keys", "KEY", attempt.Grave, false),
			{ID: "end", On: attempt.OnExit, Pattern: regexp.MustCompile(`ok\ndamn`), Severity: attempt.Error, Recoverable: true}}}}
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"damn", "ok", "ERR", "KEY", "x", " ", "\n", "\n", "\r\n", "\x1b[1m"}), 0, 30).Draw(r, "words")
		output := strings.Join(words, "")
		whole := written(t, cfg, output, func(n int) int { return n }, 0)
		require.Equal(r, whole, written(t, cfg, output, func(n int) int { return rapid.IntRange(1, n).Draw(r, "piece") },
			time.Duration(rapid.IntRange(0, 199).Draw(r, "ms"))*time.Millisecond/time.Duration(max(1, len(output)))))
	})
}

// written returns the facts of a run that writes output in pieces, with a pause
// before each.
func written(t *testing.T, cfg kernel.Config, output string, piece func(n int) int, pause time.Duration) (facts []string) {
	n := 0
	cfg.NewID = func(prefix string) string { n++; return prefix }
	k, now, total := kernel.New(cfg), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), int64(0)
	step := func(in input.Input) {
		for _, f := range k.Step(now, in).Facts {
			switch e := f.(type) {
			case kernel.ActivitySeen, kernel.ActivityConfirmed: // may come earlier or later
				continue
			case kernel.AttemptEnded:
				e.DurationMS, e.Retry = 0, nil // these depend on the time of the first piece
				f = e
			}
			body, err := json.Marshal(f)
			require.NoError(t, err)
			facts = append(facts, kernel.Kind(f)+" "+string(body))
		}
	}
	step(input.Start{})
	step(input.Launched{PID: 1})
	step(input.CheckpointSeen{Checkpoint: "T1"})
	for rest := output; len(rest) > 0; {
		now = now.Add(pause)
		step(input.Wake{})
		n := piece(len(rest))
		total += int64(n)
		step(input.OutputSeen{Total: total, Text: []byte(rest[:n])})
		rest = rest[n:]
	}
	now = time.Date(2026, 1, 2, 3, 4, 5, int(199*time.Millisecond), time.UTC)
	step(input.ChildExited{Signal: 15})
	step(input.SourcesDrained{})
	return facts
}
