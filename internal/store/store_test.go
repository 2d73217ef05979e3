package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/harness"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/session"
)

const (
	first  = "11111111-1111-4111-8111-111111111111"
	second = "12222222-2222-4222-8222-222222222222"
)

// write opens a ledger as a wrapper would, and appends the facts.
func write(t *testing.T, f Folder, facts ...kernel.Fact) *ledger.Log {
	t.Helper()
	written, err := ledger.Create(string(f), ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = written.Close() })
	appendFacts(t, written, facts...)
	return written
}

func appendFacts(t *testing.T, to *ledger.Log, facts ...kernel.Fact) {
	t.Helper()
	for i, f := range facts {
		kind, body, err := kernel.Encode(f)
		require.NoError(t, err)
		_, err = to.Append([]ledger.Record{{Kind: kind, At: began(f).Add(time.Duration(i)), Body: body}}, false)
		require.NoError(t, err)
	}
}

// began returns the start time of a session: "first" is the newest one.
func began(f kernel.Fact) time.Time {
	if b, ok := f.(kernel.Began); ok && b.SessionID == second {
		return time.Unix(0, 0)
	}
	return time.Unix(1000, 0)
}

func started(id string) []kernel.Fact {
	return []kernel.Fact{kernel.Began{SessionID: id}, kernel.SessionMoved{From: session.None, To: session.Pending},
		kernel.SessionMoved{From: session.Pending, To: session.Running}}
}

func over() kernel.Fact { return kernel.SessionMoved{From: session.Running, To: session.Completed} }

// A wrapper creates its folder a moment before it locks the ledger. Prune keeps a new
// folder without a ledger, and removes an old one: its wrapper died before the lock.
func TestPruneLeavesASessionThatBegins(t *testing.T) {
	st := Open(filepath.Join(t.TempDir(), "state"))
	f := st.Folder(first)
	require.NoError(t, f.Secure())
	prune := func() (ids []string) {
		require.NoError(t, st.Prune(Limit{OlderThan: -1, Keep: 0, Bytes: -1}, func(id string) error { ids = append(ids, id); return nil }))
		return ids
	}
	require.Empty(t, prune())
	_, err := ledger.Create(string(f), ledger.Options{})
	require.NoError(t, err)

	died := st.Folder(second)
	require.NoError(t, died.Secure())
	past := time.Now().Add(-2 * timeToBegin)
	require.NoError(t, os.Chtimes(string(died), past, past))
	require.Equal(t, []string{second}, prune())
}

func TestFind(t *testing.T) {
	st := Open(t.TempDir())
	_, err := st.Find("last")
	var missing *NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Zero(t, missing.Known)
	write(t, st.Folder(second), started(second)...)
	write(t, st.Folder(first), started(first)...)
	for name, want := range map[string]string{first: first, "11": first, "12": second, "last": first} {
		id, err := st.Find(name)
		require.NoError(t, err, name)
		require.Equal(t, want, id, name)
	}
	for name, matches := range map[string]int{"1": 2, "2": 0, "": 0, "11111111-1111-4111-8111-1111111111111": 0} {
		_, err := st.Find(name)
		require.ErrorAs(t, err, &missing, name)
		require.Equal(t, NotFoundError{Name: name, Dir: st.dir, Known: 2, Matches: matches}, *missing)
	}
}

func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name  string
		then  func(w *ledger.Log, stop context.CancelFunc) // called after the third entry
		count int
	}{
		{"ends with the session", func(w *ledger.Log, _ context.CancelFunc) {
			appendFacts(t, w, kernel.ActivitySeen{}, over(), kernel.ActivitySeen{})
		}, 5},
		{"ends with its wrapper", func(w *ledger.Log, _ context.CancelFunc) {
			appendFacts(t, w, kernel.ActivitySeen{})
			require.NoError(t, w.Close())
		}, 4},
		{"ends with its context", func(_ *ledger.Log, stop context.CancelFunc) { stop() }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Open(t.TempDir()).Folder(first)
			w := write(t, f, started(first)...)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var seqs []uint64
			for e, err := range f.Follow(ctx, 0) {
				require.NoError(t, err)
				if seqs = append(seqs, e.Seq); e.Seq == 3 {
					c.then(w, stop)
				}
			}
			require.Len(t, seqs, c.count)
			for i, seq := range seqs {
				require.Equal(t, uint64(i+1), seq)
			}
		})
	}
}

func TestPruneKeepsLiveSessions(t *testing.T) {
	st := Open(t.TempDir())
	live := write(t, st.Folder(first), started(first)...)
	require.NoError(t, write(t, st.Folder(second), append(started(second), over())...).Close())
	prune := func() (ids []string) {
		require.NoError(t, st.Prune(Limit{OlderThan: -1, Keep: 0}, func(id string) error { ids = append(ids, id); return nil }))
		return ids
	}
	require.Equal(t, []string{second}, prune())
	require.Empty(t, prune())
	require.Equal(t, Live, st.Read(first).Liveness)
	require.NoError(t, live.Close())
	require.Equal(t, Lost, st.Read(first).Liveness)
	require.Equal(t, []string{first}, prune())
}

// Two wrappers that end at the same time both prune. What the other one removes counts as
// removed, so that no more sessions are removed than necessary.
func TestPruneCountsWhatAnotherProcessRemoves(t *testing.T) {
	for name, other := range map[string]func(f Folder) error{
		"it has removed the session": func(f Folder) error { return os.RemoveAll(string(f)) },
		"it is removing the session": func(f Folder) error {
			release, err := ledger.Hold(string(f))
			t.Cleanup(release)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := Open(t.TempDir())
			var ids []string
			for i := range 4 {
				id := fmt.Sprintf("%d0000000-0000-4000-8000-000000000000", i)
				require.NoError(t, write(t, st.Folder(id), append(started(id), over())...).Close())
				st.Summarize(id)
				ids = append(ids, id)
			}
			size := st.Folder(ids[0]).Size()
			var removed []string
			require.NoError(t, st.Prune(Limit{OlderThan: -1, Keep: -1, Bytes: 2*size + size/2}, func(id string) error {
				removed = append(removed, id)
				return other(st.Folder(ids[1]))
			}))
			require.Equal(t, ids[:1], removed)
			left, err := st.IDs()
			require.NoError(t, err)
			require.Subset(t, left, ids[2:])
		})
	}
}

// A wrapper that is killed while it saves its guards leaves the old list or the new one:
// the new list is a new file.
func TestGuardsAreSavedAtOnce(t *testing.T) {
	f := Folder(t.TempDir())
	f.SaveGuards([]harness.Process{{PID: 1}})
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.Link(f.file(guardsFile), old))
	before, err := os.ReadFile(old)
	require.NoError(t, err)
	f.SaveGuards([]harness.Process{{PID: 1}, {PID: 2}})
	after, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestToken(t *testing.T) {
	f := Folder(t.TempDir())
	_, err := f.Token()
	require.Error(t, err)
	digest, err := f.IssueToken()
	require.NoError(t, err)
	token, err := f.Token()
	require.NoError(t, err)
	require.Len(t, token, 64)
	require.NotContains(t, digest, token)
}

func TestCommandLine(t *testing.T) {
	f := Folder(t.TempDir())
	_, err := f.Command()
	require.Error(t, err)
	// The arguments of a command line can contain any bytes.
	c := CommandLine{Dir: "/r\xff", Argv: []string{"a", "b-\xfe.txt", `{"base64":"YQ=="}`}, Flags: map[string][]string{"pty": {"never"}, "meta": {"a=\xff"}}}
	f.SaveCommand(c)
	read, err := f.Command()
	require.NoError(t, err)
	require.Equal(t, c, read)
	f.SaveCommand(CommandLine{})
	_, err = f.Command()
	require.EqualError(t, err, "command.json has no command")
	f.Forget()
	_, err = f.Command()
	require.Error(t, err)
}
