package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const digestPrefix = "sha256:"

// DigestLen is the length of every valid Digest in bytes.
const DigestLen = len(digestPrefix) + 2*sha256.Size

// A Digest is the SHA-256 of some bytes: "sha256:" and 64 lower-case hexadecimal
// digits. This form is used on the wire and on disk.
type Digest string

// Sum returns the digest of b.
func Sum(b []byte) Digest {
	sum := sha256.Sum256(b)
	var text [DigestLen]byte
	copy(text[:], digestPrefix)
	hex.Encode(text[len(digestPrefix):], sum[:])
	return Digest(text[:])
}

// Valid reports whether d has the form of a digest. Upper-case digits are invalid:
// digests are compared as strings.
func (d Digest) Valid() bool {
	digits, ok := strings.CutPrefix(string(d), digestPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}
