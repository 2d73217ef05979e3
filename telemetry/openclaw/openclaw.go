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
	scan.Object(val,
		scan.Count("input", &u.Input), scan.Count("output", &u.Output), scan.Count("cacheRead", &u.CacheRead),
		scan.Count("cacheWrite", &u.CacheWrite), scan.Count("reasoning", &u.Reasoning))
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
	scan.Object(val,
		scan.Raw("role", &m.role), scan.Raw("stopReason", &m.stop), scan.Raw("content", &m.content),
		scan.Func("usage", func(val []byte) { m.usage = readUsage(val) }), scan.Name("responseId", &m.response),
		scan.Name("idempotencyKey", &m.key), scan.Name("provider", &m.provider), scan.Name("model", &m.model),
		scan.Name("toolCallId", &m.tool), scan.Word("toolName", &m.toolName), scan.True("isError", &m.failed),
		scan.In("provenance", scan.Word("kind", &m.provenance)),
		scan.In("__openclaw", scan.Name("runId", &m.run)))
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
