package kernel_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
)

// play plays the lines of a scenario, without their outputs.
func (w *world) play(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		cmd, args, err := datadriven.ParseLine(line)
		require.NoError(w.t, err)
		w.command(&datadriven.TestData{Cmd: cmd, CmdArgs: args})
	}
}

// requested lists the requests that went to clients, and receipted the receipts
// that were recorded, with the identity in each document.
func (w *world) requested() (out []string) {
	for _, e := range w.seen {
		if d, ok := e.(effect.Dispatch); ok {
			r := d.Envelope.Request
			out = append(out, fmt.Sprintln(r.Event, r.AdapterID, text(r.HarnessRunID), text(r.HarnessSessionID)))
		}
	}
	return out
}

func (w *world) receipted() (out []string) {
	for _, e := range w.entries {
		if f, ok := e.Fact.(kernel.ReceiptIssued); ok {
			r := f.Receipt
			out = append(out, fmt.Sprintln(r.Event, r.AdapterID, text(r.HarnessRunID), text(r.HarnessSessionID)))
		}
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// TestIdentityIsFixedWhenObserved checks that a document has the launch and the harness
// session in which its event was observed. The client answers its first call only when
// a later launch, of another adapter, has begun another harness session.
func TestIdentityIsFixedWhenObserved(t *testing.T) {
	w := &world{t: t, now: start}
	w.play("run id=S1 clients=(notes) timeout=30s retries=0 fallback=(spare)", "launched", "signal transcript in=S1 prompt=p1",
		"exit code=1", "drained", "launched id=S2", "signal transcript in=S2 prompt=p2")
	require.Len(t, w.requested(), 1, "the client is still at work on its first call")
	for i := range 11 {
		w.play(fmt.Sprintf("answer call_%d", i+1))
	}
	want := []string{
		"session.starting fake run_1 S1\n", "session.started fake run_1 S1\n", "frame.opening fake run_1 S1\n", "frame.opened fake run_1 S1\n",
		"frame.ending fake run_1 S1\n", "frame.ended fake run_1 S1\n", "session.ending fake run_1 S1\n", "session.ended fake run_1 S1\n",
		"session.starting spare run_2 -\n", "session.started spare run_2 S2\n", "frame.opening spare run_2 S2\n",
	}
	require.Equal(t, want, w.requested()[:11])
	require.Equal(t, want, w.receipted())
}

// TestIdentityOfAnIdThatIsLearnedLate: a document has the harness session id that was
// known when its event was observed, even if another id is known when the client answers.
func TestIdentityOfAnIdThatIsLearnedLate(t *testing.T) {
	w := &world{t: t, now: start}
	w.play("run hooks clients=(notes)", "launched", "hook SessionStart slot=pre_session live=S1 cause=startup", "answer call_1", "answer call_2")
	want := []string{"session.starting fake run_1 -\n", "session.started fake run_1 S1\n"}
	require.Equal(t, want, w.requested())
	require.Equal(t, want, w.receipted())
}

// TestIdentityAfterACrash: a receipt that a recovery issues has the launch in which its
// event was observed. That launch may have ended before the crash.
func TestIdentityAfterACrash(t *testing.T) {
	w := &world{t: t, now: start}
	w.play("run id=S1 clients=(notes) timeout=30s retries=0 fallback=(spare)", "launched", "exit code=1", "drained", "launched id=S2", "crash")
	require.Equal(t, []string{"session.starting fake run_1 S1\n", "session.ending fake run_1 S1\n", "session.ended fake run_1 S1\n",
		"session.starting spare run_2 -\n"}, w.receipted())
}
