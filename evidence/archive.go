package evidence

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lifeloop/evidence/sign"
)

// Limits of an archive, so that a small file cannot fill the memory.
const (
	maxEntries = 4096
	maxEntry   = 100 << 20 // bytes of an entry, as in the reference implementation of Gait
	maxTotal   = 256 << 20 // the largest size of all entries together

	// The largest size of a JSON document, and the largest number of its values. Decoding
	// a few bytes of JSON can need hundreds of bytes of memory, and a small archive can
	// contain much JSON. A document with more than maxValues*valueBytes bytes, such as a
	// long timeline, may have more values: one for each valueBytes bytes. The memory for
	// decoding such a document is only a few times its size.
	maxDocument = 64 << 20
	maxValues   = 1 << 20
	valueBytes  = 16
)

// An archive is a zip file in memory.
type archive struct {
	names []string // in archive order
	files map[string][]byte
	sums  map[string]string // digests of files, once computed

	// recompressible is set if checkLayout did not check the compressed bytes of some
	// content. Other compressed bytes could replace them without being detected.
	recompressible bool
}

// sum returns the digest of a file. A manifest may declare the same file many times.
func (a archive) sum(name string) string {
	if _, known := a.sums[name]; !known {
		a.sums[name] = sign.Sum(a.files[name])
	}
	return a.sums[name]
}

// checkSize refuses a JSON document that would need much memory when decoded.
func checkSize(doc []byte) error {
	if len(doc) > maxDocument {
		return fmt.Errorf("the document is larger than the limit of %d bytes", maxDocument)
	}
	return checkValues(doc, max(maxValues, len(doc)/valueBytes))
}

// checkValues refuses a JSON document with more values than a limit.
func checkValues(doc []byte, limit int) error {
	values := 0
	for _, mark := range []string{",", "[", "{"} { // marks within strings are counted too
		values += bytes.Count(doc, []byte(mark))
	}
	if values > limit {
		return fmt.Errorf("the document has more values than the limit of %d", limit)
	}
	return nil
}

// openArchive reads all entries of a zip file and, if strict is set, checks its layout.
// duplicate is the name of an entry that occurs twice, if any; the content under that
// name is undefined.
func openArchive(data []byte, strict bool) (a archive, duplicate string, err error) {
	// zip.NewReader allocates memory for each record of the directory. The limit here
	// is higher than maxEntries, because an archive (a pack) can contain another one (a
	// runpack). If the inner archive is stored uncompressed, its records are counted
	// too. JSON files contain no such records.
	if n := bytes.Count(data, []byte(directoryMark)); n > 4*maxEntries {
		return a, "", fmt.Errorf("the archive and the archives in it list %d zip entries, more than the limit of %d", n, 4*maxEntries)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return a, "", fmt.Errorf("not a zip archive: %w", err)
	}
	if len(z.File) > maxEntries {
		return a, "", fmt.Errorf("the archive has %d entries, more than the limit of %d", len(z.File), maxEntries)
	}
	a.files, a.sums = map[string][]byte{}, map[string]string{}
	total := 0
	for _, f := range z.File {
		if _, twice := a.files[f.Name]; twice {
			duplicate = f.Name
		}
		content, err := readEntry(f, min(maxEntry, maxTotal-total))
		if err != nil {
			return a, duplicate, fmt.Errorf("entry %q: %w", f.Name, err)
		}
		total += len(content)
		a.names, a.files[f.Name] = append(a.names, f.Name), content
	}
	if strict && duplicate == "" {
		a.recompressible, err = checkLayout(data, z, a)
	}
	return a, duplicate, err
}

func readEntry(f *zip.File, limit int) ([]byte, error) {
	if f.UncompressedSize64 > uint64(limit) {
		return nil, fmt.Errorf("larger than the limit of %d bytes", limit)
	}
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// The header's size may be wrong, so the limit applies to the content too.
	content, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(content) > limit {
		err = fmt.Errorf("larger than the limit of %d bytes", limit)
	}
	return content, err
}

// directoryMark begins each record of an archive's directory.
const directoryMark = "PK\x01\x02"

// descriptorFlag marks an entry whose sizes follow its content.
const descriptorFlag = 8

// checkLayout refuses an archive unless it is, byte for byte, what a known writer makes of
// its entries, because no digest covers the headers, the gaps and the compressed form of
// the content. Two writers are known: the one that this program and the reference
// implementation of Gait use, and a plain one, which writes sizes before the content.
// There is one exception: the compressed form is not checked in an archive of the plain
// writer. recompressible reports whether such an archive has compressed content.
func checkLayout(data []byte, z *zip.Reader, a archive) (recompressible bool, err error) {
	plain := !slices.ContainsFunc(z.File, func(f *zip.File) bool { return f.Flags&descriptorFlag != 0 })
	same := &comparison{rest: data}
	w := zip.NewWriter(same)
	for _, f := range z.File {
		if name := f.Name; strings.HasPrefix(name, "/") || strings.Contains(name, `\`) || path.Clean(name) != strings.TrimSuffix(name, "/") ||
			name == ".." || strings.HasPrefix(name, "../") || !utf8.ValidString(name) {
			return false, fmt.Errorf("entry %q: the name is not a plain relative path", name)
		}
		if f.Method != zip.Store && f.Method != zip.Deflate {
			return false, fmt.Errorf("entry %q: the content is neither stored nor deflated", f.Name)
		}
		if plain {
			recompressible = recompressible || f.Method == zip.Deflate
			err = addPlainEntry(w, f, a.files[f.Name])
		} else {
			err = addEntry(w, f.Name, f.Method, a.files[f.Name])
		}
		if err != nil {
			return false, fmt.Errorf("entry %q: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return false, err
	}
	if n := len(same.rest); n > 0 {
		return false, fmt.Errorf("%d bytes follow the archive's end", n)
	}
	return recompressible, nil
}

// addEntry adds an entry as this program and the reference implementation of Gait write
// it.
func addEntry(w *zip.Writer, name string, method uint16, content []byte) error {
	h := &zip.FileHeader{Name: name, Method: method, Modified: epoch()}
	h.SetMode(0o644)
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = f.Write(content)
	}
	return err
}

// addPlainEntry adds an entry as the plain writer (see checkLayout) does: without an
// extra field, without a file type, and with sizes before the content. addPlainEntry
// copies the compressed content unchanged.
func addPlainEntry(w *zip.Writer, from *zip.File, content []byte) error {
	const (
		version = 20       // version of the zip format
		unix    = 3 << 8   // the system that defines the meaning of the mode
		date    = 1<<5 | 1 // 1980-01-01
		mode    = 0o644 << 16
		inUTF8  = 0x800 // the flag for names in UTF-8
	)
	packed, err := packedContent(from)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: from.Name, Method: from.Method, CreatorVersion: unix | version, ReaderVersion: version,
		ExternalAttrs: mode, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: uint64(len(packed)), UncompressedSize64: uint64(len(content))}
	//lint:ignore SA1019 CreateRaw writes this field and not Modified.
	h.ModifiedDate = date
	if strings.ContainsFunc(from.Name, func(r rune) bool { return r > unicode.MaxASCII }) {
		h.Flags = inUTF8
	}
	f, err := w.CreateRaw(h)
	if err == nil {
		_, err = f.Write(packed)
	}
	return err
}

// packedContent returns the compressed content of an entry. It is an error if bytes
// follow the end of the content.
func packedContent(f *zip.File) ([]byte, error) {
	in, err := f.OpenRaw()
	if err != nil {
		return nil, err
	}
	packed, err := io.ReadAll(in)
	if err != nil || f.Method == zip.Store {
		return packed, err
	}
	rest := bytes.NewReader(packed)
	if _, err = io.Copy(io.Discard, flate.NewReader(rest)); err == nil && rest.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the end of the compressed content", rest.Len())
	}
	return packed, err
}

// A comparison is a writer that accepts only the bytes of rest, in their order.
type comparison struct {
	at   int
	rest []byte
}

func (c *comparison) Write(b []byte) (int, error) {
	for i := range b {
		if i >= len(c.rest) || b[i] != c.rest[i] {
			return i, fmt.Errorf("byte %d of the archive differs from what every known zip writer writes for these files", c.at+i)
		}
	}
	c.at, c.rest = c.at+len(b), c.rest[len(b):]
	return len(b), nil
}

// open reads an artifact that is an archive. It adds to the report why the archive, or
// a part of it, cannot be read.
func (r *Report) open(data []byte, o Options) (a archive, ok bool) {
	a, duplicate, err := openArchive(data, !o.Compat)
	switch {
	case duplicate != "":
		r.problem("duplicate_entry", duplicate, "the archive has two entries of this name")
	case err != nil && len(a.files) == 0:
		r.unreadable("not_an_archive", "", "%v", err)
	case err != nil:
		r.problem("archive", "", "%v", err)
	default:
		if a.recompressible {
			r.note("compression: the content of the files was checked, but not their compressed bytes, which can differ for the same content")
		}
		return a, true
	}
	return a, false
}

// declared checks one file that a manifest declares.
func (r *Report) declared(a archive, name, digest string) {
	_, present := a.files[name]
	switch {
	case !present:
		r.problem("missing_file", name, "the manifest declares this file, but the archive does not contain it")
	case a.sum(name) != digest:
		r.problem("hash_mismatch", name, "the manifest declares the digest %s, the content has %s", digest, a.sum(name))
	default:
		r.Checked++
	}
}
