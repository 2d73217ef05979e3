package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/internal/document/yaml"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/simulate"
)

// demo returns the entries of a recorded session.
func demo(t *testing.T) (entries []kernel.Entry) {
	t.Helper()
	for e, err := range Folder("../../testdata/sessions/demo").Facts(0) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

// goldens returns recorded and simulated sessions, by name.
func goldens(t *testing.T) map[string][]kernel.Entry {
	t.Helper()
	all := map[string][]kernel.Entry{"demo": demo(t)}
	files, err := filepath.Glob("../../testdata/l0/*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var of struct {
			Scenarios []struct {
				Name  string
				World json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(text, &of))
		for _, s := range of.Scenarios {
			doc, err := yaml.Parse(s.World)
			require.NoError(t, err)
			world, err := simulate.Parse(doc)
			require.NoError(t, err)
			all[s.Name] = world.Run().Entries
		}
	}
	return all
}

// record writes entries as the ledger of the session that the folder is named after.
func record(t *testing.T, f Folder, entries []kernel.Entry) {
	t.Helper()
	require.NoError(t, os.MkdirAll(string(f), 0o700)) // faster than Create, which syncs each new folder
	log, err := ledger.Create(string(f), ledger.Options{})
	require.NoError(t, err)
	var records []ledger.Record
	for _, e := range entries {
		if b, ok := e.Fact.(kernel.Began); ok {
			b.SessionID = filepath.Base(string(f))
			e.Fact = b
		}
		kind, body, err := kernel.Encode(e.Fact)
		require.NoError(t, err)
		records = append(records, ledger.Record{Kind: kind, At: e.At, Body: body})
	}
	_, err = log.Append(records, false)
	require.NoError(t, err)
	require.NoError(t, log.Close())
}

// says returns everything that lists can print about a session.
func says(t *testing.T, k Session) string {
	t.Helper()
	damage := ""
	if k.Damage != nil {
		damage = k.Damage.Error()
	}
	text, err := json.Marshal([]any{k.Status, k.Claims, k.Folder, damage})
	require.NoError(t, err)
	return string(text)
}

func listed(t *testing.T, st Store) []Session {
	t.Helper()
	list, total, err := st.List(func(Brief) bool { return true })
	require.NoError(t, err)
	require.Len(t, list, total)
	return list
}

// kept returns a store with the demo session, and the text of its summary.
func kept(t *testing.T) (st Store, summary string, text []byte) {
	t.Helper()
	st = Open(t.TempDir())
	record(t, st.Folder(first), demo(t))
	listed(t, st)
	summary = st.Folder(first).file(summaryFile)
	text, err := os.ReadFile(summary)
	require.NoError(t, err)
	return st, summary, text
}

// TestGoldens checks for every golden session that its summary agrees with its
// ledger, and that Why reads enough entries.
func TestGoldens(t *testing.T) {
	all := goldens(t)
	require.Greater(t, len(all), 90)
	events := 0
	for name, entries := range all {
		st := Open(t.TempDir())
		record(t, st.Folder(first), entries)
		summarySaysWhatTheLedgerSays(t, st, name, entries)
		events += whyReadsEnough(t, st.Folder(first), name)
	}
	require.Greater(t, events, 500)
}

// summarySaysWhatTheLedgerSays checks that the summary which the wrapper writes, the
// one which the first reader writes, and the ledger give the same session.
func summarySaysWhatTheLedgerSays(t *testing.T, st Store, name string, entries []kernel.Entry) {
	t.Helper()
	f := st.Folder(first)
	want := says(t, st.Read(first))
	require.Equal(t, want, says(t, listed(t, st)[0]), "%s: read by the first reader", name)
	learned, err := os.ReadFile(f.file(summaryFile))
	require.NoError(t, err, name)
	require.Equal(t, want, says(t, listed(t, st)[0]), "%s: from its summary", name)
	require.Equal(t, []byte(strings.Split(string(learned), "\n")[2]+"\n"), printed(t, st.Read(first)), name)

	var wrapper Session
	for _, e := range entries {
		wrapper.Apply(e)
	}
	if !wrapper.Ended() {
		return
	}
	require.NoError(t, os.Remove(f.file(summaryFile)))
	wrapper.Conclude(first, f)
	left, err := os.ReadFile(f.file(summaryFile))
	require.NoError(t, err, name)
	require.Equal(t, string(learned), string(left), "%s: left by the wrapper", name)
	info, err := os.Stat(f.file(summaryFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestRecorder checks that a Recorder writes the summary of a long session. For a short one
// it leaves a file that no list uses, and that shows that the ledger had entries.
func TestRecorder(t *testing.T) {
	entries := demo(t)
	end := len(entries) - 1
	for _, long := range []bool{false, true} {
		for len(entries) <= fewEntries && long {
			entries = slices.Insert(entries, end, entries[end-1])
		}
		st := Open(t.TempDir())
		f := st.Folder(first)
		record(t, f, entries)
		require.NoError(t, os.WriteFile(f.file(guardsFile), []byte("[]"), 0o600))
		var r Recorder
		for _, e := range entries {
			r.Apply(e)
		}
		r.Conclude(first, f)
		require.FileExists(t, f.file(summaryFile))
		require.NoFileExists(t, f.file(guardsFile))
		reader := summaryReader{form: form()}
		require.Equal(t, long, reader.read(f))
		require.Equal(t, says(t, st.Read(first)), says(t, listed(t, st)[0]))
		require.True(t, reader.read(f), "a list wrote the summary")
	}

	st := Open(t.TempDir())
	f := st.Folder(first)
	record(t, f, demo(t))
	var r Recorder
	for _, e := range demo(t) {
		r.Apply(e)
	}
	r.Conclude(first, f)
	require.NoError(t, os.Truncate(filepath.Join(string(f), "ledger-000001.jsonl"), 0))
	require.ErrorContains(t, st.Read(first).Damage, "its ledger is empty")
}

// TestUnknownFirstFact checks that a ledger with a first fact of a newer version does not
// count as empty.
func TestUnknownFirstFact(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "state")).Folder(first)
	require.NoError(t, f.Secure())
	log, err := ledger.Create(string(f), ledger.Options{})
	require.NoError(t, err)
	_, err = log.Append([]ledger.Record{{At: time.Now(), Kind: "of_a_newer_version", Body: json.RawMessage("{}")}}, true)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, os.WriteFile(f.file(summaryFile), nil, 0o600)) // shows that the ledger has entries
	require.NoError(t, f.Check())
}

// TestConcludeRemovesTheFilesFirst checks what Conclude does for a long session: it first
// calls Forget, which removes the socket and other files of the session, and only then
// writes the summary. In the other order, a wrapper that is killed in between would leave
// both a valid summary and these files. The files would then stay, because Store.List
// removes them only if the session has no valid summary.
func TestConcludeRemovesTheFilesFirst(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	sockets := filepath.Join(tmp, fmt.Sprintf("lifeloop-%d", os.Geteuid()))
	require.NoError(t, os.Mkdir(sockets, 0o700))
	socket := filepath.Join(sockets, "s.sock")
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	folder, err := os.Open(sockets) // Forget waits for the lock of this folder
	require.NoError(t, err)
	defer folder.Close()
	require.NoError(t, syscall.Flock(int(folder.Fd()), syscall.LOCK_EX))

	entries := demo(t)
	for len(entries) <= fewEntries {
		entries = slices.Insert(entries, len(entries)-1, entries[len(entries)-2])
	}
	f := Open(t.TempDir()).Folder(first)
	record(t, f, entries)
	require.NoError(t, f.SetSocket(socket))
	var r Recorder
	for _, e := range entries {
		r.Apply(e)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Conclude(first, f)
	}()
	// Conclude calls Forget. Forget removes the socket, and then waits for the lock.
	require.Eventually(t, func() bool {
		_, err := os.Lstat(socket)
		return err != nil
	}, time.Minute, time.Millisecond)
	reader := summaryReader{form: form()}
	require.False(t, reader.read(f))
	require.NoError(t, syscall.Flock(int(folder.Fd()), syscall.LOCK_UN))
	<-done
	require.True(t, reader.read(f))
}

// printed returns the line that status --json prints.
func printed(t *testing.T, k Session) []byte {
	t.Helper()
	text, err := json.Marshal(k.Status)
	require.NoError(t, err)
	return append(text, '\n')
}

// TestSummaryThatDoesNotFit checks that lists show the content of the ledger if the
// summary is missing, is not valid, or is older than a change of the ledger. If the
// summary can be written, the list replaces it with a valid one.
func TestSummaryThatDoesNotFit(t *testing.T) {
	st, path, whole := kept(t)
	f := st.Folder(first)
	damage := func(n int) func() error {
		return func() error {
			text := bytes.Clone(whole)
			text[n] ^= 1
			return os.WriteFile(path, text, 0o600)
		}
	}
	cases := map[string]func() error{
		"missing":     func() error { return nil },
		"empty":       func() error { return os.WriteFile(path, nil, 0o600) },
		"half":        func() error { return os.WriteFile(path, whole[:len(whole)/2], 0o600) },
		"an old form": func() error { return os.WriteFile(path, forged(t, whole, `"form":"`, `"form":"x`), 0o600) },
		"too long": func() error {
			return os.WriteFile(path, append(bytes.Clone(whole), make([]byte, maxSummary)...), 0o600)
		},
		"a pipe": func() error { return syscall.Mkfifo(path, 0o600) },
		"a link": func() error {
			if err := os.WriteFile(path+"-elsewhere", forged(t, whole, "COMPLETED", "FAILED---"), 0o600); err != nil {
				return err
			}
			return os.Symlink(path+"-elsewhere", path)
		},
		"of another ledger": func() error {
			other := st.Folder(second)
			record(t, other, demo(t))
			listed(t, st)
			defer os.RemoveAll(string(other))
			return os.Rename(other.file(summaryFile), path)
		},
	}
	for n := 0; n < len(whole); n += 37 {
		cases[fmt.Sprintf("byte %d changed", n)] = damage(n)
	}
	for name, put := range cases {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, put(), name)
		want := says(t, st.Read(first))
		require.Equal(t, want, says(t, listed(t, st)[0]), name)
		after, err := os.ReadFile(path)
		require.NoError(t, err, name)
		require.Equal(t, string(whole), string(after), "%s: it is whole again", name)
	}

	// If a summary cannot be written, the lists still show the content of the
	// ledger.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	want := says(t, st.Read(first))
	require.Equal(t, want, says(t, listed(t, st)[0]))
	require.NoError(t, os.RemoveAll(path))
	listed(t, st)

	// A ledger that was changed in place, at the same length, is damaged.
	segment := filepath.Join(string(f), "ledger-000001.jsonl")
	text, err := os.ReadFile(segment)
	require.NoError(t, err)
	info, err := os.Stat(segment)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(segment, bytes.Replace(text, []byte("claude"), []byte("clause"), 1), 0o600))
	require.NoError(t, os.Chtimes(segment, time.Time{}, info.ModTime()), "its time of modification is as before")
	require.ErrorContains(t, listed(t, st)[0].Damage, "the line was changed")
}

// forged replaces a text in a summary and updates the digests. Only programs of
// this user could do that.
func forged(t *testing.T, summary []byte, old, now string) []byte {
	t.Helper()
	lines := strings.SplitN(strings.Replace(string(summary), old, now, 1), "\n", 3)
	var h header
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &h))
	h.Body = canon.Sum([]byte(lines[2]))
	head, err := json.Marshal(h)
	require.NoError(t, err)
	return []byte(string(head) + "\n" + string(canon.Sum(head)) + "\n" + lines[2])
}

// TestListsReadOnlySummaries checks that lists read only the summary of an ended
// session: they show a forged summary as it is. Read, which `status` uses, reads the
// ledger.
func TestListsReadOnlySummaries(t *testing.T) {
	st, path, whole := kept(t)
	require.NoError(t, os.WriteFile(path, forged(t, whole, `"state":"COMPLETED"`, `"state":"ABORTED"`), 0o600))
	require.Equal(t, "ABORTED", listed(t, st)[0].State)
	require.Equal(t, "COMPLETED", st.Read(first).State)
}

// TestSummaryOfALostSession checks that the summary of a lost session is used
// until the session has a wrapper again, and is not used after the session's
// end.
func TestSummaryOfALostSession(t *testing.T) {
	st := Open(t.TempDir())
	f := st.Folder(first)
	require.NoError(t, write(t, f, started(first)...).Close())
	require.Equal(t, Lost, listed(t, st)[0].Liveness)
	require.FileExists(t, f.file(summaryFile))
	require.Equal(t, Lost, listed(t, st)[0].Liveness)
	log, _, err := ledger.Open(string(f), ledger.Options{})
	require.NoError(t, err)
	require.Equal(t, Live, listed(t, st)[0].Liveness)
	appendFacts(t, log, over())
	require.Equal(t, Ended, listed(t, st)[0].Liveness)
	require.NoError(t, log.Close())
	require.Equal(t, says(t, st.Read(first)), says(t, listed(t, st)[0]))
}

// TestSummaryOfABrokenLedger checks that a ledger that ends with an unfinished line, or
// is damaged in the middle, also gets a summary. The lists use this summary until the
// ledger changes.
func TestSummaryOfABrokenLedger(t *testing.T) {
	for name, spoil := range map[string]func(text []byte) []byte{
		"an unfinished last line":     func(text []byte) []byte { return text[:len(text)-30] },
		"an unfinished line after it": func(text []byte) []byte { return append(text, `{"at":"2026-01`...) },
		"a last line of other bytes":  func(text []byte) []byte { return append(text, "no entry\n"...) },
		"a changed line":              func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
	} {
		st := Open(t.TempDir())
		f := st.Folder(first)
		record(t, f, demo(t))
		segment := filepath.Join(string(f), "ledger-000001.jsonl")
		text, err := os.ReadFile(segment)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(segment, spoil(bytes.Clone(text)), 0o600))

		read := st.Read(first)
		require.Equal(t, says(t, read), says(t, listed(t, st)[0]), name)
		require.Equal(t, says(t, read), says(t, listed(t, st)[0]), name)

		path := f.file(summaryFile)
		summary, err := os.ReadFile(path)
		require.NoError(t, err, name)
		require.NoError(t, os.WriteFile(path, forged(t, summary, fmt.Sprintf(`"turns":%d`, read.Turns), `"turns":99`), 0o600))
		require.Equal(t, 99, listed(t, st)[0].Turns, "%s: the ledger was read", name)

		require.NoError(t, os.WriteFile(segment, text, 0o600))
		whole := listed(t, st)[0]
		require.NoError(t, whole.Damage, name)
		require.Equal(t, Ended, whole.Liveness, name)
	}
}

// TestSummaryForm fails when the views compute another result for the same
// session. Then increment summaryForm and write the new digest here, so that older
// summaries are not used.
func TestSummaryForm(t *testing.T) {
	var k Session
	for _, e := range demo(t) {
		k.Apply(e)
	}
	k.Capabilities = nil // they depend on the manifests, and form() changes when a manifest changes
	text, err := json.Marshal([]any{k.Status, k.Claims})
	require.NoError(t, err)
	require.Equal(t, "2 sha256:8674f69c412d988d3d228bcbec8a593a30336b30fd6d695afe8162f0528b2480", fmt.Sprint(summaryForm, " ", canon.Sum(text)))
}
