package kernel

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/synth"
)

// SelfClient is the client id in the receipts of a run without clients
// (DECISIONS L4).
const SelfClient = "lifeloop-wrap"

// A Client describes one subscriber to the kernel.
type Client struct {
	ID      string
	Events  map[lifeloop.Event]bool // the events that it subscribed to
	Wants   []negotiate.Want
	Timeout time.Duration // the time limit of one dispatch
	// Program is set if the client is a process that the wrapper starts. Such a
	// client may leave other processes behind.
	Program bool
}

// requires reports whether the client required the capability of d. Such a client
// is called about d even if it did not subscribe to the event: "Lifeloop must not
// silently downgrade a required capability".
func (c *Client) requires(d *lifeloop.Degradation) bool {
	return d != nil && slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool {
		return w.Capability == d.Capability && w.Level == lifeloop.Required
	})
}

// Config is fixed for the life of a Kernel.
type Config struct {
	Session string // the id of the wrapper's session, which is also the HCP session
	Clients []Client
	Wants   []negotiate.Want // the requirements of the owner, who configured the wrapper
	// Setup describes the first launch. Each later launch has its own Setup.
	Setup
	// Policy says how attempts are supervised. Without fallbacks its Profiles may
	// be empty.
	Policy attempt.Policy
	// Manifests are the manifests of the policy's profiles, by index.
	Manifests []lifeloop.Manifest

	Optional

	// Observing is set if the wrapper did not launch the harness: mode
	// telemetry_only.
	Observing bool
	// OneHook is set if one hook call is the only input: earlier events are
	// unknown, and nothing is stored.
	OneHook bool
	// Ledger says that facts are stored, so that receipts may be numbered.
	Ledger bool

	Tick        time.Duration // the interval of supervisor.tick, for clients that subscribe to it by name; 0 means none
	ClientDrain time.Duration // how long clients may take to answer after the harness has ended
	Limits

	Began Began // the first fact of this run
	NewID func(prefix string) string
}

// Optional holds the features that a session has only if its owner asked for them.
type Optional struct {
	Renewing
	Guarding
}

// Renewing says whether and how the session may be renewed.
type Renewing struct {
	Renewals []renewal.Rules // the rules of the active renewal profiles
	Stores   bool            // there is a vault for their continuation tokens
}

// profiles returns the names under which manifests list the active renewal
// profiles.
func (c *Config) profiles() (names []string) {
	for _, r := range c.Renewals {
		names = append(names, cmp.Or(r.Claims, r.Profile))
	}
	return names
}

// receivers returns the clients that get receipts; if there are no clients, the
// wrapper itself.
func (c *Config) receivers() []Client {
	if len(c.Clients) == 0 {
		return []Client{{ID: SelfClient}}
	}
	return c.Clients
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
	// MaxQueue is how many calls may wait for a client before one of its waiting
	// ticks and levels of pressure is replaced; 0 is 64.
	MaxQueue int
	// MaxCalls is how many calls may wait for a client; then no call is made until
	// half as many wait, except about vital events. 0 is 1,000. For an observer,
	// observerQueue is the default of MaxQueue and MaxCalls.
	MaxCalls int
	// SignDelay is how late a sign of life of the harness may reach the kernel. A
	// time-out for silence fires later by the same time; 0 means no delay.
	SignDelay time.Duration
}

// observerQueue is the default of MaxQueue and MaxCalls for an observer. It only
// limits the memory: no hook waits for an observer's clients, so a slow client gets
// all events until its queue is that long.
const observerQueue = 100_000

// A Setup describes one launch: which harness, and which of its signals the
// kernel can expect.
type Setup struct {
	Manifest lifeloop.Manifest
	Synth    synth.Config

	// HarnessSession is the id that the harness was asked to use; empty when it
	// chooses its own. For an observer it is the only session to observe, in
	// sources that may contain others; empty means the first session in them.
	HarnessSession string
	// Cause is why the harness session begins, according to the command line;
	// empty is startup. A signal that names a cause overrides it.
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
	Weak []Weakened

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

// Fresh says how this launch can be given a fresh harness session.
type Fresh struct {
	// Renews says that the harness can be launched again without the prompt of its
	// command line.
	Renews bool
	// Clears says that the running harness can begin a fresh session, by these Means.
	// By a hook it can do so only at the end of a turn.
	Clears bool
	Means  renewal.Means
	// KeepsLine says that such a reset keeps a line that the user has begun to type. It
	// is false only for some harnesses that are reset by keys.
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
}

// Injected says which hooks a launch has.
type Injected struct {
	// Hooks says that hooks were injected, and that it is a degradation if the
	// harness calls none.
	Hooks bool
	// HookAtPrompt means that the harness calls no hook before the first prompt.
	HookAtPrompt bool
	// HooksFor says what the hooks are needed for; empty if there are none, or if
	// this harness always gets hooks.
	HooksFor string
}

// valid returns the setup. It removes the harness session's id if that is not a
// valid id for documents, because a command line may contain any text.
func (l Setup) valid() Setup {
	if !lifeloop.ValidID(l.HarnessSession) {
		l.HarnessSession = ""
	}
	return l
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
