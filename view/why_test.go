package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
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
		}{{"session", why.Session}, {"frame", why.Frame}, {"sources", why.Sources}, {"activity", why.Activity}, {"told", why.Clients}} {
			for _, l := range part.links {
				fmt.Fprintf(&b, "%s #%d %s: %s\n", part.name, l.Seq, l.Fact, l.Text)
			}
		}
		return b.String()
	})

	_, ok := view.NewWhy(all[0])
	require.False(t, ok, "no event")
}
