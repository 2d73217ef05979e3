// Package renewal is the state machine of renewals. A renewal moves a session into a fresh
// harness session. The continuation is what a renewal carries over: the prepare command
// of a profile prints it, and the fresh harness session gets it at most once.
//
// A [Machine] holds the newest renewal of one session. After an event, the methods of the
// machine return the next [Move], or the next [Act]. The caller records the move,
// applies it, and then performs the act. The machine reads no clock and starts nothing.
// It never holds a token (the stored continuation), only the digest of the token.
//
//	idle ──► asked ──► negotiated ──► prepared ──► resetting ──► resumed ──► delivered
//	           │           │  │           │            │            │
//	           ▼           ▼  └────┬──────┘            └─────┬──────┘
//	        refused     refused    ▼                         ▼
//	                          rolled_back                  failed
//
// A renewal that ends before the prepare command runs, or because this command fails, is
// refused. A renewal that ends later, but before the reset, is rolled back. In both cases
// the old harness session stays as it is. After the reset began, the renewal ends as
// delivered or failed. At most one renewal is under way, and each renewal ends once.
//
// A reset by relaunch ends the harness, consumes the token and starts the harness
// again. A reset in place consumes the token first, because a hook of the fresh session
// has to deliver the continuation. Then keys are typed, a plugin is asked or a hook is
// answered. If no fresh session follows, the reset continues by relaunch, with the same
// continuation.
//
//	record(m.Ask(id, request))              // m.Apply for each recorded move
//	if class, why, broke := m.Refusal(now, rules, resets); class != "" { … }
//	record(m.Agree(renewal.Relaunch))
//	switch m.Ready() { case renewal.Prepare: … case renewal.Reset: … }
package renewal

import (
	"fmt"
	"slices"
	"time"

	"lifeloop/lifeloop"
)

// A State is a state of a renewal.
type State string

const (
	Idle       State = "" // no renewal yet
	Asked      State = "asked"
	Negotiated State = "negotiated"
	Prepared   State = "prepared"
	Resetting  State = "resetting"
	Resumed    State = "resumed"
	Delivered  State = "delivered"
	Refused    State = "refused"
	RolledBack State = "rolled_back"
	Failed     State = "failed"
)

// Over reports whether a renewal in this state has ended.
func (s State) Over() bool {
	return s == Delivered || s == Refused || s == RolledBack || s == Failed
}

// moves returns the states that a renewal in s can move to.
func moves(s State) []State {
	switch s {
	case Asked:
		return []State{Negotiated, Refused}
	case Negotiated:
		return []State{Prepared, Refused, RolledBack}
	case Prepared:
		return []State{Resetting, RolledBack}
	case Resetting:
		return []State{Resumed, Failed}
	case Resumed:
		return []State{Delivered, Failed}
	}
	return []State{Asked} // the next renewal begins
}

// Check returns an error unless a renewal can move from one state to the other.
func Check(from, to State) error {
	if !slices.Contains(moves(from), to) {
		return fmt.Errorf("renewal: no move from %q to %q", from, to)
	}
	return nil
}

// A Path is a way to reset the harness.
type Path string

const (
	Relaunch Path = "relaunch" // the harness ends and is started again
	InPlace  Path = "in_place" // the harness itself begins a new session
)

// Paths lists the ways to reset, in the order of preference that a profile has by
// default.
func Paths() []Path { return []Path{InPlace, Relaunch} }

// A Means is how a running harness is made to begin a fresh session.
type Means string

const (
	ByKeys   Means = ""       // keys are typed at the harness's prompt
	ByPlugin Means = "plugin" // our plugin in the harness is asked
	ByHook   Means = "hook"   // our answer to the harness's hook at the end of a turn empties the context
)

// An Act is what the caller does after it recorded a move.
type Act int

const (
	None     Act = iota
	Prepare      // run the profile's prepare command
	Reset        // end the old harness session, or begin a reset in place
	Continue     // consume the token and run the continue command
	Launch       // start the harness with a fresh session, which then gets the continuation
	Permit       // ask the gate if the renewal is allowed; the gate has its own time limit
	Type         // in place: the continuation is ready; wait until the Means can be used
	Clear        // in place: type the keys, ask the plugin or answer the hook
	Undo         // in place: take back the keys, or the request to the plugin
	FallBack     // a reset in place has failed: wait for the prompt, and then relaunch or give up
)

// Rules are the properties of a profile that the machine needs.
type Rules struct {
	Profile string
	// Claims is the name under which manifests list this profile; empty if manifests
	// list it under its own name, Profile.
	Claims string
	Client string // the owner of the continuation, in receipts and payloads
	Paths  []Path // the ways to reset, in the order of preference
	Cut    bool   // a running turn may be interrupted
	// At is the lowest level of context pressure that asks for a renewal; empty if
	// none does.
	At string
	// Partial is set if partial support satisfies what a renewal requires.
	Partial bool
	Limits
}

// Limits bound a renewal. The zero value of each limit means its default. If a profile has
// a key for the limit (docs/renewal.md), the key has the same default.
type Limits struct {
	Idle     time.Duration // wait until the harness is at its prompt; 0 is 10 min
	Prepare  time.Duration // run time of the prepare command; 0 is 30 s
	Continue time.Duration // run time of the continue command; 0 is 30 s
	Observe  time.Duration // from the new launch to its first sign of a session; 0 is 1 min
	Clear    time.Duration // from the act Clear to a fresh session, and run time of Undo; 0 is 15 s
	Session  int           // maximum number of resets of one session; 0 is 20
	Max      int           // maximum number of resets within Window; 0 is 3
	Window   time.Duration // the period for which Max is the limit; 0 is 30 min
}

// Filled returns the limits with their defaults.
func (l Limits) Filled() Limits {
	fill(&l.Idle, 10*time.Minute)
	fill(&l.Prepare, 30*time.Second)
	fill(&l.Continue, 30*time.Second)
	fill(&l.Observe, time.Minute)
	fill(&l.Clear, 15*time.Second)
	fill(&l.Session, 20)
	fill(&l.Max, 3)
	fill(&l.Window, 30*time.Minute)
	return l
}

func fill[T int | time.Duration](value *T, byDefault T) {
	if *value == 0 {
		*value = byDefault
	}
}

// A By says what asked for a renewal.
type By string

const (
	ByUser    By = "user"
	ByClient  By = "client"
	ByTrigger By = "trigger" // the context pressure reached the level Rules.At
)

// A Request asks for a renewal.
type Request struct {
	Profile  string `json:"profile"`
	By       By     `json:"by"`
	ClientID string `json:"client_id,omitempty"` // the client that asked
	Reason   string `json:"reason,omitempty"`    // the user's reason
	// Before is how many tokens the context had; nil if unknown. Trigger is the same number
	// if the pressure triggered the renewal. Otherwise it is the larger of that number and the
	// number at which the pressure is high. After the renewal the context must have fewer
	// tokens than half of Trigger. If Trigger is unknown, it is 0 and requires nothing.
	Before  *int64 `json:"tokens_before,omitempty"`
	Trigger int64  `json:"trigger,omitempty"`
}

// A Move records that a renewal reached a state. Which other members are set
// depends on the state.
type Move struct {
	Renewal string                    `json:"renewal"`
	To      State                     `json:"to"`
	Request `json:"request,omitzero"` // set in the state asked
	Path    Path                      `json:"path,omitempty"` // set in the state negotiated
	// These are set in the state prepared: Digest identifies the token, which
	// expires at Expires.
	Digest  string     `json:"digest,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// These are set in the state resumed: Scope is the number of the new harness
	// session, and ID its id, if known.
	Scope int       `json:"scope,omitempty"`
	ID    string    `json:"harness_session_id,omitempty"`
	At    time.Time `json:"at,omitzero"` // the start of the reset; set in the state resetting
	// Failure and Why are set if the renewal ended without a delivery.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	Why     string                `json:"why,omitempty"`
	// Broke is set if no further renewal may begin in the session.
	Broke bool `json:"broke,omitempty"`
}

// Payload returns the text of a continuation as one payload of a client: id is the
// payload's id, digest the digest of the text (package canon). The text is placed at the
// start of the harness session if possible, otherwise before a prompt.
//
// Only the second placement is marked as required, but one such mark makes the whole
// payload required (negotiate.Placed): an answer with this payload fails if neither
// placement is possible.
func Payload(id, client string, text lifeloop.Opaque, digest string) lifeloop.PayloadEnvelope {
	return lifeloop.PayloadEnvelope{SchemaVersion: 1, PayloadID: id, ClientID: client, PayloadKind: "continuation", Format: "text",
		ContentEncoding: "utf8", Body: &text, ByteSize: int64(text.Len()), ContentDigest: &digest, Redaction: "none", Metadata: map[string]any{},
		AcceptablePlacements: []lifeloop.AcceptablePlacement{
			{Placement: lifeloop.DeveloperEquivalentFrame, Requirement: lifeloop.Preferred},
			{Placement: lifeloop.PrePromptFrame, Requirement: lifeloop.Required}}}
}
