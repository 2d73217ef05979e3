package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// router carries each event to the clients that subscribed to it, in the order of
// observation and one at a time per client. Each call ends in one receipt
// (DECISIONS L4). The receipts of a client are issued in the same order, so the
// receipt of an ended call waits for the receipts of the calls before it:
//
//	emit ──► observed ──► queued ──► dispatched ──► answered ──► over ──► receipt_issued
//	                         │           │             └─ waits for the slots of its payloads
//	                         │           └─ failed: time-out, no answer
//	                         └─ replaced (skips.go)
//
// A slot is a place in the model's context that the answer to a hook fills (slots.go).
// Calls about receipt.emitted get no receipt; call_over ends them.
type router struct {
	hard struct {
		Calls   map[string]*call    // calls by id, each until its receipt is issued; a call about receipt.emitted until it ends
		Open    map[string][]string // the ids of each client's calls that will get a receipt, oldest first
		Made    int                 // the number of calls so far
		Parents map[string]parent   // the newest receipt of each client
		Keys    map[string]*keyed   // the newest recorded use of each idempotency key; keyName returns the map's key
		KeysIn  map[string][]string // the keys in Keys by client, oldest first
		Skipped map[string]*skips   // for each client, the run of events that were skipped after its newest call that gets a receipt
	}
	soft struct {
		queue    map[string][]string // the ids of each client's queued calls
		behind   map[string]bool     // clients that are not called until their queue is shorter
		flying   map[string]string   // for each busy client, the id of the call that was sent to it
		over     map[string]outcome  // the outcomes of ended calls whose receipts wait for an earlier receipt, by call
		warnings map[string][]string // warnings for the next receipt of each client
		tickDue  time.Time
	}
}

// A call is one event on its way to one client.
type call struct {
	ID, Client, Idempotency string
	N                       int // the number of the call, in the order in which calls were made
	origin
	Dispatched bool
	Answer     *Answered
	Settled    []*PayloadSettled // the result of each payload; nil while it waits
	Uses       []*keyed          // the entries that the call's payloads added to Keys
	First      *keyed            // the delivery that the answer repeats; nil if it repeats none
	Skips      *skips            // the run of events that were skipped right before the call; nil if no event was skipped
}

// An origin has the members that describe the event in the request and in the
// receipt of a call. It is fixed when the event is observed, because a client may
// answer after another harness session, or another launch, has begun (DECISIONS L2).
type origin struct {
	Event               lifeloop.Event
	EventID, Invocation string
	Mode                lifeloop.IntegrationMode
	Frame               *lifeloop.FrameContext
	Data                map[string]any
	Scope               int
	Degradation         *lifeloop.Degradation
	Also                []SupportChange
	Adapter, Version    string
	Run, Session        *string // nil if unknown
	Pressure            string  // the level of the context's pressure
	Prompts             int     // how many frames the harness has begun so far
}

type (
	// Observed records one lifecycle event and the calls for it.
	Observed struct {
		Record     lifeloop.EventRecord `json:"record"`
		Invocation string               `json:"invocation"`
		Scope      int                  `json:"scope"`
		// Run is the launch in which the event was observed, and AdapterVersion the
		// version of that launch's adapter.
		Run            *string   `json:"harness_run_id,omitempty"`
		AdapterVersion string    `json:"adapter_version,omitempty"`
		Calls          []callRef `json:"calls"`
		// Skipped lists the clients that are not called because too many calls wait
		// for them.
		Skipped []string `json:"skipped,omitempty"`
		// Degradation is set on capability.degraded.
		Degradation *lifeloop.Degradation `json:"degradation,omitempty"`
		// Also lists the other capabilities that the event names.
		Also []SupportChange `json:"also,omitempty"`
	}
	// callRef names the call of one client for an event.
	callRef struct {
		Call           string `json:"call"`
		Client         string `json:"client"`
		IdempotencyKey string `json:"idempotency_key"`
		// Replaces is the waiting call that this one makes obsolete.
		Replaces string `json:"replaces,omitempty"`
	}
	// Dispatched records that a call is sent to its client.
	Dispatched struct {
		Call   string `json:"call"`
		Client string `json:"client"`
	}
	// Answered records what a client answered, before its payloads are placed.
	Answered struct {
		Call     string                `json:"call"`
		Status   lifeloop.Status       `json:"status,omitempty"`
		Failure  lifeloop.FailureClass `json:"failure,omitempty"`
		Retry    lifeloop.RetryClass   `json:"retry,omitempty"`
		Warnings []string              `json:"warnings,omitempty"`
		Payloads []PayloadFact         `json:"payloads,omitempty"`
		// Replays is the call whose delivery this answer repeats; empty if it
		// repeats none.
		Replays string `json:"replays,omitempty"`
	}
	// CallOver records the end of a call that gets no receipt: a call about
	// receipt.emitted.
	CallOver struct {
		Call string `json:"call"`
	}
)

func (f Observed) key() (string, bool) { return "observed", f.Record.Event != lifeloop.SupervisorTick }
func (f Observed) apply(k *Kernel) {
	k.scopes.observed(f)
	k.turns.observed(f)
	k.attempts.observed(k, f)
	k.pressure.observed(f)
	k.health.observed(f)
	h := &k.router.hard
	for _, client := range f.Skipped {
		k.router.skip(client, f.origin(k))
	}
	for _, c := range f.Calls {
		h.Made++
		h.Calls[c.Call] = &call{ID: c.Call, N: h.Made, Client: c.Client, Idempotency: c.IdempotencyKey, origin: f.origin(k)}
		k.router.replace(h.Calls[c.Call], c.Replaces)
		if f.Record.Event != lifeloop.ReceiptEmitted {
			h.Open[c.Client] = append(h.Open[c.Client], c.Call)
		}
	}
}

func (f Observed) origin(k *Kernel) origin {
	r := f.Record
	return origin{Event: r.Event, EventID: r.EventID, Invocation: f.Invocation, Mode: r.IntegrationMode, Frame: r.FrameContext,
		Data: r.Data, Scope: f.Scope, Degradation: f.Degradation, Also: f.Also, Adapter: r.AdapterID, Version: f.AdapterVersion,
		Run: f.Run, Session: r.HarnessSessionID, Pressure: k.pressure.level(), Prompts: k.turns.prompts()}
}

func (Dispatched) key() (string, bool) { return "dispatched", false }
func (f Dispatched) apply(k *Kernel) {
	if c := k.router.hard.Calls[f.Call]; c != nil {
		c.Dispatched = true
	}
}

func (Answered) key() (string, bool) { return "answered", false }
func (f Answered) apply(k *Kernel) {
	if c := k.router.hard.Calls[f.Call]; c != nil {
		c.Answer = &f
		c.Settled = make([]*PayloadSettled, len(f.Payloads))
		switch {
		case f.Replays != "":
			c.First = k.router.keyOf(c, f.Payloads[0].Key, k.scopes.context(c.Scope))
		case f.Status != lifeloop.Failed: // a failed answer places nothing
			for i := range f.Payloads {
				k.router.use(c, i, k.scopes.context(c.Scope))
			}
		}
	}
}

func (CallOver) key() (string, bool) { return "call_over", false }
func (f CallOver) apply(k *Kernel)   { delete(k.router.hard.Calls, f.Call) }

// ByClient reports whether a client caused this event, by opening or closing a frame
// of its own.
func (f Observed) ByClient() bool {
	return len(f.Record.Evidence) > 0 && f.Record.Evidence[0].Source == clientSource
}

// ByHarness reports whether the harness itself caused this event, and not the
// wrapper or a client, whichever source reported it.
func (f Observed) ByHarness() bool { return byHarness(f.Record.Evidence) }

func byHarness(evidence []lifeloop.Evidence) bool {
	return len(evidence) > 0 && evidence[0].Source != wrapperSource && evidence[0].Source != clientSource
}

func newRouter() (r router) {
	r.hard.Calls, r.hard.Open = map[string]*call{}, map[string][]string{}
	r.hard.Parents, r.hard.Keys = map[string]parent{}, map[string]*keyed{}
	r.hard.KeysIn, r.hard.Skipped = map[string][]string{}, map[string]*skips{}
	r.soft.behind = map[string]bool{}
	r.soft.queue, r.soft.flying = map[string][]string{}, map[string]string{}
	r.soft.over, r.soft.warnings = map[string]outcome{}, map[string][]string{}
	return r
}

func (r *router) call(id string) *call { return r.hard.Calls[id] }
func (r *router) open() bool           { return len(r.hard.Calls)+len(r.hard.Skipped) > 0 }

// forget removes a call that has its receipt, or that a newer call has replaced.
func (r *router) forget(c *call) {
	r.hard.Open[c.Client] = slices.DeleteFunc(r.hard.Open[c.Client], func(id string) bool { return id == c.ID })
	delete(r.hard.Calls, c.ID)
}

// settled stores the result of a payload.
func (r *router) settled(f PayloadSettled) {
	c := r.hard.Calls[f.Call]
	if c == nil || f.Index >= len(c.Settled) {
		return
	}
	c.Settled[f.Index] = &f
	for _, u := range c.Uses {
		if u.Index == f.Index {
			u.Status, u.Placement = f.Status, f.Placement
		}
	}
}

// An emission describes an event that is about to be emitted.
type emission struct {
	event       lifeloop.Event
	scope       int // 0 means the current scope
	frame       string
	parent      string // the parent of a frame that opens; for other events emit looks up the parent
	data        map[string]any
	evidence    []lifeloop.Evidence
	mode        lifeloop.IntegrationMode // if empty, it is derived from the evidence
	degradation *lifeloop.Degradation
	also        []SupportChange
	about       *origin // the launch and harness session of the event, if not the current ones
}

// emit records an event and queues one call for each client that receives it. It
// returns these calls.
func (s *step) emit(e emission) []callRef {
	if e.scope == 0 {
		e.scope = s.scopes.number()
	}
	if e.mode == "" {
		e.mode = s.modeOf(e.evidence)
	}
	if e.data == nil {
		e.data = map[string]any{}
	}
	r := lifeloop.EventRecord{
		SchemaVersion: lifeloop.Version, Event: e.event, EventID: s.cfg.NewID("evt_"),
		AdapterID: s.cfg.Manifest.AdapterID, HarnessSessionID: s.scopes.id(e.scope), IntegrationMode: e.mode,
		AtEpochS: s.now.Unix(), At: s.now.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Evidence: e.evidence, Data: e.data,
	}
	if e.frame != "" {
		r.FrameContext = frameContext(e.frame, cmp.Or(e.parent, s.turns.frame(e.frame).Parent))
	}
	f := Observed{Record: r, Invocation: s.invocationID(), Scope: e.scope, Run: s.attempts.id(), AdapterVersion: s.cfg.Manifest.AdapterVersion,
		Calls: []callRef{}, Degradation: e.degradation, Also: e.also}
	if o := e.about; o != nil {
		f.Record.AdapterID, f.Record.HarnessSessionID, f.Run, f.AdapterVersion = o.Adapter, o.Session, o.Run, o.Version
	}
	for i := range s.cfg.Clients {
		c := &s.cfg.Clients[i]
		switch {
		case s.session.ledgerLost(), !c.Events[e.event] && !required(c, e.degradation):
		case !s.router.behind(s, c.ID, e.event):
			f.Calls = append(f.Calls, callRef{Call: s.cfg.NewID("call_"), Client: c.ID, IdempotencyKey: s.cfg.NewID("idem_"),
				Replaces: s.router.obsolete(s, c.ID, e.event)})
		case e.event != lifeloop.ReceiptEmitted: // calls about receipt.emitted get no receipt, so their skips are not noted
			f.Skipped = append(f.Skipped, c.ID)
		}
	}
	s.record(f)
	s.router.enqueue(s, f.Calls)
	// Without any client the wrapper itself is the client, and has observed the
	// event. An observer without clients and without a ledger issues no receipts.
	if len(s.cfg.Clients) == 0 && (s.cfg.Ledger || !s.cfg.Observing) && e.event != lifeloop.ReceiptEmitted && e.event != lifeloop.SupervisorTick {
		s.router.receipt(s, &call{Client: selfClient, origin: f.origin(s.Kernel)}, outcome{status: lifeloop.Observed})
	}
	s.health.prove(s, e)
	return f.Calls
}

// required reports whether the client required the capability of d. Such a client
// is called about d even if it did not subscribe to the event: "Lifeloop must not
// silently downgrade a required capability".
func required(c *setup.Client, d *lifeloop.Degradation) bool {
	return d != nil && c.Requires(d.Capability)
}

// modeOf returns how an event was observed, according to its evidence.
func (s *step) modeOf(ev []lifeloop.Evidence) lifeloop.IntegrationMode {
	switch {
	case s.cfg.Observing:
		return lifeloop.TelemetryOnly
	case s.cfg.OneHook, len(ev) > 0 && (injected(ev[0].Source) || ev[0].Source == statuslineSource):
		return lifeloop.NativeHook
	}
	return lifeloop.LauncherWrapper
}

// own returns evidence whose source is the wrapper itself.
func own(detail string) []lifeloop.Evidence {
	return []lifeloop.Evidence{{Source: wrapperSource, Detail: detail}}
}

// by returns signals as evidence.
func by(sigs ...telemetry.Signal) []lifeloop.Evidence {
	out := make([]lifeloop.Evidence, len(sigs))
	for i, sig := range sigs {
		out[i] = lifeloop.Evidence{Source: sig.Source, Detail: sig.Detail}
	}
	return out
}

// enqueue adds the calls of an event to the queues of their clients, and removes the
// calls that the new calls replace. If a queue is then longer than MaxQueue, enqueue ends
// its oldest call about receipt.emitted without calling the client. The receipt is not
// lost, because the ledger has it.
func (r *router) enqueue(s *step, calls []callRef) {
	for _, c := range calls {
		r.soft.queue[c.Client] = append(r.without(c.Client, c.Replaces), c.Call)
	}
	for _, c := range calls {
		q := r.soft.queue[c.Client]
		i := slices.IndexFunc(q, func(id string) bool { return r.hard.Calls[id].Event == lifeloop.ReceiptEmitted })
		if len(q) > s.cfg.MaxQueue && i >= 0 {
			oldest := r.hard.Calls[q[i]]
			r.soft.queue[c.Client] = r.without(c.Client, oldest.ID)
			r.end(s, oldest, outcome{})
		}
	}
}

// without returns the queue of a client after one call is removed from it.
func (r *router) without(client, call string) []string {
	return slices.DeleteFunc(r.soft.queue[client], func(queued string) bool { return queued == call })
}

// free reports whether a call is the first one in the queue of its client, and the
// client is not busy.
func (r *router) free(c callRef) bool {
	return r.soft.flying[c.Client] == "" && r.soft.queue[c.Client][0] == c.Call
}

// pump dispatches the next call of each client that is free.
func (r *router) pump(s *step) {
	if s.session.ledgerLost() {
		return
	}
	for i := range s.cfg.Clients {
		c := &s.cfg.Clients[i]
		q := r.soft.queue[c.ID]
		if _, busy := r.soft.flying[c.ID]; busy || len(q) == 0 {
			continue
		}
		r.soft.queue[c.ID] = q[1:]
		r.dispatch(s, c, r.hard.Calls[q[0]])
	}
}

func (r *router) dispatch(s *step, c *setup.Client, k *call) {
	timeout := c.Timeout
	if s.ending.draining() {
		timeout = min(timeout, s.ending.drainTime(s.now))
	}
	s.record(Dispatched{Call: k.ID, Client: c.ID})
	s.slots.dispatched(k.ID)
	r.soft.flying[c.ID] = k.ID
	s.do(effect.Dispatch{Call: k.ID, Client: c.ID, Timeout: timeout, Envelope: lifeloop.DispatchEnvelope{
		SchemaVersion: lifeloop.Version, Request: s.request(k)}})
}

func (s *step) request(k *call) lifeloop.CallbackRequest {
	return lifeloop.CallbackRequest{
		SchemaVersion: lifeloop.Version, Event: k.Event, EventID: k.EventID,
		AdapterID: k.Adapter, AdapterVersion: k.Version,
		HarnessSessionID: k.Session, HarnessRunID: k.Run, HarnessTaskID: s.task(),
		IntegrationMode: k.Mode, InvocationID: k.Invocation, PayloadRefs: []lifeloop.PayloadRef{},
		FrameContext: k.Frame, EventData: k.Data, IdempotencyKey: new(k.Idempotency),
	}
}

// task returns the session's id for the nullable member harness_task_id; nil if one
// hook call is the only input.
func (s *step) task() *string {
	if s.cfg.OneHook {
		return nil
	}
	return new(s.cfg.Session)
}

// returned applies the result of one dispatch. An answer to a call that has
// already ended is dropped.
func (r *router) returned(s *step, in input.Returned) {
	k, ok := r.hard.Calls[in.Call]
	if !ok || !k.Dispatched || k.Answer != nil {
		return
	}
	if r.soft.flying[k.Client] == in.Call {
		delete(r.soft.flying, k.Client)
	}
	defer s.slots.returned(s, in.Call)
	if in.Response != nil && in.Failure == "" {
		if in.Why = overLimit(in.Response); in.Why != "" {
			in.Failure = lifeloop.InvalidRequest
		}
	}
	if in.Failure != "" || in.Response == nil {
		failed := outcome{status: lifeloop.Failed, failure: cmp.Or(in.Failure, lifeloop.InternalError)}
		if in.Why != "" {
			failed.warnings = bounded([]string{in.Why})
		}
		s.record(Answered{Call: in.Call, Failure: failed.failure, Warnings: failed.warnings})
		r.end(s, k, failed)
		return
	}
	a := answerOf(k, in.Response)
	a.Replays = r.repeats(k, a, s.scopes.context(k.Scope))
	s.record(a)
	if a.Replays == "" {
		for i, p := range in.Response.ClientPayloads {
			s.slots.accept(s, k, i, p)
		}
	}
	r.close(s, k)
	if in.Renew != "" {
		s.renewals.wanted(s, k, in.Renew)
	}
}

func answerOf(k *call, r *lifeloop.CallbackResponse) Answered {
	a := Answered{Call: k.ID, Status: r.Status, Warnings: r.Warnings}
	if r.FailureClass != nil {
		a.Failure = *r.FailureClass
	}
	if r.RetryClass != nil {
		a.Retry = *r.RetryClass
	}
	for _, p := range r.ClientPayloads {
		a.Payloads = append(a.Payloads, payloadFact(p))
		if p.ClientID != k.Client {
			// A client may use another id in its payloads. Receipts use the
			// configured id, and report the difference.
			a.Warnings = append(a.Warnings, fmt.Sprintf("payload %s: client_id is %q, but the client is configured as %q", p.PayloadID, p.ClientID, k.Client))
		}
	}
	a.Warnings = bounded(a.Warnings)
	return a
}

// close ends an answered call if none of its payloads still waits.
func (r *router) close(s *step, k *call) {
	if r.hard.Calls[k.ID] == nil || k.Answer == nil {
		return
	}
	if k.First != nil {
		r.end(s, k, outcome{})
		return
	}
	a := k.Answer
	o := outcome{status: cmp.Or(a.Status, lifeloop.Failed), failure: a.Failure, retry: a.Retry, warnings: slices.Clone(a.Warnings)}
	delivered, missed := 0, 0
	for i, p := range k.Settled {
		if p == nil {
			return // this payload still waits for a slot
		}
		why := fmt.Sprintf("payload %s: %s", a.Payloads[i].ID, p.Why)
		if p.Failure == lifeloop.OperatorRequired { // the gate (package gate) did not allow the payload
			o.warnings = append(o.warnings, why)
		}
		switch {
		case p.Status == lifeloop.Delivered:
			delivered++
		case p.Status == lifeloop.Failed && o.failure == "" && (a.Payloads[i].Required || p.Failure == lifeloop.StateConflict):
			o.status, o.failure = lifeloop.Failed, p.Failure
			if p.Failure == lifeloop.StateConflict {
				o.warnings = append(o.warnings, why)
			}
		default:
			missed++
			if o.failure == "" && p.Failure != lifeloop.OperatorRequired && p.Why != "" {
				o.warnings = append(o.warnings, why)
			}
		}
	}
	switch {
	case o.status == lifeloop.Failed:
	case missed > 0:
		o.status = lifeloop.Degraded
	case delivered > 0:
		o.status = lifeloop.Delivered
	}
	r.end(s, k, o)
}

// maxOpen is how many calls of a client may wait for the receipt of an earlier
// call whose payload waits. If there are more, that payload is given up.
const maxOpen = 1000

// end ends a call, and issues the receipts that waited only for that call.
func (r *router) end(s *step, k *call, o outcome) {
	if k.Event == lifeloop.ReceiptEmitted { // a call about receipt.emitted gets no receipt
		s.record(CallOver{k.ID})
	} else {
		r.soft.over[k.ID] = o
	}
	for open := r.hard.Open[k.Client]; len(open) > 0; open = r.hard.Open[k.Client] {
		o, over := r.soft.over[open[0]]
		if !over {
			if len(open) > maxOpen {
				s.slots.giveUpCall(s, open[0], "too many receipts wait for this payload")
			}
			return
		}
		delete(r.soft.over, open[0])
		c := r.hard.Calls[open[0]]
		r.skipReceipt(s, c.Client, c)
		if c.First != nil {
			r.again(s, c)
		} else {
			r.receipt(s, c, o)
		}
	}
	r.skipReceipt(s, k.Client, nil)
}

// failQueued ends the calls that are queued now, with internal_error.
func (r *router) failQueued(s *step, why string) {
	for _, c := range s.cfg.Clients {
		r.fail(s, c.ID, lifeloop.InternalError, why)
	}
}

// failAll ends all queued calls with a failure. The receipts of the first round
// queue calls about receipt.emitted; the second round ends those calls.
func (r *router) failAll(s *step, class lifeloop.FailureClass, why string) {
	for range 2 {
		for _, c := range s.cfg.Clients {
			r.fail(s, c.ID, class, why)
		}
	}
}

func (r *router) fail(s *step, client string, class lifeloop.FailureClass, why string) {
	q := r.soft.queue[client]
	r.soft.queue[client] = nil
	for _, id := range q {
		if k := r.hard.Calls[id]; k != nil {
			r.end(s, k, outcome{status: lifeloop.Failed, failure: class, warnings: []string{why}})
		}
	}
}

// giveUp ends every call that has no answer yet, because the time for the answers is
// over.
func (r *router) giveUp(s *step) {
	for _, c := range s.cfg.Clients {
		if id, busy := r.soft.flying[c.ID]; busy {
			delete(r.soft.flying, c.ID)
			s.do(effect.Cancel{Call: id})
			if k := r.hard.Calls[id]; k != nil {
				s.record(Answered{Call: id, Failure: lifeloop.Timeout})
				r.end(s, k, outcome{status: lifeloop.Failed, failure: lifeloop.Timeout, warnings: []string{"the session ended before the client answered"}})
			}
		}
		r.fail(s, c.ID, lifeloop.Timeout, "the session ended before the client was free")
	}
	for _, c := range s.cfg.Clients { // the calls about receipt.emitted that were queued meanwhile
		r.fail(s, c.ID, lifeloop.Timeout, "the session ended")
	}
}

// failOpen ends the calls that were open when a wrapper died. Their receipts say
// whether the client was called or had answered, and which payloads were lost.
func (r *router) failOpen(s *step) {
	for _, k := range slices.SortedFunc(maps.Values(r.hard.Calls), func(a, b *call) int { return cmp.Compare(a.N, b.N) }) {
		if k.Answer == nil {
			why := "the wrapper died before the client's answer was recorded"
			if !k.Dispatched {
				why = "the wrapper died before the client was called"
			}
			r.end(s, k, outcome{status: lifeloop.Failed, failure: lifeloop.TransportError, warnings: []string{why}})
			continue
		}
		for i, p := range k.Answer.Payloads {
			if k.Settled[i] == nil && k.First == nil {
				s.record(PayloadSettled{Call: k.ID, Index: i, Placement: p.First, Status: lifeloop.Failed, Failure: lifeloop.PayloadRejected,
					Why: "the payload was lost when the wrapper died"})
			}
		}
		r.close(s, k)
	}
	for _, client := range slices.Sorted(maps.Keys(r.hard.Skipped)) {
		r.skipReceipt(s, client, nil)
	}
}

// startTicks starts the timer of supervisor.tick, if a client subscribed to it by
// name.
func (r *router) startTicks(s *step) {
	for _, c := range s.cfg.Clients {
		if c.Events[lifeloop.SupervisorTick] && s.cfg.Tick > 0 {
			r.soft.tickDue = s.now.Add(s.cfg.Tick)
		}
	}
}

func (r *router) stopTicks() { r.soft.tickDue = time.Time{} }

func (r *router) next(*Kernel) time.Time { return r.soft.tickDue }

func (r *router) wake(s *step) {
	r.stopTicks()
	if !s.attempts.alive() {
		return
	}
	r.soft.tickDue = s.now.Add(s.cfg.Tick)
	data := map[string]any{"activity": s.activity.current(), "uncertain": s.activity.uncertain()}
	if context := s.pressure.tick(); context != nil {
		data["context"] = context
	}
	s.emit(emission{event: lifeloop.SupervisorTick, mode: s.modeOf(nil), evidence: own("tick"), data: data})
}
