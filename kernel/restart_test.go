package kernel_test

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// TestEveryPrefixRecovers cuts the ledger of every scenario after each of its
// entries, as a crash or a loss of power would, and recovers the session: it
// reaches one terminal state, and every call of a client has its receipt.
func TestEveryPrefixRecovers(t *testing.T) {
	points := 0
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{t: t, now: start}
		cut := func() {
			read := slices.Collect(ledgered(t, w.entries))
			l0, hcp := &l0Judge{}, &hcpJudge{}
			for n := range len(w.entries) + 1 {
				points++
				entries := w.entries[:n:n]
				recoverAt(t, w, entries, slices.Values(read[:n]))
				if n == 0 || w.cfg.Observing || w.cfg.OneHook {
					continue
				}
				l0.fact(t, w.entries[n-1], read[n-1])
				hcp.fact(t, w.entries[n-1], read[n-1])
				if k := kernel.Replay(w.cfg, slices.Values(read[:n])); !k.State().Terminal() {
					closeAt(t, k, w.now.Add(time.Minute), entries, l0.clone(), hcp.clone())
				}
			}
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "run" && w.k != nil {
				cut()
			}
			w.t = t
			w.command(d)
			return d.Expected
		})
		if !strings.Contains(path, "one_hook") {
			cut()
		}
	})
	require.Greater(t, points, 1000, "points at which a wrapper died")
}

// recoverAt recovers a world from its first entries, which are given as the kernel made
// them and as the ledger returns them, and plays it to the end.
func recoverAt(t *testing.T, w *world, entries []kernel.Entry, read iter.Seq[kernel.Entry]) {
	n := len(entries)
	if w.cfg.OneHook || w.cfg.Observing && !w.cfg.Ledger {
		return // such sessions cannot be recovered
	}
	k := kernel.Replay(w.cfg, read)
	if k.State().Terminal() {
		return
	}
	now := w.now.Add(time.Minute)
	alive, pending, drained, ending := false, false, false, false
	over := slices.ContainsFunc(entries, func(e kernel.Entry) bool {
		f, timedOut := e.Fact.(kernel.TimedOut)
		_, aborted := e.Fact.(kernel.AbortRequested)
		return aborted || timedOut && (f.Timer == "session" || f.Timer == "idle")
	})
	step := func(in input.Input) {
		out := k.Step(now, in)
		for _, f := range out.Facts {
			entries = append(entries, kernel.Entry{Seq: uint64(len(entries) + 1), At: now, Fact: f})
		}
		for _, e := range out.Effects {
			switch e.(type) {
			case effect.Launch:
				require.False(t, alive || pending, "one harness at a time")
				require.False(t, over, "recovered after %d entries, a launch follows an abort or the session's time-out", n)
				pending = true
			case effect.DrainSources:
				drained = true
			case effect.EndClients:
				ending = true
			}
		}
	}
	step(input.Restarted{PID: 99})
	if w.cfg.Observing {
		step(input.SourcesDrained{})
	}
	for i := 0; ; i++ {
		if _, done := k.Done(); done {
			break
		}
		require.Less(t, i, 200, "recovered after %d entries, it does not end", n)
		switch at, ok := k.Deadline(); {
		case pending:
			pending, alive = false, true
			step(input.Launched{PID: 1})
		case alive:
			alive = false
			step(input.ChildExited{Code: 0})
		case drained:
			drained = false
			step(input.SourcesDrained{})
		case ending:
			ending = false
			step(input.ClientsEnded{})
		default:
			require.True(t, ok, "recovered after %d entries, it has no deadline", n)
			if at.After(now) {
				now = at
			}
			step(input.Wake{})
		}
	}
	checkReceipts(t, entries, n)
}

// closeAt closes the session that a kernel has recovered from these entries. It checks
// that one step ends the session without any effect, and that HCP's last event reports
// the end.
func closeAt(t *testing.T, k *kernel.Kernel, now time.Time, entries []kernel.Entry, l0 *l0Judge, hcp *hcpJudge) {
	n := len(entries)
	out := k.Step(now, input.CloseAsked{})
	require.Empty(t, out.Effects, "closed after %d entries", n)
	_, done := k.Done()
	require.True(t, done, "closed after %d entries, it does not end", n)
	for _, f := range out.Facts {
		live := kernel.Entry{Seq: uint64(len(entries) + 1), At: now, Fact: f}
		read := live
		read.Fact = decoded(t, f)
		l0.fact(t, live, read)
		hcp.fact(t, live, read)
		entries = append(entries, live)
	}
	l0.ended(t, map[string]int{})
	hcp.ended(t, k.State() == session.Rejected, map[string]int{})
	checkReceipts(t, entries, n)
}

// checkReceipts checks that every call of a client has exactly one receipt, and
// that a receipt covers every event that was skipped for a client.
func checkReceipts(t *testing.T, entries []kernel.Entry, n int) {
	receipted, about := map[string]bool{}, map[string]string{} // client and event with a receipt; call → its event
	runs := skipAccount{newest: map[string][]string{}, before: map[string][]string{}}
	for _, e := range entries {
		if o, ok := e.Fact.(kernel.Observed); ok {
			for _, c := range o.Calls {
				about[c.Call] = o.Record.EventID
			}
			runs.note(o, about)
		}
		if r, ok := e.Fact.(kernel.ReceiptIssued); ok {
			events := []string{r.Receipt.EventID}
			switch {
			case r.Replay:
				events = []string{about[r.Call]}
			case r.Skipped != nil:
				events = runs.take(r)
				require.Len(t, events, r.Skipped.Events, "after %d entries", n)
			}
			for _, event := range events {
				key := r.Receipt.ClientID + " " + event
				require.False(t, receipted[key], "after %d entries: two receipts of one event", n)
				receipted[key] = true
			}
		}
	}
	require.Empty(t, runs.newest, "after %d entries: skipped events without a receipt", n)
	for _, e := range entries {
		o, ok := e.Fact.(kernel.Observed)
		if !ok || o.Record.Event == lifeloop.ReceiptEmitted {
			continue
		}
		for _, c := range o.Calls {
			require.True(t, receipted[c.Client+" "+o.Record.EventID], "after %d entries: %s of %s has no receipt", n, o.Record.Event, c.Client)
		}
	}
}
