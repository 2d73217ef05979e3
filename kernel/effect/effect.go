// Package effect lists what the kernel asks its supervisor to do: start and end the
// harness, call a client, answer a hook. An effect is data. The supervisor performs it
// after the facts of the same step were written.
//
// The package performs nothing and decides nothing. It does not say whether an effect
// succeeded: if an effect has a result, an input of package input reports it.
//
//	for _, e := range out.Effects {
//		switch e := e.(type) {
//		case effect.Dispatch:
//			go call(e) // input.Returned reports the result
//		…
//		}
//	}
package effect

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// An Effect is an action that the supervisor must perform after the facts of the same
// step were written.
type Effect interface{ isEffect() }

// Effects on the harness and its terminal.
type (
	// Launch starts the harness of a profile. Number counts the launches of the
	// session from 1. Resume is the id of the harness session to continue; empty
	// for a fresh start. Fresh is set if a renewal begins a fresh harness session: the
	// launch continues no session, and does not repeat the prompt of the command line.
	Launch struct {
		Run     string
		Number  int
		Profile int
		Resume  string
		Fresh   bool
	}
	// Stop sends Signal to the harness's process group. If Tree is set, Signal is
	// KILL, and goes to the harness and every process below it. Grace is how long the
	// processes of the tree may take to clean up; 0 if Tree is set.
	Stop struct {
		Signal int
		Tree   bool
		Grace  time.Duration
	}
	// Suspend stops the harness and every process below it; Continue continues them.
	Suspend  struct{}
	Continue struct{}
	// Release restores the terminal, because the harness has ended.
	Release struct{}
	// LineTaken corrects what the wrapper has recorded about the line that the user types:
	// the harness has accepted that line as a prompt, but the typed keys did not show
	// that the user submitted it.
	LineTaken struct{}
)

// Effects on sources, hooks and commands.
type (
	// Watch begins to read a file whose path a hook has reported. Records from before
	// Since are dropped, because they do not belong to this session. If Since is zero,
	// only records from before the Since of the launch's supervisor.Files are dropped.
	Watch struct {
		Path  string
		Since time.Time
	}
	// DrainSources reads every watched file once more to its end.
	DrainSources struct{}
	// HookAnswer answers a hook with the context for the model, which may be
	// empty.
	HookAnswer struct {
		Hook    string
		Event   string
		Context lifeloop.Opaque
		Verdict *HookVerdict // the answer to a hook that asks whether a tool may run
		Clear   bool         // the harness is to empty its context
	}
	// A HookVerdict is the answer to a hook by which the harness asks whether a
	// tool may run.
	HookVerdict struct {
		Decision telemetry.Decision
		Reason   string // for the model; empty if the tool may run
	}
	// Reply answers a command of the session socket. Failure is empty if the
	// command was carried out, and Renewal is the id of the renewal that the
	// command began.
	Reply struct {
		Ask     string
		Failure lifeloop.FailureClass
		Why     string
		Renewal string
	}
)

// Effects on clients.
type (
	// Dispatch calls a client. The envelope may hold payload bodies.
	Dispatch struct {
		Call     string
		Client   string
		Envelope lifeloop.DispatchEnvelope
		Timeout  time.Duration
	}
	// Cancel cancels what is still running under the id Call: a dispatch, the question to
	// the policy's program, or a part of a renewal. This part is the prepare program, the
	// continue program or the typing of the keys.
	Cancel struct{ Call string }
	// EndClients ends the persistent clients and the processes that clients left
	// behind.
	EndClients struct{}
)

// Questions to the gate and to the program of the attempts policy.
type (
	// AskGate asks the gate about an act.
	AskGate struct {
		Ask     string
		Act     string             // gate.ActLaunch, …
		Profile int                // index of the profile to launch
		Use     *telemetry.ToolUse // set for a tool call; it contains text of the session
		Renewal *RenewalAct        // set for a renewal
		Payload *PayloadAct        // set for a delivery
	}
	// A RenewalAct describes a renewal to the gate. Number is one more than the number
	// of renewals of the session that have begun a reset.
	RenewalAct struct {
		ID, Profile, Client string
		By                  renewal.By
		Path                renewal.Path
		Number              int
	}
	// A PayloadAct describes the delivery of a payload to the gate. It has a digest in
	// the place of the body.
	PayloadAct struct {
		ID, Client, Kind string
		Digest           string
		Placement        lifeloop.PayloadPlacement
		Slot             string
		Bytes            int
	}
	// Decide asks the program of the attempts policy whether to retry.
	Decide struct {
		Ask      string
		Timeout  time.Duration
		Question RetryQuestion
	}
	// A RetryQuestion is the document that the program reads.
	RetryQuestion struct {
		SessionID    string                `json:"session_id"`
		Profile      string                `json:"profile"`
		Attempt      int                   `json:"attempt"` // retries of the profile so far
		Total        int                   `json:"total_retries"`
		Cause        attempt.Cause         `json:"cause"`
		Detail       string                `json:"detail"`
		FailureClass lifeloop.FailureClass `json:"failure_class"`
		Reason       string                `json:"reason"`
		Code         int                   `json:"code"`
		Signal       int                   `json:"signal"`
		DefaultRetry bool                  `json:"default_retry"`
		DefaultDelay int64                 `json:"default_delay_ms"`
	}
)

// Effects of a renewal.
type (
	// PrepareRenewal runs the prepare program of a profile and stores the
	// continuation that it prints, which the contract calls a token.
	PrepareRenewal struct {
		RenewalRef
		Timeout time.Duration
	}
	// ContinueRenewal takes the stored token out of the vault (package vault), and runs
	// the profile's continue program with that token.
	ContinueRenewal struct {
		RenewalRef
		Digest  string
		Timeout time.Duration
	}
	// DiscardToken removes a token that will not be used. Without a Digest, it
	// removes any token that the prepare program of this renewal has stored.
	DiscardToken struct {
		RenewalRef
		Digest string
	}
	// A RenewalRef names the renewal, client and session to which a token is
	// bound.
	RenewalRef struct {
		Renewal, Profile, Client, Adapter string
		Session                           string // id of the harness session that the renewal replaces
	}
	// TypeKeys types the keys by which this launch's harness begins a fresh session. If
	// Undo is set, it types the keys that erase the typed command. [Cancel] stops the
	// typing between two keys. If our plugin resets the harness of this launch, the
	// plugin gets a request instead; with Undo, the request is withdrawn.
	TypeKeys struct {
		Renewal string
		Undo    bool
	}
)

func (Launch) isEffect()          {}
func (Stop) isEffect()            {}
func (Suspend) isEffect()         {}
func (Continue) isEffect()        {}
func (Release) isEffect()         {}
func (LineTaken) isEffect()       {}
func (Watch) isEffect()           {}
func (DrainSources) isEffect()    {}
func (HookAnswer) isEffect()      {}
func (Reply) isEffect()           {}
func (Dispatch) isEffect()        {}
func (Cancel) isEffect()          {}
func (EndClients) isEffect()      {}
func (AskGate) isEffect()         {}
func (Decide) isEffect()          {}
func (PrepareRenewal) isEffect()  {}
func (ContinueRenewal) isEffect() {}
func (DiscardToken) isEffect()    {}
func (TypeKeys) isEffect()        {}
