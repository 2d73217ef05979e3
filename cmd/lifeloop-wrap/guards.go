package main

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"lifeloop/gate"
	"lifeloop/gate/acts"
	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
)

// A gatekeeper decides about the acts of one session by its policy.
type gatekeeper struct {
	policy *gate.Policy
	scene  acts.Scene
	ways   []way

	mu    sync.Mutex // protects limit, because calls of Decide may run at the same time
	limit gate.Limiter
}

// policyOf returns the policy of a run; nil if there is none. If the policy
// cannot be read, or a part of it cannot be evaluated, the run is refused. The policy
// must be a regular file, because reading a FIFO could block the run.
func policyOf(cfg config.Config) (*gate.Policy, error) {
	if cfg.Policy == "" {
		return nil, nil
	}
	text, err := durable.ReadLinked(cfg.Policy, maxInput)
	if err != nil {
		err = notEvaluable("policy: %v", err)
	}
	var policy *gate.Policy
	if err == nil {
		policy, err = parsePolicy(cfg.Policy, text)
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return nil, refused(f.class, "%s", f.text).withHint("the harness is started only under a policy that can be evaluated; lifeloop-wrap gate eval --policy FILE --intent FILE tests a policy")
	}
	return policy, err
}

// newGatekeeper returns the gate of a session; nil without a policy.
func newGatekeeper(policy *gate.Policy, session string, ways []way) *gatekeeper {
	if policy == nil {
		return nil
	}
	// The error of Getwd is ignored here: without a working directory, the function
	// surroundings fails, and no launch is prepared.
	dir, _ := os.Getwd()
	home, _ := os.UserHomeDir()
	identity := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(identity); err == nil {
		identity = u.Username
	}
	return &gatekeeper{policy: policy, ways: ways, scene: acts.Scene{Session: session, Identity: identity,
		Workspace: resolved(dir), Home: resolved(home), Producer: producer(), Resolve: resolved, Exists: exists}}
}

// digest returns the digest of the policy; empty without a policy.
func (g *gatekeeper) digest() string {
	if g == nil {
		return ""
	}
	return g.policy.Digest()
}

// Decide implements supervisor.Gate.
func (g *gatekeeper) Decide(e effect.AskGate) (input.GateDecision, error) {
	scene := g.scene
	scene.Now = time.Now()
	intent, err := g.intent(e, scene)
	if err != nil {
		return input.GateDecision{}, err
	}
	g.mu.Lock()
	d := g.limit.Apply(g.policy, g.policy.Decide(intent, producer()), intent, scene.Now)
	g.mu.Unlock()
	return input.GateDecision{Tool: intent.ToolName, Verdict: d.Result.Verdict, Reasons: d.Result.ReasonCodes, Violations: d.Result.Violations,
		Rule: d.MatchedRule, IntentDigest: intent.IntentDigest, ArgsDigest: intent.ArgsDigest, PolicyDigest: d.PolicyDigest, TraceID: d.TraceID}, nil
}

func (g *gatekeeper) intent(e effect.AskGate, scene acts.Scene) (gate.Intent, error) {
	if e.Use != nil {
		return acts.Tool{ToolUse: *e.Use}.Intent(scene)
	}
	if p := e.Payload; p != nil {
		return acts.Delivery{Client: p.Client, ID: p.ID, Kind: p.Kind, Digest: p.Digest, Placement: string(p.Placement), Slot: p.Slot, Bytes: p.Bytes}.Intent(scene)
	}
	w := g.ways[e.Profile]
	if r := e.Renewal; r != nil {
		return acts.Renewal{Adapter: w.manifest.AdapterID, Program: filepath.Base(w.argv[0]), ID: r.ID, Profile: r.Profile, Client: r.Client,
			By: string(r.By), Path: string(r.Path), Number: r.Number}.Intent(scene)
	}
	return acts.Launch{Adapter: w.manifest.AdapterID, Program: filepath.Base(w.argv[0]), Args: w.argv[1:]}.Intent(scene)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// resolved follows the symbolic links of an absolute path as the operating system does,
// part by part, as far as the path exists. For a link to a missing file, it returns the
// path at which a write would create that file.
func resolved(path string) string {
	links := 40 // as many symbolic links as Linux follows in one path
	return resolve("/", path, &links)
}

func resolve(at, path string, links *int) string {
	if filepath.IsAbs(path) {
		at = "/"
	}
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		if to, err := os.Readlink(next); err == nil && *links > 0 {
			*links--
			next = resolve(at, to, links)
		}
		at = next
	}
	return at
}
