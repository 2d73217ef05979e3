//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/synth"
)

// In these tests an observer with a client is killed with SIGKILL at one of its
// appends, and then resumed. Its events and its usage must equal those of an
// observer that was not killed, and each call of the client must have one receipt.

// transcript has the lines of some turns. Each model call is in two lines, and one
// turn ends with a compaction.
func transcript(turns int) (lines []string) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(format string, args ...any) {
		at = at.Add(time.Second)
		const rest = `"uuid":"u%d","timestamp":"%s","userType":"external","entrypoint":"cli","cwd":"/","sessionId":"s1","version":"2.1.197","isSidechain":false}`
		lines = append(lines, fmt.Sprintf("{"+format+","+rest, append(args, len(lines), at.Format("2006-01-02T15:04:05.000Z"))...))
	}
	for n := range turns {
		add(`"promptId":"p%d","type":"user","message":{"role":"user","content":"hello"},"permissionMode":"default","origin":{"kind":"human"},"promptSource":"typed"`, n)
		for part := range 2 {
			add(`"type":"assistant","requestId":"r%d","message":{"id":"m%d","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"part %d"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}`,
				n, n, part, 40_000*(n+1))
		}
		add(`"type":"system","subtype":"turn_duration","durationMs":1000,"messageCount":2,"isMeta":false`)
		if n == 1 {
			add(`"type":"system","subtype":"compact_boundary","content":"compacted","compactMetadata":{"trigger":"auto","preTokens":80000,"postTokens":9000}`)
		}
	}
	return lines
}

// An observed is what an observation recorded.
type observed struct {
	events []string // the JSON of each event and of its clients, without the ids and times that the observer made
	usage  synth.Usage
}

// observer returns the command that runs an observer of t.jsonl in a matrix.
func (m *matrix) observer(kill string, args ...string) *exec.Cmd {
	cmd := exec.Command("lifeloop-wrap", append([]string{"--config", "c.yaml", "observe"}, args...)...)
	cmd.Dir, cmd.Env = m.dir, append(m.env, killAt+"="+kill)
	cmd.Stderr = os.Stderr
	return cmd
}

// An announced copies the stderr of an observer to the stderr of the test.
type announced struct{ session chan struct{} } // closed when the observer has its ledger

func (a *announced) Write(b []byte) (int, error) {
	if a.session != nil && bytes.Contains(b, []byte("session")) {
		close(a.session)
		a.session = nil
	}
	return os.Stderr.Write(b)
}

// only returns the folder of the one session of a matrix, and false if there is no session
// yet.
func (m *matrix) only() (store.Folder, bool) {
	found, err := filepath.Glob(filepath.Join(m.state, "sessions", "*", "ledger-000001.jsonl"))
	require.NoError(m.t, err)
	if len(found) == 0 {
		return "", false
	}
	return store.Folder(filepath.Dir(found[0])), true
}

// recorded checks the receipts of the session and returns what it observed.
func (m *matrix) recorded() (o observed) {
	folder, ok := m.only()
	require.True(m.t, ok)
	calls, receipts, sequence := map[string]lifeloop.Event{}, map[string]int{}, map[int]int64{}
	for e, err := range folder.Facts(0) {
		require.NoError(m.t, err)
		switch f := e.Fact.(type) {
		case kernel.Observed:
			var clients []string
			for _, c := range f.Calls {
				calls[c.Client+" "+f.Record.EventID] = f.Record.Event
				clients = append(clients, c.Client)
			}
			data, err := json.Marshal([]any{f.Record.Event, f.Record.FrameContext, f.Record.Evidence, f.Record.Data, f.Record.HarnessSessionID, clients})
			require.NoError(m.t, err)
			o.events = append(o.events, string(data))
		case kernel.UsageCounted:
			o.usage = f.Usage
		case kernel.ReceiptIssued:
			receipts[f.Receipt.ClientID+" "+f.Receipt.EventID]++
			sequence[f.Scope]++
			require.Equal(m.t, sequence[f.Scope], *f.Receipt.Sequence, "receipts have a gap or a duplicate")
		}
	}
	require.NotEmpty(m.t, calls, "no client was called")
	for name, event := range calls {
		if event != lifeloop.ReceiptEmitted {
			require.Equal(m.t, 1, receipts[name], "receipts of %s for %s", name, event)
		}
	}
	return o
}

// same checks that an observation recorded the same events, the same calls of the client
// and the same usage as an observation without a kill. The client must have been called at
// most once for each event.
func (m *matrix) same(want, got observed) {
	require.Equal(m.t, want.events, got.events)
	require.Equal(m.t, want.usage, got.usage)
	m.asked()
}

// until starts an observer and returns when its session has an event for the n-th
// time.
func (m *matrix) until(cmd *exec.Cmd, event lifeloop.Event, n int) {
	session := make(chan struct{})
	cmd.Stderr = &announced{session}
	require.NoError(m.t, cmd.Start())
	<-session
	folder, ok := m.only()
	require.True(m.t, ok)
	seen := 0
	for e, err := range folder.Follow(m.t.Context(), 0) {
		require.NoError(m.t, err)
		if o, is := e.Fact.(kernel.Observed); is && o.Record.Event == event {
			if seen++; seen == n {
				return
			}
		}
	}
	require.Fail(m.t, "the observer ended", "%s was observed %d times", event, seen)
}

const observedTurns = 4

func newObserved(t *testing.T, bin string, lines []string) *matrix {
	m := newMatrix(t, bin, matrixPlot())
	config := `clients: [{id: once, command: [fakeclient, --client-id, once, --log, asked-once, --payload, "kind=note,placement=pre_prompt_frame,body=remember"]}]`
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "c.yaml"), []byte(config), 0o600))
	m.grow(lines)
	return m
}

// grow appends lines to the transcript.
func (m *matrix) grow(lines []string) {
	f, err := os.OpenFile(filepath.Join(m.dir, "t.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(m.t, err)
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	require.NoError(m.t, err)
	require.NoError(m.t, f.Close())
}

// TestObserverIsKilled kills an observer that was started with --once.
func TestObserverIsKilled(t *testing.T) {
	t.Parallel()
	bin, lines := built(t, besides), transcript(observedTurns)
	once := []string{"--adapter", "claude", "--once", "--ledger", "t.jsonl"}
	calm := newObserved(t, bin, lines)
	require.NoError(t, calm.observer("", once...).Run())
	want := calm.recorded()
	require.Len(t, want.events, 2+4*observedTurns+4, "%s", strings.Join(want.events, "\n"))

	for i := range 12 {
		at := 3 + 3*i
		kill := fmt.Sprintf("wrapper %s %d", []string{"before", "torn1", "after", "torn2", "torn", "torn3"}[i%6], at)
		t.Run(strings.ReplaceAll(kill, " ", "-"), func(t *testing.T) {
			m := newObserved(t, bin, lines)
			require.Error(t, m.observer(kill, once...).Run(), "it was killed")
			require.NoError(t, m.observer("", "--resume", "last").Run())
			m.same(want, m.recorded())
		})
	}
}

// TestFollowerIsKilled kills an observer that follows a growing file.
func TestFollowerIsKilled(t *testing.T) {
	t.Parallel()
	bin, lines := built(t, besides), transcript(observedTurns)
	follow := []string{"--adapter", "claude", "--from-start", "--ledger", "t.jsonl"}
	finish := func(m *matrix, cmd *exec.Cmd) observed {
		m.until(cmd, lifeloop.FrameEnded, observedTurns)
		require.NoError(m.t, cmd.Process.Signal(syscall.SIGINT))
		require.NoError(m.t, cmd.Wait())
		return m.recorded()
	}
	calm := newObserved(t, bin, lines)
	want := finish(calm, calm.observer("", follow...))

	for i, cut := range []int{1, 2, 3, 6, 9, 10, 12} {
		t.Run(fmt.Sprint("at-line-", cut), func(t *testing.T) {
			m := newObserved(t, bin, lines[:cut])
			kill := fmt.Sprintf("wrapper %s %d", []string{"after", "torn1", "torn2", "before", "torn", "torn3", "torn1"}[i], 4+i)
			require.Error(t, m.observer(kill, follow...).Run(), "it was killed")
			m.grow(lines[cut:])
			m.same(want, finish(m, m.observer("", "--resume", "last")))
		})
	}
}

// TestReplacedWhileItWasNotObserved replaces the transcript of an observer that was
// killed. The resumed observer reports that records may be missing, and observes no
// turn twice.
func TestReplacedWhileItWasNotObserved(t *testing.T) {
	bin, lines := built(t, besides), transcript(observedTurns)
	m := newObserved(t, bin, lines[:8])
	require.Error(t, m.observer("wrapper before 12", "--adapter", "claude", "--once", "--ledger", "t.jsonl").Run())
	path := filepath.Join(m.dir, "t.jsonl")
	require.NoError(t, os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	require.NoError(t, m.observer("", "--resume", "last").Run())
	folder, _ := m.only()
	missed, opened := 0, map[string]int{}
	for e, err := range folder.Facts(0) {
		require.NoError(t, err)
		switch f := e.Fact.(type) {
		case kernel.SourceTroubled:
			require.Equal(t, "missed", f.What)
			missed++
		case kernel.Observed:
			if f.Record.Event == lifeloop.FrameOpened {
				opened[f.Record.FrameContext.FrameID]++
			}
		}
	}
	require.Equal(t, 1, missed)
	require.Equal(t, map[string]int{"p0": 1, "p1": 1, "p2": 1, "p3": 1}, opened)
}
