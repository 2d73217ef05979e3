package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/simulate"
	"lifeloop/view"
)

func simulateCmd() *cobra.Command {
	as, callbacks := "lifeloop", false
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Try a retry and fallback policy on a scripted harness, in no time",
		Long: `simulate plays a world, a policy and what each launch under it does, against the
code that supervises real sessions, in virtual time, and prints what would be
told, as JSON Lines. The same file prints the same bytes.

A FILE is YAML or JSON, - standard input:

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
			tell, ok := tongue(cmd.OutOrStdout(), as, callbacks)
			if !ok {
				return usage("--as %s: want lifeloop, hcp, l0 or facts", as)
			}
			if callbacks && as != "l0" {
				return usage("--callbacks: they are those of L0").withHint("--as l0 --callbacks")
			}
			text, err := readInput(cmd, args[0])
			if err != nil {
				return err
			}
			doc, err := yaml.Parse(text)
			var world simulate.World
			if err == nil {
				world, err = simulate.Parse(doc)
			}
			if fault, ok := errors.AsType[*document.Error](err); ok {
				return no(lifeloop.InvalidRequest, "%s", fault.In(args[0])).withHint("lifeloop-wrap simulate --help shows what a world looks like")
			}
			result := world.Run()
			for _, e := range result.Entries {
				if err := tell(e, result.Texts[e.Seq]); err != nil {
					return err
				}
			}
			if result.Stuck {
				return no(lifeloop.Timeout, "%s", result.Why).withHint("a time-out in plan.timeouts_ms, or an abort in control, ends it")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", as, "`FORM`: lifeloop, hcp, l0 or facts")
	cmd.Flags().BoolVar(&callbacks, "callbacks", false, "with --as l0, the callbacks too, each behind its event")
	return cmd
}

// tongue prints entries in one form or another, L0 with the words of the
// script.
func tongue(out io.Writer, as string, callbacks bool) (tell func(kernel.Entry, *simulate.Text) error, ok bool) {
	switch as {
	case "lifeloop":
		return func(e kernel.Entry, _ *simulate.Text) error { return printEvent(out, e) }, true
	case "facts":
		return func(e kernel.Entry, _ *simulate.Text) error { return printFact(out, e) }, true
	case "hcp":
		var hcp view.HCP
		return func(e kernel.Entry, _ *simulate.Text) error {
			for _, m := range hcp.Apply(e) {
				if err := printJSON(out, m); err != nil {
					return err
				}
			}
			return nil
		}, true
	case "l0":
		var said *simulate.Text // with the entry that is being told
		l0 := view.L0{
			Tool: func(string) (args, result any, ok bool) {
				if said == nil {
					return nil, nil, false
				}
				if said.Words != "" {
					return nil, said.Words, true
				}
				return said.Arguments, said.Result, true
			},
			Words: func(string) string {
				if said == nil {
					return ""
				}
				return said.Words
			},
		}
		return func(e kernel.Entry, text *simulate.Text) error {
			said = text
			for _, event := range l0.Apply(e) {
				for _, line := range l0Lines(event, callbacks) {
					if err := printJSON(out, line); err != nil {
						return err
					}
				}
			}
			return nil
		}, true
	}
	return nil, false
}
