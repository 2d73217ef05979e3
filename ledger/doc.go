// Package ledger is an append-only, hash-linked, crash-tolerant log of entries. It
// does not interpret them: a kind is a word and a body is a JSON object.
//
// # Format
//
// A ledger is a folder with the segments ledger-000001.jsonl,
// ledger-000002.jsonl and so on, and a file named "lock". Only the owner may read the
// files (0600). A segment is JSON Lines. Each line is one entry in canonical JSON (RFC
// 8785) and ends with one LF. (Here one entry is split into several lines.)
//
//	{"at":"2026-01-02T03:04:05.000000006Z",   always UTC, always nine digits
//	 "body":{"to":"RUNNING"},                 a JSON object, canonical
//	 "digest":"sha256:5c0f…",                 SHA-256 of this line without this member and without LF
//	 "kind":"session_moved",                  1 to 64 characters out of A-Z a-z 0-9 . _ -
//	 "prev":"sha256:9d1b…",                   the digest of the entry before
//	 "seq":2}                                 1, 2, 3, … over all segments
//
// The first entry's prev is [Genesis]. The first entry of a later segment links to
// the last entry of the previous segment. So each digest covers all entries before
// it. With a copy of the last digest, a user can prove that no entry was changed,
// moved, added or removed. Without such a copy, two changes are not detected: the
// removal of whole lines at the very end, and a change whose author computed all later
// digests again. Any other change is detected.
//
// With ordinary tools, the digest of line 7:
//
//	line=$(sed -n 7p ledger-000001.jsonl)
//	printf %s "$line" | sed -E 's/"digest":"[^"]*",("kind":"[^"]*","prev":"[^"]*","seq":[0-9]+})$/\1/' | sha256sum
//	printf %s "$line" | jq -r .digest    # the same 64 digits
//	sed -n 8p ledger-000001.jsonl | jq -r .prev    # and again
//
// # Writing
//
// One goroutine owns a [Log]; one process owns a folder (flock). An Append is one
// write for any number of records, and at most one fdatasync. An Append that begins a
// segment has up to two, and also syncs the folder. The first Append to a new ledger
// waits until the names of the ledger's folder and file are durable.
// After a failed write or sync the content of the disk is unknown: the log stays broken
// ([ErrBroken]), and only a new Open can continue it.
//
//	log, err := ledger.Create(dir, ledger.Options{})
//	defer log.Close()
//	entries, err := log.Append([]ledger.Record{{Kind: "session_moved", At: now, Body: body}}, true)
//	for entry, err := range ledger.Read(dir) { … }
//	report, err := ledger.Verify(dir)
//
// # After a crash
//
// After a crash, the disk holds a prefix of what was written. [Open] cuts off an
// unfinished last line, reports that, and continues after the last whole line. Any
// other damage (a changed byte, a missing, repeated or moved line, a missing
// segment) is a *[CorruptError] that names the place. The ledger never repairs
// damage and never writes after it.
//
// The package does not prune, compact, index or encrypt a ledger.
package ledger
