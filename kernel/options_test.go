package kernel_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
)

// A plan holds the configuration that the command `run` of a scenario describes.
type plan struct {
	cfg      *kernel.Config
	clients  []string
	named    []string // additional events to which every client subscribes
	only     []string // events that clients subscribe to, instead of the usual ones
	wants    map[string][]negotiate.Want
	timeout  time.Duration
	programs bool   // the clients are processes
	without  string // the capability that is unavailable after a fallback to another adapter
}

func (w *world) configure(d *datadriven.TestData) {
	cfg := defaults()
	p := plan{cfg: &cfg, wants: map[string][]negotiate.Want{}, timeout: 5 * time.Second}
	for _, a := range d.CmdArgs {
		if !w.launchOption(&cfg, a) && !w.clientOption(&p, a) && !w.renewalOption(&cfg, a) {
			w.policy(&cfg, a)
		}
	}
	for i, profile := range cfg.Policy.Profiles {
		m := cfg.Manifest
		if i > 0 && !profile.AcceptsContinuation { // the profile is a fallback to another adapter
			m.AdapterID = profile.Name
			m = negotiate.Weaken(m, p.without, lifeloop.Unavailable)
		}
		cfg.Manifests = append(cfg.Manifests, m)
	}
	for _, id := range p.clients {
		c := setup.Client{ID: id, Events: map[lifeloop.Event]bool{}, Timeout: p.timeout, Wants: p.wants[id], Program: p.programs}
		for _, e := range lifeloop.Events() {
			c.Events[e] = e != lifeloop.ReceiptEmitted && e != lifeloop.SupervisorTick || slices.Contains(p.named, string(e))
			if p.only != nil {
				c.Events[e] = slices.Contains(p.only, string(e))
			}
		}
		cfg.Clients = append(cfg.Clients, c)
	}
	cfg.Wants = p.wants[""]
	w.cfg, w.k, w.entries, w.seen, w.hooks, w.asks = cfg, kernel.New(cfg), nil, nil, 0, 0
	w.l0, w.hcp = &l0Judge{}, &hcpJudge{}
}

// defaults is the configuration of a harness that supports everything, without
// clients.
func defaults() kernel.Config {
	n := map[string]int{}
	limit := int64(8192)
	place := lifeloop.PlacementClaim{Support: lifeloop.Native, MaxBytes: &limit}
	cfg := kernel.Config{
		Session: "sess", Ledger: true, ClientDrain: 5 * time.Second, Limits: setup.Limits{AbortGrace: 5 * time.Second},
		NewID: func(p string) string { n[p]++; return fmt.Sprint(p, n[p]) },
		Began: kernel.Began{SessionID: "sess", AdapterID: "fake", Program: "fake", Clients: []string{}},
		Launch: setup.Launch{Manifest: lifeloop.Manifest{
			AdapterID: "fake", AdapterVersion: "0.1.0",
			LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{}, ContextPressure: lifeloop.Claim{Support: lifeloop.Native},
			Receipts:        lifeloop.ReceiptClaims{ReceiptLedger: lifeloop.Synthesized},
			SessionIdentity: &lifeloop.IdentityClaims{HarnessSessionID: lifeloop.Native, HarnessRunID: lifeloop.Synthesized, HarnessTaskID: lifeloop.Synthesized},
			Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{
				lifeloop.PreSession: place, lifeloop.PreFrameTrailing: {Support: lifeloop.Partial, MaxBytes: &limit}, lifeloop.ToolResult: place},
		}},
	}
	for _, e := range lifeloop.Events() {
		cfg.Manifest.LifecycleEvents[e] = lifeloop.EventClaim{Support: lifeloop.Native, Modes: []lifeloop.IntegrationMode{lifeloop.NativeHook}}
	}
	return cfg
}

// launchOption reads one word about the harness and its launch.
func (w *world) launchOption(cfg *kernel.Config, a datadriven.CmdArg) bool {
	switch a.Key {
	case "hooks":
		cfg.Hooks, cfg.Synth.Hooks = true, true
		read(cfg, "hooks")
	case "identity": // the harness chooses its id, and reports it
		cfg.Manifest.SessionIdentity = &lifeloop.IdentityClaims{HarnessSessionID: lifeloop.Native}
		cfg.Rests["session_identity.harness_session_id"] = []string{"hooks"}
	case "at-prompt":
		cfg.HookAtPrompt = true
	case "statusline":
		cfg.Synth.Statusline = true
		cfg.Expected = append(cfg.Expected, a.Key)
		read(cfg, a.Key)
	case "expected":
		cfg.Expected = a.Vals
		for _, name := range a.Vals {
			read(cfg, name)
		}
	case "aborted": // see command
	case "deaf":
		cfg.NoTelemetry = true
	case "tested":
		cfg.Tested, cfg.Manifest.DisplayName = a.Vals, "Fake"
	case "proven": // proven=(VERSION,CAPABILITY…)
		cfg.Proven = map[string][]string{a.Vals[0]: a.Vals[1:]}
	case "one-hook":
		cfg.OneHook, cfg.Ledger = true, false
	case "observing":
		cfg.Observing, cfg.Ledger, cfg.Began.Program = true, false, ""
		for e, claim := range cfg.Manifest.LifecycleEvents { // an observer does not claim events that only a launch or a hook reports
			if !slices.Contains([]lifeloop.Event{lifeloop.FrameOpening, lifeloop.FrameEnding, lifeloop.SessionEnding, lifeloop.SessionEnded, lifeloop.SupervisorTick}, e) {
				claim.Modes = append(claim.Modes, lifeloop.TelemetryOnly)
				cfg.Manifest.LifecycleEvents[e] = claim
			}
		}
	case "ledger": // an observer with a ledger
		cfg.Ledger = true
	case "id":
		cfg.HarnessSession = a.Vals[0]
	case "cause":
		cfg.Cause = a.Vals[0]
	case "seen-as": // the role in which the model sees text placed at the start of a session
		claim := cfg.Manifest.Placement[lifeloop.PreSession]
		claim.SeenAs = lifeloop.SeenAs(a.Vals[0])
		cfg.Manifest.Placement[lifeloop.PreSession] = claim
	case "lacks":
		cfg.Manifest.LifecycleEvents[lifeloop.Event(a.Vals[0])] = lifeloop.EventClaim{Support: lifeloop.Unavailable}
	case "manifest":
		class, support, _ := strings.Cut(a.Vals[0], ":")
		cfg.Manifest.Placement[lifeloop.Placement(class)] = lifeloop.PlacementClaim{Support: lifeloop.Support(support)}
	case "weak":
		cfg.Weak = append(cfg.Weak, setup.Weakness{Capability: a.Vals[0], Reason: "the user turned it off"})
	case "grace":
		cfg.AbortGrace = w.duration(a.Vals[0])
	case "quit":
		cfg.Quit = w.integer(a.Vals[0])
	case "by-turn":
		cfg.Ends.ByTurn = true
	case "success":
		cfg.Ends.Success = map[int]bool{}
		for _, v := range a.Vals {
			cfg.Ends.Success[w.integer(v)] = true
		}
	case "code":
		code, cause, _ := strings.Cut(a.Vals[0], ":")
		cfg.Ends.Codes = map[int]attempt.Cause{w.integer(code): attempt.Cause(cause)}
	case "resumes":
		cfg.Resumes = true
	case "policy":
		cfg.Gate = a.Vals[0]
	case "approval-wait":
		cfg.ApprovalWait = w.duration(a.Vals[0])
	case "converses":
		cfg.Interactive = true
	default:
		return false
	}
	return true
}

// read adds a source that the launch reads.
func read(cfg *kernel.Config, source string) {
	cfg.Manifest.TelemetrySources = append(cfg.Manifest.TelemetrySources, lifeloop.TelemetrySource{Name: source, Kind: "jsonl", Support: lifeloop.Native})
	names := []string{"registry", "transcript"}
	for _, s := range cfg.Manifest.TelemetrySources {
		names = append(names, s.Name)
	}
	cfg.Rests = profiles.RestsOf("claude").Reading(names...)
}

// clientOption reads one word about the clients.
func (w *world) clientOption(p *plan, a datadriven.CmdArg) bool {
	switch a.Key {
	case "clients":
		p.clients = a.Vals
	case "programs":
		p.programs = true
	case "only":
		p.only = a.Vals
	case "named":
		p.named = a.Vals
	case "tick":
		p.cfg.Tick = w.duration(a.Vals[0])
	case "timeout":
		p.timeout = w.duration(a.Vals[0])
	case "patience":
		p.cfg.ClientPatience = w.duration(a.Vals[0])
	case "fallback-lacks":
		p.without = a.Vals[0]
	case "queue":
		p.cfg.MaxQueue = w.integer(a.Vals[0])
	case "calls":
		p.cfg.MaxCalls = w.integer(a.Vals[0])
	case "requires":
		client, rest, _ := strings.Cut(a.Vals[0], ":")
		name, level, _ := strings.Cut(rest, "=")
		level, support, _ := strings.Cut(level, "/")
		p.wants[client] = append(p.wants[client], negotiate.Want{Capability: name, Level: lifeloop.Requirement(level), Support: lifeloop.Support(support)})
	default:
		return false
	}
	return true
}

// policy reads one word of the policy of attempts.
func (w *world) policy(cfg *kernel.Config, a datadriven.CmdArg) {
	p := &cfg.Policy
	val := value(a)
	if len(p.Profiles) == 0 {
		p.Profiles = []attempt.Profile{{Name: "fake"}}
	}
	switch a.Key {
	case "retries":
		p.Attempts = w.integer(val)
		p.MaxRetries = max(p.MaxRetries, attempt.DefaultMaxRetries(p.Attempts, 1))
		if p.On == nil {
			p.On = attempt.DefaultOn()
		}
		p.Backoff.Kind = attempt.Fixed
	case "decide":
		p.Decide = w.duration(val)
	case "max-retries":
		p.MaxRetries = w.integer(val)
	case "backoff":
		parts := strings.Split(val, ":")
		p.Backoff = attempt.Backoff{Kind: attempt.BackoffKind(parts[0]), Base: w.duration(parts[1])}
		if len(parts) > 2 {
			p.Backoff.Max = w.duration(parts[2])
		}
	case "on":
		p.On = map[attempt.Cause]bool{}
		for _, v := range a.Vals {
			p.On[attempt.Cause(v)] = true
		}
	case "fallback":
		for _, v := range a.Vals {
			p.Profiles = append(p.Profiles, attempt.Profile{Name: v})
		}
	case "missing", "takes":
		for i := range p.Profiles {
			if p.Profiles[i].Name == val && a.Key == "missing" {
				p.Profiles[i].Missing = "not found"
			} else if p.Profiles[i].Name == val {
				p.Profiles[i].AcceptsContinuation = true
			}
		}
	case "initial":
		p.Initial = w.duration(val)
	case "inter":
		p.Inter = w.duration(val)
	case "tool":
		p.Tool = w.duration(val)
	case "session":
		p.Session = w.duration(val)
	case "idle":
		p.Idle = w.duration(val)
	case "continuation":
		p.Continuation = true
	case "every":
		p.CheckpointEvery = int64(w.integer(val))
	case "rule":
		parts := strings.SplitN(val, ":", 5)
		p.Rules = append(p.Rules, attempt.Rule{ID: parts[0], On: attempt.RuleOn(parts[1]), Severity: attempt.Severity(parts[2]),
			Recoverable: parts[3] == "true", Pattern: regexp.MustCompile(parts[4])})
	case "drift":
		p.Repeat = w.integer(val)
	case "zero-output":
		p.ZeroOutput = true
	case "on-limit":
		p.OnLimit = attempt.OnLimit(val)
	case "loop":
		parts := strings.Split(val, ":")
		p.Loop = attempt.CrashLoop{Launches: w.integer(parts[0]), Within: w.duration(parts[1]), Quarantine: w.duration(parts[2])}
	default:
		require.Fail(w.t, "unknown word", a.Key)
	}
}
