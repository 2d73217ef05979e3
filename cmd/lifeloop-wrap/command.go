package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/control"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// commandTime bounds a command to a live session.
const commandTime = 10 * time.Second

// command sends a command to a live session and waits for its answer. It
// returns the session's id.
func (g *globals) command(cmd *cobra.Command, name, command string, what any) (string, error) {
	st, id, err := g.session(cmd, name)
	if err != nil {
		return "", err
	}
	folder := st.Folder(id)
	if !folder.Live() {
		return "", notLive(st.Read(id))
	}
	input, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	socket, err := folder.Socket()
	if errors.Is(err, fs.ErrNotExist) {
		return "", no(lifeloop.TransportError, "session %s is being started, and takes no commands yet", id)
	}
	if err != nil {
		return "", no(lifeloop.TransportError, "find the door of session %s: %v", id, err)
	}
	out, err := control.Do(socket, command, input, time.Now().Add(commandTime))
	if err != nil {
		return "", unanswered(st, id, err)
	}
	var answer supervisor.CommandAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", no(lifeloop.TransportError, "session %s: an answer that is not understood: %v", id, err)
	}
	if answer.FailureClass != "" {
		return "", no(answer.FailureClass, "session %s: %s", id, answer.Error)
	}
	return id, nil
}

// notLive says why a session takes no commands, and what to do about it.
func notLive(k store.Session) *failure {
	if k.Ended() {
		return no(lifeloop.StateConflict, "session %s has ended: %s", k.SessionID, k.Ending()).withHint("lifeloop-wrap ps lists those that are live")
	}
	return no(lifeloop.StateConflict, "session %s is lost: its wrapper died, and could not say how it ended", k.SessionID).
		withHint("lifeloop-wrap run --resume %s takes it up again", k.SessionID)
}

// unanswered is the error of a command that got no answer. A wrapper that
// closes the connection is about to end.
func unanswered(st store.Store, id string, cause error) *failure {
	if st.Folder(id).WriterGone(time.Second) {
		return notLive(st.Read(id))
	}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		k := st.Read(id)
		return no(lifeloop.Timeout, "session %s does not answer; its wrapper, process %d, may have been stopped", id, k.WrapperPID()).
			withHint("fg in its terminal lets it go on")
	}
	return no(lifeloop.TransportError, "session %s: %v", id, cause)
}

// controlCmds are the commands that act on a live session as a whole.
func controlCmds(g *globals) []*cobra.Command {
	request := func(name, short, long string) *cobra.Command {
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
	abort := request(supervisor.CommandAbort, "End a live session: its harness, and everything below it",
		`abort ends a live session. It returns once the session has accepted that, and
the way down goes on: the harness's own way out first, then TERM, then KILL to
everything below it. Nothing is launched any more. A second abort skips what is
left of the grace. Whoever must know that all is over waits for it:

  lifeloop-wrap abort SESSION && lifeloop-wrap wait SESSION --for ended`)
	abort.Aliases = []string{"stop"}
	return []*cobra.Command{
		request(supervisor.CommandPause, "Stop a live session where it stands, until resume",
			`pause stops the harness and everything below it where they stand. The time-outs
of the attempt, a wait for the next attempt and the idle time stand still with
them; the session's maximum duration runs on. It returns when the pause is on
the ledger.`),
		request(supervisor.CommandResume, "Let a paused session go on",
			`resume lets go on what pause stopped, or what a signal did. A session that waits
for its next attempt needs no resume: it goes on by itself.`),
		abort,
		request(supervisor.CommandRenew, "Renew a live session (this version cannot)",
			`renew would begin the harness's session anew and carry over what is needed. This
version renews no session: the answer is always capability_unsupported.`),
	}
}
