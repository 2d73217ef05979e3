package evidence

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var allChanges = flag.Bool("changes", false, "change each byte of evidence, and each bit of an export (make chaos), not only some of them")

// changedAt reports whether the test changes the byte at position i of a document: every
// byte with -changes, else every fifth. The function others flips bit i%8. Since 5 and 8
// have no common factor, it flips all eight bits in turn.
func changedAt(i int) bool { return *allChanges || i%5 == 0 }

// others returns the values to which the test changes the byte b at position i. Without
// -changes, one bit of b is flipped, and i determines the bit. If packed is false, the
// other case of a letter is tried too, since perhaps no digest covers the whole file.
func others(i int, b byte, packed bool) (list []byte) {
	letter := 'A' <= b&^0x20 && b&^0x20 <= 'Z'
	for mask := 1; mask < 256; mask++ {
		if *allChanges && (mask&(mask-1) == 0 || mask == 0xff) || mask == 1<<(i%8) || mask == 0x20 && letter && !packed {
			list = append(list, b^byte(mask))
		}
	}
	return list
}

// A changing is an export, the key that verifies it or nil, and the number of changes that
// were tried.
type changing struct {
	all  map[string][]byte
	key  ed25519.PublicKey
	done atomic.Int64
}

// everyExport runs a test on a signed export, and on one without signatures, which is
// verified without a key: digests and links alone must refuse each change.
func everyExport(t *testing.T, test func(t *testing.T, c *changing)) {
	key := testKey()
	for name, c := range map[string]*changing{
		"signed":   {all: files(t, guarded(t), key), key: key.Public().(ed25519.PublicKey)},
		"unsigned": {all: files(t, guarded(t), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			began, size := time.Now(), 0
			for _, data := range c.all {
				size += len(data)
			}
			t.Cleanup(func() {
				t.Logf("%d changes in %v, of %d bytes in %d files", c.done.Load(), time.Since(began).Round(time.Second), size, len(c.all))
			})
			test(t, c)
		})
	}
}

// beside reads another file of the export.
func (c *changing) beside(name string) ([]byte, error) {
	if data, present := c.all[name]; present {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// refused reports whether the file with the given name is refused if data is its content.
// A verification without the key is faster, so it is tried first. If it refuses data, a
// verification with the key does so too.
func (c *changing) refused(name string, data []byte) bool {
	c.done.Add(1)
	o := Options{Beside: c.beside}
	kind := Detect(c.all[name])
	if kind != TraceKind && !Verify(kind, data, o).OK {
		return true
	}
	if c.key == nil {
		return false
	}
	o.PublicKey = c.key
	return !Verify(kind, data, o).OK
}

// A change of any byte of any file in an export is refused (see changedAt). Files are
// changed in place, and inside the archives that contain them.
func TestEveryChangeOfAnExportIsRefused(t *testing.T) {
	everyExport(t, func(t *testing.T, c *changing) {
		for _, name := range slices.Sorted(maps.Keys(c.all)) {
			whole := c.all[name]
			require.False(t, c.refused(name, whole), name)
			if filepath.Ext(name) != ".zip" {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c.change(t, name, whole, false, func(changed []byte) []byte { return changed })
				})
				continue
			}
			names, inside := entriesOf(t, whole)
			for _, file := range names {
				t.Run(name+"/"+file, func(t *testing.T) {
					t.Parallel()
					c.change(t, name, inside[file], true, func(changed []byte) []byte {
						files := maps.Clone(inside)
						files[file] = changed
						return zipped(t, names, files)
					})
				})
			}
		}
	})
}

// change makes the changes of content one by one, and checks that each resulting artifact
// is refused.
func (c *changing) change(t *testing.T, name string, content []byte, packed bool, artifact func([]byte) []byte) {
	changed := bytes.Clone(content)
	for i, b := range content {
		if !changedAt(i) {
			continue
		}
		for _, other := range others(i, b, packed) {
			changed[i] = other
			if !c.refused(name, artifact(changed)) {
				t.Fatalf("byte %d may be %q instead of %q", i, other, b)
			}
		}
		changed[i] = b
	}
}

// Changes that the function others does not always make are refused too: a comma in a time,
// and other line ends.
func TestOtherFormsAreRefused(t *testing.T) {
	key := testKey()
	c := &changing{all: files(t, guarded(t), key), key: key.Public().(ed25519.PublicKey)}
	for _, change := range []struct{ file, from, to string }{
		{"trace_000003.json", ".000006Z", ",000006Z"}, // Go's parser of times accepts a comma
		{JournalFile, "\n{", "\r\n{"},
	} {
		changed := strings.Replace(string(c.all[change.file]), change.from, change.to, 1)
		require.NotEqual(t, string(c.all[change.file]), changed)
		require.True(t, c.refused(change.file, []byte(changed)), change.file)
	}
	journal := bytes.Clone(c.all[JournalFile])
	journal[len(journal)-1] = '\r'
	require.True(t, c.refused(JournalFile, journal))
}

// A change of any byte of an exported file is refused (see changedAt). In an archive this
// includes bytes outside the contents of its entries, such as a time or a size. The test
// flips one bit of a byte or all bits; with -changes, it tries each bit and all bits.
func TestEveryChangedByteOfAFileIsRefused(t *testing.T) {
	masks := []byte{0xff, 1, 2, 4, 8, 16, 32, 64, 128}
	everyExport(t, func(t *testing.T, c *changing) {
		for _, name := range slices.Sorted(maps.Keys(c.all)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				changed := bytes.Clone(c.all[name])
				for i, b := range c.all[name] {
					if !changedAt(i) {
						continue
					}
					for m, mask := range masks {
						if m != i%len(masks) && !*allChanges {
							continue
						}
						changed[i] = b ^ mask
						if !c.refused(name, changed) {
							t.Fatalf("byte %d may be %q instead of %q", i, changed[i], b)
						}
					}
					changed[i] = b
				}
			})
		}
	})
}

// A change of any byte of an archive that the reference made is refused.
func TestEveryChangedByteOfAnArchiveOfTheReferenceIsRefused(t *testing.T) {
	o := Options{PublicKey: publicKey(t, "keys/a_public.key")}
	for _, name := range []string{"runpack/ok_reference_signed.zip", "pack/ok_run_signed.zip"} {
		whole := read(t, name)
		require.True(t, Verify(PackKind, whole, o).OK)
		for i, b := range whole {
			if !changedAt(i) {
				continue
			}
			for _, other := range []byte{b ^ 1, b ^ 0x80} {
				changed := bytes.Clone(whole)
				changed[i] = other
				if Verify(PackKind, changed, o).OK {
					t.Fatalf("%s: byte %d may be %q instead of %q", name, i, other, b)
				}
			}
		}
	}
}

// A changed path of a runpack is refused, although no digest covers the path. If no key
// is given and no signature is required, a journal is accepted without its runpacks.
func TestAJournalWithoutItsRunpacks(t *testing.T) {
	key := testKey()
	all := files(t, guarded(t), key)
	o := Options{PublicKey: key.Public().(ed25519.PublicKey), Beside: (&changing{all: all}).beside}
	journal := all[JournalFile]
	require.True(t, Verify(JournalKind, journal, o).OK)
	moved := bytes.Replace(journal, []byte("cp_0002.zip"), []byte("cp_0012.zip"), 1)
	require.NotEqual(t, journal, moved)
	r := Verify(JournalKind, moved, o)
	require.Equal(t, []string{"runpack_path"}, codes(r))
	require.Equal(t, SignatureFailed, r.SignatureStatus)
	misspelled := bytes.Replace(journal, []byte("runpack_path"), []byte("runpack_pa7h"), 1)
	require.False(t, Verify(JournalKind, misspelled, o).OK)
	o.Beside = nil
	require.False(t, Verify(JournalKind, journal, o).OK, "the signatures are in the runpacks")
	require.False(t, Verify(JournalKind, journal, Options{RequireSignature: true}).OK)
	require.Equal(t, []string{"runpack_path"}, codes(Verify(JournalKind, moved, Options{})), "also without a runpack and a key")
	r = Verify(JournalKind, journal, Options{})
	require.True(t, r.OK)
	require.Contains(t, strings.Join(r.Notes, "\n"), "were not compared with their runpack")
}

// A journal without a checkpoint has no signature. A note reports events after the last
// checkpoint, because no checkpoint covers them.
func TestUnsealedEvents(t *testing.T) {
	header := read(t, "journal/ok_header_only.jsonl")
	require.True(t, Verify(JournalKind, header, Options{}).OK)
	key := testKey().Public().(ed25519.PublicKey)
	require.Equal(t, []string{"signature_missing"}, codes(Verify(JournalKind, header, Options{PublicKey: key})))
	require.Equal(t, []string{"no_key"}, codes(Verify(JournalKind, header, Options{RequireSignature: true})))

	x := guarded(t)
	x.seals = x.seals[:1]
	all := files(t, x, testKey())
	r := verified(JournalFile, all, Options{PublicKey: key})
	require.True(t, r.OK, "%v", r.Problems)
	require.Contains(t, strings.Join(r.Notes, "\n"), "events: no checkpoint covers the events at the end (")
}

// A verification with a key refuses everything that one without a key refuses.
// The function refused relies on this.
func TestAKeyOnlyAddsProblems(t *testing.T) {
	key := testKey()
	c := &changing{all: files(t, guarded(t), key)}
	o := Options{PublicKey: key.Public().(ed25519.PublicKey), Beside: c.beside}
	without := o
	without.PublicKey = nil
	for name, whole := range c.all {
		for i := 0; i < len(whole); i += 7 {
			changed := bytes.Clone(whole)
			changed[i] ^= 1
			if kind := Detect(whole); kind != TraceKind && Verify(kind, changed, o).OK {
				require.True(t, Verify(kind, changed, without).OK, "%s: byte %d", name, i)
			}
		}
	}
}
