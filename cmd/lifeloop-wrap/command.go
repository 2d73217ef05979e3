package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/control"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// commandTime is the time limit of a command to a live session.
const commandTime = 10 * time.Second

// command sends a command to a live session and waits for its answer. It returns the
// session's id and the answer, and an error if the session refused the command.
func (g *globals) command(cmd *cobra.Command, name, command string, what any) (id string, answer supervisor.CommandAnswer, err error) {
	id, answer, err = g.send(cmd, name, command, what)
	switch {
	case err != nil:
	case answer.FailureClass == lifeloop.OperatorRequired && answer.Renewal == "" && command != supervisor.CommandApprove:
		err = needsToken(cmd, id, answer)
	case answer.FailureClass != "":
		err = no(answer.FailureClass, "session %s: %s", id, answer.Error)
	}
	return id, answer, err
}

// needsToken returns the error for a command that needs the session's token.
func needsToken(cmd *cobra.Command, id string, answer supervisor.CommandAnswer) error {
	again := fmt.Sprintf("lifeloop-wrap session token %s | %s %s", id, cmd.CommandPath(), id)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != tokenFlag {
			again += fmt.Sprintf(" --%s=%s", f.Name, strconv.Quote(f.Value.String()))
		}
	})
	return no(answer.FailureClass, "session %s: %s", id, answer.Error).withHint("%s --%s -", again, tokenFlag)
}

// send sends a command and returns the session's id and the answer.
func (g *globals) send(cmd *cobra.Command, name, command string, what any) (id string, answer supervisor.CommandAnswer, err error) {
	token, err := readToken(cmd)
	if err != nil {
		return "", answer, err
	}
	st, id, err := g.session(cmd, name)
	if err != nil {
		return "", answer, err
	}
	folder := st.Folder(id)
	if !folder.Live() {
		if k := st.Read(id); !k.Ended() {
			return "", answer, &lostSession{notLive(k), st, id}
		}
		return "", answer, notLive(st.Read(id))
	}
	input, err := json.Marshal(what)
	if err != nil {
		return "", answer, err
	}
	socket, err := folder.Socket()
	if errors.Is(err, fs.ErrNotExist) {
		return "", answer, no(lifeloop.TransportError, "session %s is still starting and accepts no commands yet", id)
	}
	if err != nil {
		return "", answer, no(lifeloop.TransportError, "find the socket of session %s: %v", id, err)
	}
	out, err := control.Do(socket, control.Command{Name: command, Input: input, Token: token}, time.Now().Add(commandTime))
	if err != nil {
		return "", answer, unanswered(st, id, err)
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", answer, no(lifeloop.TransportError, "session %s: invalid answer: %v", id, err)
	}
	return id, answer, nil
}

const tokenFlag = "token-file"

// acceptToken adds the flag for the session's token to a command that changes a
// session. The token itself is not an argument, because every user of the machine can
// read the arguments of a process.
func acceptToken(cmd *cobra.Command) {
	cmd.Flags().String(tokenFlag, "", "`FILE` with the session's token, - for standard input; only a process that the harness started needs it")
}

// readToken returns the token that a command was given, or nothing.
func readToken(cmd *cobra.Command) (string, error) {
	path, err := cmd.Flags().GetString(tokenFlag)
	if err != nil || path == "" {
		return "", nil
	}
	text, err := readDocument(cmd, []string{path})
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", usage("--%s %s: no token found", tokenFlag, path).withHint("lifeloop-wrap session token SESSION prints the token")
	}
	return token, nil
}

// notLive returns the error of a command to a session that has no wrapper.
func notLive(k store.Session) *failure {
	if k.Ended() {
		return no(lifeloop.StateConflict, "session %s has ended: %s", k.SessionID, k.Ending()).withHint("lifeloop-wrap ps lists the live sessions")
	}
	return no(lifeloop.StateConflict, "session %s is lost: its wrapper died, outcome unknown", k.SessionID).
		withHint("to continue it: lifeloop-wrap %s; to close it: lifeloop-wrap abort %s", k.ResumeCommand(), k.SessionID)
}

// A lostSession is the error of a command to a session whose wrapper died.
type lostSession struct {
	*failure
	st store.Store
	id string
}

func (l *lostSession) Unwrap() error { return l.failure }

// unanswered returns the error of a command that got no answer. It first waits up to a
// second for the end of the wrapper, which closes its connections when it is about to
// end.
func unanswered(st store.Store, id string, cause error) *failure {
	if st.Folder(id).WriterGone(time.Second) {
		return notLive(st.Read(id))
	}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		k := st.Read(id)
		return no(lifeloop.Timeout, "session %s does not answer; perhaps its wrapper, process %d, is suspended", id, k.WrapperPID()).
			withHint("to continue a suspended wrapper, enter fg in its terminal")
	}
	return no(lifeloop.TransportError, "session %s: %v", id, cause)
}

// controlCmds returns the commands that control a live session as a whole.
func controlCmds(g *globals) []*cobra.Command {
	request := func(name, short, long string) *cobra.Command {
		var w supervisor.SessionCommand
		cmd := &cobra.Command{
			Use: name + " SESSION", Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) > 1 {
					w.Intent = args[1]
				}
				if err := w.Validate(); err != nil {
					return usage("%s: --reason: %v", name, err)
				}
				id, _, err := g.command(cmd, args[0], name, w)
				if lost, is := errors.AsType[*lostSession](err); is && name == supervisor.CommandAbort {
					id, err = lost.id, g.closeLost(cmd, lost, w.Reason)
				}
				if err != nil {
					return err
				}
				return g.print(cmd, struct {
					SessionID string `json:"session_id"`
					Command   string `json:"command"`
				}{id, name}, "")
			},
		}
		acceptToken(cmd)
		cmd.Flags().StringVar(&w.Reason, "reason", "", "`TEXT` to record as the reason, one line")
		return cmd
	}
	abort := request(supervisor.CommandAbort, "End a session and all its processes",
		`abort ends a live session. It returns as soon as the session has accepted the
command. The harness then receives the signal at which it quits (INT or TERM), then
TERM, and all its processes receive KILL after the grace period. Nothing more is
launched. A second abort, at least 2 s after the first, skips the rest of the grace
period. If the session is lost (its wrapper died), abort closes it, usually in the state
FAILED with the reason supervisor_lost, starts nothing and calls no client. To wait for
the end:

  lifeloop-wrap abort SESSION && lifeloop-wrap wait SESSION --for ended`)
	abort.Aliases = []string{"stop"}
	onIntent := func(cmd *cobra.Command) *cobra.Command {
		cmd.Use, cmd.Args = cmd.Name()+" SESSION INTENT", cobra.ExactArgs(2)
		return cmd
	}
	return []*cobra.Command{
		onIntent(request(supervisor.CommandApprove, "Approve an act that waits for an approval",
			`approve permits an act that waits for an approval (run --approval-wait): a launch, a
renewal or a tool call. INTENT is the digest that identifies the act, or at least the
first 8 characters of this digest; status shows them.`)),
		onIntent(request(supervisor.CommandDeny, "Deny an act that waits for an approval",
			`deny refuses an act that waits for an approval (run --approval-wait): a launch, a
renewal or a tool call. INTENT is the digest that identifies the act, or at least the
first 8 characters of this digest; status shows them.`)),
		request(supervisor.CommandPause, "Pause a live session until it is resumed",
			`pause suspends the harness and all its processes. The timeouts of the attempt, the
idle timeout and a wait for the next attempt are suspended too; the session's maximum
duration is not. pause returns when the pause is recorded in the ledger.`),
		request(supervisor.CommandResume, "Continue a paused session",
			`resume continues a session that pause or a signal suspended. It is refused if the
session only waits for its next attempt: such a session continues by itself.`),
		abort,
		renewCmd(g),
	}
}

// outcomes are the values of --outcome; "" means completed.
var outcomes = []string{"", "completed", "failed", "interrupted", "abandoned"}

func frameCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "frame", Short: "Open or close a client's own frame in a live session"})
	var f supervisor.FrameCommand
	sub := func(do, short string) *cobra.Command {
		c := &cobra.Command{
			Use: do + " SESSION --frame-id ID", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				f.Do = do
				switch {
				case f.FrameID == "":
					return usage("frame %s needs --frame-id", do)
				case f.Parent == "" && cmd.Flags().Changed("parent"):
					return usage("--parent is empty").withHint("without --parent, the frame has no parent frame")
				case !slices.Contains(outcomes, f.Outcome):
					return usage("--outcome %s: want completed, failed, interrupted or abandoned", f.Outcome)
				}
				_, _, err := g.command(cmd, args[0], supervisor.CommandFrame, f)
				return err
			},
		}
		acceptToken(c)
		c.Flags().StringVar(&f.FrameID, "frame-id", "", "`ID` of the frame")
		return c
	}
	open := sub("open", "Open a frame; with --parent, below another open frame")
	open.Flags().StringVar(&f.Parent, "parent", "", "`ID` of the parent frame (default none)")
	closed := sub("close", "Close a frame and all open frames below it")
	closed.Flags().StringVar(&f.Outcome, "outcome", "", "completed, failed, interrupted or abandoned (default completed)")
	cmd.AddCommand(open, closed)
	return cmd
}
