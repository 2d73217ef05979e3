package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/view"
)

// TestWhyOfARecordedSession prints the chain of evidence of the n-th event with
// a name. Update with go test ./view -rewrite.
//
//	why frame.opened 2
func TestWhyOfARecordedSession(t *testing.T) {
	all := entries(t)
	datadriven.RunTest(t, "testdata/why.txt", func(t *testing.T, d *datadriven.TestData) string {
		n := 1
		if len(d.CmdArgs) > 1 {
			_, err := fmt.Sscan(d.CmdArgs[1].Key, &n)
			require.NoError(t, err)
		}
		var event kernel.Entry
		for _, e := range all {
			if r, ok := view.Event(e.Fact); ok && string(r.Event) == d.CmdArgs[0].Key {
				if n--; n == 0 {
					event = e
				}
			}
		}
		why, ok := view.NewWhy(event)
		require.True(t, ok)
		for _, e := range all {
			why.Apply(e)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n", why.Event.Event, why.Reasons())
		for _, part := range []struct {
			name  string
			links []view.Link
		}{{"session", why.Session}, {"frame", why.Frame}, {"sources", why.Sources}, {"activity", why.Activity}, {"clients", why.Clients}} {
			for _, l := range part.links {
				fmt.Fprintf(&b, "%s #%d %s: %s\n", part.name, l.Seq, l.Fact, l.Text)
			}
		}
		return b.String()
	})

	_, ok := view.NewWhy(all[0])
	require.False(t, ok, "no event")
}

// The evidence for a start or end of a harness session includes a renewal in progress, but
// no renewal that was delivered before.
func TestWhyNamesTheRenewalUntilItsDelivery(t *testing.T) {
	moved := func(to renewal.State) kernel.Fact {
		return kernel.RenewalMoved{Move: renewal.Move{Renewal: "rnw_1", To: to}}
	}
	event := func(e lifeloop.Event) kernel.Fact { return kernel.Observed{Record: lifeloop.EventRecord{Event: e}} }
	facts := []kernel.Fact{moved(renewal.Asked), moved(renewal.Resetting), event(lifeloop.SessionEnded),
		moved(renewal.Resumed), event(lifeloop.SessionStarted), moved(renewal.Delivered), event(lifeloop.SessionEnded)}
	var all []kernel.Entry
	for i, f := range facts {
		all = append(all, kernel.Entry{Seq: uint64(i + 1), Fact: f})
	}
	for at, steps := range map[int]int{2: 2, 4: 3, 6: 0} {
		why, ok := view.NewWhy(all[at])
		require.True(t, ok)
		for _, e := range all {
			why.Apply(e)
		}
		require.Len(t, why.Renewal, steps, "event %d", at)
	}
}
