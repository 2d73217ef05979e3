package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// readFrom reads dir from seq to its end or its first error. The result is never
// nil, because require.Equal distinguishes nil from an empty slice.
func readFrom(dir string, seq uint64) ([]Entry, error) {
	all := []Entry{}
	for e, err := range ReadFrom(dir, seq) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// TestReadFrom reads from different places: the first and the last entry of a
// segment, random entries, and numbers beyond the end. Some lines are longer than
// near, the size of the search range at which seek stops.
func TestReadFrom(t *testing.T) {
	seed := testSeed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	log := create(t, dir, Options{SegmentBytes: 5 * near})
	var want []Entry
	for n := range 2000 {
		r := record("counted", n)
		if random.IntN(100) == 0 {
			r.Body = json.RawMessage(fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", random.IntN(3*near))))
		}
		written, err := log.Append([]Record{r}, false)
		require.NoError(t, err)
		want = append(want, written...)
	}
	seqs := []uint64{0, 1, 2, 1999, 2000}
	all, err := segments(dir)
	require.NoError(t, err)
	require.Greater(t, len(all), 3)
	for _, n := range all {
		f, err := os.Open(segmentPath(dir, n))
		require.NoError(t, err)
		_, first, ok := lineFrom(f, 0)
		require.True(t, ok)
		require.NoError(t, f.Close())
		seqs = append(seqs, first-1, first, first+1)
	}
	for range 20 {
		seqs = append(seqs, random.Uint64N(2000))
	}
	for _, seq := range seqs {
		got, err := readFrom(dir, seq)
		require.NoError(t, err)
		require.Equal(t, want[max(seq, 1)-1:], got, "from %d, seed %d", seq, seed)
	}
	got, err := readFrom(dir, 2001)
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestReadFromPassesDamageBefore checks that damage before the requested entry is
// ignored. Damage after the requested entry is reported with its line, even if the
// search for the entry has read that line.
func TestReadFromPassesDamageBefore(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{})
	want := grow(t, log, 2000)
	require.NoError(t, log.Close())
	path := segmentPath(dir, 1)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	damage := func(n int) {
		changed := append([]string{}, lines...)
		changed[n-1] = strings.Replace(changed[n-1], "counted", "created", 1)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(changed, "")), 0o600))
	}
	damage(3)
	got, err := readFrom(dir, 1900)
	require.NoError(t, err)
	require.Equal(t, want[1899:], got)
	_, err = Verify(dir)
	require.ErrorContains(t, err, "line 3 ")

	for n := 1501; n <= 2000; n += 31 {
		damage(n)
		got, err := readFrom(dir, 1500)
		require.Equal(t, want[1499:n-1], got)
		require.ErrorContains(t, err, fmt.Sprintf("line %d ", n))
	}

	// As in Read, an unfinished last line ends the reading with ErrTornTail.
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-10], 0o600))
	got, err = readFrom(dir, 1998)
	require.ErrorIs(t, err, ErrTornTail)
	require.Equal(t, want[1997:1999], got)
}

// TestLinesFindsWhatIsMissing checks that Lines reports a missing entry and a
// missing segment, and opens regular files only.
func TestLinesFindsWhatIsMissing(t *testing.T) {
	for name, damage := range map[string]func(dir string, segment string, lines []string) error{
		"an entry": func(_, segment string, lines []string) error {
			return os.WriteFile(segment, []byte(strings.Join(slices.Delete(lines, 1, 2), "")), 0o600)
		},
		"the first segment": func(dir, segment string, _ []string) error {
			return os.Rename(segment, filepath.Join(dir, segmentName(2)))
		},
		"every segment": func(_, segment string, _ []string) error { return os.Remove(segment) },
		"a regular file": func(_, segment string, _ []string) error {
			return cmp.Or(os.Remove(segment), syscall.Mkfifo(segment, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := create(t, dir, Options{})
			_, err := l.Append([]Record{record("counted", 1), record("counted", 2), record("counted", 3)}, false)
			require.NoError(t, err)
			require.NoError(t, l.Close())
			segment := segmentPath(dir, 1)
			text, err := os.ReadFile(segment)
			require.NoError(t, err)
			require.NoError(t, damage(dir, segment, strings.SplitAfter(string(text), "\n")))
			for _, err = range Lines(dir) {
			}
			require.Error(t, err)
		})
	}
}
