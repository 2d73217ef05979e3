package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// This file is the router: an event becomes a fact, a call to each client that
// subscribed to it, and in the end one receipt for each (DECISIONS L4).

// telling is one event about to be told.
type telling struct {
	event       lifeloop.Event
	scope       int // 0 means the current harness session
	frame       string
	parent      string // of a frame about to open; else it is looked up
	data        map[string]any
	evidence    []lifeloop.Evidence
	mode        lifeloop.IntegrationMode // empty: read off the evidence
	degradation *lifeloop.Degradation
}

// A flight is the dispatch that a client is busy with.
type flight struct {
	call  string
	began time.Time
}

// invocation is the id that every event of one step shares: one step is one
// thing that came in from outside.
func (s *step) invocation() string {
	if s.inv == "" {
		s.inv = s.cfg.NewID("inv_")
	}
	return s.inv
}

// tell makes an event true and queues it for its clients. It returns the calls
// that it made.
func (s *step) tell(t telling) []CallRef {
	if t.scope == 0 {
		t.scope = s.hard.Scope
	}
	if t.mode == "" {
		t.mode = s.modeOf(t.evidence)
	}
	if t.data == nil {
		t.data = map[string]any{}
	}
	r := lifeloop.EventRecord{
		SchemaVersion: lifeloop.Version, Event: t.event, EventID: s.cfg.NewID("evt_"),
		AdapterID: s.cfg.Manifest.AdapterID, IntegrationMode: t.mode,
		AtEpochS: s.now.Unix(), At: s.now.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Evidence: t.evidence, Data: t.data,
	}
	if hs := s.hard.Sessions[t.scope]; hs != nil && hs.ID != "" {
		id := hs.ID
		r.HarnessSessionID = &id
	}
	if t.frame != "" {
		r.FrameContext = frameContext(t.frame, cmp.Or(t.parent, s.hard.frame(t.frame).Parent))
	}
	f := Observed{Record: r, Invocation: s.invocation(), Scope: t.scope, Calls: []CallRef{}, Degradation: t.degradation}
	for _, c := range s.cfg.Clients {
		if (c.Events[t.event] || c.mustHear(t.degradation)) && !s.soft.lame {
			f.Calls = append(f.Calls, CallRef{Call: s.cfg.NewID("call_"), Client: c.ID, IdempotencyKey: s.cfg.NewID("idem_")})
		}
	}
	s.record(f)
	for _, c := range f.Calls {
		s.soft.queue[c.Client] = append(s.soft.queue[c.Client], c.Call)
		s.shorten(c.Client)
	}
	// With no client at all the wrapper is the client, and has heard. An observer
	// that keeps nothing has nothing to receipt.
	if len(s.cfg.Clients) == 0 && (s.cfg.Ledger || !s.cfg.Observing) && t.event != lifeloop.ReceiptEmitted && t.event != lifeloop.SupervisorTick {
		s.receiptFor(&call{Client: SelfClient, Event: t.event, EventID: r.EventID, Invocation: f.Invocation,
			Mode: t.mode, Scope: t.scope, Degradation: t.degradation}, lifeloop.Observed, "", "", nil)
	}
	s.proves(t)
	return f.Calls
}

// mustHear says that a client is told of a degradation whatever it subscribed
// to: "Lifeloop must not silently downgrade a required capability".
func (c *Client) mustHear(d *lifeloop.Degradation) bool {
	return d != nil && slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool {
		return w.Capability == d.Capability && w.Level == lifeloop.Required
	})
}

// modeOf reads off the evidence how the event was learned.
func (s *step) modeOf(ev []lifeloop.Evidence) lifeloop.IntegrationMode {
	switch {
	case s.cfg.Observing:
		return lifeloop.TelemetryOnly
	case len(ev) > 0 && (ev[0].Source == "hook" || ev[0].Source == "statusline"):
		return lifeloop.NativeHook
	}
	return lifeloop.LauncherWrapper
}

// own is evidence of the wrapper itself.
func own(detail string) []lifeloop.Evidence {
	return []lifeloop.Evidence{{Source: "wrapper", Detail: detail}}
}

// by is the evidence that a signal is.
func by(sigs ...telemetry.Signal) []lifeloop.Evidence {
	out := make([]lifeloop.Evidence, len(sigs))
	for i, sig := range sigs {
		out[i] = lifeloop.Evidence{Source: sig.Source, Detail: sig.Detail}
	}
	return out
}

// shorten keeps a client's queue within its bound: the oldest call that is
// neither session.* nor frame.* ends in a skipped receipt, ticks and pressure
// before the rest (DECISIONS L18).
func (s *step) shorten(client string) {
	q := s.soft.queue[client]
	if len(q) <= s.cfg.MaxQueue {
		return
	}
	pick := -1
	for i, id := range q {
		ev := s.hard.Calls[id].Event
		if ev == lifeloop.SupervisorTick || ev == lifeloop.ContextPressureObserved {
			pick = i
			break
		}
		if pick < 0 && !ev.Session() && !ev.Frame() {
			pick = i
		}
	}
	if pick < 0 {
		return // only moves that a client must hear: they are never dropped
	}
	c := s.hard.Calls[q[pick]]
	s.unqueue(client, c.ID)
	s.receiptFor(c, lifeloop.Skipped, "", "", []string{"queue_full"})
}

func (s *step) unqueue(client, call string) {
	s.soft.queue[client] = slices.DeleteFunc(s.soft.queue[client], func(id string) bool { return id == call })
}

// pump hands the next call to each client that is free: one in flight per
// client, in the order in which events were told.
func (s *step) pump() {
	if s.soft.lame {
		return
	}
	for i := range s.cfg.Clients {
		c := &s.cfg.Clients[i]
		q := s.soft.queue[c.ID]
		if _, busy := s.soft.flying[c.ID]; busy || len(q) == 0 {
			continue
		}
		s.soft.queue[c.ID] = q[1:]
		s.dispatch(c, s.hard.Calls[q[0]])
	}
}

func (s *step) dispatch(c *Client, k *call) {
	timeout := c.Timeout
	if s.soft.draining {
		timeout = min(timeout, s.soft.drainDue.Sub(s.now))
	}
	s.record(Dispatched{Call: k.ID, Client: c.ID})
	for _, h := range s.soft.hooks {
		if _, waits := h.waitsFor[k.ID]; waits {
			h.waitsFor[k.ID] = time.Time{} // it has begun: the hook waits for it to its own deadline
		}
	}
	s.soft.flying[c.ID] = flight{k.ID, s.now}
	s.do(Dispatch{Call: k.ID, Client: c.ID, Timeout: timeout, Envelope: lifeloop.DispatchEnvelope{
		SchemaVersion: lifeloop.Version, Request: s.request(k)}})
}

func (s *step) request(k *call) lifeloop.CallbackRequest {
	req := lifeloop.CallbackRequest{
		SchemaVersion: lifeloop.Version, Event: k.Event, EventID: k.EventID,
		AdapterID: s.cfg.Manifest.AdapterID, AdapterVersion: s.cfg.Manifest.AdapterVersion,
		IntegrationMode: k.Mode, InvocationID: k.Invocation, PayloadRefs: []lifeloop.PayloadRef{},
		FrameContext: k.Frame, EventData: k.Data, IdempotencyKey: &k.Idempotency,
	}
	if hs := s.hard.Sessions[k.Scope]; hs != nil && hs.ID != "" {
		id := hs.ID
		req.HarnessSessionID = &id
	}
	req.HarnessRunID, req.HarnessTaskID = s.ids()
	return req
}

// ids are the launch and the session as receipts and requests name them. What
// is told of a launch that is about to be names none.
func (s *step) ids() (run, task *string) {
	if s.hard.Run != "" && !s.between {
		r := s.hard.Run
		run = &r
	}
	if !s.cfg.OneHook {
		t := s.cfg.Session
		task = &t
	}
	return run, task
}

// returned folds the outcome of one dispatch.
func (s *step) returned(in Returned) {
	k, ok := s.hard.Calls[in.Call]
	if !ok || !k.Dispatched || k.Answer != nil {
		return // a late answer to a call that was given up
	}
	if f := s.soft.flying[k.Client]; f.call == in.Call {
		delete(s.soft.flying, k.Client)
	}
	defer s.hookCallDone(in.Call)
	if in.Failure != "" || in.Response == nil {
		class := in.Failure
		if class == "" {
			class = lifeloop.InternalError
		}
		var warnings []string
		if in.Why != "" {
			warnings = []string{in.Why}
		}
		s.record(Answered{Call: in.Call, Failure: class, Warnings: warnings})
		s.receiptFor(k, lifeloop.Failed, class, "", warnings)
		return
	}
	r := in.Response
	a := Answered{Call: in.Call, Status: r.Status, Warnings: r.Warnings}
	if r.FailureClass != nil {
		a.Failure = *r.FailureClass
	}
	if r.RetryClass != nil {
		a.Retry = *r.RetryClass
	}
	for _, p := range r.ClientPayloads {
		a.Payloads = append(a.Payloads, payloadFact(p))
		if p.ClientID != k.Client {
			// A client calls itself what it likes; receipts name it as its owner
			// configured it, and say where the two differ.
			a.Warnings = append(a.Warnings, fmt.Sprintf("payload %s: client_id is %q, configured is %q", p.PayloadID, p.ClientID, k.Client))
		}
	}
	s.record(a)
	for i, p := range r.ClientPayloads {
		s.accept(k, i, p)
	}
	s.closeCall(k)
}

// closeCall issues the receipt of an answered call once none of its payloads
// waits any more.
func (s *step) closeCall(k *call) {
	if s.hard.Calls[k.ID] == nil || k.Answer == nil {
		return
	}
	a := k.Answer
	status, failure, retry := a.Status, a.Failure, a.Retry
	warnings := slices.Clone(a.Warnings)
	delivered, missed := 0, 0
	for i, p := range k.Settled {
		switch {
		case p == nil:
			return // it waits for a slot; the receipt waits with it
		case p.Status == lifeloop.Delivered:
			delivered++
		case p.Status == lifeloop.Failed && failure == "" && (a.Payloads[i].Required || p.Failure == lifeloop.StateConflict):
			status, failure = lifeloop.Failed, p.Failure
			if p.Failure == lifeloop.StateConflict {
				warnings = append(warnings, fmt.Sprintf("payload %s: %s", a.Payloads[i].ID, p.Why))
			}
		default:
			missed++
		}
	}
	switch {
	case status == lifeloop.Failed:
	case missed > 0:
		status = lifeloop.Degraded
	case delivered > 0:
		status = lifeloop.Delivered
	}
	s.receiptFor(k, status, failure, retry, warnings)
}

// receiptFor issues the one receipt of a call.
func (s *step) receiptFor(k *call, st lifeloop.Status, failure lifeloop.FailureClass, retry lifeloop.RetryClass, warnings []string) {
	if k.Event == lifeloop.ReceiptEmitted {
		// "receipt.emitted" never makes a receipt of its own; the call is over.
		s.record(CallOver{k.ID})
		return
	}
	if more := s.negotiationWarnings(k); len(more) > 0 {
		warnings = append(append([]string(nil), warnings...), more...)
		if st == lifeloop.Observed || st == lifeloop.Delivered {
			st = lifeloop.Degraded
		}
	}
	r := lifeloop.Receipt{
		SchemaVersion: 1, ReceiptID: s.cfg.NewID("lfr_"), ClientID: k.Client, AdapterID: s.cfg.Manifest.AdapterID,
		InvocationID: k.Invocation, Event: k.Event, EventID: k.EventID, IntegrationMode: k.Mode, Status: st,
		AtEpochS: s.now.Unix(), PayloadReceipts: payloadReceipts(k), TelemetrySummary: map[string]any{},
		CapabilityDegradations: []lifeloop.Degradation{}, Warnings: append([]string{}, warnings...),
	}
	if k.Idempotency != "" {
		key := k.Idempotency
		r.IdempotencyKey = &key
	}
	hs := s.hard.Sessions[k.Scope]
	if s.cfg.Ledger && !s.soft.lame && hs != nil {
		n := s.hard.Sessions[hs.Numbers].Receipts + 1
		r.Sequence = &n
	}
	if hs != nil && hs.ID != "" {
		id := hs.ID
		r.HarnessSessionID = &id
	}
	r.HarnessRunID, r.HarnessTaskID = s.ids()
	if p := s.hard.Parents[k.Client+"\x00"+k.Invocation]; p != "" {
		r.ParentReceiptID = &p
	}
	if s.hard.Level != "" {
		r.TelemetrySummary["context_pressure"] = s.hard.Level
	}
	if k.Degradation != nil {
		r.CapabilityDegradations = append(r.CapabilityDegradations, *k.Degradation)
	}
	r.CapabilityDegradations = append(r.CapabilityDegradations, s.weakPlacements(k)...)
	if failure != "" {
		if retry == "" {
			retry = failure.DefaultRetry()
		}
		r.FailureClass, r.RetryClass = &failure, &retry
	} else if retry != "" {
		r.RetryClass = &retry
	}
	s.record(ReceiptIssued{Receipt: r, Call: k.ID, Scope: k.Scope})
	if s.hard.State == session.Pending {
		return // a session that is refused tells no event (DECISIONS H5)
	}
	for _, c := range s.cfg.Clients {
		if c.Events[lifeloop.ReceiptEmitted] {
			s.tell(telling{event: lifeloop.ReceiptEmitted, scope: k.Scope, mode: k.Mode, evidence: own("receipt"),
				data: map[string]any{"receipt_id": r.ReceiptID, "client_id": r.ClientID, "event": string(r.Event), "status": string(st)}})
			break
		}
	}
}

// tick tells supervisor.tick, to those alone who name it.
func (s *step) tick() {
	s.soft.tickDue = time.Time{}
	if !s.hard.Alive {
		return
	}
	s.soft.tickDue = s.now.Add(s.cfg.Tick)
	p, stale, ok := s.soft.synth.Now()
	data := map[string]any{"activity": s.soft.doing.what, "uncertain": s.soft.doing.uncertain()}
	if ok {
		data["context"] = pressureData(p, stale)
	}
	s.tell(telling{event: lifeloop.SupervisorTick, mode: s.modeOf(nil), evidence: own("tick"), data: data})
}

func (s *step) wantsTick() bool {
	for _, c := range s.cfg.Clients {
		if c.Events[lifeloop.SupervisorTick] {
			return s.cfg.Tick > 0
		}
	}
	return false
}
