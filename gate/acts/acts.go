// Package acts describes the acts of a session as IntentRequests for package gate: the
// launch and the renewal of a harness, the delivery of a payload to its model, and the
// harness's own tool calls. An intent names what an act touches. It holds no prompt,
// no payload and no value of a variable. Arguments appear only as digests.
//
//	intent, err := acts.Launch{Program: "claude", …}.Intent(acts.Scene{…})
//	decision := policy.Decide(intent, producer)
package acts

import (
	"cmp"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/gate"
)

// A Scene says for whom and where an act happens.
type Scene struct {
	Session   string
	Identity  string // the user
	Workspace string // the folder of the session, absolute
	Home      string // the user's home; empty if unknown
	Producer  string
	Now       time.Time
	// Resolve follows the symbolic links of an absolute path, as far as the path exists.
	// Like the operating system, Resolve first follows the links before a .., and then takes
	// the parent of the folder to which they lead. If Resolve is nil, links are not followed.
	Resolve func(path string) string
	// Exists reports whether an absolute path exists. If Exists is nil, x in "git
	// checkout x" counts as a branch and not as a file, and the first operand of yq
	// counts as a file.
	Exists func(path string) bool
}

// A Launch is one start of a harness.
type Launch struct {
	Adapter string
	Program string   // base name
	Args    []string // only their number and digest are used
}

// The risk classes of intents.
const (
	riskLow      = "low"
	riskMedium   = "medium"
	riskHigh     = "high"
	riskCritical = "critical"
)

// Intent returns the intent of a launch.
func (l Launch) Intent(s Scene) (gate.Intent, error) {
	return s.intent(gate.ActLaunch, riskCritical,
		map[string]any{"adapter": l.Adapter, "program": l.Program, "argument_count": len(l.Args), "arguments_digest": digest(l.Args)},
		[]gate.Target{{Kind: "other", Value: l.Program, Operation: "spawn", EndpointClass: "proc.exec"}})
}

// A Renewal is a move of the session into a fresh harness session. Number is one more
// than the number of the session's renewals that began a reset (see package renewal).
type Renewal struct {
	Adapter, Program string
	ID, Profile      string
	Client           string // id of the client that owns the continuation, the text for the fresh session
	By, Path         string
	Number           int
}

// Intent returns the intent of a renewal. A renewal executes the programs of a profile,
// and starts the harness anew: both are targets.
func (r Renewal) Intent(s Scene) (gate.Intent, error) {
	return s.intent(gate.ActRenew, riskCritical,
		map[string]any{"adapter": r.Adapter, "renewal_id": r.ID, "profile": r.Profile, "client_id": r.Client, "requested_by": r.By, "path": r.Path, "number": r.Number},
		[]gate.Target{{Kind: "other", Value: cmp.Or(r.Profile, "profile"), Operation: "exec", EndpointClass: "proc.exec"},
			{Kind: "other", Value: r.Program, Operation: "spawn", EndpointClass: "proc.exec"}})
}

// A Delivery is one payload that a client wants the model to read.
type Delivery struct {
	Client, ID, Kind string
	Digest           string // digest of the body, with the prefix sha256:
	Placement, Slot  string
	Bytes            int
}

// Intent returns the intent of a delivery. It contains no text of the payload.
func (d Delivery) Intent(s Scene) (gate.Intent, error) {
	return s.intent(gate.ActInject, riskMedium,
		map[string]any{"client_id": d.Client, "payload_id": d.ID, "payload_kind": d.Kind, "payload_digest": strings.TrimPrefix(d.Digest, "sha256:"),
			"placement": d.Placement, "slot": d.Slot, "byte_size": d.Bytes},
		[]gate.Target{{Kind: "other", Value: d.Placement, Operation: "inject", EndpointClass: "other"}})
}

// digest returns the SHA-256 of a value's canonical form.
func digest(v any) string {
	doc, err := canon.Marshal(v)
	if err != nil { // encoding strings cannot fail
		return ""
	}
	return hexOf(doc)
}

func hexOf(doc []byte) string {
	const prefix = len("sha256:")
	return string(canon.Sum(doc))[prefix:]
}

func (s Scene) intent(tool, risk string, args map[string]any, targets []gate.Target) (gate.Intent, error) {
	return gate.Request{CreatedAt: s.Now, Producer: s.Producer, ToolName: tool, Args: args, Targets: targets,
		Context: gate.Context{Identity: s.Identity, Workspace: s.Workspace, RiskClass: risk, SessionID: s.Session}}.Intent()
}
