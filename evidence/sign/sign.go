// Package sign makes and checks the signatures of evidence: Ed25519 over the 32
// bytes of a SHA-256 digest. Keys and signatures have the form that the public reference
// implementation of the Gait formats uses (github.com/Clyra-AI/gait at 1c480c5).
//
// A digest here is 64 lower-case hexadecimal digits without a prefix. The signed bytes
// are the 32 bytes that the digits encode, not the digits and not the document. A key
// file has one line of standard base64: 32 bytes of a public key, or 64 bytes of a
// private one (the seed and the public key).
//
// The package reads no file, creates no key and knows no document format. It
// accepts only one base64 form of a signature and of a key, and one form of a
// digest, so that a changed character in them is detected.
//
//	digest, err := sign.Digest(document)
//	s, err := sign.Sign(private, digest)
//	err = s.Verify(public, digest)
package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"lifeloop/canon"
)

// Algorithm is the only algorithm of a [Signature].
const Algorithm = "ed25519"

// A Signature is the member of a document that signs its digest.
type Signature struct {
	Alg          string `json:"alg"`
	KeyID        string `json:"key_id"`
	Sig          string `json:"sig"` // 64 bytes in standard base64
	SignedDigest string `json:"signed_digest,omitempty"`
}

// Sum returns the digest of b.
func Sum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Digest encodes v as encoding/json does, and returns the digest of the canonical
// form of the result (see canon.Marshal).
func Digest(v any) (string, error) {
	doc, err := canon.Marshal(v)
	if err != nil {
		return "", err
	}
	return Sum(doc), nil
}

// IsDigest reports whether s has the form of a digest.
func IsDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// KeyID returns the id of a public key: the digest of its 32 bytes.
func KeyID(public ed25519.PublicKey) string { return Sum(public) }

// Sign signs a digest.
func Sign(private ed25519.PrivateKey, digest string) (Signature, error) {
	if !IsDigest(digest) {
		return Signature{}, fmt.Errorf("cannot sign %q: it is not a digest", digest)
	}
	raw, _ := hex.DecodeString(digest) // cannot fail, because the form was checked
	return Signature{
		Alg:          Algorithm,
		KeyID:        KeyID(private.Public().(ed25519.PublicKey)),
		Sig:          base64.StdEncoding.EncodeToString(ed25519.Sign(private, raw)),
		SignedDigest: digest,
	}, nil
}

// Verify checks s with a public key against the digest that was computed from
// the document. An error says which member is wrong.
func (s Signature) Verify(public ed25519.PublicKey, digest string) error {
	switch {
	case s.Alg != Algorithm:
		return fmt.Errorf("signature: alg is %q, not %q", s.Alg, Algorithm)
	case s.KeyID != "" && s.KeyID != KeyID(public):
		return errors.New("signature: key_id belongs to another key")
	case s.SignedDigest == "":
		return errors.New("signature: signed_digest is missing")
	case s.SignedDigest != digest || !IsDigest(digest):
		return errors.New("signature: signed_digest is not the digest of the document")
	}
	return VerifyBytes(public, digestBytes(digest), s.Sig)
}

// VerifyBytes checks a signature in standard base64 over a message.
func VerifyBytes(public ed25519.PublicKey, message []byte, sig string) error {
	raw, err := base64.StdEncoding.DecodeString(sig)
	switch {
	case err != nil || base64.StdEncoding.EncodeToString(raw) != sig || len(raw) != ed25519.SignatureSize:
		return errors.New("signature: sig is not 64 bytes in base64")
	case !ed25519.Verify(public, message, raw):
		return errors.New("signature: does not match the key and the document")
	}
	return nil
}

func digestBytes(digest string) []byte {
	raw, _ := hex.DecodeString(digest) // cannot fail, because the caller has checked the form
	return raw
}

// ParsePublic reads a public key file.
func ParsePublic(text []byte) (ed25519.PublicKey, error) {
	raw, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("a public key has %d bytes, but this one has %d%s", ed25519.PublicKeySize, len(raw), swapped(raw))
	}
	return raw, nil
}

// ParsePrivate reads a private key file.
func ParsePrivate(text []byte) (ed25519.PrivateKey, error) {
	raw, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if len(raw) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("a private key has %d bytes, but this one has %d%s", ed25519.PrivateKeySize, len(raw), swapped(raw))
	}
	if !bytes.Equal(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), raw) {
		return nil, errors.New("the second half of the private key is not its public key")
	}
	return raw, nil
}

// swapped returns a hint if a key with a wrong length may be a public key in the place of
// a private one, or the reverse.
func swapped(raw []byte) string {
	switch len(raw) {
	case ed25519.PublicKeySize:
		return " (it may be the public key)"
	case ed25519.PrivateKeySize:
		return " (it may be the private key)"
	}
	return ""
}

func decodeKey(text []byte) ([]byte, error) {
	line := string(bytes.TrimSpace(text))
	raw, err := base64.StdEncoding.DecodeString(line)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != line {
		return nil, errors.New("the key must be one line of base64")
	}
	return raw, nil
}

// EncodeKey returns the content of a key file.
func EncodeKey(key []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(nil, key), '\n')
}
