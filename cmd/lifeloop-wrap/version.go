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
		RunE:  func(cmd *cobra.Command, _ []string) error { return g.writeVersion(cmd) },
	}
}

func (g *globals) writeVersion(cmd *cobra.Command) error {
	goVersion := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
	}
	return g.print(cmd, map[string]any{"version": version, "contract": lifeloop.Version, "go": goVersion},
		fmt.Sprintf("lifeloop-wrap %s (%s, %s)\n", version, lifeloop.Version, goVersion))
}

func hookCmd() *cobra.Command {
	// main serves it before the command tree is built; here it is only
	// documented.
	return &cobra.Command{Use: "hook EVENT", Short: "Serve one hook call of a harness (injected hooks run this)", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return nil }}
}
