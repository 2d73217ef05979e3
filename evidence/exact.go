package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"lifeloop/canon"
)

// decodeExact decodes a JSON object into the struct *into, and returns the names of
// unknown members. decodeExact refuses what another program could read differently:
// duplicate members, names in another case, times or numbers in a non-canonical form,
// and empty optional members.
func decodeExact(doc []byte, into any) (unknown []string, err error) {
	if err := checkSize(doc); err != nil {
		return nil, err
	}
	text, err := canon.Transform(doc)
	if err != nil {
		return nil, err
	}
	// Decode doc and not text, in which 1.0 has become 1: this program must refuse 1.0 as
	// an integer, as the reference implementation of Gait does.
	if err := json.Unmarshal(doc, into); err != nil {
		return nil, err
	}
	again, err := canon.Marshal(into)
	if err != nil {
		return nil, err
	}
	var written, read map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &written), json.Unmarshal(again, &read)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if v, present := written[name]; !present {
			return nil, fmt.Errorf("%s is missing", name)
		} else if !bytes.Equal(v, read[name]) {
			return nil, fmt.Errorf("%s is not in canonical form, or a member in it is missing or unknown", name)
		}
	}
	known := jsonNames(into)
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if _, ok := read[name]; ok {
			continue
		}
		for _, k := range known {
			switch {
			case k == name:
				return nil, fmt.Errorf("%s is empty; an empty member must be left out", name)
			case strings.EqualFold(k, name):
				return nil, fmt.Errorf("%s: the member must be spelled %s", name, k)
			}
		}
		unknown = append(unknown, name)
	}
	return unknown, nil
}

func jsonNames(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v).Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// decode decodes a document: strictly or, with o.Compat, as leniently as the reference
// implementation of Gait. Without o.Compat it also returns the names of unknown members.
func decode(doc []byte, into any, o Options) (unknown []string, err error) {
	if !o.Compat {
		return decodeExact(doc, into)
	}
	return nil, decodeAsReference(doc, into, false)
}

// decodeClosed decodes a document, and refuses unknown members.
func decodeClosed(doc []byte, into any, o Options) error {
	if o.Compat {
		return decodeAsReference(doc, into, true)
	}
	unknown, err := decodeExact(doc, into)
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown member %s", unknown[0])
	}
	return err
}

func decodeAsReference(doc []byte, into any, closed bool) error {
	if err := checkSize(doc); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	if closed {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return err
	}
	if rest, err := dec.Token(); err == nil {
		return fmt.Errorf("more text after the document: %v", rest)
	}
	return nil
}

// lines yields the lines of a JSON Lines file, without their line ends, and their numbers
// from 1. It skips blank lines, but counts them.
func lines(doc []byte, yield func(n int, line []byte) bool) {
	n := 0
	for line := range bytes.Lines(doc) {
		n++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) > 0 && !yield(n, line) {
			return
		}
	}
}
