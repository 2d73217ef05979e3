package telemetry

// Requests decodes the events of one launch of a harness that also asks the
// wrapper before each request to its model, and waits for the answer. The question
// does not name its session or turn. The events do, but they arrive through
// another source and may be read before or after the question.
//
// Events that must be reported after a question are held back until the
// question arrives.
type Requests interface {
	Decoder
	// Request is called when the harness asks. It returns false if the events
	// before the question were not read yet. It is then called again after the
	// next record, or with late set if no record arrived in time.
	Request(late bool) (Request, bool)
	// End returns the signals that are still held back. It is called after the
	// last record.
	End() []Signal
}

// A Request is a decoded question of the harness.
type Request struct {
	// Calls are the hook calls to which the question is equivalent, in order. The
	// answer contains the payloads of all of them; without calls it is empty.
	Calls []HookCall
	// Then are the signals that were held back, to be reported after the calls.
	Then []Signal
}
