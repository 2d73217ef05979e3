// Package lifeloop holds the lifeloop.v0.2 wire contract: the event
// vocabulary, adapter manifests, payload and dispatch envelopes, callbacks,
// receipts, degradations, failure and retry classes, and their validation.
//
// It is the mother tongue of the program. It imports nothing of ours, does no
// I/O, knows no client and no harness by name, and never looks into a payload
// body: a body travels as [Opaque], which will not print itself.
//
//	req := lifeloop.CallbackRequest{SchemaVersion: lifeloop.Version, Event: lifeloop.FrameOpening, ...}
//	doc, err := lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: req}.Encode()
//	// write doc to a client's stdin, read its answer
//	answer, err := lifeloop.ParseCallbackResponse(out) // a *ValidationError lists what is wrong
package lifeloop

// Version is the contract version this program writes.
const Version = "lifeloop.v0.2"

// VersionV01 is the older version that requests may still carry; they are
// answered in it (DECISIONS L1).
const VersionV01 = "lifeloop.v0.1"
