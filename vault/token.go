package vault

import (
	"fmt"
	"io"

	"lifeloop/canon"
)

// A Token is a client's continuation token or a harness's hand-over note. It is
// redacted when it is printed: fmt, encoding/json and a logger write only its size.
//
// The text is behind a pointer, because fmt cannot call the methods of a Token in an
// unexported field of another struct. fmt then prints only the pointer.
type Token struct{ text *string }

// NewToken wraps a text that a client or a harness issued.
func NewToken(text string) Token { return Token{&text} }

// Reveal returns the text. Callers must deliver it and must not store a copy.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Len returns the size in bytes.
func (t Token) Len() int { return len(t.Reveal()) }

// Digest returns the digest of the text. It identifies the token in places where
// the text must not appear.
func (t Token) Digest() canon.Digest { return canon.Sum([]byte(t.Reveal())) }

// String returns the redacted form.
func (t Token) String() string { return fmt.Sprintf("[token of %d bytes]", t.Len()) }

// GoString returns the redacted form.
func (t Token) GoString() string { return t.String() }

// Format writes the redacted form for every verb. Without it, fmt would print the
// fields for a verb such as %d.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText writes the redacted form, also into JSON.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
