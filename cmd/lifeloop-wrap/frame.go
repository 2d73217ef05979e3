package main

import (
	"slices"

	"github.com/spf13/cobra"

	"lifeloop/supervisor"
)

// outcomes are the ways in which a frame ends; none given is completed.
var outcomes = []string{"", "completed", "failed", "interrupted", "abandoned"}

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
				_, err := g.command(cmd, args[0], supervisor.CommandFrame, f)
				return err
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
