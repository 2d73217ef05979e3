//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"lifeloop/supervisor"
)

// wishCmds are the commands that ask a live session for something as a whole.
func wishCmds(g *globals) []*cobra.Command {
	wish := func(name, short, long string) *cobra.Command {
		var w supervisor.SessionCommand
		cmd := &cobra.Command{
			Use: name + " SESSION", Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				if err := w.Validate(); err != nil {
					return usage("%s: --reason: %v", name, err)
				}
				id, err := g.command(cmd, args[0], name, w)
				if err != nil || !g.json {
					return err
				}
				return printJSON(cmd.OutOrStdout(), struct {
					SessionID string `json:"session_id"`
					Command   string `json:"command"`
				}{id, name})
			},
		}
		cmd.Flags().StringVar(&w.Reason, "reason", "", "why: a line of `TEXT` that is kept and told with the session's move")
		return cmd
	}
	abort := wish(supervisor.CommandAbort, "End a live session: its harness, and everything below it",
		`abort ends a live session. It returns once the session has accepted that, and
the way down goes on: the harness's own way out first, then TERM, then KILL to
everything below it. Nothing is launched any more. A second abort skips what is
left of the grace. Whoever must know that all is over waits for it:

  lifeloop-wrap abort SESSION && lifeloop-wrap wait SESSION --for ended`)
	abort.Aliases = []string{"stop"}
	return []*cobra.Command{
		wish(supervisor.CommandPause, "Stop a live session where it stands, until resume",
			`pause stops the harness and everything below it where they stand. The time-outs
of the attempt, a wait for the next attempt and the idle time stand still with
them; the session's maximum duration runs on. It returns when the pause is on
the ledger.`),
		wish(supervisor.CommandResume, "Let a paused session go on",
			`resume lets go on what pause stopped, or what a signal did. A session that waits
for its next attempt needs no resume: it goes on by itself.`),
		abort,
		wish(supervisor.CommandRenew, "Renew a live session (this version cannot)",
			`renew would begin the harness's session anew and carry over what is needed. This
version renews no session: the answer is always capability_unsupported.`),
	}
}
