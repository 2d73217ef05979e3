package kernel

import (
	"slices"
	"time"

	"lifeloop/gate"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// guards ask the gate before each act that a policy guards: each launch of the
// harness, each renewal, each delivery of a payload, and each tool call that a hook of
// the harness can refuse. An effect asks the gate; the act is pending until an input
// has the answer. The verdict allow permits the act. With the verdict require_approval
// the act may wait for a person (approvals.go). After every other verdict, a failure or
// a late answer, the act is refused (DECISIONS G1, G6). permits.go performs or refuses
// the act. Without a policy nothing is asked.
//
//	asked ──► answered: allow ──────────────────────────► the act
//	     ├──► answered: require_approval ──► approved ──► the act
//	     └──► answered: any other, late; denied ────────► no act
type guards struct {
	hard struct {
		Open      []GateAsked // open questions, oldest first
		Approvals []ApprovalAsked
	}
	soft struct {
		acts     map[string]pending // the acts that wait for an answer, by the id of the question
		admitted bool               // the first launch is already allowed, so guards.launch does not ask the gate
	}
}

// A pending act waits for the answer of the gate, or for an approval.
type pending struct {
	asked, until time.Time
	limit        time.Time      // when the hook of the act must be answered; zero without a hook
	launch       *effect.Launch // the launch; nil for the session's first launch, and for other acts
	hook         string         // the hook of a tool call or of a delivery
	canAsk       bool           // the hook of a tool call can make the harness ask its user
	parcel       *parcel        // the payload to deliver
	renewal      string         // the id of the renewal, if the act is a renewal
	path         renewal.Path   // how the renewal resets the harness
	reply        string         // the command that asked for a renewal and has no reply yet
	decision     GateAnswered   // the gate's decision, if the act waits for an approval
}

// gateTime is how long an act waits for the gate. It is short, because the gate is
// a function in this process.
const gateTime = 3 * time.Second

type (
	// GateAsked records that the gate is asked about an act.
	GateAsked struct {
		Ask     string    `json:"ask"`
		Act     string    `json:"act"`
		Profile int       `json:"profile,omitempty"`
		Renewal string    `json:"renewal,omitempty"`
		Hook    string    `json:"hook,omitempty"`      // the hook of a tool call or a delivery
		Tool    string    `json:"tool,omitempty"`      // name of the tool
		Call    string    `json:"tool_call,omitempty"` // the harness's id of the call
		Until   time.Time `json:"until"`
		// Payload is the id of the payload to deliver. Dispatch is the id of the
		// call to the client, and Index the payload's index in the answer.
		Payload  string `json:"payload_id,omitempty"`
		Dispatch string `json:"call,omitempty"`
		Index    int    `json:"index,omitempty"`
	}
	// GateAnswered records the decision about an act.
	GateAnswered struct {
		Ask string `json:"ask"`
		Act string `json:"act"`
		input.GateDecision
		// Failure is set if there was no decision; then the act is refused.
		Failure    lifeloop.FailureClass `json:"failure,omitempty"`
		Why        string                `json:"why,omitempty"`
		DurationMS int64                 `json:"duration_ms"`
	}
)

func (GateAsked) key() (string, bool) { return "gate_asked", false }
func (f GateAsked) apply(k *Kernel)   { k.guards.hard.Open = append(k.guards.hard.Open, f) }

// key returns false for a tool call: its decision need not be on the disk before the
// hook is answered. The decision is written before the answer and synced right after
// it, so only a failure of the computer between the two can lose it (DECISIONS F3).
func (f GateAnswered) key() (string, bool) { return "gate_answered", f.Act != gate.ActTool }
func (f GateAnswered) apply(k *Kernel) {
	h := &k.guards.hard
	h.Open = slices.DeleteFunc(slices.Clone(h.Open), func(q GateAsked) bool { return q.Ask == f.Ask })
}

func newGuards() (g guards) {
	g.soft.acts = map[string]pending{}
	return g
}

// guarded reports whether the acts of this session need the gate's permission.
func (c *Config) guarded() bool { return c.Gate != "" }

func (g *guards) ask(s *step, p pending, f GateAsked, e effect.AskGate) {
	p.asked, p.until = s.now, s.now.Add(gateTime)
	if !p.limit.IsZero() {
		p.until = sooner(p.until, p.limit)
	}
	f.Ask, f.Until = s.cfg.NewID("ask_"), p.until.UTC()
	s.record(f)
	g.soft.acts[f.Ask] = p
	e.Ask, e.Act, e.Profile = f.Ask, f.Act, f.Profile
	s.do(e)
}

// question returns an open question by its id; nil if it is not open.
func (g *guards) question(ask string) *GateAsked {
	if i := slices.IndexFunc(g.hard.Open, func(q GateAsked) bool { return q.Ask == ask }); i >= 0 {
		return &g.hard.Open[i]
	}
	return nil
}

// decided handles the gate's answer. A late answer is dropped, because the act was
// already refused.
func (g *guards) decided(s *step, in input.GateDecided) {
	q := g.question(in.Ask)
	if q == nil {
		return
	}
	g.answer(s, *q, GateAnswered{GateDecision: in.Decision, Failure: in.Failure, Why: in.Why})
}

// answer records the answer to a question, and then performs or refuses the act.
func (g *guards) answer(s *step, q GateAsked, f GateAnswered) {
	p := g.soft.acts[q.Ask]
	delete(g.soft.acts, q.Ask)
	f.Ask, f.Act, f.DurationMS = q.Ask, q.Act, max(s.now.Sub(p.asked).Milliseconds(), 0)
	if f.Failure != "" {
		f.GateDecision = input.GateDecision{Verdict: gate.Block, Reasons: []string{"gate_failed"}, PolicyDigest: s.cfg.Gate}
	}
	s.record(f)
	s.out.SyncAfter = s.out.SyncAfter || f.Act == gate.ActTool
	if !g.waits(s, p, f) {
		g.conclude(s, p, f, nil)
	}
}

// launching reports whether a launch waits for the gate or an approval.
func (g *guards) launching() bool {
	return slices.ContainsFunc(g.hard.Approvals, func(q ApprovalAsked) bool { return q.act() == gate.ActLaunch }) ||
		slices.ContainsFunc(g.hard.Open, func(q GateAsked) bool { return q.Act == gate.ActLaunch })
}

// settle refuses a launch that waits for the gate or an approval, because the
// session is being ended or the ledger is lost.
func (g *guards) settle(s *step, why string) {
	g.withdraw(s, why, func(act string, _ pending) bool { return act == gate.ActLaunch })
}

// closed refuses the pending tool call and deliveries of a hook that has ended.
func (g *guards) closed(s *step, hook string) {
	g.withdraw(s, "the hook ended before it got an answer", func(act string, p pending) bool {
		return p.hook == hook && (act == gate.ActTool || act == gate.ActInject)
	})
}

// withdraw calls which() for each pending act, and refuses the act if the result is true.
// The parameter why is the reason for the refusal.
func (g *guards) withdraw(s *step, why string, which func(act string, p pending) bool) {
	for _, q := range slices.Clone(g.hard.Open) {
		if g.question(q.Ask) != nil && which(q.Act, g.soft.acts[q.Ask]) {
			g.answer(s, q, GateAnswered{Failure: lifeloop.StateConflict, Why: why})
		}
	}
	for _, q := range slices.Clone(g.hard.Approvals) {
		if p, waits := g.soft.acts[q.Ask]; waits && which(q.act(), p) {
			g.approval(s, q, ApprovalAnswered{Failure: lifeloop.StateConflict})
		}
	}
}

// settleLost refuses the acts whose questions were open when the wrapper died.
func (g *guards) settleLost(s *step) {
	for _, q := range slices.Clone(g.hard.Open) {
		s.record(GateAnswered{Ask: q.Ask, Act: q.Act, Failure: lifeloop.TransportError, Why: "the wrapper died before the answer was recorded",
			GateDecision: input.GateDecision{Verdict: gate.Block, Reasons: []string{"gate_failed"}, PolicyDigest: s.cfg.Gate}})
	}
	for _, q := range slices.Clone(g.hard.Approvals) {
		s.record(ApprovalAnswered{Ask: q.Ask, Intent: q.Intent, Failure: lifeloop.TransportError})
	}
}

func (g *guards) next(*Kernel) (at time.Time) {
	for _, p := range g.soft.acts {
		at = sooner(at, p.until)
	}
	return at
}

func (g *guards) wake(s *step) {
	for _, q := range slices.Clone(g.hard.Open) {
		if p, waits := g.soft.acts[q.Ask]; waits && s.due(p.until) {
			g.answer(s, q, GateAnswered{Failure: lifeloop.Timeout, Why: "the gate did not answer in time"})
		}
	}
	for _, q := range slices.Clone(g.hard.Approvals) {
		if p, waits := g.soft.acts[q.Ask]; waits && s.due(p.until) {
			g.approval(s, q, ApprovalAnswered{Failure: lifeloop.Timeout})
		}
	}
}
