package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// genRecord draws a record.
func genRecord() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		body, err := json.Marshal(rapid.MapOfN(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Int32(), func(n int32) any { return n }),
			rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		), 0, 4).Draw(t, "body"))
		if err != nil {
			t.Fatal(err)
		}
		return Record{
			Kind: rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "kind"),
			At:   time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "second"), rapid.Int64Range(0, 999999999).Draw(t, "nanosecond")),
			Body: body,
		}
	})
}

// TestOpenAfterACutAnywhere cuts the last segment at any byte, as a crash could.
// Open must find exactly the whole lines before the cut, and the next Append must
// continue the chain.
func TestOpenAfterACutAnywhere(t *testing.T) {
	root := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		dir := filepath.Join(root, fmt.Sprint(round))
		log, err := Create(dir, Options{SegmentBytes: rapid.Int64Range(1, 3000).Draw(t, "segment bytes")})
		if err != nil {
			t.Fatal(err)
		}
		var written []Entry
		for range rapid.IntRange(1, 6).Draw(t, "appends") {
			entries, err := log.Append(rapid.SliceOfN(genRecord(), 0, 4).Draw(t, "records"), false)
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, entries...)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}

		all, err := segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		path := segmentPath(dir, all[len(all)-1])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		if err := os.Truncate(path, int64(cut)); err != nil {
			t.Fatal(err)
		}
		whole := len(written) - bytes.Count(text[cut:], []byte("\n"))
		torn := cut - (bytes.LastIndexByte(text[:cut], '\n') + 1)

		log, rec, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if rec.Entries != uint64(whole) || rec.TornBytes != int64(torn) || rec.Segments != len(all) {
			t.Fatalf("cut at %d of %d: %+v, want %d entries and %d torn bytes", cut, len(text), rec, whole, torn)
		}
		more, err := log.Append([]Record{record("after", 1)}, false)
		if err != nil {
			t.Fatal(err)
		}
		read, err := readAll(dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := append(written[:whole:whole], more...); !equalEntries(read, want) {
			t.Fatalf("read\n%v\nwant\n%v", read, want)
		}
	})
}

func equalEntries(a, b []Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.Seq != y.Seq || x.Kind != y.Kind || !x.At.Equal(y.At) || !bytes.Equal(x.Body, y.Body) || x.Prev != y.Prev || x.Digest != y.Digest {
			return false
		}
	}
	return true
}

// small writes a ledger of two segments and returns its files.
func small(t *testing.T) (dir string, files [2][]byte) {
	t.Helper()
	dir = t.TempDir()
	log := create(t, dir, Options{SegmentBytes: 1000})
	grow(t, log, 6)
	require.NoError(t, log.Close())
	for i := range files {
		text, err := os.ReadFile(segmentPath(dir, i+1))
		require.NoError(t, err)
		files[i] = text
	}
	all, err := segments(dir)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, all)
	return dir, files
}

// TestEveryFlippedByteIsFound checks that any changed byte, also one changed to a
// newline, is reported with its place.
func TestEveryFlippedByteIsFound(t *testing.T) {
	dir, files := small(t)
	for i, text := range files {
		path := segmentPath(dir, i+1)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		for at := range text {
			for _, mask := range []byte{[]byte{0x01, 0x20, 0x80, 0xff}[at%4], text[at] ^ '\n'} {
				if mask == 0 {
					continue
				}
				_, err := f.WriteAt([]byte{text[at] ^ mask}, int64(at))
				require.NoError(t, err)
				_, err = Verify(dir)
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("%s byte %d ^ %#x: %v", path, at, mask, err)
				}
				line := bytes.Count(text[:at], []byte("\n"))
				if corrupt.Segment != filepath.Base(path) || corrupt.Line != line+1 {
					t.Fatalf("%s line %d byte %d ^ %#x: found at %s line %d", path, line+1, at, mask, corrupt.Segment, corrupt.Line)
				}
			}
			_, err := f.WriteAt(text[at:at+1], int64(at))
			require.NoError(t, err)
		}
	}
	_, err := Verify(dir)
	require.NoError(t, err, "the test left the ledger damaged")
}

// TestEveryOtherOrderIsFound checks that any other sequence of the same lines is
// damage, except a prefix of the original sequence.
func TestEveryOtherOrderIsFound(t *testing.T) {
	dir, files := small(t)
	lines := strings.SplitAfter(string(files[0])+string(files[1]), "\n")
	lines = lines[:len(lines)-1]
	require.NoError(t, os.Remove(segmentPath(dir, 2)))
	rapid.Check(t, func(t *rapid.T) {
		picked := rapid.SliceOfN(rapid.IntRange(0, len(lines)-1), 1, len(lines)+2).Draw(t, "lines")
		var text strings.Builder
		intact := 0
		for i, n := range picked {
			text.WriteString(lines[n])
			if n == i && intact == i {
				intact++
			}
		}
		if err := os.WriteFile(segmentPath(dir, 1), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := readAll(dir)
		if len(read) != intact {
			t.Fatalf("%v: %d entries, want %d", picked, len(read), intact)
		}
		var corrupt *CorruptError
		switch {
		case intact == len(picked) && err != nil:
			t.Fatalf("%v: %v", picked, err)
		case intact < len(picked) && !errors.As(err, &corrupt):
			t.Fatalf("%v: %v", picked, err)
		case corrupt != nil && (corrupt.Line != intact+1 || corrupt.Readable != uint64(intact)):
			t.Fatalf("%v: %+v", picked, corrupt)
		}
	})
}

// FuzzRead reads a file with any content. The reader must not panic, and each entry
// it yields must be exactly what a writer would have written.
func FuzzRead(f *testing.F) {
	var ledger []byte
	end := genesis
	for n := range 3 {
		line, e, err := appendEntry(nil, end, record("seed", n))
		require.NoError(f, err)
		end = link{e.Seq, e.Digest}
		ledger = append(ledger, line...)
		f.Add(line)
	}
	f.Add(ledger)
	f.Add(ledger[:len(ledger)-5])
	f.Add(append(bytes.Clone(ledger), 0, 0, 0))
	f.Add([]byte("\n"))
	f.Add([]byte(`{"at":"","body":{},"digest":"","kind":"","prev":"","seq":1}` + "\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(segmentPath(dir, 1), text, 0o600); err != nil {
			t.Fatal(err)
		}
		var again []byte
		at := genesis
		for e, err := range Read(dir) {
			if err != nil {
				var corrupt *CorruptError
				if !errors.Is(err, ErrTornTail) && !errors.As(err, &corrupt) {
					t.Fatal(err)
				}
				break
			}
			var written Entry
			if again, written, err = appendEntry(again, at, e.Record); err != nil {
				t.Fatalf("read an entry that cannot be written: %v", err)
			}
			if written.Digest != e.Digest {
				t.Fatalf("digest %s, want %s", e.Digest, written.Digest)
			}
			at = link{e.Seq, e.Digest}
		}
		if !bytes.HasPrefix(text, again) {
			t.Fatalf("read as\n%s\nfrom\n%s", again, text)
		}
	})
}
