package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"lifeloop/evidence/sign"
)

// A Document is one file of an artifact.
type Document struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Records are its JSON documents: one, or one for each line; none if it is not
	// JSON.
	Records []json.RawMessage `json:"records,omitempty"`
}

// Inspect lists the files of an artifact, those of a nested archive too. It checks
// nothing: what it lists may be forged.
func Inspect(name string, data []byte) ([]Document, error) {
	if !bytes.HasPrefix(data, []byte("PK")) {
		return []Document{document(name, data)}, nil
	}
	a, _, err := openArchive(data, false)
	if err != nil {
		return nil, err
	}
	var list []Document
	for _, file := range slices.Sorted(maps.Keys(a.files)) {
		list = append(list, document(file, a.files[file]))
		if path.Ext(file) != ".zip" {
			continue
		}
		nested, _, err := openArchive(a.files[file], false)
		if err != nil {
			continue // it is listed as a plain file
		}
		for _, inner := range slices.Sorted(maps.Keys(nested.files)) {
			list = append(list, document(path.Join(file, inner), nested.files[inner]))
		}
	}
	return list, nil
}

func document(name string, data []byte) Document {
	d := Document{Name: name, Bytes: len(data), SHA256: sign.Sum(data)}
	if json.Valid(data) {
		d.Records = []json.RawMessage{data}
		return d
	}
	lines(data, func(_ int, line []byte) bool {
		if !json.Valid(line) {
			d.Records = nil
			return false
		}
		d.Records = append(d.Records, bytes.Clone(line))
		return true
	})
	return d
}

// A Difference is a place where two artifacts differ. A side that lacks this place
// is empty.
type Difference struct {
	Path  string `json:"path"` // FILE, or FILE#RECORD.MEMBER
	Left  string `json:"left,omitempty"`
	Right string `json:"right,omitempty"`
}

// Diff lists where two artifacts differ, in the order of their files and members.
func Diff(a, b []byte) ([]Difference, error) {
	left, err := flatten(a)
	if err != nil {
		return nil, err
	}
	right, err := flatten(b)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(left)
	maps.Copy(all, right)
	list := []Difference{}
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if left[at] != right[at] {
			list = append(list, Difference{at, left[at], right[at]})
		}
	}
	return list, nil
}

// flatten returns each leaf of each document of an artifact, by its path. For a
// file that is not JSON the value is its digest.
func flatten(data []byte) (map[string]string, error) {
	docs, err := Inspect("document", data)
	if err != nil {
		return nil, err
	}
	leaves := map[string]string{}
	for _, d := range docs {
		if len(d.Records) == 0 {
			leaves[d.Name] = "sha256:" + d.SHA256
		}
		for i, record := range d.Records {
			var v any
			if err := json.Unmarshal(record, &v); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			addLeaves(leaves, fmt.Sprintf("%s#%04d", d.Name, i+1), v)
		}
	}
	return leaves, nil
}

func addLeaves(leaves map[string]string, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			addLeaves(leaves, at+"."+name, below)
		}
	case []any:
		for i, below := range v {
			addLeaves(leaves, fmt.Sprintf("%s[%d]", at, i), below)
		}
	default:
		text, _ := json.Marshal(v) // it was decoded from JSON
		leaves[at] = strings.TrimSpace(string(text))
	}
}
