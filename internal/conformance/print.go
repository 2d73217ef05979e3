package conformance

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"lifeloop/lifeloop"
)

// Print writes the report for people: each call with its answer and its receipt,
// then the violations.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	for _, m := range r.Modes {
		if !m.Tested {
			fmt.Fprintf(&b, "%s: not tested: %s\n\n", m.Mode, m.Why)
			continue
		}
		fmt.Fprintf(&b, "%s\n", m.Mode)
		tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		step := ""
		for _, c := range r.Calls {
			if c.Mode != m.Mode {
				continue
			}
			if c.Step == step {
				c.Step = ""
			} else {
				step = c.Step
			}
			fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", c.Step, c.Event, c.answerText(), receiptText(c.Receipt))
		}
		_ = tw.Flush() // a strings.Builder returns no error
		b.WriteByte('\n')
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for _, v := range r.Violations {
		where := v.Mode + ", " + v.Step
		if v.Event != "" && v.Step != string(v.Event) {
			where += ", " + string(v.Event)
		}
		fmt.Fprintf(&b, "violation: %s (%s", v.Rule, where)
		if v.Times > 1 {
			fmt.Fprintf(&b, "; %d times", v.Times)
		}
		fmt.Fprintf(&b, ")\n  found: %s\n  the contract: %s (%s)\n", v.Found, v.Sentence, v.Document)
		for line := range strings.Lines(v.Stderr) {
			fmt.Fprintf(&b, "  its stderr: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if r.OK {
		fmt.Fprintf(&b, "No violation in %d calls.\n", len(r.Calls))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// answerText is the status of an answer and the number of its payloads, or why
// there is none.
func (c Call) answerText() string {
	if c.Failure != "" {
		return c.Failure
	}
	a, err := lifeloop.ParseCallbackResponse(c.Answer)
	if err != nil { // a call with an invalid answer has a Failure
		return "invalid"
	}
	text := string(a.Status)
	if n := len(a.ClientPayloads); n == 1 {
		text += ", 1 payload"
	} else if n > 1 {
		text += fmt.Sprintf(", %d payloads", n)
	}
	return text
}

// receiptText is the status of a receipt, with that of each payload.
func receiptText(r *lifeloop.Receipt) string {
	if r == nil {
		return ""
	}
	text := "receipt: " + string(r.Status)
	if r.FailureClass != nil {
		text += ", " + string(*r.FailureClass)
	}
	for _, p := range r.PayloadReceipts {
		text += fmt.Sprintf("; %s %s", p.Placement, p.Status)
	}
	return text
}
