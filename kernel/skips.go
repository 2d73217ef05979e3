package kernel

import (
	"slices"

	"lifeloop/lifeloop"
)

// This file limits how many events wait for a client that is slower than the
// harness (DECISIONS L18). Two rules skip events:
//
//	MaxQueue calls wait  a tick or a level of pressure replaces the newest one that waits
//	MaxCalls calls wait  only vital events cause a call, until at most half as many wait
//
// Each run of skipped events has one receipt, which names the number of events, the
// first one and the last one. A run ends with the next call of its client that gets a
// receipt. The receipt of the run precedes the receipt of that call.

// A SkippedRun is a run of events that a client did not receive.
type SkippedRun struct {
	Events int    `json:"events"`
	First  string `json:"first_event_id"`
	Last   string `json:"last_event_id"`
}

// skips is a run that may still grow, and the origin of its last event.
type skips struct {
	SkippedRun
	origin
}

// and joins r and next into one run. The events of next follow those of r. Either run
// may be nil.
func (r *skips) and(next *skips) *skips {
	if r == nil || next == nil {
		if r == nil {
			return next
		}
		return r
	}
	return &skips{SkippedRun{r.Events + next.Events, r.First, next.Last}, next.origin}
}

func skipped(of origin) *skips {
	return &skips{SkippedRun{1, of.EventID, of.EventID}, of}
}

// vital reports whether a client needs an event to understand the other events. A vital
// event is skipped only if twice MaxCalls calls wait.
func vital(e lifeloop.Event) bool { return e.Session() || e == lifeloop.CapabilityDegraded }

// behind reports whether a client is too far behind to be called about an event.
func (r *router) behind(s *step, client string, e lifeloop.Event) bool {
	waiting := len(r.soft.queue[client])
	switch {
	case waiting >= s.cfg.MaxCalls:
		r.soft.behind[client] = true
	case waiting <= s.cfg.MaxCalls/2:
		delete(r.soft.behind, client)
	}
	if vital(e) {
		return waiting >= 2*s.cfg.MaxCalls
	}
	return r.soft.behind[client]
}

// obsolete returns the id of the waiting call that a call about a new event e replaces,
// or "" if there is none. If MaxQueue calls wait, a new tick or level of pressure
// replaces the newest waiting call about the same kind of event.
func (r *router) obsolete(s *step, client string, e lifeloop.Event) string {
	q := r.soft.queue[client]
	if len(q) < s.cfg.MaxQueue || e != lifeloop.SupervisorTick && e != lifeloop.ContextPressureObserved {
		return ""
	}
	for _, id := range slices.Backward(q) {
		if r.hard.Calls[id].Event == e {
			return id
		}
	}
	return ""
}

// skip adds an event to the run of skipped events of a client.
func (r *router) skip(client string, of origin) {
	r.hard.Skipped[client] = r.hard.Skipped[client].and(skipped(of))
}

// replace handles a new call c. If c gets a receipt, c ends the client's run of skipped
// events. If c makes a waiting call obsolete, the event of that call becomes a part of
// the run.
func (r *router) replace(c *call, obsolete string) {
	if c.Event == lifeloop.ReceiptEmitted {
		return // a call about receipt.emitted gets no receipt, so it does not end the run
	}
	if was := r.hard.Calls[obsolete]; was != nil {
		c.Skips = was.Skips.and(skipped(was.origin))
		r.forget(was)
	}
	c.Skips = c.Skips.and(r.hard.Skipped[c.Client])
	delete(r.hard.Skipped, c.Client)
}

// skipReceipt issues the receipt of a run of skipped events, if there is one. The
// parameter before is the call that ended the run. If it is nil, the receipt is for
// the client's current run, which no call has ended.
func (r *router) skipReceipt(s *step, client string, before *call) {
	run, id := r.hard.Skipped[client], ""
	if before != nil {
		run, id = before.Skips, before.ID
	}
	if run == nil {
		return
	}
	k := &call{Client: client, origin: run.origin, Skips: run}
	doc := r.document(s, k, outcome{status: lifeloop.Skipped, warnings: []string{"queue_full"}})
	s.record(ReceiptIssued{Receipt: doc, Scope: run.Scope, Frame: run.Frame, Skipped: &run.SkippedRun, Before: id})
	r.announce(s, k, doc)
}

// skipIssued removes the run of skipped events whose receipt f records.
func (r *router) skipIssued(f ReceiptIssued) {
	if c := r.hard.Calls[f.Before]; c != nil {
		c.Skips = nil
	} else {
		delete(r.hard.Skipped, f.Receipt.ClientID)
	}
}
