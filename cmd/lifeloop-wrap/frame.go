package main

import (
	"slices"

	"github.com/spf13/cobra"

	"lifeloop/supervisor"
)

// outcomes are the values of --outcome; "" means completed.
var outcomes = []string{"", "completed", "failed", "interrupted", "abandoned"}

func frameCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "frame", Short: "Open or close a client's frame in a live session"})
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
					return usage("--parent is empty").withHint("without it, the frame is a top-level one")
				case !slices.Contains(outcomes, f.Outcome):
					return usage("--outcome %s: want completed, failed, interrupted or abandoned", f.Outcome)
				}
				_, err := g.command(cmd, args[0], supervisor.CommandFrame, f)
				return err
			},
		}
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
