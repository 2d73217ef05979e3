package kernel_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/simulate"
)

// A simulation has no clients, and its wrapper does not die. A stage adds clients
// and crashes around a kernel. It uses values that were drawn before, so that a
// world can be played twice.
type stage struct {
	mortal
	drawnClients
	due   []reply // replies that programs will send, the earliest first
	calls int
	asks  int
	acts  int // number of questions to the gate
	wakes int
	lost  bool // the harness was lost with its wrapper
}

// drawnClients says how the clients of a world behave.
type drawnClients struct {
	clients []setup.Client
	queue   int             // the kernel's MaxQueue
	calls   int             // the kernel's MaxCalls
	after   []time.Duration // the durations of the calls, used in turn
	answers []string        // the kinds of the clients' answers, used in turn
	dies    int             // the number of the wake-up after which the wrapper may die; 0: it does not die
	decides []input.Decided // the answers of the policy's program, used in turn
	gate    []string        // the gate's behaviours, used in turn; "": it decides by its policy at once
}

// A mortal is a core whose wrapper can die. Then another wrapper replays its
// ledger.
type mortal interface {
	simulate.Core
	crash()
}

type reply struct {
	at   time.Time
	call string // id of a call or of a question
	in   input.Input
}

// bare is a kernel with its ledger, without a judge.
type bare struct {
	*kernel.Kernel
	cfg     kernel.Config
	entries []kernel.Entry
}

func (b *bare) Step(now time.Time, in input.Input) kernel.Output {
	out := b.Kernel.Step(now, in)
	for _, f := range out.Facts {
		b.entries = append(b.entries, kernel.Entry{Seq: uint64(len(b.entries) + 1), At: now, Fact: f})
	}
	return out
}

func (b *bare) crash() { b.Kernel = kernel.Replay(b.cfg, slices.Values(b.entries)) }

// clocked is a bare kernel on a computer whose time of day is set, but whose
// monotonic clock is not.
type clocked struct {
	bare
	clock machineClock
	sets  []time.Duration // the changes of the time of day; each is used for several steps in a row
	steps int
}

func (c *clocked) Step(now time.Time, in input.Input) kernel.Output {
	if c.clock.began.IsZero() {
		c.clock.began = time.Now()
	}
	c.clock.elapsed = now.Sub(simulate.Start())
	if c.steps++; len(c.sets) > 0 {
		c.clock.set += c.sets[c.steps/4%len(c.sets)]
		if call, hooked := in.(input.HookCalled); hooked {
			call.Deadline = c.clock.now().Add(call.Deadline.Sub(now))
			in = call
		}
		now = c.clock.now()
	}
	return c.bare.Step(now, in)
}

// Deadline returns the kernel's deadline on the clock of the simulation.
func (c *clocked) Deadline() (time.Time, bool) {
	at, ok := c.bare.Deadline()
	if ok && len(c.sets) > 0 {
		at = simulate.Start().Add(at.Sub(c.clock.began))
	}
	return at, ok
}

func drawClients(r *rapid.T) (d drawnClients) {
	for i := range pick(r, "clients", 0, 1, 2) {
		c := setup.Client{ID: fmt.Sprint("client", i+1), Events: map[lifeloop.Event]bool{}, Timeout: pick(r, "timeout", 5*time.Second, 20*time.Millisecond)}
		for _, e := range lifeloop.Events() {
			c.Events[e] = e != lifeloop.ReceiptEmitted || chance(r, "receipts", 4)
		}
		d.clients = append(d.clients, c)
	}
	d.queue, d.calls = pick(r, "queue", 0, 1, 4), pick(r, "max calls", 0, 0, 3)
	for range pick(r, "gates", 0, 0, 3) {
		d.gate = append(d.gate, pick(r, "gate", "", "late", "absent", "fails", "block", "require_approval", "dry_run"))
	}
	for range 5 {
		d.after = append(d.after, pick(r, "after", 0, 0, time.Millisecond, 3*time.Millisecond, 50*time.Millisecond, 4*time.Second, time.Minute))
		d.answers = append(d.answers, pick(r, "answer", "observed", "observed", "payload", "failure"))
	}
	d.dies = pick(r, "dies", 0, 0, 1, 2, 3, 5)
	for range 3 {
		a := input.Decided{Retry: !chance(r, "refused", 3)}
		if chance(r, "no decision", 4) {
			a.Failure = lifeloop.TransportError
		}
		if chance(r, "a delay", 2) {
			a.DelayMS = new(pick(r, "chosen delay", int64(0), 1, 3, 7000, 1<<40))
		}
		d.decides = append(d.decides, a)
	}
	return d
}

// config adds the clients to a configuration.
func (d drawnClients) config(cfg kernel.Config) kernel.Config {
	cfg.Clients, cfg.MaxQueue, cfg.MaxCalls = d.clients, d.queue, d.calls
	return cfg
}

// Step delivers what clients returned by now, and then the input.
func (s *stage) Step(now time.Time, in input.Input) (all kernel.Output) {
	step := func(in input.Input) {
		out := s.mortal.Step(now, in)
		out.Effects = slices.DeleteFunc(out.Effects, func(e effect.Effect) bool { return s.answersFor(now, e) })
		all.Facts, all.Effects = append(all.Facts, out.Facts...), append(all.Effects, out.Effects...)
		all.Sync = all.Sync || out.Sync
		for _, e := range out.Effects {
			s.perform(now, e)
		}
	}
	lost := s.lost // a reply that is due may launch another harness, but this input comes from the lost harness
	for len(s.due) > 0 && !s.due[0].at.After(now) {
		first := s.due[0].in
		s.due = s.due[1:]
		step(first)
	}
	switch in.(type) {
	case input.Wake:
		s.wakes++
		// The wrapper dies only in a step without facts, because the effects of
		// other steps would be performed after its death.
		if _, over := s.Done(); s.dies > 0 && s.wakes >= s.dies && len(all.Facts) == 0 && !over {
			s.crash()
			s.due, s.lost, s.dies = nil, true, 0
			in = input.Restarted{PID: 2}
		}
	case input.OutputSeen, input.SignalsSeen, input.HookCalled, input.FailureSeen, input.CheckpointSeen, input.ChildExited:
		if lost {
			return all // the guard has ended the harness
		}
	}
	step(in)
	return all
}

// answersFor reports whether it takes over e, a question to the gate. The answer is
// an input that is delivered later, or is missing. If the drawn behaviour is "", e is
// not taken over, and the gate decides by its policy at once.
func (s *stage) answersFor(now time.Time, e effect.Effect) bool {
	q, asks := e.(effect.AskGate)
	if !asks || len(s.gate) == 0 {
		return false
	}
	s.acts++
	in := input.GateDecided{Ask: q.Ask, Decision: input.GateDecision{Tool: q.Act, Verdict: "allow", Reasons: []string{}, IntentDigest: "0123456789"}}
	switch how := s.gate[s.acts%len(s.gate)]; how {
	case "":
		return false
	case "absent":
		return true
	case "fails":
		in = input.GateDecided{Ask: q.Ask, Failure: lifeloop.InvalidRequest, Why: "said so"}
	case "late":
	default:
		in.Decision.Verdict = gate.Verdict(how)
	}
	s.calls++
	s.due = append(s.due, reply{now.Add(s.after[s.calls%len(s.after)]), q.Ask, in})
	slices.SortStableFunc(s.due, func(a, b reply) int { return a.at.Compare(b.at) })
	return true
}

func (s *stage) Deadline() (at time.Time, ok bool) {
	at, ok = s.mortal.Deadline()
	if len(s.due) > 0 && (!ok || s.due[0].at.Before(at)) {
		return s.due[0].at, true
	}
	return at, ok
}

func (s *stage) perform(now time.Time, e effect.Effect) {
	switch e := e.(type) {
	case effect.Launch:
		s.lost = false
	case effect.Cancel:
		s.due = slices.DeleteFunc(s.due, func(r reply) bool { return r.call == e.Call })
	case effect.Dispatch:
		s.calls++
		s.returns(now, e.Timeout, e.Call, answer(s.answers[s.calls%len(s.answers)], e), input.Returned{Call: e.Call, Failure: lifeloop.Timeout})
	case effect.Decide:
		s.asks++
		in := s.decides[s.asks%len(s.decides)]
		in.Ask = e.Ask
		s.calls++
		s.returns(now, e.Timeout, e.Ask, in, input.Decided{Ask: e.Ask, Failure: lifeloop.Timeout})
	}
}

// returns schedules the answer to a call: the parameter in. If this answer would come
// after the timeout, the parameter late is scheduled for the end of the timeout instead.
func (s *stage) returns(now time.Time, timeout time.Duration, call string, in, late input.Input) {
	r := reply{now.Add(s.after[s.calls%len(s.after)]), call, in}
	if end := now.Add(timeout); r.at.After(end) {
		r = reply{end, call, late}
	}
	s.due = append(s.due, r)
	slices.SortStableFunc(s.due, func(a, b reply) int { return a.at.Compare(b.at) })
}

// answer returns a client's answer of the given kind. All payloads of a client are
// equal, including their idempotency keys.
func answer(kind string, e effect.Dispatch) input.Returned {
	in := input.Returned{Call: e.Call, Response: &lifeloop.CallbackResponse{Status: lifeloop.Observed}}
	switch kind {
	case "failure":
		return input.Returned{Call: e.Call, Failure: lifeloop.TransportError}
	case "payload":
		p := payload(e.Client, 1, []string{"receipt_only", "note", "text"})
		key := "k1"
		p.IdempotencyKey = &key
		in.Response.ClientPayloads = []lifeloop.PayloadEnvelope{p}
	}
	return in
}
