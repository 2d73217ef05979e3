package session_test

import (
	"testing"

	"lifeloop/session"
)

// legal is the list of moves of HCP L2, as pairs of states.
var legal = map[[2]session.State]bool{
	{session.Pending, session.Running}:   true,
	{session.Pending, session.Rejected}:  true,
	{session.Running, session.Paused}:    true,
	{session.Running, session.Aborting}:  true,
	{session.Running, session.Completed}: true,
	{session.Running, session.Failed}:    true,
	{session.Paused, session.Running}:    true,
	{session.Paused, session.Aborting}:   true,
	{session.Aborting, session.Aborted}:  true,
}

// TestMoves checks all 64 pairs of states: nine are moves.
func TestMoves(t *testing.T) {
	pairs, moves := 0, 0
	for _, from := range session.States() {
		for _, to := range session.States() {
			pairs++
			err := session.Check(from, to)
			if got := err == nil; got != legal[[2]session.State{from, to}] {
				t.Errorf("%s to %s: %v", from, to, err)
			} else if got {
				moves++
			}
		}
	}
	if pairs != 64 || moves != 9 {
		t.Errorf("%d pairs and %d moves, want 64 and 9", pairs, moves)
	}
}

// TestNone checks that None moves only to Pending, and that no state moves to None.
func TestNone(t *testing.T) {
	for _, s := range session.States() {
		if err := session.Check(session.None, s); (err == nil) != (s == session.Pending) {
			t.Errorf("None to %s: %v", s, err)
		}
		if session.Check(s, session.None) == nil {
			t.Errorf("%s moves to None", s)
		}
	}
	if err := session.Check("RESTING", session.Running); err == nil {
		t.Error("an unknown state moved")
	}
}

func TestTerminal(t *testing.T) {
	want := map[session.State]bool{session.Rejected: true, session.Aborted: true, session.Completed: true, session.Failed: true}
	for _, s := range append(session.States(), session.None) {
		if s.Terminal() != want[s] {
			t.Errorf("%q: terminal is %t", s, s.Terminal())
		}
	}
}
