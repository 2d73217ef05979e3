package telemetry

// Requests decodes the events of one launch of a harness. The harness may ask the wrapper
// a question before each request to its model, and wait for the answer. The
// question does not name its session or turn. The events name both, but they arrive
// through another source and may be read before or after the question.
//
// Events that must be reported after a question are held back until the
// question arrives.
type Requests interface {
	Holder
	// Request is called when the harness asks. It returns false if the events
	// before the question were not read yet. The caller then calls Request again
	// after the next record, or with late set if no record arrived in time.
	Request(late bool) (Request, bool)
}

// A Resetter is a Requests whose plugin can make the harness begin a fresh session,
// and put text into it.
type Resetter interface {
	Requests
	// Ask encodes a request to the plugin as one line, without the newline.
	Ask(PluginRequest) []byte
	// Reply decodes a record. It returns false if the record is not the reply to a
	// request.
	Reply(record []byte) (PluginReply, bool)
}

// A PluginRequest is a request to a plugin. Its reply has the same ID.
type PluginRequest struct {
	Op      PluginOp
	ID      string
	Session string // for Place
	Text    string // for Place; it may contain a payload's body and must not be printed
}

// A PluginOp is the action that a PluginRequest asks the plugin for.
type PluginOp string

const (
	Fresh PluginOp = "fresh" // begin a fresh session and show it
	Place PluginOp = "place" // put text before the first prompt of a session
	Stop  PluginOp = "stop"  // give up the request of this ID; has no reply
)

// A PluginReply is the reply to a request. The request was carried out unless Busy or
// Failure is set.
type PluginReply struct {
	Op      PluginOp
	ID      string
	Busy    bool // nothing was done, for example because a turn runs or a question to the user is open
	Failure string
	// Before and Call are set for Fresh only. Before has the signals to report first.
	// Call reports the start of the fresh session. The text that answers Call is put into
	// that session by Place. Call is empty if the plugin has reported this start itself,
	// before the reply.
	Before []Signal
	Call   HookCall
}

// A Request is a decoded question of the harness.
type Request struct {
	// Calls are hook calls. The wrapper treats the question as if the harness had made
	// these calls, in this order. The answer contains the payloads for all calls; the
	// answer is empty if there are no calls.
	Calls []HookCall
	// Then are the signals that were held back, to be reported after the calls.
	Then []Signal
}
