// Package session is the state machine of a session in the protocol HCP L2
// (docs/contract/hcp.md): eight states and the nine moves between them. It has no time,
// reasons or events.
//
//	      ┌──────────► REJECTED
//	PENDING ──► RUNNING ◄──► PAUSED
//	              │ │ │         │
//	              │ │ └──► ABORTING ──► ABORTED
//	              │ └────► COMPLETED
//	              └──────► FAILED
//
//	if err := session.Check(session.Pending, session.Running); err != nil { … }
package session

import (
	"fmt"
	"slices"
)

// A State is a lifecycle state of one session, as HCP L2 writes it.
type State string

const (
	None      State = "" // no session yet
	Pending   State = "PENDING"
	Rejected  State = "REJECTED"
	Running   State = "RUNNING"
	Paused    State = "PAUSED"
	Aborting  State = "ABORTING"
	Aborted   State = "ABORTED"
	Completed State = "COMPLETED"
	Failed    State = "FAILED"
)

// moves returns the states that a session in s can move to.
func moves(s State) []State {
	switch s {
	case None:
		return []State{Pending}
	case Pending:
		return []State{Running, Rejected}
	case Running:
		return []State{Paused, Aborting, Completed, Failed}
	case Paused:
		return []State{Running, Aborting}
	case Aborting:
		return []State{Aborted}
	}
	return nil
}

// States lists the eight states.
func States() []State {
	return []State{Pending, Rejected, Running, Paused, Aborting, Aborted, Completed, Failed}
}

// Terminal reports whether s is final: a session in s cannot move to another state.
func (s State) Terminal() bool { return len(moves(s)) == 0 }

// Check returns an error unless from → to is a legal move.
func Check(from, to State) error {
	if slices.Contains(moves(from), to) {
		return nil
	}
	return fmt.Errorf("session: no move from %q to %q", from, to)
}
