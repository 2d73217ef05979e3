// Package canon writes RFC 8785 canonical JSON and computes SHA-256 digests.
//
// Two programs with the same value write the same bytes, and so compute the same
// digest. The ledger, the receipts and the exported evidence contain such digests. The
// package knows no schema, reads no file and holds no cryptographic key. It rejects JSON
// that has no canonical form (repeated member names, lone surrogates, invalid UTF-8,
// numbers outside the range of a double) and never repairs it.
//
// The package does not use gowebpki/jcs, because every ledger entry is transformed
// here: a receipt takes 4 to 8 µs, and 120 µs with gowebpki/jcs. The tests use
// gowebpki/jcs as the reference.
//
//	doc, err := canon.Marshal(map[string]any{"seq": 1, "at": "2026-01-02T03:04:05Z"})
//	// doc is {"at":"2026-01-02T03:04:05Z","seq":1}
//	name := canon.Sum(doc) // sha256:… of these bytes
//	ok := name.Valid()
//	same, err := canon.Transform([]byte(`{ "seq": 1.0, "at": "2026-01-02T03:04:05Z" }`))
package canon
