//go:build linux

package main

import (
	"io"

	"github.com/spf13/cobra"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/simulate"
	"lifeloop/view"
)

func simulateCmd() *cobra.Command {
	as := "lifeloop"
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Try a retry and fallback policy on a scripted harness, in no time",
		Long: `simulate plays a world, a policy and what each launch under it does, against the
code that supervises real sessions, in virtual time, and prints what would be
told, as JSON Lines. The same file prints the same bytes.

A FILE is one JSON object, - standard input:

  {"plan":{"profiles":[{"name":"a"},{"name":"b"}],
    "retry":{"attempts":2,"retry_on":["model","network"],"backoff":{"kind":"exponential","base_ms":1000}},
    "timeouts_ms":{"initial":5000,"inter":10000}},
   "launches":{"a":[[{"output":"one"},{"fail":"network"}],[{"hang":true}]],"b":[[{"output":"done"}]]},
   "control":[{"at_ms":60000,"do":"abort"}]}

What plan leaves out is off. docs/CLI.md has every member and every step. It
exits with 1 when the session would never end, and says what everybody waits
for; how the session ends does not matter.`,
		Example: `  lifeloop-wrap simulate world.json --as facts | jq -c .fact
  lifeloop-wrap simulate world.json --as hcp`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			var tell func(kernel.Entry) error
			switch as {
			case "lifeloop":
				tell = func(e kernel.Entry) error { return printEvent(out, e) }
			case "facts":
				tell = func(e kernel.Entry) error { return printFact(out, e) }
			case "hcp":
				tell = tellHCP(out)
			default:
				return usage("--as %s: want lifeloop, hcp or facts", as)
			}
			text, err := readInput(cmd, args[0])
			if err != nil {
				return err
			}
			world, err := simulate.Parse(text)
			if err != nil {
				return no(lifeloop.InvalidRequest, "%s: %v", args[0], err).withHint("lifeloop-wrap simulate --help shows what a world looks like")
			}
			result := world.Run()
			for _, e := range result.Entries {
				if err := tell(e); err != nil {
					return err
				}
			}
			if result.Stuck {
				return no(lifeloop.Timeout, "%s", result.Why).withHint("a time-out in plan.timeouts_ms, or an abort in control, ends it")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", as, "`FORM`: lifeloop, hcp or facts")
	return cmd
}

func tellHCP(out io.Writer) func(kernel.Entry) error {
	var hcp view.HCP
	return func(e kernel.Entry) error {
		for _, m := range hcp.Apply(e) {
			if err := printJSON(out, m); err != nil {
				return err
			}
		}
		return nil
	}
}
