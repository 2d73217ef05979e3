package view

import (
	"strings"
	"time"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// Renewals are the renewals of a session, in the form of `status --json`.
type Renewals struct {
	Count int          `json:"count"` // the number of renewals that were asked for, whatever their outcome
	Last  *LastRenewal `json:"last"`  // the newest renewal
	// Stopped says why the session is not renewed again; empty while a further renewal is
	// possible.
	Stopped string `json:"stopped,omitempty"`
}

// LastRenewal is the newest renewal. Outcome is empty until the renewal ends;
// State is its current step.
type LastRenewal struct {
	ID         string                `json:"renewal"`
	At         time.Time             `json:"at"` // when the renewal was requested
	Profile    string                `json:"profile"`
	By         renewal.By            `json:"by"`
	Path       renewal.Path          `json:"path,omitempty"`
	State      renewal.State         `json:"state"`
	Outcome    renewal.State         `json:"outcome,omitempty"`
	Failure    lifeloop.FailureClass `json:"failure_class,omitempty"`
	Why        string                `json:"why,omitempty"`
	OldSession *string               `json:"old_harness_session_id"`
	NewSession *string               `json:"new_harness_session_id"`
	Before     *int64                `json:"tokens_before"`
	After      *int64                `json:"tokens_after"`
}

// renews adds a fact of a renewal or of the gate.
func (s *Status) renews(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.RenewalMoved:
		s.renewal(f, e.At)
	case kernel.RenewalMeasured:
		s.Renewals.measured(f)
	case kernel.RenewalCalled:
		s.Renewals.called(f)
	case kernel.RenewalRerouted:
		s.Renewals.rerouted(f)
	case kernel.GateAnswered:
		s.decided(f, e.At)
	case kernel.ApprovalAsked:
		s.approving(f)
	case kernel.ApprovalAnswered:
		s.approved(f)
	}
}

// renewal adds a step of a renewal.
func (s *Status) renewal(f kernel.RenewalMoved, at time.Time) {
	if s.Renewals == nil {
		s.Renewals = &Renewals{}
	}
	r := s.Renewals
	if f.To == renewal.Asked || r.Last == nil {
		r.Count++
		r.Last = &LastRenewal{ID: f.Renewal, At: at, Profile: f.Profile, By: f.By, Before: f.Before}
	}
	l := *r.Last
	l.State = f.To
	switch {
	case f.To == renewal.Negotiated:
		l.Path = f.Path
	case f.To == renewal.Resumed:
		l.NewSession = named(f.ID)
	case f.To.Over():
		l.Outcome, l.Failure, l.Why = f.To, f.Failure, f.Why
		if f.To == renewal.Delivered && l.NewSession == nil {
			l.NewSession = s.HarnessSessionID // some harnesses give a session its id only at the session's first prompt
		}
	}
	if f.Broke {
		r.Stopped = f.Why
	}
	r.Last = &l
}

// called applies the call of a profile's command. The fact about the prepare
// command names the harness session that the renewal leaves.
func (r *Renewals) called(f kernel.RenewalCalled) {
	if r != nil && r.Last != nil && f.ID != "" {
		l := *r.Last
		l.OldSession = named(f.ID)
		r.Last = &l
	}
}

// rerouted records that the renewal resets the harness in another way than was planned.
func (r *Renewals) rerouted(f kernel.RenewalRerouted) {
	if r != nil && r.Last != nil {
		l := *r.Last
		l.Path = f.Path
		r.Last = &l
	}
}

func (r *Renewals) measured(f kernel.RenewalMeasured) {
	if r == nil || r.Last == nil {
		return
	}
	l := *r.Last
	l.After = &f.Tokens
	r.Last = &l
	if f.Broke {
		r.Stopped = "the newest renewal did not reduce the context to less than half of its size"
	}
}

func named(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}

// Text describes a renewal in a sentence for people.
func (l LastRenewal) Text() string {
	text := string(l.State) + ", profile " + l.Profile
	if l.Why != "" {
		text += ": " + l.Why
	}
	return text
}

// renewalText describes a step of a renewal for people.
func renewalText(f kernel.RenewalMoved) string {
	text := "renewal " + f.Renewal + " is " + string(f.To)
	switch {
	case f.To == renewal.Asked:
		by := strings.TrimSpace(string(f.By) + " " + f.ClientID)
		if f.By == renewal.ByTrigger {
			by = "context pressure"
		}
		text = "renewal " + f.Renewal + " is requested by the " + by + ", with profile " + f.Profile
	case f.Why != "":
		text += ": " + f.Why
	}
	return text
}
