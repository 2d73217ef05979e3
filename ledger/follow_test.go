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

// patience is the time after which a hanging test fails.
const patience = 2 * time.Minute

// follow collects the entries from seq to last, in a goroutine.
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
		t.Fatalf("no value after %v", patience)
		panic("unreachable")
	}
}

func TestFollowSeesEveryEntryOnce(t *testing.T) {
	dir := t.TempDir()
	const n = 300
	// One follower starts before the ledger exists, one in the middle, and one
	// reads only the end.
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
		t.Errorf("only %d segments; this test needs many", len(all))
	}
	require.Equal(t, want[n-1:], await(t, follow(t.Context(), dir, n, n)), "a follower that starts after the last write")
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

// TestFollowAcrossARecovery checks that a follower waits for the rest of a torn
// line, and yields the entry that the next writer puts in its place.
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
	want := "follow ledger " + dir + ": ledger-000001.jsonl line 1 (offset 0): not a ledger entry; no entry before it"
	if len(got) != 1 || got[0].Kind != want {
		t.Errorf("got %+v, want %q", got, want)
	}
	// A follower that starts at entry 8 does not read the damaged segment.
	if got := await(t, follow(t.Context(), dir, 8, 8)); len(got) != 1 || got[0].Seq != 8 {
		t.Errorf("got %+v", got)
	}
	// A follower reports a missing segment.
	w := newWalker(dir)
	w.seek(8)
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

// TestWaitWithoutAWatch checks that wait returns without a watcher.
func TestWaitWithoutAWatch(t *testing.T) {
	var none news
	if !none.wait(t.Context()) {
		t.Error("wait returned false")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if none.wait(ctx) {
		t.Error("wait returned true after the end of its context")
	}
	none.close()
}

// TestWaitIgnoresOtherFiles checks that only segments wake a follower.
func TestWaitIgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	n, err := watch(dir)
	require.NoError(t, err)
	defer n.close()
	if n.watcher == nil {
		t.Skip("the system has no inotify instance left")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("x"), 0o600))
	n.recheck = 10 * patience // long, so that only an event can wake it
	ctx, cancel := context.WithTimeout(t.Context(), recheck/10)
	defer cancel()
	if n.wait(ctx) {
		t.Error("woken by another file")
	}
	require.NoError(t, os.WriteFile(segmentPath(dir, 1), []byte("x"), 0o600))
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !n.wait(ctx) {
		t.Error("not woken by a segment")
	}
}

// TestSettle checks that Settle neither disturbs a writer nor changes a byte. A missing
// ledger is not an error, but a missing folder is.
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
