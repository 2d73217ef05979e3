package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

// version is the program's own version; a release build sets it with -ldflags.
var version = "0.1.0-dev"

func versionCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			goVersion := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"version": version, "contract": lifeloop.Version, "go": goVersion})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "lifeloop-wrap %s (%s, %s)\n", version, lifeloop.Version, goVersion)
			return err
		},
	}
}

func hookCmd() *cobra.Command {
	// main serves it before the command tree is built; it stands here to be
	// found by --help.
	return &cobra.Command{Use: "hook EVENT", Short: "What an injected hook calls", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return nil }}
}
