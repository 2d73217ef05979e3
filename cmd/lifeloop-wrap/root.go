//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/internal/config"
	"lifeloop/lifeloop"
)

// Exit codes of every command but run: done, the answer is no, wrong usage.
const (
	exitDone  = 0
	exitNo    = 1
	exitUsage = 2
)

// A failure is an error with what a program and a person need besides its
// text (CLI.md, Common).
type failure struct {
	code  int
	class lifeloop.FailureClass
	text  string
	hint  string
}

func (f *failure) Error() string { return f.text }

// no is the answer "no": invalid, not found, not verified.
func no(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: exitNo, class: class, text: fmt.Sprintf(format, args...)}
}

func (f *failure) withHint(format string, args ...any) *failure {
	f.hint = fmt.Sprintf(format, args...)
	return f
}

// exitCode is an error that is only an exit code: everything that was to be
// said has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprint("exit ", int(e)) }

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

// settle reports the error that a command ended with, and is its exit code.
func (g *globals) settle(err error, args []string, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: err.Error(), hint: "lifeloop-wrap --help lists the commands"}
	}
	report(stderr, f, g.json || jsonAsked(args))
	return f.code
}

// jsonAsked finds --json where a flag error kept it from being parsed.
func jsonAsked(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--json" {
			return true
		}
	}
	return false
}

func report(w io.Writer, f *failure, asJSON bool) {
	if asJSON {
		line, _ := json.Marshal(map[string]any{"error": f.text, "failure_class": f.class, "retry_class": f.class.DefaultRetry(), "hint": f.hint})
		fmt.Fprintf(w, "%s\n", line)
		return
	}
	fmt.Fprintf(w, "lifeloop-wrap: %s\n", f.text)
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
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
	root.AddCommand(wishCmds(g)...)
	troubleIsNoUsage(root)
	return root
}

// troubleIsNoUsage gives every error of a command at work that does not say
// what it is the exit code and the class of our own trouble: a file that cannot
// be read, an output that cannot be written. What is left for execute are then
// the errors of the command line itself; a wrong number of words shows the
// line that would be right.
func troubleIsNoUsage(cmd *cobra.Command) {
	if fits := cmd.Args; fits != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := fits(cmd, args)
			var f *failure
			if err == nil || errors.As(err, &f) {
				return err
			}
			return usage("%s: %v", cmd.CommandPath(), err).withHint("%s", cmd.UseLine())
		}
	}
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			var f *failure
			var code exitCode
			if err == nil || errors.As(err, &f) || errors.As(err, &code) {
				return err
			}
			return no(lifeloop.InternalError, "%v", err)
		}
	}
	for _, sub := range cmd.Commands() {
		troubleIsNoUsage(sub)
	}
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
