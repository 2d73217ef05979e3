package conformance

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// Print writes the report for people: each call with its answer and its receipt,
// then the violations.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(vt.Plain(fmt.Sprintf(format, args...)) + "\n") }
	for _, m := range r.Modes {
		if !m.Tested {
			line("%s: not tested: %s", m.Mode, m.Why)
			line("")
			continue
		}
		line("%s", m.Mode)
		r.printCalls(&b, m.Mode)
	}
	for _, renewal := range r.Renewals {
		for _, text := range renewal.lines() {
			line("%s", text)
		}
		line("")
	}
	for _, note := range r.Notes {
		line("note: %s", note)
	}
	for _, v := range r.Violations {
		where := v.Mode + ", " + v.Step
		if v.Event != "" && v.Step != string(v.Event) {
			where += ", " + string(v.Event)
		}
		if v.Times > 1 {
			where += fmt.Sprintf("; %d times", v.Times)
		}
		line("violation: %s (%s)", v.Rule, where)
		line("  found: %s", v.Found)
		line("  the contract: %s (%s)", v.Sentence, v.Document)
		for said := range strings.Lines(v.Stderr) {
			line("  its stderr: %s", strings.TrimSuffix(said, "\n"))
		}
	}
	if r.OK {
		line("No violation in %d calls.", len(r.Calls))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printCalls prints the calls of one mode as a table.
func (r *Report) printCalls(w io.Writer, mode string) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	step := ""
	for _, c := range r.Calls {
		if c.Mode != mode {
			continue
		}
		if c.Step == step {
			c.Step = ""
		} else {
			step = c.Step
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", vt.Plain(c.Step), vt.Plain(string(c.Event)), vt.Plain(c.answerText()), vt.Plain(receiptText(c.Receipt)))
	}
	fmt.Fprintln(tw)
	_ = tw.Flush() // cannot fail, because a strings.Builder returns no error
}

// answerText returns the status of an answer and the number of its payloads, or
// the reason why there is no answer.
func (c Call) answerText() string {
	if c.Failure != "" {
		return c.Failure
	}
	a, err := lifeloop.ParseCallbackResponse(c.Answer)
	if err != nil { // cannot happen, because a call with an invalid answer has a Failure
		return "invalid"
	}
	text := string(a.Status)
	if n := len(a.ClientPayloads); n == 1 {
		text += ", 1 payload"
	} else if n > 1 {
		text += fmt.Sprintf(", %d payloads", n)
	}
	if len(c.Renews) > 0 {
		text += ", asks for a renewal (" + strings.Join(c.Renews, ", ") + ")"
	}
	return text
}

// receiptText returns the status of a receipt and of each payload.
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
