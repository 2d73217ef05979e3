package evidence

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entriesOf are the entries of a zip file.
func entriesOf(t testing.TB, data []byte) (names []string, files map[string][]byte) {
	t.Helper()
	a, duplicate, err := openArchive(data, false)
	require.NoError(t, err)
	require.Empty(t, duplicate)
	return a.names, a.files
}

// zipped packs files in the order of names.
func zipped(t testing.TB, names []string, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		require.NoError(t, addEntry(w, name, zip.Store, files[name]))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func codes(r Report) (list []string) {
	for _, p := range r.Problems {
		list = append(list, p.Code)
	}
	return list
}

// A small file cannot make the verifier read much, because it does not trust
// sizes in headers.
func TestBombs(t *testing.T) {
	var bomb bytes.Buffer
	w := zip.NewWriter(&bomb)
	f, err := w.Create("manifest.json")
	require.NoError(t, err)
	_, err = io.CopyN(f, zeros{}, maxEntry+1)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Less(t, bomb.Len(), 1<<20)
	r := Verify(RunpackKind, bomb.Bytes(), Options{})
	require.True(t, r.Unreadable)
	require.Contains(t, r.Problems[0].What, "larger than")

	// The header says 1 byte; the content is 200 KiB.
	var raw bytes.Buffer
	w = zip.NewWriter(&raw)
	var content bytes.Buffer
	d, err := flate.NewWriter(&content, 9)
	require.NoError(t, err)
	_, err = io.CopyN(d, zeros{}, 200<<10)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	f, err = w.CreateRaw(&zip.FileHeader{Name: "manifest.json", Method: zip.Deflate, CompressedSize64: uint64(content.Len()), UncompressedSize64: 1})
	require.NoError(t, err)
	_, err = f.Write(content.Bytes())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r = Verify(RunpackKind, raw.Bytes(), Options{})
	require.False(t, r.OK)

	var many bytes.Buffer
	w = zip.NewWriter(&many)
	for i := range maxEntries + 1 {
		_, err := w.Create(fmt.Sprint(i))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r = Verify(PackKind, many.Bytes(), Options{Compat: true})
	require.Contains(t, r.Problems[0].What, "more than the limit of 4096")
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Archives that two programs could read differently are refused, although every
// digest in them is right.
func TestArchivesWithHiddenContent(t *testing.T) {
	whole := read(t, "runpack/ok_reference.zip")
	names, files := entriesOf(t, whole)
	with := func(name string) []byte {
		files[name] = []byte("x")
		if strings.HasSuffix(name, "/") {
			files[name] = nil
		}
		defer delete(files, name)
		return zipped(t, append(names, name), files)
	}
	comment := bytes.Clone(whole)
	binary.LittleEndian.PutUint16(comment[len(comment)-2:], 3)
	renamed := bytes.Clone(whole)
	copy(renamed[30:], "Intents") // the name in front of the content, not the one in the directory
	for _, c := range []struct {
		name string
		data []byte
		code string
	}{
		{"a file that no manifest names", with("extra.txt"), "undeclared_file"},
		{"a folder", with("folder/"), "undeclared_file"},
		{"an absolute path", with("/etc/passwd"), "archive"},
		{"a path to a parent", with("../../etc/passwd"), "archive"},
		{"a path through a parent", with("a/../../b"), "archive"},
		{"a path of another system", with(`..\b`), "archive"},
		{"bytes before the archive", append([]byte("#!/bin/sh\n"), whole...), "archive"},
		{"bytes after the archive", append(bytes.Clone(whole), "more"...), "archive"},
		{"a comment", append(comment, "abc"...), "archive"},
		{"another name in front of the content", renamed, "archive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Verify(RunpackKind, c.data, Options{})
			require.False(t, r.OK)
			require.Contains(t, codes(r), c.code, "%v", r.Problems)
		})
	}
	require.True(t, Verify(RunpackKind, zipped(t, names, files), Options{}).OK)
}

// Every byte of every file in an archive, changed in three ways, is refused.
func TestEveryChangedByteInsideIsRefused(t *testing.T) {
	for _, c := range []struct {
		path string
		kind Kind
	}{{"runpack/own_ok_signed.zip", RunpackKind}, {"pack/own_ok_run_signed.zip", PackKind}} {
		o := Options{PublicKey: publicKey(t, "keys/a_public.key")}
		names, files := entriesOf(t, read(t, c.path))
		require.True(t, Verify(c.kind, zipped(t, names, files), o).OK)
		for _, name := range names {
			whole := files[name]
			for i, b := range whole {
				if !changedAt(i) {
					continue
				}
				for _, other := range []byte{b ^ 1, b ^ 0x20, ' '} {
					if other == b {
						continue
					}
					files[name] = bytes.Clone(whole)
					files[name][i] = other
					if Verify(c.kind, zipped(t, names, files), o).OK {
						t.Fatalf("%s: byte %d of %s may be %q instead of %q", c.path, i, name, other, b)
					}
				}
			}
			files[name] = whole
		}
	}
}

// A changed byte of the archive itself is refused, or changes no file in it.
func TestAChangedByteOfTheArchiveChangesNoFile(t *testing.T) {
	o := Options{PublicKey: publicKey(t, "keys/a_public.key")}
	whole := read(t, "runpack/own_ok_signed.zip")
	_, files := entriesOf(t, whole)
	for i := range whole {
		if !changedAt(i) {
			continue
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 0x11
		if Verify(RunpackKind, changed, o).OK {
			_, have := entriesOf(t, changed)
			require.Equal(t, files, have, "byte %d", i)
		}
	}
}

// A trace in canonical form has no byte that may change.
func TestEveryChangedByteOfATraceIsRefused(t *testing.T) {
	o := Options{PublicKey: publicKey(t, "keys/a_public.key")}
	doc := canonical(t, read(t, "trace/own_ok_minimal.json"))
	require.True(t, Verify(TraceKind, doc, o).OK)
	for i, b := range doc {
		for _, other := range []byte{b ^ 1, b ^ 0x20, ' '} {
			changed := bytes.Clone(doc)
			changed[i] = other
			if other != b && Verify(TraceKind, changed, o).OK {
				t.Fatalf("byte %d may be %q instead of %q", i, other, b)
			}
		}
	}
}

// A chain's runpack is read only from below the chain's folder.
func TestRunpackPathsStayInTheFolder(t *testing.T) {
	doc := string(read(t, "session/own_ok_signed/journal_chain.json"))
	for _, name := range []string{"/etc/passwd", "../cp_0001.zip", "a/../cp_0001.zip", `a\\b`, ""} {
		asked := []string{}
		o := Options{Beside: func(name string) ([]byte, error) { asked = append(asked, name); return nil, os.ErrNotExist }}
		r := Verify(ChainKind, []byte(strings.Replace(doc, `"cp_0001.zip"`, `"`+name+`"`, 1)), o)
		require.Contains(t, codes(r), "runpack_path", "%q: %v", name, r.Problems)
		require.Equal(t, []string{"cp_0002.zip"}, asked)
	}
}

func TestDetect(t *testing.T) {
	for _, f := range fixtures(t) {
		if strings.Contains(f.path, "fail_not") || strings.Contains(f.path, "unknown_record") || strings.Contains(f.path, "before_header") || f.stricter == "" {
			continue
		}
		want := f.kind
		if strings.HasPrefix(f.path, "runpack/") {
			want = RunpackKind // the table verifies one of these runpacks as a pack
		}
		if strings.HasPrefix(f.path, "pack/") {
			want = PackKind
		}
		require.Equal(t, want, Detect(read(t, f.path)), f.path)
	}
	require.Empty(t, Detect([]byte("PK")))
	require.Empty(t, Detect(nil))
	require.Empty(t, Detect([]byte(`{"a":1}`)))
}
