package ledger

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = 20 * time.Second

// follow collects entries from seq on until last, in a goroutine.
func follow(ctx context.Context, dir string, seq, last uint64) <-chan []Entry {
	done := make(chan []Entry, 1)
	go func() {
		var got []Entry
		for e, err := range Follow(ctx, dir, seq) {
			if err != nil {
				e.Kind = err.Error()
			}
			got = append(got, e)
			if e.Seq == last || err != nil {
				break
			}
		}
		done <- got
	}()
	return done
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

func TestFollowSeesEveryEntryOnce(t *testing.T) {
	dir := t.TempDir()
	const n = 300
	// Some are there before the ledger is, some come in the middle, and one
	// wants only the end.
	early := follow(t.Context(), dir, 0, n)
	log := create(t, dir, Options{SegmentBytes: 4000})
	want := grow(t, log, n/2)
	middle := follow(t.Context(), dir, 1, n)
	late := follow(t.Context(), dir, n-10, n)
	want = append(want, grow(t, log, n/2)...)

	require.Equal(t, want, await(t, early))
	require.Equal(t, want, await(t, middle))
	require.Equal(t, want[n-11:], await(t, late))
	all, err := segments(dir)
	require.NoError(t, err)
	if len(all) < 10 {
		t.Errorf("only %d segments; this test wants many roll-overs", len(all))
	}
	require.Equal(t, want[n-1:], await(t, follow(t.Context(), dir, n, n)), "a follower who finds all there")
}

func TestFollowEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	grow(t, create(t, dir, Options{}), 2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	seen := make(chan struct{})
	go func() {
		n := 0
		for _, err := range Follow(ctx, dir, 0) {
			if err != nil {
				n = -1
				break
			}
			if n++; n == 2 {
				close(seen)
			}
		}
		done <- n
	}()
	await(t, seen)
	cancel()
	if n := await(t, done); n != 2 {
		t.Errorf("%d entries", n)
	}
}

// A follower outlives a writer's crash: it waits for the rest of the torn
// line, and takes what the next writer puts in its place.
func TestFollowAcrossARecovery(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{})
	want := grow(t, log, 2)
	require.NoError(t, log.Close())
	path := segmentPath(dir, 1)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"at":"2026-01-02T03:04:07.000000006Z","bo`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	got := make(chan Entry)
	go func() {
		for e, err := range Follow(t.Context(), dir, 0) {
			if err != nil {
				e.Kind = err.Error()
			}
			got <- e
			if e.Seq == 3 || err != nil {
				return
			}
		}
	}()
	require.Equal(t, want[0], await(t, got))
	require.Equal(t, want[1], await(t, got))
	log, rec := open(t, dir)
	if rec.TornBytes != 42 {
		t.Errorf("recovered %+v", rec)
	}
	require.Equal(t, grow(t, log, 1)[0], await(t, got))
}

func TestFollowReportsDamage(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{SegmentBytes: 1000})
	grow(t, log, 8)
	require.NoError(t, os.WriteFile(segmentPath(dir, 1), []byte("{}\n"), 0o600))

	got := await(t, follow(t.Context(), dir, 1, 8))
	want := "follow ledger " + dir + ": ledger-000001.jsonl line 1 (offset 0): this is not an entry of a ledger; no entry before it"
	if len(got) != 1 || got[0].Kind != want {
		t.Errorf("got %+v, want %q", got, want)
	}
	// Who starts later does not read that segment.
	if got := await(t, follow(t.Context(), dir, 8, 8)); len(got) != 1 || got[0].Seq != 8 {
		t.Errorf("got %+v", got)
	}
	// And who finds the ledger gone is told.
	w := newWalker(dir)
	w.startAt(8)
	require.Equal(t, 2, w.segment)
	require.NoError(t, os.Remove(segmentPath(dir, 2)))
	var corrupt *CorruptError
	require.ErrorAs(t, w.run(func() bool { return true }, func(Entry) bool { return true }), &corrupt)
	require.Equal(t, "ledger-000002.jsonl: the segment is missing; no entry before it", corrupt.Error())
}

func TestFollowNeedsAFolder(t *testing.T) {
	for _, err := range Follow(t.Context(), filepath.Join(t.TempDir(), "missing"), 0) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

// Where the system has no watch to give, looking now and then must do.
func TestWaitWithoutAWatch(t *testing.T) {
	var none news
	if !none.wait(t.Context()) {
		t.Error("no second look")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if none.wait(ctx) {
		t.Error("a second look after the end")
	}
	none.close()
}

// Files that are none of the ledger's wake nobody up.
func TestWaitIgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	n, err := watch(dir)
	require.NoError(t, err)
	defer n.close()
	if n.watcher == nil {
		t.Skip("the system has no inotify instance left")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("x"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), recheck/10)
	defer cancel()
	if n.wait(ctx) {
		t.Error("woken by a note")
	}
	require.NoError(t, os.WriteFile(segmentPath(dir, 1), []byte("x"), 0o600))
	start := time.Now()
	if !n.wait(t.Context()) {
		t.Error("not woken by a segment")
	}
	if d := time.Since(start); d >= recheck {
		t.Errorf("woken after %v, which is no event", d)
	}
}

// Settle disturbs no writer and changes no byte; where there is no ledger yet
// there is nothing to settle, and where there is no folder it says so.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Settle(dir))
	require.ErrorIs(t, Settle(filepath.Join(dir, "gone")), fs.ErrNotExist)

	log, err := Create(dir, Options{})
	require.NoError(t, err)
	_, err = log.Append([]Record{record("a", 1), record("b", 2)}, false)
	require.NoError(t, err)
	before, err := os.ReadFile(segmentPath(dir, 1))
	require.NoError(t, err)
	require.NoError(t, Settle(dir))
	after, err := os.ReadFile(segmentPath(dir, 1))
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = log.Append([]Record{record("c", 3)}, true)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	report, err := Verify(dir)
	require.NoError(t, err)
	require.EqualValues(t, 3, report.Entries)
}
