package main

import (
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/internal/doctor"
	"lifeloop/profiles"
)

func doctorCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [ADAPTER]",
		Short: "Find problems with harnesses, sessions and this machine",
		Long: `doctor examines each harness, its hooks, its sessions of this folder and the
recorded sessions, then this machine. It names a command for each problem. It
starts a harness only to ask for its version, and changes nothing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return doctor.Examine(doctor.Config{Version: version, StateDir: cfg.StateDir, Adapters: chosen, Named: len(args) > 0,
		Host: profiles.Host{Env: os.Environ(), Dir: realPath(dir), Exe: exe, Hook: hookWords(exe), RunDir: "/nonexistent/run", Socket: "/nonexistent/door",
			SessionID: uuid.Nil.String(), NewID: uuid.Nil.String(), Terminal: true, ReadFile: os.ReadFile, Real: realPath},
		Installed: installation, Settings: hostStore(cfg.StateDir)}), nil
}
