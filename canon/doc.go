// Package canon gives every JSON value exactly one spelling and every byte
// string a short name: RFC 8785 canonical JSON and SHA-256 digests.
//
// Two programs that hold the same value write the same bytes and so compute
// the same digest; that is what the ledger, the receipts and the evidence
// packs are linked with. The package knows no schema, reads no file and keeps
// no key. It refuses what has no canonical form (repeated member names, lone
// surrogates, broken UTF-8, numbers outside a double) instead of mending it.
//
// The transformer is our own, and gowebpki/jcs its oracle in the tests and
// nothing more: a package's init runs in every command, and that one's takes
// most of what the start of a hook, which a harness waits for, may cost.
//
//	doc, err := canon.Marshal(map[string]any{"seq": 1, "at": "2026-01-02T03:04:05Z"})
//	// doc is {"at":"2026-01-02T03:04:05Z","seq":1}
//	name := canon.Sum(doc) // sha256:… of these bytes
//	ok := name.Valid()
//	same, err := canon.Transform([]byte(`{ "seq": 1.0, "at": "2026-01-02T03:04:05Z" }`))
package canon
