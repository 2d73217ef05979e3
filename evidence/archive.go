package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"lifeloop/evidence/sign"
)

// Limits of an archive, so that a small file cannot fill the memory.
const (
	maxEntries = 4096
	maxEntry   = 100 << 20 // the largest size of an entry in bytes, as in the reference
	maxTotal   = 256 << 20 // the largest size of all entries together

	// The largest size and number of values of a JSON document. Decoding a few bytes
	// of JSON can need hundreds of bytes of memory, and a small archive can contain
	// much JSON.
	maxDocument = 64 << 20
	maxValues   = 1 << 20
)

// An archive is a zip file in memory.
type archive struct {
	names []string // in archive order
	files map[string][]byte
	sums  map[string]string // digests of files, once computed
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
	values := 0
	for _, mark := range []string{",", "[", "{"} { // marks within strings are counted too
		values += bytes.Count(doc, []byte(mark))
	}
	if values > maxValues {
		return fmt.Errorf("the document has more values than the limit of %d", maxValues)
	}
	return nil
}

// openArchive reads all entries of a zip file. duplicate is the name of an entry
// that occurs twice, if any; the content under that name is undefined.
func openArchive(data []byte, strict bool) (a archive, duplicate string, err error) {
	// The reader allocates memory for each record of the directory. Content that is
	// not compressed may contain records too (a runpack in a pack), but JSON does not.
	if n := bytes.Count(data, []byte(directoryMark)); n > 4*maxEntries {
		return a, "", fmt.Errorf("the archive has %d directory records; at most %d entries are read", n, maxEntries)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return a, "", fmt.Errorf("not a zip archive: %w", err)
	}
	if len(z.File) > maxEntries {
		return a, "", fmt.Errorf("the archive has %d entries; at most %d are read", len(z.File), maxEntries)
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
		err = checkLayout(data, z)
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

// Marks at the begin of an archive's records.
const (
	localMark      = "PK\x03\x04"
	descriptorMark = "PK\x07\x08"
	directoryMark  = "PK\x01\x02"
	endMark        = "PK\x05\x06"
)

// checkLayout refuses an archive that other programs could read differently: paths
// outside the folder, and bytes that belong to no entry, or to two. The archive
// must begin with the entries, without gaps, followed by the directory and an end
// record without a comment.
func checkLayout(data []byte, z *zip.Reader) error {
	at := int64(0)
	for _, f := range z.File {
		if name := f.Name; strings.HasPrefix(name, "/") || strings.Contains(name, `\`) || path.Clean(name) != strings.TrimSuffix(name, "/") ||
			name == ".." || strings.HasPrefix(name, "../") || !utf8.ValidString(name) {
			return fmt.Errorf("entry %q: the name is not a plain relative path", name)
		}
		if f.Method != zip.Store && f.Method != zip.Deflate || f.Flags&1 != 0 {
			return fmt.Errorf("entry %q: the content is neither stored nor deflated", f.Name)
		}
		begin, err := f.DataOffset()
		if err != nil || at+30 > int64(len(data)) || string(data[at:at+4]) != localMark {
			return fmt.Errorf("entry %q does not directly follow the previous entry", f.Name)
		}
		header := data[at:]
		name, extra := int64(binary.LittleEndian.Uint16(header[26:])), int64(binary.LittleEndian.Uint16(header[28:]))
		if at+30+name+extra != begin || string(header[30:30+name]) != f.Name {
			return fmt.Errorf("entry %q: its header and the archive's directory disagree about name or position", f.Name)
		}
		if f.CompressedSize64 > uint64(len(data)) {
			return fmt.Errorf("entry %q is longer than the archive", f.Name)
		}
		at = begin + int64(f.CompressedSize64)
		if f.Flags&8 != 0 {
			if at+16 > int64(len(data)) || string(data[at:at+4]) != descriptorMark {
				return fmt.Errorf("entry %q: the size record after the content is missing", f.Name)
			}
			at += 16
		}
	}
	tail := int64(len(data)) - 22
	if tail < at || string(data[tail:tail+4]) != endMark || int64(binary.LittleEndian.Uint32(data[tail+16:])) != at ||
		int64(binary.LittleEndian.Uint32(data[tail+12:])) != tail-at || len(z.File) > 0 && string(data[at:at+4]) != directoryMark {
		return errors.New("the archive has bytes that belong to no entry")
	}
	return nil
}

// open reads the archive of an artifact into a.
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
