// Package openclaw decodes the rows of OpenClaw's store, the output of `openclaw agent`,
// the log of a plugin that the user wrote, and the calls of our plugin. It also encodes
// the answers to the calls of our plugin, and the requests to our plugin. All sources name
// a turn by the id of its run, so several of them report one turn under one id.
//
//	d := openclaw.Transcript()
//	signals := d.Decode(row)
package openclaw

import (
	"cmp"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// mostRuns limits how many sessions and runs a decoder remembers. A store may
// hold the sessions of years, but only the newest still change.
const mostRuns = 4096

// remember sets m[key]. It first removes all other entries if the map is full.
func remember[V any](m *map[string]V, key string, val V) {
	if *m == nil || len(*m) >= mostRuns {
		*m = make(map[string]V)
	}
	(*m)[key] = val
}

// byUser reports whether a run with this trigger answers a prompt of the user. If the
// prompt came from `openclaw agent`, a terminal or a channel, the trigger is user or
// manual. A heartbeat, a schedule and maintenance have other triggers.
func byUser(trigger string) bool {
	return trigger == "" || trigger == "user" || trigger == "manual"
}

// readUsage reads the usage of one call. It returns nil for a record without a
// call. OpenClaw counts cached tokens separately from the input. As in OpenClaw,
// Used is the size of the prompt, without the answer.
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

// sumUsage reads the sum of all calls of a run, and the size of the context
// from the last call. It returns nil if there are no calls.
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

// message holds the members that are read from a message, which may be in a row
// of a transcript, in a run's snapshot or in a plugin's event.
type message struct {
	role, stop, content            []byte
	usage                          *telemetry.Usage
	run, response, key, provenance string
	provider, model                string
	tool, toolName                 string
	failed                         bool // the tool failed
	mirrored                       bool // OpenClaw wrote the message itself, without a model call
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

// callsOf finds the model calls of one run among the messages of a session: all
// answers after the last answer of another run. An answer does not name its run
// before OpenClaw has stored the answer, so the newest answers of this run may
// not name the run yet.
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

// call returns the usage of a message's model call. Its ID is the id of the response,
// or fallback if there is none. Its Request is the run, because the id of a response
// may be repeated.
func (m message) call(run, fallback string) *telemetry.Usage {
	u := *m.usage
	u.ID, u.Request = cmp.Or(m.response, fallback), run
	return &u
}
