// Package openclaw decodes the rows of OpenClaw's store, the log of a plugin and
// the output of its agent command. All of them name a turn by the id of its run,
// so several sources report one turn under one id.
//
//	d := openclaw.Transcript()
//	signals := d.Decode(row)
package openclaw

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// openclawRuns bounds what a decoder remembers of sessions and runs. A store
// holds those of years; only the newest can still be told of.
const mostRuns = 4096

// openclawPerson says whether a run that was triggered so answers a prompt of a
// person: `openclaw agent`, a terminal and a channel say user or manual. A
// heartbeat, a schedule and the harness's own upkeep say their own word.
func byUser(trigger string) bool {
	return trigger == "" || trigger == "user" || trigger == "manual"
}

// openclawUsage reads the usage of one call. OpenClaw counts cached tokens
// beside the input, and reckons the context in use without the answer: what it
// shows of a session is the size of its last prompt. It is nil for a record
// that no call stands behind.
func readUsage(val []byte) *telemetry.Usage {
	var u telemetry.Usage
	scan.Members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input":
			u.Input = scan.CountOf(val)
		case "output":
			u.Output = scan.CountOf(val)
		case "cacheRead":
			u.CacheRead = scan.CountOf(val)
		case "cacheWrite":
			u.CacheWrite = scan.CountOf(val)
		case "reasoning":
			u.Reasoning = scan.CountOf(val)
		}
		return true
	})
	if u.Used = u.Input + u.CacheRead + u.CacheWrite; u.Used == 0 {
		return nil
	}
	return &u
}

// openclawSum reads what all calls of a run cost, and of the last one how full
// the context is; nil without any.
func sumUsage(all, last []byte) *telemetry.Usage {
	u, of := readUsage(all), readUsage(last)
	if u == nil {
		return of
	}
	if of != nil {
		u.Used = of.Used
	}
	return u
}

// openclawMessage is what is read of a message of a transcript, wherever it
// stands: in a row, in a run's snapshot, in a plugin's event.
type message struct {
	role, stop, content            []byte
	usage                          *telemetry.Usage
	run, response, key, provenance string
	provider, model                string
	tool, toolName                 string
	failed                         bool // the tool did
	mirrored                       bool // written by OpenClaw itself, no call behind it
}

func readMessage(val []byte) message {
	var m message
	scan.Members(val, func(key, val []byte) bool {
		switch string(key) {
		case "role":
			m.role = val
		case "stopReason":
			m.stop = val
		case "content":
			m.content = val
		case "usage":
			m.usage = readUsage(val)
		case "responseId":
			m.response = scan.NameOf(val)
		case "idempotencyKey":
			m.key = scan.NameOf(val)
		case "provider":
			m.provider = scan.NameOf(val)
		case "model":
			m.model = scan.NameOf(val)
		case "toolCallId":
			m.tool = scan.NameOf(val)
		case "toolName":
			m.toolName = scan.WordOf(val)
		case "isError":
			m.failed = scan.IsTrue(val)
		case "provenance":
			m.provenance = scan.MemberOf(val, "kind", scan.WordOf)
		case "__openclaw":
			m.run = scan.MemberOf(val, "runId", scan.NameOf)
		}
		return true
	})
	m.mirrored = m.provider == "openclaw"
	return m
}

// openclawCalls finds the calls of one run among the messages of a session: the
// answers behind the last one of another run. OpenClaw notes the run of an
// answer when it stores it; the run's own, not stored yet, may lack the note.
func callsOf(messages []byte, run string) []message {
	var calls []message
	scan.Elements(messages, func(val []byte) bool {
		m := readMessage(val)
		switch {
		case string(m.role) != `"assistant"`:
		case m.run != "" && m.run != run:
			calls = calls[:0]
		case m.usage != nil && m.response != "" && !m.mirrored:
			calls = append(calls, m)
		}
		return true
	})
	return calls
}

// call is the usage of a call that a message tells, named by the model's
// response and the run: a response's id alone may come again.
func (m message) call(run, fallback string) *telemetry.Usage {
	u := *m.usage
	u.ID, u.Request = m.response, run
	if u.ID == "" {
		u.ID = fallback
	}
	return &u
}
