// Package setup describes what a kernel cannot observe and must be given: each launch of
// the harness with the sources and hooks to expect, the clients, the time limits, and the
// features that the owner of the session asked for.
//
// It holds data. It starts nothing, and reads no configuration and no manifest: the
// caller does.
//
//	cfg := kernel.Config{
//		Launch:  setup.Launch{Manifest: manifest, Injected: setup.Injected{Hooks: true}},
//		Clients: []setup.Client{{ID: "notes", Events: events, Timeout: time.Second}},
//		Limits:  setup.Limits{AbortGrace: 5 * time.Second},
//	}
package setup

import (
	"slices"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/synth"
)

// A Launch describes one launch: which harness, and which sources and hooks the kernel
// can expect.
type Launch struct {
	Manifest lifeloop.Manifest
	Synth    synth.Config

	// HarnessSession is the id that the harness was asked to use; empty if the
	// harness chooses its own id. For an observer it is the id of the only harness
	// session to observe, because the sources may contain several; empty means the
	// first one in the sources.
	HarnessSession string
	// Cause is why the harness session begins, as far as the command line shows it:
	// "resume", "fork", "unknown" if the user will choose a session in the harness,
	// "startup" if the session is certainly new, or empty if the session is probably new.
	// An empty Cause is recorded as "startup". A signal that names a cause overrides Cause.
	Cause string
	Injected
	// Rests lists, for each capability, the sources of this launch on which it
	// depends. One of them is enough.
	Rests map[string][]string
	// Expected are the sources that should report every turn, so that their
	// silence is a degradation.
	Expected []string
	// NoTelemetry says that no telemetry of this harness is understood: the
	// running process is then the only sign of a live session.
	NoTelemetry bool
	Versions
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakness

	// Quit is the signal that the harness handles as a request to quit; 0 means
	// TERM.
	Quit int
	// Ends says how to interpret the end of the harness.
	Ends Ends
	// Resumes is set if the harness can continue a harness session by its id.
	Resumes bool
	Fresh
	// Interactive says that a user talks with the harness: when it is idle, it
	// waits for the user.
	Interactive bool
}

// Valid returns the launch. It removes the harness session's id if that is not a
// valid id for documents, because a command line may contain any text.
func (l Launch) Valid() Launch {
	if !lifeloop.ValidID(l.HarnessSession) {
		l.HarnessSession = ""
	}
	return l
}

// A Weakness is a capability that a launch cannot have, with the reason.
type Weakness struct{ Capability, Reason string }

// Fresh says how this launch can be given a fresh harness session.
type Fresh struct {
	// Renews says that the harness can be launched again without the prompt of its
	// command line.
	Renews bool
	// Clears says that the running harness can begin a fresh session, and Means says how
	// it is made to do this. If Means is renewal.ByHook, this is possible only at
	// the end of a turn.
	Clears bool
	Means  renewal.Means
	// KeepsLine says that a reset by Means keeps a line that the user has begun to type.
	// Only a reset by keys can lose the line.
	KeepsLine bool
}

// Versions lists the known versions of the harness.
type Versions struct {
	// Tested lists the versions with which the harness's claims were tested. If it is
	// empty, versions are not checked.
	Tested []string
	// Proven lists, by version, the capabilities that worked in earlier sessions with
	// versions that were not tested.
	Proven map[string][]string
	// Installed is the version of the npm package that contains the harness's program;
	// empty if the version is unknown.
	Installed string
}

// Injected says which hooks a launch has.
type Injected struct {
	// Hooks says that hooks were injected, and that it is a degradation if the
	// harness calls none.
	Hooks bool
	// HookAtPrompt means that the harness calls no hook before the first prompt.
	HookAtPrompt bool
	// HooksFor is the reason why the launch has hooks, if the user can see the hooks in
	// the harness. Otherwise HooksFor is empty.
	HooksFor string
}

// Ends says how to interpret the end of a harness. The zero value describes a
// program that succeeds with exit code 0.
type Ends struct {
	Success map[int]bool          // exit codes that mean success; nil means only 0
	Codes   map[int]attempt.Cause // exit codes that have a specific cause
	// ByTurn means that the harness exits with success even if it was interrupted.
	// The attempt is then completed only if its last turn was completed, as far as
	// the outcome of that turn is known.
	ByTurn bool
}

// A Client describes one subscriber to the kernel.
type Client struct {
	ID      string
	Events  map[lifeloop.Event]bool // the events that the client subscribed to
	Wants   []negotiate.Want
	Timeout time.Duration // the time limit of one dispatch
	// Program is set if the client is a process that the wrapper starts. Such a
	// client may leave other processes behind.
	Program bool
}

// Requires reports whether the client required a capability.
func (c *Client) Requires(capability string) bool {
	return slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool {
		return w.Capability == capability && w.Level == lifeloop.Required
	})
}

// Limits holds time limits and bounds. The zero value of each field means its
// default.
type Limits struct {
	AbortGrace  time.Duration // the time from the first signal to KILL; 0 means that KILL follows at once
	WedgedAfter time.Duration // the silence after which a working harness counts as wedged; 0 means 5 min
	FirstHook   time.Duration // the longest time from the launch to the first hook; 0 means 10 s
	// ClientPatience is how long a hook waits for the earlier calls of its clients;
	// 0 means 1 s, a negative value means no waiting.
	ClientPatience time.Duration
	// MaxQueue limits the calls that wait for a client. If MaxQueue calls wait, a new
	// tick or level of pressure replaces the newest waiting call of its kind, if any. If
	// more wait, the oldest call about receipt.emitted is dropped. 0 means 64.
	MaxQueue int
	// MaxCalls limits the calls that wait for a client. Once MaxCalls calls wait, only
	// session.* events and capability.degraded cause a new call, until at most half of
	// MaxCalls calls wait. These events cause no new call either while 2*MaxCalls calls
	// wait. 0 means 1,000. For an observer, 100,000 is the default of MaxQueue and
	// MaxCalls.
	MaxCalls int
	// SignDelay is how late a sign of life of the harness may reach the kernel. The
	// policy's time-outs for silence are longer by SignDelay; 0 means no delay.
	SignDelay time.Duration
}

// Optional holds the features that a session has only if its owner asked for them.
type Optional struct {
	Renewing
	Guarding
}

// Renewing says whether and how the session may be renewed.
type Renewing struct {
	Renewals []renewal.Rules // the rules of the active renewal profiles
	Stores   bool            // package vault can store the continuation tokens of renewals
}

// Guarding describes the gate of the session: its policy, and the wait for approvals.
type Guarding struct {
	// Gate is the digest of the policy; empty if nothing is guarded.
	Gate string
	// ApprovalWait is how long a launch, a renewal or a tool call waits for an
	// approval that the policy requires; 0: it does not wait.
	ApprovalWait time.Duration
}
