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
	revealed bool // MarshalJSON writes the body; set only on copies within an Encode
}

// NewOpaque wraps a body. The bytes are the envelope's body string as the
// client wrote it (for base64 payloads still encoded).
func NewOpaque(body string) Opaque { return Opaque{b: []byte(body)} }

// Reveal returns the body. Callers must deliver it and must not store a copy.
func (o Opaque) Reveal() string { return string(o.b) }

// Len is the length in bytes of the body string; base64 text is not decoded.
func (o Opaque) Len() int { return len(o.b) }

// String returns a text that contains only the size of the body.
func (o Opaque) String() string { return fmt.Sprintf("[opaque %d bytes]", len(o.b)) }

// Format writes String for every verb. Without Format, fmt would print the
// bytes for a verb that strings do not support, such as %d.
func (o Opaque) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// GoString is String.
func (o Opaque) GoString() string { return o.String() }

// MarshalJSON writes the redacted form. A body is written only by
// [PayloadEnvelope.Encode] and the other Encode methods.
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
