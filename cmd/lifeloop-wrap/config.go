package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/internal/config"
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
