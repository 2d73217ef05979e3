package evidence

import (
	"encoding/json"
	"slices"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
)

// signedDigest returns the digest that the signatures of a manifest sign. It covers
// all members as written, unknown ones too, except signatures.
func signedDigest(doc []byte) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return "", err
	}
	delete(members, "signatures")
	text, err := canon.Marshal(members)
	return sign.Sum(text), err
}

// signatures verifies the signatures of a document. One valid signature is enough,
// so that several parties can sign. If a key is given, a strict verification also
// refuses a document without signatures, or with an invalid signature that has this
// key's id, because signatures could have been removed or replaced.
func (r *Report) signatures(list []sign.Signature, doc []byte, o Options) {
	r.SignaturesTotal = len(list)
	if len(list) > 0 {
		r.SignatureStatus = SignatureSkipped
	}
	switch {
	case o.PublicKey == nil && o.RequireSignature:
		r.unreadable("no_key", "", "a signature is required, but no public key was given")
		return
	case len(list) == 0 && (o.RequireSignature || o.PublicKey != nil && !o.Compat):
		r.problem("signature_missing", "", "there is no signature")
		return
	case len(list) == 0, o.PublicKey == nil:
		return
	}
	digest, err := signedDigest(doc)
	if err != nil {
		r.SignatureStatus = SignatureFailed
		r.problem("signature", "", "%v", err)
		return
	}
	for _, s := range list {
		failed := s.Verify(o.PublicKey, digest)
		switch {
		case failed == nil:
			r.SignaturesValid++
		case !o.Compat && s.KeyID == sign.KeyID(o.PublicKey):
			r.problem("signature", "", "%v", failed)
		}
	}
	if r.SignaturesValid == 0 && !hasProblem(r.Problems, "signature") {
		r.problem("signature", "", "no signature is valid; the error of the first signature: %v", list[0].Verify(o.PublicKey, digest))
	}
	r.SignatureStatus = SignatureVerified
	if r.SignaturesValid == 0 || hasProblem(r.Problems, "signature") {
		r.SignatureStatus = SignatureFailed
	}
}

func hasProblem(list []Problem, code string) bool {
	return slices.ContainsFunc(list, func(p Problem) bool { return p.Code == code })
}
