package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
	"lifeloop/gate"
	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// Exit codes of gate eval. They are those of the public reference implementation, gait
// (see package evidence).
const (
	exitBlocked      = 3
	exitApproval     = 4
	exitNotEvaluable = 6
)

// notEvaluable returns a failure with exit code 6. For gate eval it means that there is
// no verdict, so the act is not permitted; for the commands of evidence, that the input
// cannot be used.
func notEvaluable(format string, args ...any) *failure {
	return &failure{code: exitNotEvaluable, class: lifeloop.InvalidRequest, text: fmt.Sprintf(format, args...)}
}

// evaluation holds the flags of gate eval.
type evaluation struct{ policy, intent, key, trace string }

func gateCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "gate", Short: "Evaluate whether a policy permits an act"})
	var e evaluation
	eval := &cobra.Command{
		Use: "eval --policy FILE --intent FILE", Short: "Print the verdict of a policy on an intent", Args: cobra.NoArgs,
		Long: `eval evaluates one IntentRequest (JSON), the description of an act, against a
policy (YAML) and prints the verdict. Only the verdict allow permits the act.
The exit code is 0 for allow and for dry_run, 3 for block, 4 for
require_approval, and 6 if there is no verdict: the policy or the intent cannot
be evaluated, or the trace cannot be written. Rate limits count this act only,
not the acts of sessions or of earlier calls of eval.

With --key and --trace-out it writes a signed TraceRecord.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return g.evalIntent(cmd, e) },
	}
	eval.Flags().StringVar(&e.policy, "policy", "", "`FILE` with the policy")
	eval.Flags().StringVar(&e.intent, "intent", "", "`FILE` with the intent, - for standard input")
	eval.Flags().StringVar(&e.key, "key", "", "`FILE` with the private key that signs the trace")
	eval.Flags().StringVar(&e.trace, "trace-out", "", "`FILE` to write the trace to")
	cmd.AddCommand(eval)
	return cmd
}

func (g *globals) evalIntent(cmd *cobra.Command, e evaluation) error {
	switch {
	case e.policy == "" || e.intent == "":
		return usage("gate eval needs --policy and --intent")
	case (e.key == "") != (e.trace == ""):
		return usage("--key and --trace-out must be given together").withHint("a trace without a signature proves nothing")
	}
	policy, err := readPolicy(cmd, e.policy)
	if err != nil {
		return err
	}
	doc, err := readInput(cmd, e.intent)
	if err != nil {
		return notEvaluable("%v", err)
	}
	in, err := gate.ParseIntent(doc)
	if err != nil {
		return notEvaluable("intent %s: %v", e.intent, err)
	}
	now := time.Now()
	d := new(gate.Limiter).Apply(policy, policy.Decide(in, producer()), in, now)
	if e.trace != "" {
		if err := writeTrace(cmd, e, d.Trace(in, now)); err != nil {
			return err
		}
	}
	if err := g.printDecision(cmd, in, d); err != nil {
		return err
	}
	switch d.Result.Verdict {
	case gate.Block:
		return exitCode(exitBlocked)
	case gate.RequireApproval:
		return exitCode(exitApproval)
	}
	return nil
}

// producer returns the producer_version of the gate's intents and results, and of the
// trace that gate eval writes. It contains a commit of gait, the public reference
// implementation: package gate normalizes intents by the rules of this commit, and other
// versions of gait compute other digests.
func producer() string { return "lifeloop-wrap/" + version + " (gait 1c480c5)" }

func readPolicy(cmd *cobra.Command, file string) (*gate.Policy, error) {
	text, err := readInput(cmd, file)
	if err != nil {
		return nil, notEvaluable("%v", err)
	}
	return parsePolicy(file, text)
}

func parsePolicy(file string, text []byte) (*gate.Policy, error) {
	doc, err := yaml.Parse(text)
	if err == nil {
		var p *gate.Policy
		if p, err = gate.DecodePolicy(doc); err == nil {
			return p, nil
		}
	}
	return nil, notDecoded("policy", file, err)
}

// notDecoded returns the failure for a document that cannot be decoded, with the position
// if it is known.
func notDecoded(what, file string, err error) *failure {
	if fault, ok := errors.AsType[*document.Error](err); ok {
		return notEvaluable("%s %s", what, fault.In(file))
	}
	return notEvaluable("%s %s: %v", what, file, err)
}

func writeTrace(cmd *cobra.Command, e evaluation, t gate.Trace) error {
	key, err := readPrivateKey(cmd, e.key)
	if err != nil {
		return err
	}
	if t, err = t.Signed(key); err != nil {
		return notEvaluable("sign the trace: %v", err)
	}
	doc, err := canon.Marshal(t)
	if err == nil {
		err = durable.WriteFile(e.trace, doc, 0o600)
	}
	if err != nil {
		return notEvaluable("write trace %s: %v", e.trace, err)
	}
	return nil
}

// readPrivateKey reads the private key of a command's --key. If users other than the
// file's owner have a permission on the file, readPrivateKey prints a warning and still
// reads the key.
func readPrivateKey(cmd *cobra.Command, file string) (ed25519.PrivateKey, error) {
	text, info, err := readNamed(file, pipeWait)
	if err == nil {
		if mode := info.Mode(); mode.IsRegular() && mode&0o077 != 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: warning: others can open the private key %s (mode %04o); chmod 600 %[1]s\n", vt.Plain(file), mode.Perm())
		}
		var key ed25519.PrivateKey
		if key, err = sign.ParsePrivate(text); err == nil {
			return key, nil
		}
	}
	return nil, notEvaluable("private key %s: %v", file, err).withHint("lifeloop-wrap evidence key new FILE makes a key pair")
}

func (g *globals) printDecision(cmd *cobra.Command, in gate.Intent, d gate.Decision) error {
	r := d.Result
	text := fmt.Sprintf("%s\nreasons: %s\n", r.Verdict, strings.Join(r.ReasonCodes, ", "))
	if len(r.Violations) > 0 {
		text += fmt.Sprintf("violations: %s\n", strings.Join(r.Violations, ", "))
	}
	if d.MatchedRule != "" {
		text += fmt.Sprintf("rule: %s\n", d.MatchedRule)
	}
	return g.print(cmd, map[string]any{"ok": true, "verdict": r.Verdict, "reason_codes": r.ReasonCodes, "violations": r.Violations,
		"args_digest": in.ArgsDigest, "intent_digest": in.IntentDigest, "policy_digest": d.PolicyDigest, "trace_id": d.TraceID,
		"matched_rule": d.MatchedRule}, text)
}
