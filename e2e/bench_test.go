//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pairsVar is the variable that requests the measurement. Its value is the
// number of pairs.
const pairsVar = "E2E_BENCH"

// noOpHook are settings of Claude Code with one hook, which does nothing.
const noOpHook = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"true"}]}]}}`

// TestStartUp measures the time from the start of each harness to its prompt,
// alternately bare and wrapped, and compares the median of the ratios with a
// target. It runs only on request (make bench-real), since its figures mean
// nothing on a busy machine.
func TestStartUp(t *testing.T) {
	if os.Getenv(insideVar) == "" && os.Getenv(pairsVar) == "" {
		t.Skip("make bench-real measures it")
	}
	for _, c := range []struct {
		kind
		argv, flags []string
		files       map[string]string // in the home, in addition to the harness's seed
		floor       []string          // if set, a bare start with these added arguments takes the place of the wrapped start
		name        string
		ready       func(r *run) bool
		target      float64
	}{
		{kind: claude, name: "claude", argv: claudeArgs(), files: map[string]string{".claude/settings.json": `{"cleanupPeriodDays": 90}`}, target: 1.1, ready: claudeIdle},
		// Claude Code starts faster without settings. In a home without settings of the
		// user, only the wrapped Claude Code has settings.
		{kind: claude, name: "claude, new home", argv: claudeArgs(), target: 1.1, ready: claudeIdle},
		// The floor is the time that Claude Code itself needs for a hook that
		// does nothing.
		{kind: claude, name: "claude, no-op hook", argv: claudeArgs(), floor: []string{"--settings", noOpHook}, target: 1.1, ready: claudeIdle},
		{kind: codex, name: "codex", argv: codexArgs("--no-daemon"), target: 1.1, ready: func(r *run) bool { return r.codexState() == "idle" }},
		{kind: gemini, name: "gemini", argv: geminiArgs(), target: 1.1, ready: geminiPrompts},
		{kind: gemini, name: "gemini with hooks", argv: geminiArgs(), flags: []string{"--hooks", "always"}, target: 1.1, ready: geminiPrompts},
		{kind: opencode, name: "opencode", argv: opencodeArgs(), target: 1.2, ready: func(r *run) bool { return strings.Contains(r.shown(), "Ask anything") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inSequence(t, c.kind, func(t *testing.T) {
				pairs, err := strconv.Atoi(os.Getenv(pairsVar))
				require.NoError(t, err)
				w := newWorld(t, story{harness: c.kind, files: c.files})
				start := func(wrapped bool) time.Duration {
					argv := c.argv
					switch {
					case wrapped && c.floor != nil:
						wrapped, argv = false, slices.Concat(argv, c.floor)
					case wrapped:
						argv = slices.Concat([]string{filepath.Join(programs, "lifeloop-wrap"), "run"}, c.flags, []string{"--"}, argv)
					}
					began := time.Now()
					r := w.launch(story{harness: c.kind, tty: true}, wrapped, argv)
					for !c.ready(r) {
						if time.Since(began) > patience || r.over() {
							t.Fatalf("no prompt\n%s", r.scene())
						}
						time.Sleep(time.Millisecond)
					}
					took := time.Since(began)
					endEverything(t)
					// A killed Claude Code leaves its entry in this folder.
					require.NoError(t, os.RemoveAll(home+"/.claude/sessions"))
					return took
				}
				start(false) // the first start after an installation takes longer
				start(true)
				var bare, wrapped []time.Duration
				var ratios []float64
				for i := range pairs {
					var b, w time.Duration
					if i%2 == 0 {
						b, w = start(false), start(true)
					} else {
						w, b = start(true), start(false)
					}
					bare, wrapped, ratios = append(bare, b), append(wrapped, w), append(ratios, float64(w)/float64(b))
				}
				slices.Sort(ratios)
				ratio := ratios[len(ratios)/2]
				load, _ := os.ReadFile("/proc/loadavg")
				fmt.Printf("start-up  %-18s %-9s bare %4d ms (fastest %4d)  wrapped %4d ms (fastest %4d)  ratio %.2f (%.2f to %.2f, %d pairs)  target %.1f  load %s\n", c.name, running[c.kind.name],
					median(bare).Milliseconds(), slices.Min(bare).Milliseconds(), median(wrapped).Milliseconds(), slices.Min(wrapped).Milliseconds(), ratio, ratios[0], ratios[len(ratios)-1], pairs, c.target, strings.Fields(string(load))[0])
				if c.floor == nil && ratio > c.target {
					t.Errorf("%s starts %.2f times as slowly as bare; the target is %.1f", c.name, ratio, c.target)
				}
			})
		})
	}
}

func claudeIdle(*run) bool { return claudeRegistry().Status == "idle" }

func geminiPrompts(r *run) bool {
	return strings.Contains(r.title(), "Ready") && strings.Contains(r.shown(), "Type your message")
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
