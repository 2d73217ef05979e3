package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/canon"
	"lifeloop/gate"
	"lifeloop/gate/acts"
	"lifeloop/gate/starter"
	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/internal/vt"
	"lifeloop/telemetry"
)

func policyCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "policy", Short: "Write a policy to start with; test a policy"})
	cmd.AddCommand(&cobra.Command{
		Use: "init [FILE]", Short: "Write a policy to start with", Args: cobra.MaximumNArgs(1),
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
this folder, but without rate limits, and prints the cases whose result is not the
wanted one. A case has the wanted verdict, optionally a reason that must be among the
reason codes of the decision, and one of:

  command, write, delete, read, url   a call of a tool; the key tool may name the tool
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

// A policyCase is one case of policy test.
type policyCase struct {
	Tool    string `yaml:"tool"`
	Command string `yaml:"command"`
	Write   string `yaml:"write"`
	Delete  string `yaml:"delete"`
	Read    string `yaml:"read"`
	URL     string `yaml:"url"`
	Launch  string `yaml:"launch"`
	Renew   string `yaml:"renew"`
	Inject  string `yaml:"inject"`
	Verdict string `yaml:"verdict"`
	Reason  string `yaml:"reason"`
}

// A caseResult is what a policy decided about a case.
type caseResult struct {
	Case    string   `json:"case"`
	Want    string   `json:"want"`
	Got     string   `json:"got"`
	Reasons []string `json:"reason_codes"`
	OK      bool     `json:"ok"`
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
	results, text, failed := []caseResult{}, "", 0
	for i, c := range cases {
		r, err := c.result(keeper)
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

func readCases(cmd *cobra.Command, file string) (cases []policyCase, err error) {
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

// result evaluates a case.
func (c policyCase) result(g *gatekeeper) (r caseResult, err error) {
	scene := g.scene
	scene.Now = time.Now()
	var intent gate.Intent
	if !gate.Verdict(c.Verdict).Valid() {
		return r, fmt.Errorf("verdict is %q; want allow, dry_run, require_approval or block", c.Verdict)
	}
	if !c.single() {
		return r, errors.New("want exactly one of command, write, delete, read and url, with or without tool, or one of tool, launch, renew and inject alone")
	}
	switch {
	case c.Launch != "":
		r.Case = "launch " + c.Launch
		intent, err = acts.Launch{Program: c.Launch}.Intent(scene)
	case c.Renew != "":
		r.Case = "renew " + c.Renew
		intent, err = acts.Renewal{Program: c.Renew}.Intent(scene)
	case c.Inject != "":
		r.Case = "inject " + c.Inject
		intent, err = acts.Delivery{Placement: c.Inject}.Intent(scene)
	default:
		var use telemetry.ToolUse
		use, r.Case = c.use()
		intent, err = acts.Tool{ToolUse: use}.Intent(scene)
	}
	if err != nil {
		return r, err
	}
	d := g.policy.Decide(intent, producer())
	r.Want, r.Got, r.Reasons = c.Verdict, string(d.Result.Verdict), d.Result.ReasonCodes
	r.OK = r.Got == r.Want && (c.Reason == "" || slices.Contains(r.Reasons, c.Reason))
	if c.Reason != "" {
		r.Want += " (" + c.Reason + ")"
	}
	return r, nil
}

// single reports whether a case describes one act.
func (c policyCase) single() bool {
	given := 0
	for _, key := range []string{c.Command, c.Write, c.Delete, c.Read, c.URL, c.Launch, c.Renew, c.Inject} {
		if key != "" {
			given++
		}
	}
	if c.Tool == "" {
		return given == 1
	}
	return given <= 1 && c.Launch == "" && c.Renew == "" && c.Inject == ""
}

// use returns the tool call that a case describes.
func (c policyCase) use() (u telemetry.ToolUse, name string) {
	name = "tool " + c.Tool // a tool call without arguments
	set := func(what, value, tool string, do func()) {
		if value != "" {
			name, u.Name = what+" "+value, tool
			do()
		}
	}
	set("command", c.Command, "bash", func() { u.Commands = []string{c.Command} })
	set("write", c.Write, "write", func() { u.Paths = []telemetry.PathUse{{Path: c.Write, Op: "write"}} })
	set("delete", c.Delete, "delete", func() { u.Paths = []telemetry.PathUse{{Path: c.Delete, Op: "delete"}} })
	set("read", c.Read, "read", func() { u.Paths = []telemetry.PathUse{{Path: c.Read, Op: "read"}} })
	set("url", c.URL, "webfetch", func() { u.URLs = []string{c.URL} })
	if c.Tool != "" {
		u.Name = c.Tool
	}
	u.Args = &telemetry.Sized{Digest: string(canon.Sum([]byte(name))), Size: int64(len(name))}
	return u, name
}
