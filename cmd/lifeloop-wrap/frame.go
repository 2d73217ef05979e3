//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/control"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// outcomes are the ways in which a frame ends; none given is completed.
var outcomes = []string{"", "completed", "failed", "interrupted", "abandoned"}

// commandTime bounds a command to a live session.
const commandTime = 10 * time.Second

func frameCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "frame", Short: "Open or close a frame of one's own in a live session"})
	var f supervisor.FrameCommand
	sub := func(do, short string) *cobra.Command {
		c := &cobra.Command{
			Use: do + " SESSION --frame-id ID", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				f.Do = do
				switch {
				case f.FrameID == "":
					return usage("frame %s: --frame-id is missing", do)
				case f.Parent == "" && cmd.Flags().Changed("parent"):
					return usage("frame %s: --parent is empty", do).withHint("leave it out to open a top-level frame")
				case !slices.Contains(outcomes, f.Outcome):
					return usage("frame %s: --outcome %s: want completed, failed, interrupted or abandoned", do, f.Outcome)
				}
				return g.command(cmd, args[0], supervisor.CommandFrame, f)
			},
		}
		c.Flags().StringVar(&f.FrameID, "frame-id", "", "the frame's `ID`")
		return c
	}
	open := sub("open", "Open a frame; with --parent as a subcall of another one that is open")
	open.Flags().StringVar(&f.Parent, "parent", "", "the `ID` of the parent frame")
	shut := sub("close", "Close a frame, and first what is still open below it")
	shut.Flags().StringVar(&f.Outcome, "outcome", "", "completed (the default), failed, interrupted or abandoned")
	cmd.AddCommand(open, shut)
	return cmd
}

// command gives a live session a command and reports its answer.
func (g *globals) command(cmd *cobra.Command, session, name string, what any) error {
	st, id, err := g.session(cmd, session)
	if err != nil {
		return err
	}
	dir := st.path(id)
	if !ledger.Locked(dir) {
		return no(lifeloop.StateConflict, "session %s is not live", id).withHint("lifeloop-wrap ps lists those that are")
	}
	socket, err := os.ReadFile(filepath.Join(dir, doorFile))
	if err != nil {
		return no(lifeloop.TransportError, "find the door of session %s: %v", id, err)
	}
	input, err := json.Marshal(what)
	if err != nil {
		return err
	}
	out, err := control.Do(string(socket), name, input, time.Now().Add(commandTime))
	if err != nil {
		return no(lifeloop.TransportError, "session %s: %v", id, err)
	}
	var answer supervisor.CommandAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		return no(lifeloop.TransportError, "session %s: an answer that is not understood: %v", id, err)
	}
	if answer.FailureClass != "" {
		return no(answer.FailureClass, "%s", answer.Error)
	}
	return nil
}
