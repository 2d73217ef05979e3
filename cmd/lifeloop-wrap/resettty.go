package main

import (
	"os"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/lifeloop"
)

func resetTTYCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "reset-tty",
		Short: "Reset a terminal that a program has left in disorder",
		Long: `reset-tty resets the terminal it runs in: modes of keyboard, mouse and screen,
character sets, colours, and the attributes that stty sane sets. It switches from
the alternate screen to the main one, which it does not clear. Type it blindly if
nothing is echoed, and end the line with Ctrl-J if Enter does not work.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
			if err != nil {
				return no(lifeloop.TransportError, "open the controlling terminal: %v", err).withHint("run reset-tty in the terminal that is to be reset")
			}
			defer tty.Close()
			if err := harness.Reset(tty); err != nil {
				return no(lifeloop.TransportError, "reset-tty: %v", err)
			}
			return nil
		},
	}
}
