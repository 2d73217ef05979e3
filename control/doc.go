// Package control is the session's Unix socket, mode 0600 in a folder of mode
// 0700, and the protocol on it. The harness's hooks connect to it; package hook
// is the other end and runs in its own process.
//
// The server rejects peers of other users, opens no TCP port, keeps no state
// between connections, and does not interpret a hook's input.
//
//	server, err := control.Open(sessionID)
//	defer server.Close()
//	err = server.Serve(ctx, handler) // handler.Hook(ctx, call): call.Answer(out)
//
// # Protocol
//
// A connection carries one exchange. The peer sends a line of JSON and, right
// after its newline, as many raw bytes as the line announces:
//
//	{"op":"hook","key":"4D7G…","event":"SessionStart","bytes":1234}⏎ …1234 bytes…
//
// For a hook, "key" proves that the launch injected the hook. For a command, it
// is the session's token, if the peer has it.
//
// The answer has the same form, and "bytes" is its first member, except in the answer to
// an invalid request (see below). A hook prints the answer, acknowledges it, and closes
// the connection:
//
//	{"bytes":56}⏎ …56 bytes…
//	ok⏎
//
// "ok" means that the whole answer was written while the harness was still reading.
// An empty answer needs no ok. The op "tell" is a hook without an answer; its peer
// may close at once. The op "do" is a command of a user or a client, named by
// "event". It gets an answer even if the session is ending, and needs no ok. After
// the op "stream" the peer sends lines until it closes. It gets no answer, but the
// session may send it lines. An invalid request is answered with
// {"error":"…","bytes":0}⏎. Older and newer programs understand each other: unknown
// members are ignored, an unknown op is an error.
package control

import (
	"time"

	"lifeloop/internal/hook"
)

const (
	// MaxBody is the largest size in bytes of a hook's input and of an answer.
	MaxBody = hook.MaxBody

	opDo     = "do"
	opStream = "stream"

	maxLine     = 4 << 10
	maxEvent    = 256              // the limit of an event's name in bytes
	requestTime = 10 * time.Second // the time in which a peer must send its request
	replyTime   = 2 * time.Second  // the time in which a peer must read a small answer and acknowledge it
)

// A request is the first line that a peer sends.
type request struct {
	Op    string `json:"op"`
	Key   string `json:"key,omitempty"`
	Event string `json:"event,omitempty"`
	Bytes int    `json:"bytes"`
}

// A reply is the first line of an answer. An error comes before "bytes", because
// package hook reads only the first member: if that is not "bytes", the request was
// refused.
type reply struct {
	Error string `json:"error,omitempty"`
	Bytes int    `json:"bytes"`
}
