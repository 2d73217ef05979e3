// Package telemetry turns what one harness writes or calls (a line of a
// transcript, a hook's stdin, a status line, a terminal title) into
// harness-neutral signals.
//
// A decoder is a pure function of the bytes it was given, in order: it opens
// nothing, waits for nothing and guesses nothing. What it does not know it
// counts by type and passes over. A signal never carries text of the session:
// ids, names, numbers and times only.
//
//	d := claude.Transcript()
//	for line := range lines {
//		for _, sig := range d.Decode(line) { … }
//	}
package telemetry

import (
	"time"

	"lifeloop/canon"
	"lifeloop/telemetry/scan"
)

// A Kind says what a signal tells. The set is closed.
type Kind string

const (
	// SessionLive: a harness session with this id is live. Session, Cause.
	SessionLive Kind = "session_live"
	// SessionGone: a harness session is over or about to be. Session, Reason.
	SessionGone Kind = "session_gone"
	// Prompt: a person (or the caller of a print mode) submitted a prompt. Turn.
	Prompt Kind = "prompt"
	// Working: the harness says that it works. Turn when known.
	Working Kind = "working"
	// Idle: the harness says that it waits for the next prompt. Outcome is set
	// where the harness tells every other end of a turn elsewhere: how the turn
	// ended then if nothing else tells it. Without it a turn that never stopped
	// was interrupted.
	Idle Kind = "idle"
	// NeedsInput: the harness waits for a person in mid-turn. Detail says for what.
	NeedsInput Kind = "needs_input"
	// TurnStop: the model finished; a hook may still make it go on. Turn, Outcome
	// unless the source does not tell it.
	TurnStop Kind = "turn_stop"
	// TurnEnd: the turn is over for certain. Turn when known, Outcome, Error. The
	// Outcome is empty when the source does not tell it: then the turn completed,
	// unless a TurnStop said otherwise.
	TurnEnd Kind = "turn_end"
	// UsageSeen: tokens in use after a model call. Usage. Outcome is completed
	// where the call is known to be an answer: the turn's, if it stops now.
	UsageSeen Kind = "usage"
	// WindowSeen: the context window became known without a usage. Window, WindowSource.
	WindowSeen Kind = "window"
	// Compacting: a compaction began; it may still fail. Compaction, with the
	// Trigger alone, where that is told.
	Compacting Kind = "compacting"
	// Compacted: the context was rewritten. Compaction.
	Compacted Kind = "compacted"
	// Cleared: the context was emptied, or cut back, within the session. The
	// figures of before hold no longer.
	Cleared Kind = "cleared"
	// ToolStart, ToolEnd: a tool call is in flight. Tool.
	ToolStart Kind = "tool_start"
	ToolEnd   Kind = "tool_end"
	// LimitWait: the harness waits by itself, because of a rate limit or a busy
	// server, and will try again. Until when it says so. Error.
	LimitWait Kind = "limit_wait"
	// Fault: the harness reported an error that did not end the turn. Error.
	Fault Kind = "fault"
	// Gap: the harness's own sequence jumped over the numbers in Missing.
	Gap Kind = "gap"
	// Alive: a sign of life and nothing more. One of a Turn that stopped says that
	// something made the turn go on, if what follows is no prompt of a person.
	Alive Kind = "alive"
)

// An Outcome says how a turn ended, in the words of `frame.ended`.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// An ErrorKind is the structured cause of a failed turn, never a message.
type ErrorKind string

const (
	ErrRateLimit      ErrorKind = "rate_limit"
	ErrServer         ErrorKind = "server_error"
	ErrAuth           ErrorKind = "auth"
	ErrInvalidRequest ErrorKind = "invalid_request"
	ErrContextFull    ErrorKind = "context_full"
	ErrQuota          ErrorKind = "quota"   // a limit of use is reached, and will be lifted
	ErrBilling        ErrorKind = "billing" // a balance or a budget is used up, and waiting mends nothing
	ErrNetwork        ErrorKind = "network"
	ErrUnknown        ErrorKind = "unknown"
)

// A Signal is one harness-neutral thing that a source told us.
type Signal struct {
	Kind   Kind      `json:"kind"`
	Source string    `json:"source"`           // "hook", "transcript", "rollout", "statusline", "registry", "terminal", "file", "stream", "notify", "history", "store", "otlp", "telemetry", "log"
	Detail string    `json:"detail,omitempty"` // what in the source told it: hook name, record id, ordinal
	At     time.Time `json:"at,omitzero"`      // the record's own time; zero when it has none

	Session string `json:"session,omitempty"` // the harness's session id
	Turn    string `json:"turn,omitempty"`    // the harness's id of the turn
	Agent   string `json:"agent,omitempty"`   // set for a sub-agent's signals, which are not the main chain's
	Side    string `json:"side,omitempty"`    // set for a usage beside the main chain: what the call was for ("title", "compaction")
	Cause   string `json:"cause,omitempty"`   // session_live: startup|resume|clear|compact|fork|unknown
	Reason  string `json:"reason,omitempty"`  // session_gone: the harness's own word

	Outcome Outcome   `json:"outcome,omitempty"`
	Error   ErrorKind `json:"error,omitempty"`

	Usage      *Usage      `json:"usage,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`

	Tool string `json:"tool,omitempty"` // the tool call's id
	// Of a tool call its name, and what went in and came out, without the text.
	ToolName  string `json:"tool_name,omitempty"`
	Args      *Sized `json:"args,omitempty"`
	Result    *Sized `json:"result,omitempty"`
	ToolError string `json:"tool_error,omitempty"` // ToolNotFound, ToolFailed or ToolRefused; empty where it did what it should
	Model     string `json:"model,omitempty"`      // model name as the source spells it
	Window    int64  `json:"window,omitempty"`
	// WindowSource says where Window comes from: statusline, reported, suffix, table.
	WindowSource string `json:"window_source,omitempty"`
	// Path is a file that the harness says belongs to this session (its transcript).
	Path string `json:"path,omitempty"`
	// Until is when a LimitWait ends, as the harness told it; zero when it did not.
	Until time.Time `json:"until,omitzero"`
	// Version is the harness's own, where a source tells it.
	Version string `json:"version,omitempty"`
	// From is, of a session that is live, the one that it says it goes on from.
	From string `json:"from,omitempty"`
	// Dir is the working folder that the harness says the session is in.
	Dir string `json:"dir,omitempty"`
	// Process is the one that the source says it was written by. A file may
	// outlive its process, and the number may be another's by then.
	Process *Process `json:"process,omitempty"`
	// Missing are the first and the last number that a sequence jumped over.
	Missing *[2]uint64 `json:"missing,omitempty"`
}

// Sized is a text that is not kept: its digest ("sha256:" and 64 hex digits)
// and its length in bytes.
type Sized struct {
	Digest string `json:"digest"`
	Size   int64  `json:"byte_size"`
}

// sized is what may be told of a JSON value as its source spelled it: nil of
// one that is not there.
func SizedOf(val []byte) *Sized {
	if len(val) == 0 || scan.IsNull(val) {
		return nil
	}
	return &Sized{Digest: string(canon.Sum(val)), Size: int64(len(val))}
}

// Usage is one model call: what it cost, and the context in use after it.
//
// The parts are exclusive, whatever the harness's own habit is (OpenAI counts
// cached tokens within its input, Anthropic beside it): Input+CacheRead+CacheWrite
// is what went to the model, and Output, with Reasoning in it, came back.
type Usage struct {
	// ID and Request name the call: repeated records of one (session, ID,
	// Request) are one call. Both may be empty; then each record is a call.
	ID      string `json:"id,omitempty"`
	Request string `json:"request,omitempty"`
	// Used is the number of tokens in the context after the call, as this
	// harness reckons it; 0 when the source does not tell it.
	Used int64 `json:"used,omitempty"`

	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	// Output counts the call's own output tokens; the largest of one call holds.
	Output    int64 `json:"output,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
	// Estimate marks a figure that the harness computed after a compaction: no
	// call was made, and nothing but Used is set.
	Estimate bool `json:"estimate,omitempty"`
}

// Process names one process of this machine for good.
type Process struct {
	PID int `json:"pid"`
	// Start is when it began, in the kernel's ticks since boot (field 22 of
	// /proc/PID/stat); 0 when the source does not tell it.
	Start uint64 `json:"start,omitempty"`
}

// Compaction is what a source knows of a finished compaction.
type Compaction struct {
	// Half says which witness this is: "hook", "record", or "telemetry" where a
	// harness has a file of that beside its own, or exports it. A compaction that several of
	// them tell is one compaction.
	Half    string `json:"half"`
	Trigger string `json:"trigger"` // auto|manual|reactive|unknown
	Before  *int64 `json:"before,omitempty"`
	After   *int64 `json:"after,omitempty"`
}

// A Decoder turns records of one source, in order, into signals. It may
// remember earlier records of the same source; it has no other state.
type Decoder interface {
	// Decode reads one whole record. A record it does not understand gives no
	// signal and is counted.
	Decode(record []byte) []Signal
	// Unknown counts records by type that Decode passed over without knowing them.
	Unknown() map[string]int
	// Missed is the sum of those counts.
	Missed() int
}

// A HookCall is one call of a harness's hook, decoded.
type HookCall struct {
	Event   string // the harness's own name of the hook
	Session string
	Turn    string
	Signals []Signal
	// Slot is the manifest placement class that an answer to this hook fills,
	// empty when the hook carries no context to the model.
	Slot string
	// Capacity is the largest additional context, in bytes, that the harness
	// passes to the model whole.
	Capacity int
}

// httpError is the cause that the status of a failed request tells; without a
// status no answer came at all.
func HTTPError(status int64) ErrorKind {
	switch {
	case status == 0:
		return ErrNetwork
	case status == 429:
		return ErrRateLimit
	case status == 401, status == 403:
		return ErrAuth
	case status == 402:
		return ErrBilling
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrInvalidRequest
	}
	return ErrUnknown
}
