package main

import (
	"errors"

	"github.com/spf13/cobra"

	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/lifeloop"
	"lifeloop/simulate"
	"lifeloop/view"
)

func simulateCmd() *cobra.Command {
	as, callbacks, guard := "lifeloop", false, ""
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Try a retry and fallback policy on a scripted harness",
		Long: `simulate runs the code that supervises real sessions, but with a scripted harness
and in virtual time, and prints the events as JSON Lines. The same file always gives
the same output.

FILE is YAML or JSON; - is standard input. An example:

  {"plan":{"profiles":[{"name":"a"},{"name":"b"}],
    "retry":{"attempts":2,"retry_on":["model","network"],"backoff":{"kind":"exponential","base_ms":1000}},
    "timeouts_ms":{"initial":5000,"inter":10000}},
   "launches":{"a":[[{"output":"one"},{"fail":"network"}],[{"hang":true}]],"b":[[{"output":"done"}]]},
   "control":[{"at_ms":60000,"do":"abort"}]}

"renewal":{"profile":"handoff"} sets a renewal profile; without one, {"do":"renew"}
in control is refused.
"policy":{…} is a policy of the gate, in the form that policy init writes. It decides
on launches, renewals and the step {"tool":{"command":"rm -rf x"}}; --as facts shows
its decisions.
A setting that is missing in plan is off or has a default. docs/CLI.md describes
every member, with its default, and every step. The exit code is 1 if the session
would never end; the error says what it waits for.`,
		Example: `  lifeloop-wrap simulate world.json --as facts | jq -c .fact
  lifeloop-wrap simulate world.json --as hcp`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text *simulate.Text
			render, err := rendering(as, callbacks, scriptedL0(&text))
			if err != nil {
				return err
			}
			script, err := readInput(cmd, args[0])
			if err != nil {
				return err
			}
			var world simulate.World
			doc, err := yaml.Parse(script)
			if err == nil {
				world, err = simulate.Parse(doc)
			}
			if fault, ok := errors.AsType[*document.Error](err); ok {
				return no(lifeloop.InvalidRequest, "%s", fault.In(args[0])).withHint("lifeloop-wrap simulate --help shows an example")
			}
			if guard != "" {
				p, err := readPolicy(cmd, guard)
				if err != nil {
					return err
				}
				world = world.Guarded(p)
			}
			result := world.Run()
			for _, e := range result.Entries {
				text = result.Texts[e.Seq]
				if err := printLines(cmd.OutOrStdout(), render(e)); err != nil {
					return err
				}
			}
			if result.Stuck {
				return no(lifeloop.Timeout, "%s", result.Why).withHint("add a timeout to plan.timeouts_ms, or an abort to the list named control")
			}
			return nil
		},
	}
	formFlags(cmd, &as, &callbacks)
	cmd.Flags().StringVar(&guard, "policy", "", "`FILE` with the gate policy, used instead of the policy in the simulated file")
	return cmd
}

// scriptedL0 returns a [view.L0], which computes the events of the L0 specification
// (docs/contract/l0.md). The arguments, results and texts in these events are those of
// the script. *text must be set to the texts of an entry before the entry is applied.
func scriptedL0(text **simulate.Text) *view.L0 {
	return &view.L0{
		Tool: func(string) (args, result any, ok bool) {
			switch t := *text; {
			case t == nil:
				return nil, nil, false
			case t.Words != "":
				return nil, t.Words, true
			default:
				return t.Arguments, t.Result, true
			}
		},
		Words: func(string) string {
			if *text == nil {
				return ""
			}
			return (*text).Words
		},
	}
}
