package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	hcp "lifeloop/session"
	"lifeloop/view"
)

func psCmd(g *globals) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List live sessions and lost ones, whose wrapper died; --all lists every session",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			list, total, err := st.List(func(b store.Brief) bool { return all || b.Liveness != store.Ended })
			if err != nil {
				return err
			}
			for _, k := range list {
				if k.Damage != nil {
					warnDamaged(cmd.ErrOrStderr(), k, g.json)
				}
			}
			out := cmd.OutOrStdout()
			if g.json {
				for _, k := range list {
					if err := printJSON(out, k.Status); err != nil {
						return err
					}
				}
				return nil
			}
			if len(list) == 0 {
				text := "no live or lost sessions; --all lists the ended ones"
				if total == 0 {
					text = "no sessions yet; start one: lifeloop-wrap run -- claude"
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: %s\n", text)
				return nil
			}
			tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(tw, "SESSION\tSTARTED\tLIVENESS\tSTATE\tACTIVITY\tLAUNCH\tADAPTER\tCONTEXT\tRECEIPTS\tCLIENTS\tFOLDER")
			for _, k := range list {
				printRow(tw, k)
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list ended sessions too")
	return cmd
}

// printRow prints the columns of one session.
func printRow(tw io.Writer, k store.Session) {
	cells := []string{short(k.SessionID), k.StartedAt.Local().Format("01-02 15:04:05"), k.Liveness, stateText(k.Status), activityText(k.Status), shortLaunch(k.Status),
		cmp.Or(k.AdapterID, "-"), contextText(k.Context, nowIfLive(k)), fmt.Sprint(k.Receipts), clientsText(k.Clients), cmp.Or(k.WorkDir, "-")}
	for i, text := range cells {
		cells[i] = vt.Plain(text)
	}
	fmt.Fprintln(tw, strings.Join(cells, "\t"))
}

// warnDamaged reports a session whose ledger cannot be read to its end.
func warnDamaged(w io.Writer, k store.Session, asJSON bool) {
	if asJSON {
		_ = printJSON(w, struct {
			Warning   string `json:"warning"`
			SessionID string `json:"session_id"`
			Why       string `json:"why"`
		}{"damaged", k.SessionID, k.Damage.Error()})
		return
	}
	fmt.Fprintf(w, "lifeloop-wrap: session %s: %s\n", vt.Plain(short(k.SessionID)), vt.Plain(k.Damage.Error()))
}

// stateText returns the session's state, the reason if it is paused, and the time of
// the next launch if it waits for one.
func stateText(s view.Status) string {
	text := cmp.Or(s.State, "-")
	if s.State == string(hcp.Paused) {
		text += " (" + cut(s.StateReason, 30) + ")"
	}
	if s.RetryAt != nil {
		text += " until " + s.RetryAt.Local().Format(time.TimeOnly)
	}
	return text
}

func activityText(s view.Status) string {
	text := cmp.Or(s.Activity, "-")
	if s.Until != nil {
		text += " until " + s.Until.Local().Format(time.TimeOnly)
	}
	if s.Gate != nil && len(s.Gate.Waiting) > 0 {
		text += ", needs approval"
	}
	return text
}

// shortLaunch returns the number of the launch and its profile.
func shortLaunch(s view.Status) string {
	if s.Attempt == 0 {
		return "-"
	}
	return fmt.Sprintf("#%d, %s", s.Attempt, s.Profile)
}

// clientsText names the clients with failed calls. If there are none, it
// returns the number of clients that were called.
func clientsText(clients []view.ClientCalls) string {
	var failing []string
	for _, c := range clients {
		if c.Failed > 0 {
			failing = append(failing, fmt.Sprintf("%s failed %d of %d", c.ClientID, c.Failed, c.Calls))
		}
	}
	switch {
	case len(failing) > 0:
		return cut(strings.Join(failing, ", "), 40)
	case len(clients) > 0:
		return fmt.Sprintf("%d ok", len(clients))
	}
	return "-"
}

// cut shortens a text to at most n characters.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

// nowIfLive returns the present time, or the zero time for a session that is
// not live.
func nowIfLive(k store.Session) (now time.Time) {
	if k.Liveness == store.Live {
		now = time.Now()
	}
	return now
}

// contextText returns the current context: "61% of 200k", or only its tokens if
// the window is unknown. If now is not zero, the age of the measurement is added.
func contextText(c *view.Context, now time.Time) string {
	if c == nil {
		return "-"
	}
	text := tokenText(c.Tokens) + " tokens"
	if c.Fraction != nil {
		text = fmt.Sprintf("%.0f%% of %s", *c.Fraction*100, tokenText(*c.Window))
	}
	var notes []string
	if c.Estimate {
		notes = append(notes, "estimate")
	}
	if c.Stale {
		notes = append(notes, "stale")
	}
	if age := now.Sub(c.At); !now.IsZero() && age >= time.Second {
		notes = append(notes, ageText(age)+" ago")
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	return text
}

// tokenText rounds a number of tokens: 950, 122k, 1M.
func tokenText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", (n+500)/1000)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
}

// ageText returns a duration in one unit: 12s, 5m, 47h, 2d.
func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
