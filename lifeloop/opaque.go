package lifeloop

import (
	"encoding/json"
	"fmt"
	"io"
)

// Opaque is a payload body. It is never parsed, and is redacted when it is printed.
// Only [Opaque.Reveal] returns the bytes, so every use can be found.
type Opaque struct {
	b        []byte
	revealed bool // marshals as the body; set only on copies within an Encode
}

// NewOpaque wraps a body. The bytes are the envelope's body string as the
// client wrote it (for base64 payloads still encoded).
func NewOpaque(body string) Opaque { return Opaque{b: []byte(body)} }

// Reveal returns the body. Callers deliver it and store no copy.
func (o Opaque) Reveal() string { return string(o.b) }

// Len is the body's length in bytes, as carried.
func (o Opaque) Len() int { return len(o.b) }

// String says only how large the body is.
func (o Opaque) String() string { return fmt.Sprintf("[opaque %d bytes]", len(o.b)) }

// Format writes String for every verb: with a verb that strings do not have,
// such as %d, fmt would print the bytes.
func (o Opaque) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// GoString is String.
func (o Opaque) GoString() string { return o.String() }

// MarshalJSON writes the redacted form; [PayloadEnvelope.Encode] and
// [DispatchEnvelope.Encode] are the ways a body leaves the program.
func (o Opaque) MarshalJSON() ([]byte, error) {
	if o.revealed {
		return marshal(string(o.b))
	}
	return marshal(o.String())
}

// UnmarshalJSON reads a JSON string verbatim.
func (o *Opaque) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	o.b = []byte(s)
	return nil
}
