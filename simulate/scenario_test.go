package simulate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"lifeloop/kernel"
	"lifeloop/simulate"
	"lifeloop/view"
)

// TestScenarios runs every file under testdata/scenarios. Update with go test
// ./simulate -rewrite, and read the diff.
//
//	world      runs the world below it: launches, state, exit code, and whether it got stuck
//	facts      the facts for the ledger, except for Began, HarnessSessionOpened, receipts and activity
//	lifeloop   the lifecycle events
//	hcp        the events of HCP L2, except for progress and log
//	l0         the events of L0, except for those of the launch itself
//	refused    the error from reading the world below it
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var result simulate.Result
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "world":
				w, err := parse(d.Input)
				if err != nil {
					return err.Error()
				}
				result = w.Run()
				line := fmt.Sprintf("launches %s: %s, exit %d", strings.Join(result.Launches, " "), result.State, result.Code)
				if result.Stuck {
					line = fmt.Sprintf("launches %s: stuck in %s\n%s", strings.Join(result.Launches, " "), result.State, result.Why)
				}
				return line
			case "facts":
				return each(result, fact)
			case "lifeloop":
				return each(result, event)
			case "hcp":
				var hcp view.HCP
				return each(result, func(e kernel.Entry) (lines []string) {
					for _, m := range hcp.Apply(e) {
						if p := m.Payload; p.Type != "progress" && p.Type != "log" {
							lines = append(lines, p.Type+" "+text(p.Data))
						}
					}
					return lines
				})
			case "l0":
				return each(result, l0Lines(result))
			case "refused":
				_, err := parse(d.Input)
				if err == nil {
					t.Fatalf("%s: it is accepted", d.Pos)
				}
				return err.Error()
			}
			t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

// each prints the lines of every entry, with the entry's time in milliseconds
// since the start.
func each(r simulate.Result, lines func(kernel.Entry) []string) string {
	var b strings.Builder
	for _, e := range r.Entries {
		for _, line := range lines(e) {
			fmt.Fprintf(&b, "%5d %s\n", e.At.Sub(simulate.Start()).Milliseconds(), line)
		}
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// l0 returns a function that computes the events of L0, with the texts of the
// script.
func l0(r simulate.Result) func(kernel.Entry) []view.L0Event {
	text := &simulate.Text{}
	l := view.L0{
		Tool: func(string) (args, result any, ok bool) {
			if text.Words != "" {
				return nil, text.Words, true
			}
			return text.Arguments, text.Result, true
		},
		Words: func(string) string { return text.Words },
	}
	return func(e kernel.Entry) []view.L0Event {
		if text = r.Texts[e.Seq]; text == nil {
			text = &simulate.Text{}
		}
		return l.Apply(e)
	}
}

// l0Lines returns a function that prints the events of L0, without those of the
// launch itself.
func l0Lines(r simulate.Result) func(kernel.Entry) []string {
	apply := l0(r)
	return func(e kernel.Entry) (lines []string) {
		for _, ev := range apply(e) {
			line := ev.Type
			for _, f := range ev.Fields {
				if f.Name != "policy" && f.Name != "state" && f.Name != "callbackId" {
					line += fmt.Sprintf(" %s=%s", f.Name, text(f.Value))
				}
			}
			if !strings.HasPrefix(line, "STREAM_") && !strings.HasPrefix(line, "ADAPTER_") {
				lines = append(lines, line)
			}
		}
		return lines
	}
}

func fact(e kernel.Entry) []string {
	switch f := e.Fact.(type) {
	case kernel.Began, kernel.ReceiptIssued, kernel.ActivitySeen, kernel.ActivityMoved, kernel.ActivityConfirmed, kernel.HarnessSessionOpened:
		return nil
	case kernel.SessionMoved:
		return []string{fmt.Sprintf("session %s → %s (%s)", f.From, f.To, f.Reason)}
	case kernel.Observed:
		return event(e)
	}
	return []string{kernel.Kind(e.Fact) + " " + text(e.Fact)}
}

func event(e kernel.Entry) []string {
	r, ok := view.Event(e.Fact)
	if !ok {
		return nil
	}
	line := "emit " + string(r.Event)
	if r.FrameContext != nil {
		line += " frame " + r.FrameContext.FrameID
	}
	line += " " + text(r.Data)
	for _, ev := range r.Evidence {
		line += " by " + ev.Source + ": " + ev.Detail
	}
	return []string{line}
}

func text(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
