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

// What an HCPConsumer holds back when it is not told otherwise (DECISIONS H1).
const (
	HCPWindow     = 64              // events of one session
	HCPWindowTime = 2 * time.Second // each of them
)

// An HCPConsumer is the caller's side of HCP L2: it takes events of any number
// of sessions in any order, with repeats, and hands on each once and in the
// order of its session.
//
// Of each session it knows the last number that was handed on. The next one is
// handed on at once. A later one is held: at most a window of them, and each
// for a window's time; then the lowest is handed on all the same, and a gap is
// told. At or below the last one an event is a repeat and dropped, unless a gap
// had passed over it: then it is late, which is told, and not handed on either,
// for what is out of order must not look as if it were in order.
//
// It has no clock and no files. Whoever calls it says what time it is, wakes it
// at its Deadline, and keeps its state after the events are processed:
//
//	c := view.NewHCPConsumer(view.HCPWindow, view.HCPWindowTime)
//	err := c.Restore(kept)
//	for _, o := range c.See(now, envelope) { … }   // process o.Event, print o.Warning
//	for _, o := range c.Wake(now) { … }            // at c.Deadline()
//	for _, o := range c.End() { … }                // no more will come
//	kept, err := c.State()
type HCPConsumer struct {
	window   int
	hold     time.Duration
	sessions map[string]*hcpSession
	waiting  map[string]*hcpSession // those that hold something
}

// hcpSession is what is known of one session; its exported members survive a
// restart.
type hcpSession struct {
	Last    uint64      `json:"last_processed_sequence"`
	Skipped [][2]uint64 `json:"skipped,omitempty"` // first and last number of what each gap passed over
	Late    uint64      `json:"late,omitempty"`    // how many came after a gap had passed over them

	held map[uint64]heldEvent
}

type heldEvent struct {
	HCPEnvelope
	since time.Time
}

// An HCPOutcome is an event to process, or a warning about what did not come.
type HCPOutcome struct {
	Event   *HCPEnvelope
	Warning *HCPNotice
}

// An HCPNotice is a warning of the consumer itself. From and To are the first
// and the last number that it is about.
type HCPNotice struct {
	Warning   string `json:"warning"` // gap or late
	SessionID string `json:"session_id"`
	From      uint64 `json:"from"`
	To        uint64 `json:"to"`
}

// NewHCPConsumer returns one that knows no session yet. A window of 0 events
// or no time holds nothing back.
func NewHCPConsumer(window int, hold time.Duration) *HCPConsumer {
	return &HCPConsumer{window: window, hold: hold, sessions: map[string]*hcpSession{}, waiting: map[string]*hcpSession{}}
}

// See takes one event.
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

// Wake hands on what has been held long enough.
func (c *HCPConsumer) Wake(now time.Time) []HCPOutcome {
	var out []HCPOutcome
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		out = c.expired(now, id, out)
	}
	return out
}

// End hands on all that is held: what is missing will not come any more.
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

// due is when the one that is held longest has been held long enough. It must
// hold one.
func (s *hcpSession) due(hold time.Duration) (at time.Time) {
	for _, h := range s.held {
		if at.IsZero() || h.since.Before(at) {
			at = h.since
		}
	}
	return at.Add(hold)
}

// inOrder hands on the next one, and the next, as long as they are there.
func (s *hcpSession) inOrder(out []HCPOutcome) []HCPOutcome {
	for {
		h, ok := s.held[s.Last+1]
		if !ok {
			return out
		}
		out = s.handOn(h, out)
	}
}

// overtake hands on the lowest that is held and tells what it passes over. Of
// a session of which nothing was handed on before, nobody knows what was
// missed, or whether anything was.
func (s *hcpSession) overtake(out []HCPOutcome) []HCPOutcome {
	lowest := slices.Min(slices.Collect(maps.Keys(s.held)))
	h := s.held[lowest]
	if s.Last > 0 {
		s.Skipped = append(s.Skipped, [2]uint64{s.Last + 1, lowest - 1})
		out = append(out, HCPOutcome{Warning: &HCPNotice{"gap", h.SessionID, s.Last + 1, lowest - 1}})
	}
	return s.handOn(h, out)
}

func (s *hcpSession) handOn(h heldEvent, out []HCPOutcome) []HCPOutcome {
	delete(s.held, h.Sequence)
	s.Last = h.Sequence
	return append(out, HCPOutcome{Event: &h.HCPEnvelope})
}

// skipped says that a gap passed over n. Gaps stand in their order.
func (s *hcpSession) skipped(n uint64) bool {
	i := sort.Search(len(s.Skipped), func(i int) bool { return s.Skipped[i][1] >= n })
	return i < len(s.Skipped) && s.Skipped[i][0] <= n
}

// hcpState is the form in which a consumer's state is kept.
type hcpState struct {
	Sessions map[string]*hcpSession `json:"sessions"`
}

// State is what a consumer must know again after a restart. What is held is
// not in it: it was not processed, so it must come again.
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

// Restore takes a state up again, before the first event. A state that
// contradicts itself is an error: to begin anew would process things twice.
func (c *HCPConsumer) Restore(doc []byte) error {
	var kept hcpState
	if err := json.Unmarshal(doc, &kept); err != nil {
		return fmt.Errorf("the state is not one: %w", err)
	}
	if kept.Sessions == nil {
		return fmt.Errorf("the state is not one: it has no sessions")
	}
	for id, s := range kept.Sessions {
		if s == nil || s.Last == 0 || s.Last > maxSequence {
			return fmt.Errorf("the state of session %s has no last_processed_sequence", id)
		}
		after := uint64(1)
		for _, gap := range s.Skipped {
			if gap[0] <= after || gap[1] < gap[0] || gap[1] >= s.Last {
				return fmt.Errorf("the state of session %s has skipped ranges that cannot be", id)
			}
			after = gap[1] + 1
		}
		s.held = map[uint64]heldEvent{}
		c.sessions[id] = s
	}
	return nil
}

func knownState(s string) bool { return slices.Contains(session.States(), session.State(s)) }
