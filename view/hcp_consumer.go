package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"lifeloop/session"
)

// The default window of an HCPConsumer (DECISIONS H1).
const (
	HCPWindow     = 64              // the number of events held for one session
	HCPWindowTime = 2 * time.Second // how long an event is held at most
)

// The bounds of an HCPConsumer's memory and state.
const (
	hcpSessions  = 4096     // open sessions; if there are more, the one whose last event is oldest is forgotten
	hcpClosed    = 1024     // closed sessions that are remembered, so that repeats of their events are dropped
	hcpGaps      = 64       // gaps that are remembered for one session; a late event of an older gap is dropped as a repeat
	hcpHeld      = 4096     // the largest number of held events in all sessions together
	hcpHeldBytes = 64 << 20 // the largest size of the held events of all sessions, in bytes
	hcpJump      = 1 << 16  // a number that exceeds the last one by more than this is accepted only if another event's number is near
	hcpNear      = 64       // the largest distance between two numbers that are near each other
)

// An HCPConsumer implements the reader's side of HCP L2. It accepts events of
// any number of sessions in any order, with repeats, and delivers each once and
// in the order of its session.
//
// For each session it stores the number of the last delivered event. The event
// with the next number is delivered at once. An event with a higher number is
// held. If too many events are held, or one is held for too long, the event with
// the lowest number is delivered, and the missing numbers are reported as a gap. An
// event whose number is not higher than the last one is a repeat and is
// dropped. If its number was reported in a gap, the event is late: it is reported
// but not delivered, because a late delivery would break the order.
//
// A number far beyond the last one is accepted only with a second event near it.
// Otherwise it is reported as implausible and dropped, so that one wrong number
// does not make all later events late. After session_closed no more events of a
// session are delivered. The consumer's memory is limited.
//
// It has no clock and no files. The caller passes the time, calls Wake at its
// Deadline, and stores its state after the events are processed:
//
//	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
//	err := c.Restore(stored)
//	for _, o := range c.See(now, envelope) { … }   // process o.Event, print o.Warning
//	for _, o := range c.Wake(now) { … }            // at c.Deadline()
//	for _, o := range c.End() { … }                // at the end of the input
//	stored, err := c.State()
type HCPConsumer struct {
	window   int
	hold     time.Duration
	sessions map[string]*hcpSession
	waiting  map[string]*hcpSession // sessions with held events
	seen     uint64                 // increases with each event; orders the sessions by their last event
	held     int                    // the number of held events
	bytes    int                    // bytes of the held lines
	closed   int                    // closed sessions
}

// hcpSession is the state of one session; its exported members survive a
// restart.
type hcpSession struct {
	Last    uint64      `json:"last_processed_sequence"`
	Skipped [][2]uint64 `json:"skipped,omitempty"` // first and last number of each gap
	Late    uint64      `json:"late,omitempty"`    // events that arrived after they were reported as missing
	Closed  bool        `json:"closed,omitempty"`  // session_closed was delivered
	Seen    uint64      `json:"seen,omitempty"`    // the value of HCPConsumer.seen at the session's last event, to order the sessions

	far  uint64 // the number of the last event that was dropped as implausible
	held map[uint64]heldEvent
}

type heldEvent struct {
	HCPEnvelope
	since time.Time
}

// An HCPOutcome is either an event to process or a warning of the consumer. One of
// its members is nil.
type HCPOutcome struct {
	Event   *HCPEnvelope
	Warning *HCPNotice
}

// An HCPNotice is a warning of the consumer itself. From and To are the sequence
// numbers of the first and the last event that the warning concerns. In the warning
// "forgotten", both are the number of the session's last delivered event.
type HCPNotice struct {
	Warning   string `json:"warning"` // gap, late, implausible, closed or forgotten
	SessionID string `json:"session_id"`
	From      uint64 `json:"from"`
	To        uint64 `json:"to"`
}

// NewHCPConsumer returns a consumer that knows no session. window is the largest number
// of events that it holds for one session. hold is the longest time for which it holds an
// event. If window or hold is 0, the consumer holds no events.
func NewHCPConsumer(window int, hold time.Duration) *HCPConsumer {
	return &HCPConsumer{window: window, hold: hold, sessions: map[string]*hcpSession{}, waiting: map[string]*hcpSession{}}
}

// See accepts one event, and returns the events that are delivered now, with
// warnings.
func (c *HCPConsumer) See(now time.Time, e HCPEnvelope) []HCPOutcome {
	var out []HCPOutcome
	s := c.sessions[e.SessionID]
	if s == nil {
		s = &hcpSession{held: map[uint64]heldEvent{}}
		out = c.add(e.SessionID, s)
	}
	c.touch(s)
	switch _, repeat := s.held[e.Sequence]; {
	case e.Sequence <= s.Last:
		if s.skipped(e.Sequence) {
			s.Late++
			out = append(out, notice("late", e, e.Sequence))
		}
		return out
	case s.Closed:
		return append(out, notice("closed", e, e.Sequence))
	case repeat:
		return out
	}
	s.held[e.Sequence] = heldEvent{e, now}
	c.held, c.bytes = c.held+1, c.bytes+len(e.Line)
	c.waiting[e.SessionID] = s
	out = c.inOrder(s, out)
	for len(s.held) > c.window {
		out = c.inOrder(s, c.overtake(s, out))
	}
	for c.held > hcpHeld || c.bytes > hcpHeldBytes {
		oldest := c.longest()
		out = c.inOrder(oldest, c.overtake(oldest, out))
	}
	return c.expired(now, e.SessionID, out)
}

// notice returns a warning about the numbers from `from` to the event's number.
func notice(warning string, e HCPEnvelope, from uint64) HCPOutcome {
	return HCPOutcome{Warning: &HCPNotice{warning, e.SessionID, from, e.Sequence}}
}

// add adds a session. If there are too many, it forgets the one whose last
// event is oldest, after delivering that session's held events.
func (c *HCPConsumer) add(id string, s *hcpSession) (out []HCPOutcome) {
	c.sessions[id] = s
	c.touch(s)
	if s.Closed {
		c.closed++
	}
	c.forgetClosed()
	if len(c.sessions)-c.closed > hcpSessions {
		id, old := c.oldest(false)
		for len(old.held) > 0 {
			out = c.inOrder(old, c.overtake(old, out))
		}
		out = append(out, HCPOutcome{Warning: &HCPNotice{"forgotten", id, old.Last, old.Last}})
		if old.Closed {
			c.closed--
		}
		delete(c.waiting, id)
		delete(c.sessions, id)
	}
	return out
}

// forgetClosed forgets the closed sessions whose last events are oldest, if there are
// too many.
func (c *HCPConsumer) forgetClosed() {
	for c.closed > hcpClosed {
		id, _ := c.oldest(true)
		c.closed--
		delete(c.sessions, id)
	}
}

// oldest returns the session, among the open or the closed ones, whose last
// event is oldest.
func (c *HCPConsumer) oldest(closed bool) (id string, oldest *hcpSession) {
	for name, s := range c.sessions {
		if s.Closed == closed && (oldest == nil || s.Seen < oldest.Seen) {
			id, oldest = name, s
		}
	}
	return id, oldest
}

// touch records that an event of the session was just received.
func (c *HCPConsumer) touch(s *hcpSession) {
	c.seen++
	s.Seen = c.seen
}

// longest returns the session whose events have been held longest.
func (c *HCPConsumer) longest() (oldest *hcpSession) {
	for _, s := range c.waiting {
		if len(s.held) > 0 && (oldest == nil || s.due(0).Before(oldest.due(0))) {
			oldest = s
		}
	}
	return oldest
}

// Deadline returns when the next held event will have waited long enough, if an
// event is held.
func (c *HCPConsumer) Deadline() (at time.Time, ok bool) {
	for _, s := range c.waiting {
		if due := s.due(c.hold); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// Wake delivers the events that have waited long enough.
func (c *HCPConsumer) Wake(now time.Time) []HCPOutcome {
	var out []HCPOutcome
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		out = c.expired(now, id, out)
	}
	return out
}

// End delivers all held events, because no further events will arrive.
func (c *HCPConsumer) End() []HCPOutcome {
	var out []HCPOutcome
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		s := c.waiting[id]
		for len(s.held) > 0 {
			out = c.inOrder(s, c.overtake(s, out))
		}
		delete(c.waiting, id)
	}
	c.forgetClosed()
	return out
}

func (c *HCPConsumer) expired(now time.Time, id string, out []HCPOutcome) []HCPOutcome {
	s := c.waiting[id]
	for len(s.held) > 0 && !now.Before(s.due(c.hold)) {
		out = c.inOrder(s, c.overtake(s, out))
	}
	if len(s.held) == 0 {
		delete(c.waiting, id)
	}
	c.forgetClosed()
	return out
}

// due returns the time at which the first of the held events arrived, plus hold. At least
// one event must be held.
func (s *hcpSession) due(hold time.Duration) (at time.Time) {
	for _, h := range s.held {
		if at.IsZero() || h.since.Before(at) {
			at = h.since
		}
	}
	return at.Add(hold)
}

// inOrder delivers held events as long as the next number is among them.
func (c *HCPConsumer) inOrder(s *hcpSession, out []HCPOutcome) []HCPOutcome {
	for {
		h, ok := s.held[s.Last+1]
		if !ok {
			return out
		}
		out = c.deliver(s, h, out)
	}
}

// overtake delivers the held event with the lowest number and reports the gap before
// that event. It reports no gap before the first event of a session, because it does
// not know whether an earlier event is missing. An event with an implausible number is
// dropped instead.
func (c *HCPConsumer) overtake(s *hcpSession, out []HCPOutcome) []HCPOutcome {
	lowest := slices.Min(slices.Collect(maps.Keys(s.held)))
	h := s.held[lowest]
	switch {
	case !s.plausible(lowest):
		s.far = lowest
		c.drop(s, h)
		return append(out, notice("implausible", h.HCPEnvelope, lowest))
	case s.Last > 0:
		s.Skipped = append(s.Skipped, [2]uint64{s.Last + 1, lowest - 1})
		s.Skipped = s.Skipped[max(len(s.Skipped)-hcpGaps, 0):]
		out = append(out, HCPOutcome{Warning: &HCPNotice{"gap", h.SessionID, s.Last + 1, lowest - 1}})
	}
	return c.deliver(s, h, out)
}

// plausible reports whether n is at most hcpJump beyond the last delivered number, or
// near the number of another event: a held one, or the one last dropped as implausible.
func (s *hcpSession) plausible(n uint64) bool {
	near := func(m uint64) bool { return m != n && max(m, n)-min(m, n) <= hcpNear }
	if n-s.Last <= hcpJump || s.far != 0 && near(s.far) {
		return true
	}
	for m := range s.held {
		if near(m) {
			return true
		}
	}
	return false
}

// deliver delivers a held event. If it is session_closed, the other held events of
// the session are dropped.
func (c *HCPConsumer) deliver(s *hcpSession, h heldEvent, out []HCPOutcome) []HCPOutcome {
	c.drop(s, h)
	s.Last, s.far = h.Sequence, 0
	out = append(out, HCPOutcome{Event: &h.HCPEnvelope})
	if h.EventType != hcpSessionClosed {
		return out
	}
	s.Closed = true
	c.closed++
	for _, n := range slices.Sorted(maps.Keys(s.held)) {
		out = append(out, notice("closed", s.held[n].HCPEnvelope, n))
		c.drop(s, s.held[n])
	}
	return out
}

// drop removes a held event.
func (c *HCPConsumer) drop(s *hcpSession, h heldEvent) {
	delete(s.held, h.Sequence)
	c.held, c.bytes = c.held-1, c.bytes-len(h.Line)
}

// skipped reports whether n is in a reported gap. Gaps are in ascending order.
func (s *hcpSession) skipped(n uint64) bool {
	i := sort.Search(len(s.Skipped), func(i int) bool { return s.Skipped[i][1] >= n })
	return i < len(s.Skipped) && s.Skipped[i][0] <= n
}

// hcpState is the stored form of a consumer's state.
type hcpState struct {
	Sessions map[string]*hcpSession `json:"sessions"`
}

// State returns the state that a consumer needs after a restart. It does not
// contain held events: they were not processed, so the sender must send them
// again.
func (c *HCPConsumer) State() ([]byte, error) {
	known := map[string]*hcpSession{}
	for id, s := range c.sessions {
		if s.Last > 0 {
			known[id] = s
		}
	}
	doc, err := json.Marshal(hcpState{known})
	return append(doc, '\n'), err
}

// Restore sets the state. It must be called before the first event. It returns an
// error for an inconsistent state, because a consumer that started without its
// state would process events twice.
func (c *HCPConsumer) Restore(doc []byte) error {
	var stored hcpState
	if err := json.Unmarshal(doc, &stored); err != nil {
		return fmt.Errorf("not the state of a consumer: %w", err)
	}
	if stored.Sessions == nil {
		return fmt.Errorf(`not the state of a consumer: it has no member "sessions"`)
	}
	for id, s := range stored.Sessions {
		if s == nil || s.Last == 0 || s.Last > maxSequence {
			return fmt.Errorf("the state of session %s has no valid last_processed_sequence", id)
		}
		after := uint64(1)
		for _, gap := range s.Skipped {
			if gap[0] <= after || gap[1] < gap[0] || gap[1] >= s.Last {
				return fmt.Errorf("the state of session %s has an invalid range in \"skipped\"", id)
			}
			after = gap[1] + 1
		}
		s.held = map[uint64]heldEvent{}
		s.Skipped = s.Skipped[max(len(s.Skipped)-hcpGaps, 0):]
	}
	for _, id := range slices.SortedFunc(maps.Keys(stored.Sessions), func(a, b string) int {
		return cmp.Or(cmp.Compare(stored.Sessions[a].Seen, stored.Sessions[b].Seen), cmp.Compare(a, b))
	}) {
		c.add(id, stored.Sessions[id]) // forgets sessions above the limit, which a state of an older version may have
	}
	return nil
}

func knownState(s string) bool { return slices.Contains(session.States(), session.State(s)) }
