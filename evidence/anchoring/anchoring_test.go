package anchoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/evidence"
	"lifeloop/internal/store"
)

func anchor(index int) evidence.Anchor {
	return evidence.Anchor{SessionID: "s1", Index: index, Digest: fmt.Sprintf("%064x", index)}
}

func line(a evidence.Anchor) string {
	return fmt.Sprintf(`{"session_id":"%s","checkpoint_index":%d,"checkpoint_digest":"%s"}`+"\n", a.SessionID, a.Index, a.Digest)
}

// after returns p after some moves. The move n means that checkpoint n was published, and
// -n that it could not be published.
func after(p progress, moves ...int) progress {
	for _, n := range moves {
		if n > 0 {
			p = p.done(anchor(n))
		} else {
			p = p.miss(-n, fmt.Sprint("why ", -n))
		}
	}
	return p
}

// The stored state shows which checkpoints are missing, including those that an earlier
// wrapper could not publish.
func TestProgress(t *testing.T) {
	missing := store.Published{Last: anchor(4), Failed: 2, From: 2, Why: "before"}
	for _, c := range []struct {
		name   string
		stored store.Published
		moves  []int
		want   store.Published
	}{
		{"nothing happened", store.Published{}, nil, store.Published{}},
		{"all are published", store.Published{}, []int{1, 2}, store.Published{Last: anchor(2)}},
		{"one is missing, and a later one does not hide it", store.Published{}, []int{1, -2, 3}, store.Published{Last: anchor(3), Failed: 1, From: 2, Why: "why 2"}},
		{"two are missing", store.Published{}, []int{-1, -2}, store.Published{Failed: 2, From: 1, Why: "why 2"}},
		{"no checkpoint could be read", store.Published{}, []int{0}, store.Published{Failed: 1, From: 1, Why: "why 0"}},
		{"an earlier wrapper published all", store.Published{Last: anchor(4)}, []int{5}, store.Published{Last: anchor(5)}},
		{"the missing ones are being published", missing, []int{2}, store.Published{Last: anchor(4), Failed: 2, From: 3, Why: "before"}},
		{"they are published, up to the last", missing, []int{2, 3, 4}, store.Published{Last: anchor(4)}},
		{"one of them is missing again", missing, []int{2, -3, 4}, store.Published{Last: anchor(4), Failed: 2, From: 3, Why: "why 3"}},
		{"it stays missing", missing, []int{2, -3, 4, 5}, store.Published{Last: anchor(5), Failed: 2, From: 3, Why: "why 3"}},
		{"more are missing than before", missing, []int{-2, -3, -4}, store.Published{Last: anchor(4), Failed: 3, From: 2, Why: "why 4"}},
		{"stored without From", store.Published{Last: anchor(4), Failed: 1, Why: "before"}, []int{1}, store.Published{Last: anchor(4), Failed: 1, From: 2, Why: "before"}},
	} {
		require.Equal(t, c.want, after(begin(c.stored), c.moves...).Published, c.name)
	}
}

// A world records what a publisher does.
type world struct {
	Publisher
	printed, pushed, warned string
	reported                []string
	saved                   []int
}

func newWorld(file string) *world {
	w := &world{}
	w.Publisher = Publisher{Session: "s1", File: file,
		Print:  func(line []byte) error { w.printed += string(line); return nil },
		Report: func(index int, err error) { w.reported = append(w.reported, fmt.Sprintf("%d: %v", index, err)) },
		Warn:   func(text string) { w.warned += text },
		saved:  func(a evidence.Anchor) { w.saved = append(w.saved, a.Index) }}
	return w
}

func (w *world) push() {
	w.Push = func(_ context.Context, line []byte) error { w.pushed += string(line); return nil }
}

func (w *world) publish(t *testing.T, list ...evidence.Anchor) {
	for _, a := range list {
		w.Publish(t.Context(), a)
	}
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// Lines are printed only if there is neither a file nor a command.
func TestPrint(t *testing.T) {
	w := newWorld("")
	require.NoError(t, w.Open())
	w.publish(t, anchor(1), anchor(2))
	require.Equal(t, line(anchor(1))+line(anchor(2)), w.printed)
	require.Equal(t, []int{1, 2}, w.saved)
	w.push()
	w.publish(t, anchor(3))
	require.Equal(t, line(anchor(3)), w.pushed)
	require.Equal(t, line(anchor(1))+line(anchor(2)), w.printed)
}

// The command gets every line, but the file gets only lines that it does not have yet. Lines
// of other sessions in the file are ignored. If the file has another digest for a
// checkpoint, an error is reported and the file is not changed.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "anchors")
	other, rewritten := anchor(2), anchor(1)
	other.SessionID, rewritten.Digest = "s2", anchor(9).Digest
	was := line(anchor(1)) + line(other)
	require.NoError(t, os.WriteFile(file, []byte(was), 0o600))
	w := newWorld(file)
	w.push()
	require.NoError(t, w.Open())
	w.publish(t, anchor(1), anchor(2))
	require.Equal(t, was+line(anchor(2)), read(t, file))
	require.Equal(t, line(anchor(1))+line(anchor(2)), w.pushed)
	w.publish(t, rewritten)
	require.Equal(t, []string{"1: " + file + " has another digest for the same checkpoint: the session's evidence was rewritten"}, w.reported)
	require.Equal(t, was+line(anchor(2)), read(t, file))
	require.Equal(t, 1, w.Failed())
	require.Empty(t, w.printed+w.warned)
}

// An anchor that an earlier process published is not published again, unless that process
// could not publish the anchor of an older checkpoint.
func TestEarlierProcess(t *testing.T) {
	w := newWorld("")
	w.last = anchor(3)
	w.publish(t, anchor(1), anchor(2), anchor(3), anchor(4))
	require.Equal(t, []int{4}, w.saved)

	w = newWorld("")
	w.last, w.from = anchor(3), 2
	w.publish(t, anchor(1), anchor(2), anchor(3), anchor(4))
	require.Equal(t, []int{2, 3, 4}, w.saved)

	w = newWorld("")
	w.last = anchor(3)
	w.last.Digest = anchor(9).Digest
	w.publish(t, anchor(2), anchor(3), anchor(4))
	require.Equal(t, []string{"3: another digest was published for the same checkpoint: the session's evidence was rewritten"}, w.reported)
	require.Equal(t, []int{4}, w.saved)
}

// The error that Explain returns for a failure is reported, and the next anchor is
// published.
func TestFailure(t *testing.T) {
	w := newWorld("")
	w.Push = func(_ context.Context, l []byte) error {
		if string(l) == line(anchor(1)) {
			return errors.New("no network")
		}
		return nil
	}
	w.Explain = func(err error) error { return fmt.Errorf("the command: %w", err) }
	w.publish(t, anchor(1), anchor(2))
	require.Equal(t, []string{"1: the command: no network"}, w.reported)
	require.Equal(t, []int{2}, w.saved)
}

// A torn last line is moved to another file, unless another line is not an anchor either.
func TestTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "anchors")
	whole, torn := line(anchor(1)), line(anchor(2))[:40]
	require.NoError(t, os.WriteFile(file, []byte(whole+torn), 0o600))
	w := newWorld(file)
	require.NoError(t, w.Open())
	require.Equal(t, "the last line of "+file+" was incomplete, as after a crash, and was moved to "+file+".torn", w.warned)
	require.Equal(t, whole, read(t, file))
	require.Equal(t, torn+"\n", read(t, file+".torn"))
	w.publish(t, anchor(1), anchor(2))
	require.Equal(t, whole+line(anchor(2)), read(t, file))

	require.NoError(t, os.WriteFile(file, []byte("notes\n"+torn), 0o600))
	var bad *FileError
	require.ErrorAs(t, newWorld(file).Open(), &bad)
	require.Contains(t, bad.Fix, "the file must contain only anchors")
	require.Equal(t, "notes\n"+torn, read(t, file))
}

// A line that has no newline at its end, and is whole, is kept.
func TestMissingNewline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "anchors")
	require.NoError(t, os.WriteFile(file, []byte(line(anchor(1))[:len(line(anchor(1)))-1]), 0o600))
	w := newWorld(file)
	require.NoError(t, w.Open())
	w.publish(t, anchor(1), anchor(2))
	require.Equal(t, line(anchor(1))+line(anchor(2)), read(t, file))
	require.Empty(t, w.warned)
}

// If anchors cannot be appended to the file, Open returns an error with a hint.
func TestFileError(t *testing.T) {
	dir := t.TempDir()
	for file, fix := range map[string]string{filepath.Join(dir, "no", "anchors"): "make the folder first, or name a file in another one", dir: "name a regular file that you may read and write"} {
		var bad *FileError
		require.ErrorAs(t, newWorld(file).Open(), &bad)
		require.Equal(t, fix, bad.Fix)
		require.ErrorContains(t, bad, "cannot append to "+file+": ")
	}
	require.NoError(t, newWorld(filepath.Join(dir, "anchors")).Open(), "it is created with the first line")
}

// Errors of a session's ledger name the session.
func TestReadError(t *testing.T) {
	broken := func(yield func(store.Record, error) bool) {
		yield(store.Record{}, &store.FolderError{What: "its ledger is empty", Fix: "restore it"})
	}
	_, err := Newest("s1", broken)
	require.EqualError(t, err, "session s1: its ledger is empty")
	var unread *ReadError
	require.ErrorAs(t, newWorld("").Each(t.Context(), broken), &unread)
}

// Without a configuration nothing is published.
func TestNilFollower(t *testing.T) {
	var f *Follower
	require.Equal(t, store.Published{}, f.Wait(true, nil))
}
