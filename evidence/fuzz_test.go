package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
)

// The targets of this file need the flag -fuzzminimizetime 10x, which make fuzz sets.
// Without the flag, Go minimizes each archive of some kilobytes for a minute and hardly
// tries another input.

// tryAll gives an input to every reader.
func tryAll(t *testing.T, data []byte, o Options) {
	Detect(data)
	_, _ = ParseAnchors(data)
	_, _ = Inspect("x", data)
	_, _ = Diff(data, data)
	tryKinds(t, data, o, Kinds()...)
}

// Everything that the strict mode accepts is accepted in the reference's mode
// too.
func tryKinds(t *testing.T, data []byte, o Options, kinds ...Kind) {
	for _, kind := range kinds {
		o.Compat = false
		strict := Verify(kind, data, o)
		o.Compat = true
		if compat := Verify(kind, data, o); strict.OK && !compat.OK {
			t.Fatalf("strict accepts a %s, compat says %v", kind, compat.Problems)
		}
	}
}

// besideMemory reads the files of a folder once.
func besideMemory(f *testing.F, folder string) func(string) ([]byte, error) {
	files := map[string][]byte{}
	list, err := os.ReadDir(filepath.Join("testdata", folder))
	require.NoError(f, err)
	for _, e := range list {
		files[e.Name()] = read(f, filepath.Join(folder, e.Name()))
	}
	return func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return data, nil
		}
		return nil, os.ErrNotExist
	}
}

// No bytes make a reader panic or hang, in the strict mode or in the reference's mode.
func FuzzVerify(f *testing.F) {
	for _, pattern := range []string{"runpack/*.zip", "pack/*.zip", "trace/*.json", "journal/*.jsonl", "session/*/journal_chain.json"} {
		files, err := filepath.Glob("testdata/" + pattern)
		require.NoError(f, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	o := Options{PublicKey: publicKey(f, "keys/a_public.key"), Beside: besideMemory(f, "session/own_ok_signed")}
	f.Fuzz(func(t *testing.T, data []byte) { tryAll(t, data, o) })
}

// sealed packs files, with their real digests in the manifest. A changed file thus passes
// the check of the digests and reaches the other checks.
func sealed(t testing.TB, names []string, files map[string][]byte) []byte {
	t.Helper()
	files = maps.Clone(files)
	var err error
	if doc, isPack := files[packManifestFile]; isPack {
		var m packManifest
		require.NoError(t, json.Unmarshal(doc, &m))
		m.Contents = slices.DeleteFunc(m.Contents, func(e packEntry) bool { _, here := files[e.Path]; return !here })
		for i, e := range m.Contents {
			m.Contents[i].SHA256 = sign.Sum(files[e.Path])
		}
		m.Signatures = nil
		m.PackID, err = m.id()
		require.NoError(t, err)
		files[packManifestFile], err = canon.Marshal(m)
	} else {
		var m manifest
		require.NoError(t, json.Unmarshal(files[manifestFile], &m))
		for i, e := range m.Files {
			m.Files[i].SHA256 = sign.Sum(files[e.Path])
		}
		m.Signatures = nil
		m.ManifestDigest, err = m.digest()
		require.NoError(t, err)
		files[manifestFile], err = canon.Marshal(m)
	}
	require.NoError(t, err)
	return zipped(t, names, files)
}

// No content of a file makes a reader panic or hang, even if the manifest has the right
// digest of this content.
func FuzzContents(f *testing.F) {
	type artifact struct {
		names []string
		files map[string][]byte
	}
	var all []artifact
	for i, path := range []string{"runpack/own_ok_signed.zip", "pack/own_ok_run_no_proof.zip", "pack/ok_job.zip"} {
		names, files := entriesOf(f, read(f, path))
		names = slices.DeleteFunc(names, func(name string) bool { return name == proofsFile }) // the proofs would not match a changed file
		delete(files, proofsFile)
		all = append(all, artifact{names, files})
		for n, name := range names {
			f.Add(uint8(i), uint8(n), files[name])
		}
	}
	f.Fuzz(func(t *testing.T, which, file uint8, content []byte) {
		a := all[int(which)%len(all)]
		name := a.names[int(file)%len(a.names)]
		files := maps.Clone(a.files)
		files[name] = content
		if name == manifestFile || name == packManifestFile {
			tryKinds(t, zipped(t, a.names, files), Options{}, RunpackKind, PackKind)
			return
		}
		// PackKind is enough here: if the archive is a runpack, the older form of a pack,
		// Verify with PackKind checks it as a runpack.
		tryKinds(t, sealed(t, a.names, files), Options{}, PackKind)
	})
}

// No header in an archive makes a reader panic or hang. The producer of the archive
// chooses the name, method, flags, sizes and extra fields of a header.
func FuzzHeaders(f *testing.F) {
	names, files := entriesOf(f, read(f, "runpack/own_ok_signed.zip"))
	f.Add("manifest.json", uint16(0), uint16(0), uint64(1), uint64(1), uint32(0), []byte(nil), []byte("x"))
	f.Add("../x", uint16(8), uint16(8), uint64(1<<63), uint64(1<<40), uint32(7), []byte("\x01\x00\x08\x00aaaaaaaa"), []byte("\x03\x00"))
	f.Fuzz(func(t *testing.T, name string, method, flags uint16, packed, size uint64, sum uint32, extra, content []byte) {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		h := &zip.FileHeader{Name: name, Method: method, Flags: flags, CompressedSize64: packed, UncompressedSize64: size, CRC32: sum, Extra: extra}
		for _, header := range []*zip.FileHeader{h, {Name: "b"}} {
			e, err := w.CreateRaw(header)
			if err != nil {
				return // the zip writer rejects this header
			}
			_, _ = e.Write(content)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			e, err := w.Create(name)
			require.NoError(t, err)
			_, err = e.Write(files[name])
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		tryAll(t, out.Bytes(), Options{})
		if r := Verify(RunpackKind, out.Bytes(), Options{}); r.OK {
			t.Fatalf("an archive with the entries %q and b besides %v is accepted", name, names)
		}
	})
}
