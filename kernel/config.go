package kernel

import (
	"slices"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/synth"
)

// SelfClient is the client of a run without clients, so that such a run still
// leaves receipts (DECISIONS L4).
const SelfClient = "lifeloop-wrap"

// A Client is one subscriber, as the kernel sees it.
type Client struct {
	ID      string
	Events  map[lifeloop.Event]bool // what it subscribed to
	Wants   []negotiate.Want
	Timeout time.Duration // of one dispatch
}

// requires says that a client required what d is about. It is called about d
// whatever it subscribed to: "Lifeloop must not silently downgrade a required
// capability".
func (c *Client) requires(d *lifeloop.Degradation) bool {
	return d != nil && slices.ContainsFunc(c.Wants, func(w negotiate.Want) bool {
		return w.Capability == d.Capability && w.Level == lifeloop.Required
	})
}

// Config is fixed for the life of a Kernel.
type Config struct {
	Session string // our own session id, the HCP session
	Clients []Client
	Wants   []negotiate.Want // what the wrapper's owner requires
	// Setup describes the first launch. Later launches bring their own.
	Setup
	// Policy says how attempts are supervised. Its profiles may be left out of
	// a policy without fallbacks.
	Policy attempt.Policy
	// Manifests are those of the policy's profiles, by index.
	Manifests []lifeloop.Manifest

	// Observing says that the harness was not launched: mode telemetry_only.
	Observing bool
	// OneHook says that one hook call is the only input: earlier events are
	// unknown, and nothing durable is claimed.
	OneHook bool
	// Ledger says that facts are stored, so that receipts may be numbered.
	Ledger bool

	Tick        time.Duration // between two supervisor.tick, for clients that name it; 0 is off
	ClientDrain time.Duration // how long clients have after the harness ended
	AbortGrace  time.Duration // from the first signal to KILL
	Limits

	Began Began // the first fact of this run
	NewID func(prefix string) string
}

// receivers are the clients that get receipts; without clients, the wrapper.
func (c *Config) receivers() []Client {
	if len(c.Clients) == 0 {
		return []Client{{ID: SelfClient}}
	}
	return c.Clients
}

// Limits are bounds. The zero value of each means its default.
type Limits struct {
	WedgedAfter time.Duration // of silence while the harness works; 0 is 5 min
	FirstHook   time.Duration // from the launch to the first hook; 0 is 10 s
	// ClientPatience is how long a hook waits for the earlier calls of its
	// clients; 0 is 1 s, and a negative one is no time.
	ClientPatience time.Duration
	MaxQueue       int // dispatches waiting per client; 0 is 64, and observerQueue for an observer
	// SignDelay is how much later than the harness shows it a sign of life may
	// reach the kernel. A silence ends an attempt that much later; 0 is none.
	SignDelay time.Duration
}

// observerQueue bounds the memory of an observer. No client waits in a hook there,
// so a slow one loses nothing below it.
const observerQueue = 100_000

// A Setup describes one launch: which harness, and which of its signals the
// kernel can expect.
type Setup struct {
	Manifest lifeloop.Manifest
	Synth    synth.Config

	// HarnessSession is the id that the harness was asked to use; empty when it
	// chooses its own. For an observer it is the only session to observe, in
	// sources that may hold others; empty is the first one that is seen.
	HarnessSession string
	// Cause is why the harness session begins, according to the command line;
	// empty is startup. A signal that names a cause overrides it.
	Cause string
	// Hooks says that hooks were injected and that calls of them are expected.
	Hooks bool
	// HookAtPrompt says that the harness calls its first hook with the first
	// prompt, and none before.
	HookAtPrompt bool
	// Rests says which capabilities rest on which of the sources of this launch.
	// One source is enough.
	Rests map[string][]string
	// Expected are the sources that report every turn, so that their silence
	// is a degradation.
	Expected []string
	// NoTelemetry says that no telemetry of this harness is understood: the
	// running process is then the only sign of a live session.
	NoTelemetry bool
	// Tested are the versions of the harness that its claims were tested with;
	// empty where none was, and then versions are not checked.
	Tested []string
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakened

	// Quit is the signal that the harness handles as a request to quit; 0 is
	// TERM.
	Quit int
	// Ends says what the end of the harness means.
	Ends Ends
	// Resumes says that the harness can continue a harness session by its id.
	Resumes bool
	// Interactive says that a user talks with the harness: when it is idle, it
	// waits for the user.
	Interactive bool
}

// valid is the setup without a harness session that no document can name: a
// command line may give any text as an id.
func (l Setup) valid() Setup {
	if !lifeloop.ValidID(l.HarnessSession) {
		l.HarnessSession = ""
	}
	return l
}

// Ends says what the end of a harness means, beyond the usual exit codes. The
// zero value is a program that succeeds with exit code 0.
type Ends struct {
	Success map[int]bool          // exit codes of a completed attempt; nil is 0 alone
	Codes   map[int]attempt.Cause // exit codes with a cause of their own
	// ByTurn says that the harness also exits with success when it is cut
	// short: if the outcome of its last turn is known, it must be completed.
	ByTurn bool
}
