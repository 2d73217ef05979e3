package kernel_test

import (
	"cmp"
	"slices"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// This file is the judge's law "each skipped event is counted in one receipt, and
// only for a client that is far behind is an event skipped" (DECISIONS L18).

// A skipAccount has the events that clients did not receive, and whose receipt was
// not issued yet.
type skipAccount struct {
	newest map[string][]string // client → skipped events since the client's last call
	before map[string][]string // call → events that were skipped right before it
}

// note adds the events that clients do not receive. about maps each replaced call to
// the id of its event.
func (a *skipAccount) note(f kernel.Observed, about map[string]string) {
	for _, client := range f.Skipped {
		a.newest[client] = append(a.newest[client], f.Record.EventID)
	}
	for _, c := range f.Calls {
		if c.Replaces != "" {
			a.before[c.Call] = append(a.before[c.Replaces], about[c.Replaces])
			delete(a.before, c.Replaces)
		}
		if f.Record.Event != lifeloop.ReceiptEmitted {
			a.before[c.Call] = append(a.before[c.Call], a.newest[c.Client]...)
			delete(a.newest, c.Client)
		}
	}
}

// take removes the skipped events that a receipt counts, and returns them.
func (a *skipAccount) take(f kernel.ReceiptIssued) (run []string) {
	if f.Before == "" {
		run = a.newest[f.Receipt.ClientID]
		delete(a.newest, f.Receipt.ClientID)
		return run
	}
	run = a.before[f.Before]
	delete(a.before, f.Before)
	return run
}

// waiting is how many calls wait to be dispatched to a client.
func (j *judge) waiting(client string) (n int) {
	for _, of := range j.calls {
		if of == client {
			n++
		}
	}
	return n
}

// skips checks that an event skips only clients with many waiting calls, and notes these
// clients. It must be called before the calls of the event are noted.
func (j *judge) skips(f kernel.Observed) {
	r := f.Record
	limit := cmp.Or(j.cfg.MaxCalls, 1000)
	for _, client := range f.Skipped {
		least := limit/2 + 1
		if r.Event.Session() || r.Event == lifeloop.CapabilityDegraded {
			least = 2 * limit
		}
		require.GreaterOrEqual(j.t, j.waiting(client), least, "%s is not sent to %s", r.Event, client)
		require.NotEqual(j.t, lifeloop.ReceiptEmitted, r.Event, "it has no receipt")
	}
	about := map[string]string{}
	for _, c := range f.Calls {
		if was, replaced := j.made[c.Replaces]; replaced {
			require.Contains(j.t, []lifeloop.Event{lifeloop.SupervisorTick, lifeloop.ContextPressureObserved}, r.Event)
			require.Equal(j.t, was.event, r.Event, "an event is replaced by one of its kind")
			require.Equal(j.t, c.Client, j.calls[c.Replaces], "it waited")
			delete(j.calls, c.Replaces)
			j.owed[c.Client] = slices.DeleteFunc(j.owed[c.Client], func(call string) bool { return call == c.Replaces })
			about[c.Replaces] = was.id
		}
	}
	j.note(f, about)
}

// skipped checks a receipt for skipped events: it counts exactly the events that its
// client did not receive, and comes before the receipt of the client's next call.
func (j *judge) skipped(f kernel.ReceiptIssued) {
	client := f.Receipt.ClientID
	require.Equal(j.t, lifeloop.Skipped, f.Receipt.Status)
	run, owed := j.take(f), j.owed[client]
	if f.Before != "" {
		require.NotEmpty(j.t, owed)
		require.Equal(j.t, f.Before, owed[0], "the receipt of a run precedes that of the next call")
	} else {
		require.Empty(j.t, owed)
	}
	require.NotEmpty(j.t, run)
	require.Equal(j.t, kernel.SkippedRun{Events: len(run), First: run[0], Last: run[len(run)-1]}, *f.Skipped)
	require.Equal(j.t, f.Skipped.Last, f.Receipt.EventID)
	for _, event := range run {
		j.credit(event, client)
	}
	j.reach["receipt of skipped events"]++
	if len(run) > 1 {
		j.reach["receipt of several skipped events"]++
	}
}
