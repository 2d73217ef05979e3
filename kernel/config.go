package kernel

import (
	"cmp"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

// selfClient is the client id in the receipts of a run without clients
// (DECISIONS L4).
const selfClient = "lifeloop-wrap"

// Config is what a Kernel is given. New sets the defaults of Limits. For an observer, New
// also lowers the support that Launch.Manifest claims. While the Kernel is used, only
// Launch changes, because it describes the newest launch:
//   - A fallback sets Launch.Manifest to the manifest of the new profile, and empties
//     Launch.Weak. The same is done after a crash of the wrapper, if a fallback was active.
//   - An input.Launched with a Setup replaces the whole Launch.
type Config struct {
	Session string // the id of the wrapper's session; also its session id in HCP (docs/contract/hcp.md)
	Clients []setup.Client
	Wants   []negotiate.Want // the requirements of the owner, who configured the wrapper
	// Launch describes the first launch when New is called. Each later launch is
	// described by its input.Launched.
	setup.Launch
	// Policy says how attempts are supervised. Without fallbacks its Profiles may
	// be empty.
	Policy attempt.Policy
	// Manifests are the manifests of the policy's profiles, by index.
	Manifests []lifeloop.Manifest

	setup.Optional

	// Observing is set if the wrapper did not launch the harness: mode
	// telemetry_only.
	Observing bool
	// OneHook is set if one hook call is the only input: earlier events are
	// unknown, and nothing is stored.
	OneHook bool
	// Ledger is set if facts are stored. Only then do receipts have sequence numbers.
	Ledger bool

	Tick        time.Duration // the interval of supervisor.tick, for clients that subscribe to it by name; 0 means none
	ClientDrain time.Duration // how long clients may take to answer after the harness has ended
	setup.Limits

	Began Began // the first fact of this run
	NewID func(prefix string) string
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
func (c *Config) receivers() []setup.Client {
	if len(c.Clients) == 0 {
		return []setup.Client{{ID: selfClient}}
	}
	return c.Clients
}

// observerQueue is the default of MaxQueue and MaxCalls for an observer. It only
// limits the memory: no hook waits for an observer's clients, so a slow client gets
// all events until its queue is that long.
const observerQueue = 100_000
