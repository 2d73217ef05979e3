// Package lifeloop holds the lifeloop.v0.2 wire contract: the event
// vocabulary, adapter manifests, payload and dispatch envelopes, callbacks,
// receipts, degradations, failure and retry classes, and their validation.
//
// It imports no other package of this module, does no I/O, and names no client and no
// harness. It checks the encoding, size and digest of a payload body, but never
// interprets the body. A body is an [Opaque], which is redacted when it is printed.
//
//	req := lifeloop.CallbackRequest{SchemaVersion: lifeloop.Version, Event: lifeloop.FrameOpening, ...}
//	doc, err := lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: req}.Encode()
//	// write doc to a client's stdin, read its answer from out
//	answer, err := lifeloop.ParseCallbackResponse(out) // a *ValidationError lists every problem
package lifeloop

// Version is the contract version this program writes.
const Version = "lifeloop.v0.2"

// versionV01 is the older version. A request may still have this version; its
// answer then has it too (DECISIONS L1).
const versionV01 = "lifeloop.v0.1"
