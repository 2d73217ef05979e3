package simulate

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"lifeloop/gate"
	"lifeloop/gate/acts"
	"lifeloop/internal/document"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file simulates the gate: its policy, the tool calls of a script, and the person
// who approves or denies them.

// guards holds the gate's policy in a world, and how long an act may wait for an
// approval.
type guards struct {
	gate         *gate.Policy  // nil if nothing is guarded
	approvalWait time.Duration // how long an act waits for an approval
}

// Guarded returns the world with p as the gate's policy, instead of the policy in
// its document.
func (w World) Guarded(p *gate.Policy) World {
	w.gate = p
	return w
}

// guard decodes text, the value of the member policy, as the gate's policy. If doc has no
// such member, guard sets no policy. wait is how long an act waits for an approval.
func (w *World) guard(doc, text document.Value, wait time.Duration) error {
	w.approvalWait = wait
	if _, given := doc.Member("policy"); !given {
		return nil
	}
	var err error
	w.gate, err = gate.DecodePolicy(text)
	if f, ok := errors.AsType[*document.Error](err); ok {
		f.Path = strings.TrimSuffix("policy."+f.Path, ".")
	}
	return err
}

// A toolText is a tool call as written in the document.
type toolText struct {
	ID      string `yaml:"id"`
	Name    string `yaml:"name"`
	Command string `yaml:"command"`
	Write   string `yaml:"write"`
	Delete  string `yaml:"delete"`
	Read    string `yaml:"read"`
	URL     string `yaml:"url"`
	CanAsk  bool   `yaml:"can_ask"`
}

// readTool reads a tool call into the step.
func (s *step) readTool(v document.Value, path string) error {
	var text toolText
	if err := document.Decode(v, &text, path, nil); err != nil {
		return err
	}
	u := &telemetry.ToolUse{Tool: cmp.Or(text.ID, path), Name: text.Name, Dir: workspace, CanAsk: text.CanAsk}
	for op, name := range map[string]string{"write": text.Write, "delete": text.Delete, "read": text.Read} {
		if name != "" {
			u.Paths = append(u.Paths, telemetry.PathUse{Path: name, Op: op})
		}
	}
	if text.Command != "" {
		u.Commands = []string{text.Command}
	}
	if text.URL != "" {
		u.URLs = []string{text.URL}
	}
	if len(u.Paths)+len(u.Commands)+len(u.URLs) != 1 {
		return fault(path, "a tool call needs exactly one of command, write, delete, read and url")
	}
	u.Name = cmp.Or(u.Name, "bash")
	s.use = u
	return nil
}

// The folders of a simulation. They need not exist.
const (
	workspace = "/work"
	home      = "/home/user"
)

// decide applies the gate's policy to answer a question of the kernel.
func (p *player) decide(e effect.AskGate) {
	in := input.GateDecided{Ask: e.Ask}
	intent, err := p.intent(e)
	if err != nil {
		in.Failure, in.Why = lifeloop.InvalidRequest, "the policy cannot evaluate the intent request for this act"
		p.cause(in)
		return
	}
	d := p.limit.Apply(p.world.gate, p.world.gate.Decide(intent, source), intent, p.now)
	in.Decision = input.GateDecision{Tool: intent.ToolName, Verdict: d.Result.Verdict, Reasons: d.Result.ReasonCodes, Violations: d.Result.Violations,
		Rule: d.MatchedRule, IntentDigest: intent.IntentDigest, ArgsDigest: intent.ArgsDigest, PolicyDigest: d.PolicyDigest, TraceID: d.TraceID}
	p.cause(in)
}

func (p *player) intent(e effect.AskGate) (gate.Intent, error) {
	scene := acts.Scene{Session: Session, Identity: source, Workspace: workspace, Home: home, Producer: source, Now: p.now}
	profile := p.world.policy.Profiles[e.Profile]
	switch {
	case e.Use != nil:
		return acts.Tool{ToolUse: *e.Use}.Intent(scene)
	case e.Payload != nil:
		d := e.Payload
		return acts.Delivery{Client: d.Client, ID: d.ID, Kind: d.Kind, Digest: d.Digest, Placement: string(d.Placement), Slot: d.Slot, Bytes: d.Bytes}.Intent(scene)
	case e.Renewal != nil:
		r := e.Renewal
		return acts.Renewal{Adapter: profile.Adapter, Program: profile.Name, ID: r.ID, Profile: r.Profile, Client: r.Client, By: string(r.By), Path: string(r.Path), Number: r.Number}.Intent(scene)
	}
	return acts.Launch{Adapter: profile.Adapter, Program: profile.Name}.Intent(scene)
}

// waiting updates p.approvals after a fact about an approval.
func (p *player) waiting(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.ApprovalAsked:
		p.approvals = append(p.approvals, f)
	case kernel.ApprovalAnswered:
		p.approvals = slices.DeleteFunc(p.approvals, func(q kernel.ApprovalAsked) bool { return q.Ask == f.Ask })
	}
}

// approve sends the command approve or deny, about the act that has waited longest.
func (p *player) approve(do string) {
	in := input.ApprovalGiven{Ask: byControl, Approve: do == doApprove}
	if len(p.approvals) > 0 {
		in.Intent = p.approvals[0].Intent
	}
	p.cause(in)
}

// tool performs a tool step: the harness calls its hook before a tool call, and
// waits for the answer.
func (p *player) tool(s step) {
	call := p.hook("tool", "", telemetry.Signal{Kind: telemetry.ToolStart, Source: source, Detail: s.path, Tool: s.use.Tool, ToolName: s.use.Name})
	call.Call.Use = s.use
	p.launch.waits, p.launch.use, p.launch.due = call.Hook, s.use, time.Time{}
	p.feed(call)
}

// answered continues the harness after the answer to the hook call about its tool. The
// tool is refused if the answer has a verdict other than allow. Without a policy there
// is no verdict, and the tool runs.
func (p *player) answered(e effect.HookAnswer) {
	l := &p.launch
	if !l.alive || l.waits != e.Hook {
		return
	}
	l.waits = ""
	end := telemetry.Signal{Kind: telemetry.ToolEnd, Source: source, Detail: "tool", Tool: l.use.Tool, ToolName: l.use.Name}
	if e.Verdict != nil && e.Verdict.Decision != telemetry.Allow {
		end.ToolError = telemetry.ToolRefused
	}
	p.cause(input.SignalsSeen{Signals: []telemetry.Signal{end}})
	if p.plan(); l.held {
		l.left = l.due.Sub(p.now)
	}
}
