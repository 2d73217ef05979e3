package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"lifeloop/internal/config"
	"lifeloop/internal/trust"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// globals are the flags of every command.
type globals struct {
	config, stateDir, logLevel, logFile string
	json                                bool
	// misused is the error for a command line that asks for help on an unknown
	// command.
	misused error
}

func execute(args []string) int {
	g := &globals{}
	// The filters escape all characters on which a terminal would act, except line
	// ends and tabs.
	out, notes := vt.NewFilter(os.Stdout), vt.NewFilter(os.Stderr)
	defer out.Close()
	defer notes.Close()
	if err := enough(commandTasks, "this command"); err != nil {
		return g.settle(err, args, notes)
	}
	// `lifeloop-wrap -- CMD…` means `lifeloop-wrap run -- CMD…`.
	if len(args) > 0 && args[0] == "--" {
		args = append([]string{"run"}, args...)
	}
	root := newRoot(g, len(args) > 0 && args[0] == "run")
	root.SetOut(out)
	root.SetErr(notes)
	root.SetArgs(args)
	err := root.Execute()
	return g.settle(cmp.Or(err, g.misused), args, notes)
}

// newRoot returns the command line. With onlyRun, run is its only command: a user waits for
// the start of a harness, and building all commands would delay it.
func newRoot(g *globals, onlyRun bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "lifeloop-wrap",
		Short: "Wrap a coding harness: lifecycle events, client payloads, durable receipts",
		Long: `lifeloop-wrap launches a coding harness (Claude Code, Codex, or any program) in
your terminal, where the harness looks and behaves as usual. lifeloop-wrap turns what
happens there into lifecycle events, calls to subscribed client programs, and receipts
in a tamper-evident ledger.`,
		Example: `  lifeloop-wrap run -- claude            wrap Claude Code
  lifeloop-wrap run --client notes=./notes-client -- codex
  lifeloop-wrap ps                       list live and lost sessions
  lifeloop-wrap events last              print the events of the last session
  lifeloop-wrap demo                     show a session without a harness`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	printVersion := root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	g.addFlags(root.PersistentFlags())
	root.AddCommand(runCmd(g))
	if !onlyRun {
		root.AddCommand(observeCmd(g), psCmd(g), statusCmd(g), waitCmd(g), whyCmd(g), eventsCmd(g), receiptsCmd(g),
			frameCmd(g), ledgerCmd(g), pruneCmd(g), sessionCmd(g), hookCmd(), hostCmd(g), hcpCmd(g), manifestCmd(g), negotiateCmd(), envelopeCmd(g), eventCmd(g), clientCmd(g), payloadCmd(), configCmd(g), trustCmd(g), simulateCmd(), demoCmd(g), doctorCmd(g), gateCmd(g), policyCmd(g), evidenceCmd(g), resetTTYCmd(), versionCmd(g))
		root.AddCommand(controlCmds(g)...)
	}
	help := group(root).RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *printVersion {
			return g.writeVersion(cmd)
		}
		return help(cmd, args)
	}
	g.addHelp(root)
	root.SetFlagErrorFunc(flagError)
	classifyErrors(root)
	return root
}

// addHelp adds the command help, which reports an error for an unknown command.
func (g *globals) addHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			g.misused = unknownCommand(cmd, words[0])
			return
		}
		show(cmd, args)
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, words, err := root.Find(args)
			if err == nil && len(words) > 0 {
				err = unknownCommand(cmd, words[0])
			}
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	})
}

// group makes cmd a command that only has subcommands.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	return cmd
}

// load merges the files and variables of the configuration with the flags of cmd. The
// flags override the rest.
func (g *globals) load(cmd *cobra.Command) (config.Config, config.Origins, error) {
	return g.loadWith(cmd, loadProject)
}

// addFlags adds the flags that all commands have.
func (g *globals) addFlags(f *pflag.FlagSet) {
	f.StringVar(&g.config, "config", "", "configuration `FILE` to read instead of the usual ones")
	f.StringVar(&g.stateDir, "state-dir", "", "`DIR` to store sessions in")
	f.StringVar(&g.logLevel, "log-level", "", "diagnostics to write: debug, info, warn or error")
	f.StringVar(&g.logFile, "log-file", "", "`FILE` to append diagnostics to (default none)")
	f.BoolVar(&g.json, "json", false, "print JSON")
}

// loadWith is like load, but uses project to find the project's file.
func (g *globals) loadWith(cmd *cobra.Command, project func(dir, stateDir string) trust.File) (config.Config, config.Origins, error) {
	dir, err := os.Getwd()
	if err != nil {
		return config.Config{}, nil, no(lifeloop.InternalError, "find the working directory: %v", err)
	}
	cfg, origins, err := config.Load(config.Options{Getenv: os.Getenv, WorkDir: dir, File: g.config,
		Flags: givenFlags(cmd, func(name string) bool { return config.HasFlag(name) && !isOwn(cmd, name) }), ReadFile: trust.ReadFile,
		Project: func(stateDir string) trust.File { return project(dir, stateDir) }})
	if err != nil {
		return cfg, nil, usage("%v", err).withHint("%s", configHint(cmd, err))
	}
	if cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return cfg, nil, err
	}
	return cfg, origins, nil
}

// givenFlags returns the values of the flags that are set in cmd, if the function wanted
// returns true for the name of the flag.
func givenFlags(cmd *cobra.Command, wanted func(name string) bool) map[string][]string {
	given := map[string][]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !wanted(f.Name) {
			return
		}
		given[f.Name] = []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given[f.Name] = list.GetSlice()
		}
	})
	return given
}

// own marks a flag that has the same name as a flag of the configuration but another
// meaning.
const own = "own"

func isOwn(cmd *cobra.Command, name string) bool {
	_, is := cmd.Flags().Lookup(name).Annotations[own]
	return is
}

func configHint(cmd *cobra.Command, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case strings.HasPrefix(err.Error(), "flag --"):
		return cmd.CommandPath() + " --help describes the flags"
	}
	return "lifeloop-wrap config schema prints the schema of a configuration"
}

// exact returns standard output for documents whose bytes must not change. The output is
// filtered only if it is a terminal.
func exact(cmd *cobra.Command) io.Writer {
	out := cmd.OutOrStdout()
	if f, filtered := out.(*vt.Filter); filtered && !term.IsTerminal(int(os.Stdout.Fd())) {
		return f.Unfiltered()
	}
	return out
}

// printJSON writes one object on one line. The text of an object that encodes itself is
// compact already. A json.Encoder would read that text once more, which takes half of
// the time needed to print an event.
func printJSON(w io.Writer, v any) error {
	if own, encodes := v.(json.Marshaler); encodes {
		doc, err := own.MarshalJSON()
		if err != nil {
			return err
		}
		_, err = w.Write(append(doc, '\n'))
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// print prints v as JSON with --json, otherwise text.
func (g *globals) print(cmd *cobra.Command, v any, text string) error {
	if g.json {
		return printJSON(cmd.OutOrStdout(), v)
	}
	_, err := io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// version is this program's version; a release build sets it with -ldflags.
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
	// This entry is for the help text: main handles hook before the commands are built.
	// RunE is called only if flags precede the word hook. It must fail then, because
	// after a success the harness would run a tool call that nothing has examined.
	return &cobra.Command{Use: "hook EVENT", Short: "Serve one hook call of a harness (injected hooks run this)", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return usage("hook must be the first argument") }}
}
