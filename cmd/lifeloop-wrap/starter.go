package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/gate/acts"
	"lifeloop/gate/starter"
	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/internal/vt"
)

func policyCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "policy", Short: "Write a starter policy; test a policy"})
	cmd.AddCommand(&cobra.Command{
		Use: "init [FILE]", Short: "Write a starter policy", Args: cobra.MaximumNArgs(1),
		Long: `init writes a policy for run --policy: it denies writes outside of the workspace,
access to files that hold secrets, and changes of the harness's own settings. It
requires an approval for destructive commands, and for commands whose effect cannot be
known before they run. It allows the rest. init also writes cases for policy test:
with policy.yaml as FILE, they are in policy.cases.yaml. Without FILE it prints the
policy.`,
		RunE: func(cmd *cobra.Command, args []string) error { return g.initPolicy(cmd, args) },
	}, &cobra.Command{
		Use: "test FILE CASES", Short: "Test a policy with cases", Args: cobra.ExactArgs(2),
		Long: `test evaluates each case of CASES (YAML) by the policy FILE, as run --policy does in
this folder, but without the rate_limit of a rule, and prints the cases whose result is
not the wanted one. A case has the wanted verdict, optionally a reason that must be
among the reason codes of the decision, and one of:

  command, write, delete, read, url   a tool call; the optional key "tool" names the tool
  tool without any of these           a call of that tool without arguments
  launch, renew                       the program that is launched or renewed
  inject                              the placement of a payload`,
		RunE: func(cmd *cobra.Command, args []string) error { return g.testPolicy(cmd, args[0], args[1]) },
	})
	return cmd
}

func (g *globals) initPolicy(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		_, err := fmt.Fprint(cmd.OutOrStdout(), starter.Policy())
		return err
	}
	cases := strings.TrimSuffix(args[0], ".yaml") + ".cases.yaml"
	if err := writeNew(cases, []byte(starter.Cases()), 0o644); err != nil {
		return err
	}
	if err := writeNew(args[0], []byte(starter.Policy()), 0o644); err != nil {
		_ = os.Remove(cases) // remove the file that was created above
		return err
	}
	return g.print(cmd, map[string]any{"ok": true, "policy": args[0], "cases": cases}, args[0]+"\n"+cases+"\n")
}

func (g *globals) testPolicy(cmd *cobra.Command, file, caseFile string) error {
	policy, err := readPolicy(cmd, file)
	if err != nil {
		return err
	}
	cases, err := readCases(cmd, caseFile)
	if err != nil {
		return err
	}
	keeper := newGatekeeper(policy, "policy-test", nil)
	results, text, failed := []acts.CaseResult{}, "", 0
	for i, c := range cases {
		scene := keeper.scene
		scene.Now = time.Now()
		r, err := c.Result(policy, scene)
		if err != nil {
			return notEvaluable("cases %s: case %d: %v", caseFile, i+1, err)
		}
		results = append(results, r)
		if !r.OK {
			failed++
			text += fmt.Sprintf("%s: %s (%s), want %s\n", vt.Plain(r.Case), r.Got, strings.Join(r.Reasons, ", "), r.Want)
		}
	}
	text += fmt.Sprintf("%d cases, %d differ\n", len(results), failed)
	if err := g.print(cmd, map[string]any{"ok": failed == 0, "policy_digest": policy.Digest(), "cases": results}, text); err != nil {
		return err
	}
	if failed > 0 {
		return exitCode(exitNo)
	}
	return nil
}

func readCases(cmd *cobra.Command, file string) (cases []acts.Case, err error) {
	text, err := readInput(cmd, file)
	if err != nil {
		return nil, notEvaluable("%v", err)
	}
	doc, err := yaml.Parse(text)
	if err == nil {
		err = document.Decode(doc, &cases, "", nil)
	}
	if err != nil {
		return nil, notDecoded("cases", file, err)
	}
	return cases, nil
}
