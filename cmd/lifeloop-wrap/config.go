package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/vt"
)

func configCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "config", Short: "Show the configuration or its schema"})
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "Print each value of the configuration and its origin", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := g.load(cmd)
			if err != nil {
				return err
			}
			b, err := config.ShowJSON(cfg, origins)
			if err != nil {
				return err
			}
			return g.print(cmd, json.RawMessage(b), config.Show(cfg, origins))
		},
	}, &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema (2020-12) of a configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), strings.TrimRight(string(config.Schema()), "\n")+"\n")
			return err
		},
	})
	return cmd
}

// warnOf prints warnings on stderr, before a harness uses the terminal: that the
// project's file is not used, and which values of the configuration other users
// can see.
func (g *globals) warnOf(cmd *cobra.Command, cfg config.Config) {
	w := cmd.ErrOrStderr()
	if r := cfg.Ignored; r != nil && g.json {
		_ = printJSON(w, struct {
			Warning string `json:"warning"`
			Path    string `json:"path"`
			Why     string `json:"why"`
			Hint    string `json:"hint"`
		}{"project_file_ignored", r.Path, r.Why, g.trustHint(r)})
	} else if r != nil {
		fmt.Fprintf(w, "lifeloop-wrap: ignoring %s: %s\nhint: %s\n", vt.Plain(r.Path), vt.Plain(r.Why), g.trustHint(r))
	}
	for _, e := range cfg.Exposures() {
		if g.json {
			_ = printJSON(w, struct {
				Warning  string `json:"warning"`
				Key      string `json:"key"`
				Variable string `json:"variable"`
				Hint     string `json:"hint"`
			}{"variable_in_arguments", e.Key, e.Variable, exposureHint(e)})
			continue
		}
		fmt.Fprintf(w, "lifeloop-wrap: %s\nhint: %s\n", exposureText(e), exposureHint(e))
	}
	for _, name := range cfg.ExposedTokens() {
		if g.json {
			_ = printJSON(w, struct {
				Warning string `json:"warning"`
				Profile string `json:"profile"`
				Hint    string `json:"hint"`
			}{"token_in_arguments", name, tokenHint})
			continue
		}
		fmt.Fprintf(w, "lifeloop-wrap: profile %s passes the continuation of a renewal to its continue program as an argument, which all users of this machine can see while the program runs\nhint: %s\n", vt.Plain(name), tokenHint)
	}
}

const tokenHint = "if the program can read a file, use a profile of your own with {token_file} in place of {token}"

func exposureText(e config.Exposure) string {
	return fmt.Sprintf("%s has ${env:%s} in its arguments, which all users of this machine can see", e.Key, vt.Plain(e.Variable))
}

func exposureHint(e config.Exposure) string {
	if strings.HasPrefix(e.Key, "attempts.profiles") {
		return "the harness inherits the variable: let it read the value from its environment"
	}
	beside := e.Key
	if profile, _, found := strings.Cut(e.Key, "]."); found && strings.HasPrefix(e.Key, "profiles[") {
		beside = profile + "].name" // inherit is a key of the profile, not of prepare or continue
	}
	return fmt.Sprintf("let the program read the variable from its environment: in the configuration, add %s to the list named inherit, a key on the same level as %s", vt.Plain(e.Variable), beside)
}
