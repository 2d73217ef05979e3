package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"lifeloop/evidence/sign"
)

// A Document is one file of an artifact.
type Document struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Records are the JSON documents in the file: one, or one for each line. Records is
	// empty if the file is not JSON.
	Records []json.RawMessage `json:"records,omitempty"`
}

// Inspect lists the files of an artifact, including those of nested archives. It
// checks nothing, so the files may be forged.
func Inspect(name string, data []byte) ([]Document, error) {
	var in inspection
	if !bytes.HasPrefix(data, []byte("PK")) {
		in.add(name, data)
		return in.list, in.err
	}
	a, _, err := openArchive(data, false)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, file := range slices.Sorted(maps.Keys(a.files)) {
		in.add(file, a.files[file])
		if path.Ext(file) != ".zip" {
			continue
		}
		nested, _, err := openArchive(a.files[file], false)
		for _, content := range nested.files {
			total += len(content)
		}
		if total > maxTotal {
			return nil, fmt.Errorf("the nested archives are larger than the limit of %d bytes", maxTotal)
		}
		if err != nil {
			continue // the nested archive is listed, but the files in it are not
		}
		for _, inner := range slices.Sorted(maps.Keys(nested.files)) {
			in.add(path.Join(file, inner), nested.files[inner])
		}
	}
	return in.list, in.err
}

// An inspection is the list of documents so far, with at most maxValues records.
type inspection struct {
	list    []Document
	records int
	err     error
}

func (in *inspection) add(name string, data []byte) {
	d := Document{Name: name, Bytes: len(data), SHA256: sign.Sum(data)}
	if json.Valid(data) {
		d.Records = []json.RawMessage{data}
	} else {
		lines(data, func(_ int, line []byte) bool {
			if !json.Valid(line) {
				d.Records = nil
				return false
			}
			d.Records = append(d.Records, bytes.Clone(line))
			return in.records+len(d.Records) <= maxValues
		})
	}
	if in.records += len(d.Records); in.records > maxValues {
		in.err = fmt.Errorf("the evidence file has more than %d records", maxValues)
		d.Records = nil
	}
	in.list = append(in.list, d)
}

// A Difference is a place where two artifacts differ. Left and Right are the values at
// this place in the first and the second artifact. Left or Right is empty if its artifact
// does not have the place.
type Difference struct {
	Path  string `json:"path"` // FILE, FILE#RECORD.MEMBER, or "archive" for the whole archive
	Left  string `json:"left,omitempty"`
	Right string `json:"right,omitempty"`
}

// Diff lists the places where two artifacts differ, sorted by path.
func Diff(a, b []byte) ([]Difference, error) {
	left, err := flatten(a)
	if err != nil {
		return nil, err
	}
	right, err := flatten(b)
	if err != nil {
		return nil, err
	}
	list := differences(left.values, right.values)
	if len(list) == 0 { // the files may still differ in white space, or in a member that occurs twice
		list = differences(left.digests, right.digests)
	}
	if len(list) == 0 && !bytes.Equal(a, b) { // the files are equal, but the archives are not
		list = append(list, Difference{"archive", "sha256:" + sign.Sum(a), "sha256:" + sign.Sum(b)})
	}
	return list, nil
}

func differences(left, right map[string]string) []Difference {
	all := maps.Clone(left)
	maps.Copy(all, right)
	list := []Difference{}
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if left[at] != right[at] {
			list = append(list, Difference{at, left[at], right[at]})
		}
	}
	return list
}

// flatten returns each leaf of each document of an artifact, by its path. For a
// file that is not JSON the value is its digest.
func flatten(data []byte) (*leaves, error) {
	docs, err := Inspect("document", data)
	if err != nil {
		return nil, err
	}
	leaves := &leaves{values: map[string]string{}, digests: map[string]string{}}
	for _, d := range docs {
		leaves.digests[d.Name] = "sha256:" + d.SHA256
		if len(d.Records) == 0 {
			leaves.add(d.Name, "sha256:"+d.SHA256)
		}
		for i, record := range d.Records {
			if err := checkValues(record, maxValues); err != nil { // the path of each value needs memory too
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			var v any
			dec := json.NewDecoder(bytes.NewReader(record))
			dec.UseNumber() // a float64 cannot hold every number
			if err := dec.Decode(&v); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			leaves.walk(fmt.Sprintf("%s#%04d", d.Name, i+1), v)
			if leaves.bytes > maxTotal {
				return nil, fmt.Errorf("%s: the values to compare, together with their paths, are too large", d.Name)
			}
		}
	}
	return leaves, nil
}

// leaves are the values of documents, by their paths. The paths of deeply nested
// values are long, so the total size of paths and values is limited.
type leaves struct {
	values  map[string]string
	digests map[string]string // of the documents
	bytes   int
}

func (l *leaves) add(at, value string) {
	l.values[at] = value
	l.bytes += len(at) + len(value)
}

func (l *leaves) walk(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			l.add(at, "{}")
		}
		for name, below := range v {
			if l.bytes > maxTotal {
				return
			}
			l.walk(at+"."+pathName(name), below)
		}
	case []any:
		if len(v) == 0 {
			l.add(at, "[]")
		}
		for i, below := range v {
			if l.bytes > maxTotal {
				return
			}
			l.walk(fmt.Sprintf("%s[%d]", at, i), below)
		}
	default:
		text, _ := json.Marshal(v) // cannot fail, because the value was decoded from JSON
		l.add(at, strings.TrimSpace(string(text)))
	}
}

// pathName returns the name of a member as it appears in a path. pathName quotes a name
// that is empty or has a character with a meaning in paths.
func pathName(name string) string {
	if name == "" || strings.ContainsAny(name, `.[]"#`) {
		return strconv.Quote(name)
	}
	return name
}
