// Package control is a session's own door: a 0600 unix socket in a 0700
// folder, and the small protocol spoken through it. A harness's hooks come in
// by it; their end is package hook, which lives in a process of its own.
//
// It refuses anyone but our own user, opens no TCP port, keeps no state
// between connections, and does not look into what a hook brings.
//
//	path, err := control.SocketPath(sessionID)
//	door, err := control.Listen(path)
//	err = door.Serve(ctx, handler) // handler.Hook(ctx, call): call.Answer(out)
//
// # Protocol
//
// A connection carries one exchange. The peer sends a line of JSON and, right
// after its newline, as many raw bytes as the line says:
//
//	{"op":"hook","event":"SessionStart","bytes":1234}⏎ …1234 bytes…
//
// The answer has the same form, and "bytes" is its first member. The peer
// prints it, says so, and hangs up:
//
//	{"bytes":56}⏎ …56 bytes…
//	ok⏎
//
// "ok" means: written whole, to someone who still listened. The op "tell" is a
// hook that wants no answer; it may hang up at once and gets none. The op "do"
// carries a command of a person or a client to the session, named by "event";
// it gets an answer, also where the session ends meanwhile, and needs no ok.
// What is wrong with a request is said in its answer's place,
// {"error":"…"}⏎. Members and ops unknown to one side are how the other may
// grow: unknown members are ignored, an unknown op is an error.
package control

import (
	"time"

	"lifeloop/internal/hook"
)

const (
	// MaxBody bounds what a hook may bring and what it may be answered.
	MaxBody = hook.MaxBody

	opDo = "do"

	maxLine     = 4 << 10
	maxEvent    = 256              // bytes of an event's name
	requestTime = 10 * time.Second // for a peer to bring its request
	replyTime   = 2 * time.Second  // for a peer to take the answer and say ok
)

// A request is the line a peer begins with.
type request struct {
	Op    string `json:"op"`
	Event string `json:"event,omitempty"`
	Bytes int    `json:"bytes"`
}

// A reply is the line a peer is answered with. A peer reads no further than it
// must: what says that there is no answer stands first.
type reply struct {
	Error string `json:"error,omitempty"`
	Bytes int    `json:"bytes"`
}
