package sign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testKey(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{fill}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// A public key of the recordings, and its id as the reference computed it.
func TestKeyIDOfTheReference(t *testing.T) {
	key, err := ParsePublic([]byte(" SmarYNXO+KHsB0AEP36temd6hfcUhjs5rqZdZBmeCSM= \n"))
	require.NoError(t, err)
	require.Equal(t, "815c2110d745ac2a7480419d7ee6980da3df9ef294aa0e4e12d83df048d7cdb6", KeyID(key))
}

// The digest of empty arguments, as the reference computed it.
func TestDigest(t *testing.T) {
	d, err := Digest(map[string]any{})
	require.NoError(t, err)
	require.Equal(t, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", d)
	_, err = Digest(func() {})
	require.Error(t, err)
}

func TestSignAndVerify(t *testing.T) {
	a, b := testKey(1), testKey(2)
	digest := Sum([]byte("document"))
	s, err := Sign(a, digest)
	require.NoError(t, err)
	again, err := Sign(a, digest)
	require.NoError(t, err)
	require.Equal(t, s, again)
	require.NoError(t, s.Verify(public(a), digest))
	other := Sum([]byte("other"))
	for _, c := range []struct {
		name, want string
		key        ed25519.PublicKey
		digest     string
		change     func(*Signature)
	}{
		{"another key", "key_id", public(b), digest, func(*Signature) {}},
		{"another key, without its id", "does not match", public(b), digest, func(s *Signature) { s.KeyID = "" }},
		{"another document", "signed_digest", public(a), other, func(*Signature) {}},
		{"another document, its digest replaced", "does not match", public(a), other, func(s *Signature) { s.SignedDigest = other }},
		{"no digest", "signed_digest is missing", public(a), digest, func(s *Signature) { s.SignedDigest = "" }},
		{"another algorithm", "alg", public(a), digest, func(s *Signature) { s.Alg = "Ed25519" }},
		{"an invalid digest", "signed_digest", public(a), "zz", func(s *Signature) { s.SignedDigest = "zz" }},
		{"a short signature", "64 bytes", public(a), digest, func(s *Signature) { s.Sig = "AAAA" }},
		{"a line end in it", "64 bytes", public(a), digest, func(s *Signature) { s.Sig = s.Sig[:8] + "\n" + s.Sig[8:] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := s
			c.change(&changed)
			require.ErrorContains(t, changed.Verify(c.key, c.digest), c.want)
		})
	}
	require.NoError(t, Signature{Alg: s.Alg, Sig: s.Sig, SignedDigest: s.SignedDigest}.Verify(public(a), digest), "an absent key_id is allowed")
	_, err = Sign(a, "sha256:"+digest)
	require.ErrorContains(t, err, "not a digest")
}

// A signature is refused if any one of its characters is replaced by another one.
func TestEveryCharacterOfASignatureCounts(t *testing.T) {
	a := testKey(1)
	digest := Sum(nil)
	s, err := Sign(a, digest)
	require.NoError(t, err)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	for i := range s.Sig {
		for _, c := range alphabet {
			changed := s
			changed.Sig = s.Sig[:i] + string(c) + s.Sig[i+1:]
			if changed.Sig != s.Sig && changed.Verify(public(a), digest) == nil {
				t.Fatalf("character %d may be %q", i, c)
			}
		}
	}
}

func TestKeyFiles(t *testing.T) {
	k := testKey(7)
	got, err := ParsePrivate(append([]byte("\n  "), EncodeKey(k)...))
	require.NoError(t, err)
	require.Equal(t, k, got)
	p, err := ParsePublic(EncodeKey(public(k)))
	require.NoError(t, err)
	require.Equal(t, public(k), p)
	torn := bytes.Clone(k)
	torn[40] ^= 1
	for _, c := range []struct {
		name, text, private, public string
	}{
		{"empty", "", "64 bytes", "32 bytes"},
		{"words", "not a key", "base64", "base64"},
		{"two lines", string(EncodeKey(k[:32])) + string(EncodeKey(k[32:])), "base64", "base64"},
		{"bits beyond the last byte", strings.Replace(base64.StdEncoding.EncodeToString(make([]byte, 32)), "A=", "B=", 1), "base64", "base64"},
		{"the halves do not match", string(EncodeKey(torn)), "second half", "may be the private key"},
		{"the public key", string(EncodeKey(public(k))), "may be the public key", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParsePrivate([]byte(c.text))
			require.ErrorContains(t, err, c.private)
			if _, err = ParsePublic([]byte(c.text)); c.public == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.public)
			}
		})
	}
}

func TestLawASignatureVerifiesForItsDocumentOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := testKey(rapid.Byte().Draw(t, "key"))
		doc := rapid.SliceOf(rapid.Byte()).Draw(t, "document")
		other := rapid.SliceOf(rapid.Byte()).Draw(t, "other")
		s, err := Sign(k, Sum(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(public(k), Sum(doc)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(doc, other) && s.Verify(public(k), Sum(other)) == nil {
			t.Fatalf("%q verifies with the signature of %q", other, doc)
		}
	})
}
