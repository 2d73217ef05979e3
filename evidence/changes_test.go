package evidence

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var allChanges = flag.Bool("changes", false, "change each byte of an export to all 255 other values (make chaos), not only to one or two")

// others returns the values to which the test changes a byte. In a file that no digest
// covers completely, this includes the other case of a letter.
func others(b byte, packed bool) (list []byte) {
	for mask := 1; mask < 256; mask++ {
		if *allChanges || mask == 1 || mask == 0x20 && !packed {
			list = append(list, b^byte(mask))
		}
	}
	return list
}

// A changing is an export, and the number of changes that were tried.
type changing struct {
	all  map[string][]byte
	key  ed25519.PublicKey
	done atomic.Int64
}

// refused verifies data in the place of the file name. A verification without the key is
// faster, and what it refuses is refused with the key too.
func (c *changing) refused(name string, data []byte) bool {
	c.done.Add(1)
	o := Options{Beside: func(other string) ([]byte, error) { return c.all[other], nil }}
	kind := Detect(c.all[name])
	if kind != TraceKind && !Verify(kind, data, o).OK {
		return true
	}
	o.PublicKey = c.key
	return !Verify(kind, data, o).OK
}

// Every byte of every file of every artifact of an export counts: changed it is refused.
// Files are changed in place, and within the archives that hold them.
func TestEveryChangeOfAnExportIsRefused(t *testing.T) {
	key, began := testKey(), time.Now()
	c := &changing{all: files(t, guarded(t), key), key: key.Public().(ed25519.PublicKey)}
	t.Cleanup(func() { t.Logf("%d changes in %v", c.done.Load(), time.Since(began).Round(time.Second)) })
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
}

// change makes every change of content, and verifies the artifact that it makes.
func (c *changing) change(t *testing.T, name string, content []byte, packed bool, artifact func([]byte) []byte) {
	changed := bytes.Clone(content)
	for i, b := range content {
		for _, other := range others(b, packed) {
			changed[i] = other
			if !c.refused(name, artifact(changed)) {
				t.Fatalf("byte %d may be %q instead of %q", i, other, b)
			}
		}
		changed[i] = b
	}
}

// Changes that only the whole list of values includes.
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

// A changed byte of the frame of an archive is refused too, or changes no file in it.
func TestAChangedByteOfAnArchiveOfAnExport(t *testing.T) {
	key := testKey()
	c := &changing{all: files(t, guarded(t), key), key: key.Public().(ed25519.PublicKey)}
	for name, whole := range c.all {
		if !strings.HasSuffix(name, ".zip") {
			continue
		}
		for i := range whole {
			changed := bytes.Clone(whole)
			changed[i] ^= 1
			if !c.refused(name, changed) && !sameFiles(whole, changed) {
				t.Fatalf("%s: byte %d may be %q", name, i, changed[i])
			}
		}
	}
}

// A verification with a key refuses everything that one without a key refuses.
// The function refused relies on this.
func TestAKeyOnlyAddsProblems(t *testing.T) {
	key := testKey()
	c := &changing{all: files(t, guarded(t), key)}
	o := Options{PublicKey: key.Public().(ed25519.PublicKey), Beside: func(other string) ([]byte, error) { return c.all[other], nil }}
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

// sameFiles reports whether two archives hold the same files.
func sameFiles(a, b []byte) bool {
	x, _, errX := openArchive(a, false)
	y, _, errY := openArchive(b, false)
	return errX == nil && errY == nil && slices.Equal(x.names, y.names) && maps.EqualFunc(x.files, y.files, bytes.Equal)
}
