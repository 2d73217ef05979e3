package telemetry

// Requests decodes the events of one launch whose harness also asks before each
// request to its model, and waits for the answer. The question does not show which
// session or turn it is about. The events show that, but come on another way and
// may be read before or after the question.
//
// Events that a question must precede are held back until it comes.
type Requests interface {
	Decoder
	// Request is called when the harness asks. It reports false if the events that
	// precede the question were not read yet. Then it is called again after the
	// next record, or with late set if none came in time.
	Request(late bool) (Request, bool)
	// End returns the signals that are still held back, when no record follows.
	End() []Signal
}

// A Request is what a question of the harness means.
type Request struct {
	// Calls are the hook calls that it amounts to, in order. The answer has all
	// their payloads. Without calls the answer is empty.
	Calls []HookCall
	// Then are the signals that were held back and follow the calls.
	Then []Signal
}
