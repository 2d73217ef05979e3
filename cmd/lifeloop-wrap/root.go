package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/internal/config"
	"lifeloop/lifeloop"
)

// globals are the flags of every command.
type globals struct {
	config, stateDir, logLevel, logFile string
	json                                bool
	flags                               *pflag.FlagSet
}

func execute(args []string) int {
	g := &globals{}
	root := newRoot(g)
	// `lifeloop-wrap -- CMD…` is `lifeloop-wrap run -- CMD…`.
	if len(args) > 0 && args[0] == "--" {
		args = append([]string{"run"}, args...)
	}
	root.SetArgs(args)
	return g.settle(root.Execute(), args, os.Stderr)
}

func newRoot(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "lifeloop-wrap",
		Short: "Wrap a coding harness: lifecycle events, client payloads, durable receipts",
		Long: `lifeloop-wrap launches a coding harness (Claude Code, Codex, or any program) in
its own terminal, unchanged for the person in front of it, and turns what
happens into lifecycle events, calls to subscribed client programs, and receipts
on a tamper-evident ledger.`,
		Example: `  lifeloop-wrap run -- claude            wrap Claude Code
  lifeloop-wrap run --client notes=./notes-client -- codex
  lifeloop-wrap ps                       what runs, what ended, what was lost
  lifeloop-wrap events last              what happened
  lifeloop-wrap demo                     see it without a harness`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	pf := root.PersistentFlags()
	pf.StringVar(&g.config, "config", "", "read this configuration `FILE` and no other")
	pf.StringVar(&g.stateDir, "state-dir", "", "keep sessions in this `DIR`")
	pf.StringVar(&g.logLevel, "log-level", "", "debug, info, warn or error")
	pf.StringVar(&g.logFile, "log-file", "", "write diagnostics to this `FILE`")
	pf.BoolVar(&g.json, "json", false, "print for programs")
	g.flags = pf
	root.AddCommand(runCmd(g), observeCmd(g), psCmd(g), statusCmd(g), waitCmd(g), whyCmd(g), eventsCmd(g), receiptsCmd(g),
		frameCmd(g), ledgerCmd(g), pruneCmd(g), sessionCmd(g), hookCmd(), hostCmd(g), hcpCmd(g), manifestCmd(g), negotiateCmd(), envelopeCmd(g), eventCmd(g), payloadCmd(), configCmd(g), simulateCmd(), demoCmd(g), doctorCmd(g), versionCmd(g))
	root.AddCommand(controlCmds(g)...)
	troubleIsNoUsage(root)
	return root
}

// group is a command that only has others below it. A word that is none of
// them is wrong usage, and not a question for help.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		f := usage("%s: there is no %q", cmd.CommandPath(), args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return f.withHint("did you mean %s %s?", cmd.CommandPath(), near[0])
		}
		return f.withHint("%s --help lists what there is", cmd.CommandPath())
	}
	return cmd
}

// load merges the configuration, with the given command's flags on top.
func (g *globals) load(cmd *cobra.Command) (config.Config, config.Origins, error) {
	dir, err := os.Getwd()
	if err != nil {
		return config.Config{}, nil, &failure{code: exitNo, class: lifeloop.InternalError, text: "find the working directory: " + err.Error()}
	}
	flags := map[string][]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !config.HasFlag(f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			flags[f.Name] = list.GetSlice()
			return
		}
		flags[f.Name] = []string{f.Value.String()}
	})
	cfg, origins, err := config.Load(config.Options{Getenv: os.Getenv, WorkDir: dir, File: g.config, Flags: flags, ReadFile: os.ReadFile})
	if err != nil {
		return cfg, nil, &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: err.Error(),
			hint: "lifeloop-wrap config schema prints what a configuration may hold"}
	}
	if cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return cfg, nil, err
	}
	return cfg, origins, nil
}

// printJSON writes one object on one line.
func printJSON(w io.Writer, v any) error {
	if m, ok := v.(json.Marshaler); ok { // one of ours: it needs no second look
		b, err := m.MarshalJSON()
		if err != nil {
			return err
		}
		_, err = w.Write(append(b, '\n'))
		return err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
