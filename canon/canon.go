package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Marshal encodes v as encoding/json does, without HTML escaping, and returns the
// canonical form of the result. Like encoding/json, it replaces bytes of a string that
// are not UTF-8 with U+FFFD.
//
// In RFC 8785 numbers are doubles, so an integer above 2^53 may lose its last
// digits. Larger integers, for example nanoseconds, must be strings.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("canonical json of %T: %w", v, err)
	}
	doc := buf.Bytes()[:buf.Len()-1] // the encoder writes a newline after the value
	if isPlainCanonical(doc) {
		return doc, nil
	}
	return appendChanged(make([]byte, 0, len(doc)), doc)
}

// Transform returns the canonical form of a JSON text. The result shares no memory
// with src.
func Transform(src []byte) ([]byte, error) {
	return Append(make([]byte, 0, len(src)), src)
}

// Append appends the canonical form of the JSON text src to dst and returns the
// extended slice. On an error it returns dst unchanged.
func Append(dst, src []byte) ([]byte, error) {
	if isPlainCanonical(src) {
		return append(dst, src...), nil
	}
	return appendChanged(dst, src)
}

// appendChanged is Append for a text that isPlainCanonical does not accept.
func appendChanged(dst, src []byte) ([]byte, error) {
	if out, ok := appendPlain(dst, src); ok {
		return out, nil
	}
	return appendGeneral(dst, src)
}

// Is reports whether b is the canonical form of a JSON text.
func Is(b []byte) bool {
	if isPlainCanonical(b) {
		return true
	}
	out, err := Append(nil, b)
	return err == nil && bytes.Equal(out, b)
}
