package view

import (
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
	HCPWindow     = 64              // events of one session
	HCPWindowTime = 2 * time.Second // for each of them
)

// An HCPConsumer is the caller's side of HCP L2. It accepts events of any
// number of sessions in any order, with repeats, and delivers each once and in
// the order of its session.
//
// Of each session it knows the last delivered number. The next event is
// delivered at once. A later event is held: at most a window of them, and each
// for the window's time. Then the lowest is delivered, and a gap is reported.
// An event at or below the last number is a repeat and is dropped. If a gap has
// passed over it, it is late: it is reported and not delivered, because that
// would break the order.
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
}

// hcpSession is the state of one session; its exported members survive a
// restart.
type hcpSession struct {
	Last    uint64      `json:"last_processed_sequence"`
	Skipped [][2]uint64 `json:"skipped,omitempty"` // first and last number of each gap
	Late    uint64      `json:"late,omitempty"`    // events that arrived after a gap had passed over them

	held map[uint64]heldEvent
}

type heldEvent struct {
	HCPEnvelope
	since time.Time
}

// An HCPOutcome is an event to process, or a warning about missing events.
type HCPOutcome struct {
	Event   *HCPEnvelope
	Warning *HCPNotice
}

// An HCPNotice is a warning of the consumer itself. From and To are the first
// and the last number it is about.
type HCPNotice struct {
	Warning   string `json:"warning"` // gap or late
	SessionID string `json:"session_id"`
	From      uint64 `json:"from"`
	To        uint64 `json:"to"`
}

// NewHCPConsumer returns a consumer that knows no session. With a window of 0
// events or no time it holds nothing.
func NewHCPConsumer(window int, hold time.Duration) *HCPConsumer {
	return &HCPConsumer{window: window, hold: hold, sessions: map[string]*hcpSession{}, waiting: map[string]*hcpSession{}}
}

// See accepts one event.
func (c *HCPConsumer) See(now time.Time, e HCPEnvelope) []HCPOutcome {
	s := c.sessions[e.SessionID]
	if s == nil {
		s = &hcpSession{held: map[uint64]heldEvent{}}
		c.sessions[e.SessionID] = s
	}
	var out []HCPOutcome
	if e.Sequence <= s.Last {
		if s.skipped(e.Sequence) {
			s.Late++
			out = append(out, HCPOutcome{Warning: &HCPNotice{"late", e.SessionID, e.Sequence, e.Sequence}})
		}
		return out
	}
	if _, repeat := s.held[e.Sequence]; repeat {
		return nil
	}
	s.held[e.Sequence] = heldEvent{e, now}
	c.waiting[e.SessionID] = s
	out = s.inOrder(out)
	for len(s.held) > c.window {
		out = s.inOrder(s.overtake(out))
	}
	return c.expired(now, e.SessionID, out)
}

// Deadline is when the next event has been held long enough, if one is held.
func (c *HCPConsumer) Deadline() (at time.Time, ok bool) {
	for _, s := range c.waiting {
		if due := s.due(c.hold); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// Wake delivers the events that have been held long enough.
func (c *HCPConsumer) Wake(now time.Time) []HCPOutcome {
	var out []HCPOutcome
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		out = c.expired(now, id, out)
	}
	return out
}

// End delivers all held events, since the missing ones will not come.
func (c *HCPConsumer) End() []HCPOutcome {
	var out []HCPOutcome
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		s := c.waiting[id]
		for len(s.held) > 0 {
			out = s.inOrder(s.overtake(out))
		}
		delete(c.waiting, id)
	}
	return out
}

func (c *HCPConsumer) expired(now time.Time, id string, out []HCPOutcome) []HCPOutcome {
	s := c.waiting[id]
	for len(s.held) > 0 && !now.Before(s.due(c.hold)) {
		out = s.inOrder(s.overtake(out))
	}
	if len(s.held) == 0 {
		delete(c.waiting, id)
	}
	return out
}

// due is when the event that is held longest has been held long enough. At
// least one must be held.
func (s *hcpSession) due(hold time.Duration) (at time.Time) {
	for _, h := range s.held {
		if at.IsZero() || h.since.Before(at) {
			at = h.since
		}
	}
	return at.Add(hold)
}

// inOrder delivers held events as long as the next number is among them.
func (s *hcpSession) inOrder(out []HCPOutcome) []HCPOutcome {
	for {
		h, ok := s.held[s.Last+1]
		if !ok {
			return out
		}
		out = s.deliver(h, out)
	}
}

// overtake delivers the lowest held event and reports the gap before it.
// Without an earlier event of the session, it is unknown whether any is
// missing.
func (s *hcpSession) overtake(out []HCPOutcome) []HCPOutcome {
	lowest := slices.Min(slices.Collect(maps.Keys(s.held)))
	h := s.held[lowest]
	if s.Last > 0 {
		s.Skipped = append(s.Skipped, [2]uint64{s.Last + 1, lowest - 1})
		out = append(out, HCPOutcome{Warning: &HCPNotice{"gap", h.SessionID, s.Last + 1, lowest - 1}})
	}
	return s.deliver(h, out)
}

func (s *hcpSession) deliver(h heldEvent, out []HCPOutcome) []HCPOutcome {
	delete(s.held, h.Sequence)
	s.Last = h.Sequence
	return append(out, HCPOutcome{Event: &h.HCPEnvelope})
}

// skipped reports whether a gap passed over n. Gaps are in ascending order.
func (s *hcpSession) skipped(n uint64) bool {
	i := sort.Search(len(s.Skipped), func(i int) bool { return s.Skipped[i][1] >= n })
	return i < len(s.Skipped) && s.Skipped[i][0] <= n
}

// hcpState is the stored form of a consumer's state.
type hcpState struct {
	Sessions map[string]*hcpSession `json:"sessions"`
}

// State is what a consumer needs after a restart. It does not contain held
// events: they were not processed, so they must come again.
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

// Restore sets the state, before the first event. A state that contradicts
// itself is an error: without it, events would be processed twice.
func (c *HCPConsumer) Restore(doc []byte) error {
	var stored hcpState
	if err := json.Unmarshal(doc, &stored); err != nil {
		return fmt.Errorf("not the state of a consumer: %w", err)
	}
	if stored.Sessions == nil {
		return fmt.Errorf("not the state of a consumer: it has no sessions")
	}
	for id, s := range stored.Sessions {
		if s == nil || s.Last == 0 || s.Last > maxSequence {
			return fmt.Errorf("the state of session %s has no last_processed_sequence", id)
		}
		after := uint64(1)
		for _, gap := range s.Skipped {
			if gap[0] <= after || gap[1] < gap[0] || gap[1] >= s.Last {
				return fmt.Errorf("the state of session %s has impossible skipped ranges", id)
			}
			after = gap[1] + 1
		}
		s.held = map[uint64]heldEvent{}
		c.sessions[id] = s
	}
	return nil
}

func knownState(s string) bool { return slices.Contains(session.States(), session.State(s)) }
