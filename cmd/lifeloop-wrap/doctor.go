package main

import (
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/doctor"
	"lifeloop/profiles"
)

func doctorCmd(g *globals) *cobra.Command {
	var probes bool
	var inside string
	cmd := &cobra.Command{
		Use:   "doctor [ADAPTER]",
		Short: "Find problems with harnesses, sessions and this machine",
		Long: `doctor examines each harness, its hooks and its conversations in the current folder,
the sessions that lifeloop-wrap has recorded, and this machine. For each problem it
names a command to run next. It starts a harness only to ask for its version. It
changes nothing, except that it writes missing summaries of recorded sessions, creates
the folder for sockets, and removes empty control groups that earlier runs with
--contain have left.

With --probe it plays one turn of the installed harness with a scripted model on
loopback, without an account, and stores what worked with this version of the harness.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if probes {
				if len(args) == 0 {
					return usage("doctor --probe needs an ADAPTER")
				}
				return g.probeAdapter(cmd, args[0], inside)
			}
			r, err := g.examine(cmd, args)
			if err != nil {
				return err
			}
			if g.json {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				err = r.Print(cmd.OutOrStdout(), len(args) > 0)
			}
			if err == nil && !r.OK {
				err = exitCode(exitNo)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&probes, "probe", false, "play one turn of ADAPTER's harness with a scripted model and store what worked")
	cmd.Flags().StringVar(&inside, "probe-in", "", "")
	_ = cmd.Flags().MarkHidden("probe-in")
	return cmd
}

func (g *globals) examine(cmd *cobra.Command, args []string) (*doctor.Report, error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return nil, err
	}
	var chosen []profiles.Profile
	for _, id := range profiles.Adapters() {
		p, _ := profiles.For(id)
		if len(args) == 0 && len(p.Programs) > 0 || len(args) > 0 && args[0] == id {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return nil, noAdapter(args[0])
	}
	host, err := surroundings()
	if err != nil {
		return nil, err
	}
	host.RunDir, host.Socket, host.SessionID, host.NewID = "/nonexistent/run", "/nonexistent/door", uuid.Nil.String(), uuid.Nil.String()
	host.Terminal = true
	host.Guards, host.Guarded = cfg.Policy != "", guardedAs(host.RunDir, cfg.StateDir)
	host.Key, host.Instructions = "/nonexistent/key", "http://127.0.0.1:1/instructions" // placeholders, because nothing is started
	var notes, problems []doctor.Finding
	if _, err := policyOf(cfg); err != nil {
		problems = append(problems, doctor.Finding{About: "machine", What: "lifeloop-wrap run refuses to start: " + err.Error(), Fix: "lifeloop-wrap gate eval --policy FILE --intent FILE # tests a policy"})
	}
	if r := cfg.Ignored; r != nil {
		notes = append(notes, doctor.Finding{About: "machine", What: r.Path + " is not used: " + r.Why, Fix: g.trustCommand(r)})
	}
	for _, e := range cfg.Exposures() {
		notes = append(notes, doctor.Finding{About: "machine", What: exposureText(e), Fix: "lifeloop-wrap config show"})
	}
	return doctor.Examine(doctor.Config{Notes: notes, Problems: problems, Version: version, StateDir: cfg.StateDir, Adapters: chosen, Named: len(args) > 0,
		Retained: cfg.Retention != (config.Retention{}), Host: host, Needs: func(adapter string) string { return needsHooks(cfg, adapter) }, Installed: func(p profiles.Profile, project bool) (profiles.Installation, error) {
			return installation(p, project, "")
		}, Settings: hostStore(cfg.StateDir)}), nil
}

// existing returns path if it exists, or else the nearest folder above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}
