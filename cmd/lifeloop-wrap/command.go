//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/control"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// commandTime bounds a command to a live session.
const commandTime = 10 * time.Second

// command gives a live session a command and reports its answer. It returns
// the session's id.
func (g *globals) command(cmd *cobra.Command, session, name string, what any) (string, error) {
	st, id, err := g.session(cmd, session)
	if err != nil {
		return "", err
	}
	dir := st.path(id)
	if !ledger.Locked(dir) {
		return "", notLive(st.read(id))
	}
	input, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	socket, err := os.ReadFile(filepath.Join(dir, doorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", no(lifeloop.TransportError, "session %s is being started, and takes no commands yet", id)
	}
	if err != nil {
		return "", no(lifeloop.TransportError, "find the door of session %s: %v", id, err)
	}
	out, err := control.Do(string(socket), name, input, time.Now().Add(commandTime))
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
func notLive(k kept) *failure {
	if k.Ended() {
		return no(lifeloop.StateConflict, "session %s has ended: %s", k.SessionID, ending(k)).withHint("lifeloop-wrap ps lists those that are live")
	}
	return no(lifeloop.StateConflict, "session %s is lost: its wrapper died, and could not say how it ended", k.SessionID).
		withHint("lifeloop-wrap run --resume %s takes it up again", k.SessionID)
}

// ending is how a session ended, in a few words.
func ending(k kept) string {
	if k.StateReason == "" {
		return k.State
	}
	return fmt.Sprintf("%s (%s)", k.State, k.StateReason)
}

// unanswered says what became of a command that came back without an answer.
func unanswered(st store, id string, cause error) *failure {
	// A wrapper that hangs up is about to be gone.
	gone := make(chan struct{})
	go func() {
		_ = ledger.AwaitWriter(st.path(id))
		close(gone)
	}()
	select {
	case <-gone:
		return notLive(st.read(id))
	case <-time.After(time.Second):
	}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		k := st.read(id)
		return no(lifeloop.Timeout, "session %s does not answer; its wrapper, process %d, may have been stopped", id, k.WrapperPID()).
			withHint("fg in its terminal lets it go on")
	}
	return no(lifeloop.TransportError, "session %s: %v", id, cause)
}
