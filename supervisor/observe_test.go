package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

func observer() *kernel.Kernel {
	n := map[string]int{}
	return kernel.New(kernel.Config{Session: "sess", Observing: true,
		Launch: setup.Launch{Manifest: lifeloop.Manifest{AdapterID: "fake", AdapterVersion: "0.1.0"}},
		NewID:  func(p string) string { n[p]++; return fmt.Sprint(p, n[p]) }})
}

// watched is a source that posts a prompt, and the turn's end when its context
// ends.
type watched struct{ err error }

func (w watched) Run(ctx context.Context, post func(input.Input)) error {
	report := func(k telemetry.Kind) {
		post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: k, Source: "transcript", Session: "S1", Turn: "p1"}}})
	}
	report(telemetry.Prompt)
	if w.err != nil {
		return w.err
	}
	<-ctx.Done()
	report(telemetry.TurnEnd)
	return nil
}
func (watched) Launched(int)            {}
func (watched) Watch(string, time.Time) {}

func TestObserve(t *testing.T) {
	errFull := errors.New("the reader is gone")
	errWatch := errors.New("no inotify left")
	for _, tt := range []struct {
		name    string
		sources watched
		refuse  lifeloop.Event // the event at which the listener returns an error
		want    []lifeloop.Event
		err     error
	}{
		{"until a signal", watched{}, "", []lifeloop.Event{"session.starting", "session.started", "frame.opening", "frame.opened",
			"frame.ending", "frame.ended"}, nil},
		{"until the listener fails", watched{}, "frame.opening", []lifeloop.Event{"session.starting", "session.started"}, errFull},
		{"until the watcher fails", watched{errWatch}, "", []lifeloop.Event{"session.starting", "session.started", "frame.opening", "frame.opened"}, errWatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 1)
				time.AfterFunc(time.Minute, func() { signals <- syscall.SIGINT })
				var got []lifeloop.Event
				_, err := Observe(t.Context(), observer(), tt.sources, Ports{Signals: signals}, Options{}, each(func(e kernel.Entry) error {
					o, ok := e.Fact.(kernel.Observed)
					switch {
					case !ok:
						return nil
					case o.Record.Event == tt.refuse:
						return errFull
					}
					require.Equal(t, lifeloop.TelemetryOnly, o.Record.IntegrationMode)
					got = append(got, o.Record.Event)
					return nil
				}))
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.want, got)
				// Wait until the timer above has sent SIGINT. After an
				// error, Observe returns earlier and does not receive it.
				time.Sleep(time.Minute)
			})
		})
	}
}

// An observer writes the position of each record to its ledger, and none if it
// has no ledger.
func TestObserverWritesEachPosition(t *testing.T) {
	for _, ledger := range []bool{true, false} {
		k := kernel.New(kernel.Config{Session: "sess", Observing: true, Ledger: ledger, NewID: func(p string) string { return p }})
		at := time.Unix(1, 0)
		k.Step(at, input.Start{})
		for offset := range int64(3) { // a position is also written for records that report nothing new
			out := k.Step(at, input.SignalsSeen{Position: &input.Position{Path: "/f", Offset: offset},
				Signals: []telemetry.Signal{{Kind: telemetry.Prompt, Source: "transcript", Session: "S1", Turn: "p1"}}})
			written := slices.ContainsFunc(out.Facts, func(f kernel.Fact) bool { return kernel.Kind(f) == "source_read" })
			require.Equal(t, ledger, written)
		}
	}
}
