// Package openclaw decodes the rows of OpenClaw's store, the log of a plugin and
// the output of its agent command. All of them name a turn by the id of its run,
// so several sources report one turn under one id.
//
//	d := openclaw.Transcript()
//	signals := d.Decode(row)
package openclaw

import (
	"cmp"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// mostRuns bounds how many sessions and runs a decoder remembers. A store holds
// those of years; only the newest still change.
const mostRuns = 4096

// remember sets m[key], and forgets the others when there are too many.
func remember[V any](m *map[string]V, key string, val V) {
	if *m == nil || len(*m) >= mostRuns {
		*m = make(map[string]V)
	}
	(*m)[key] = val
}

// byUser reports whether a run with this trigger answers a prompt of the user:
// `openclaw agent`, a terminal and a channel write user or manual. A heartbeat,
// a schedule and maintenance have words of their own.
func byUser(trigger string) bool {
	return trigger == "" || trigger == "user" || trigger == "manual"
}

// readUsage reads the usage of one call. It returns nil for a record without a
// call. OpenClaw counts cached tokens beside the input, and takes the size of the
// last prompt, without its answer, for the context in use.
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

// sumUsage reads the cost of all calls of a run, and from the last one how full
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

// message is what is read of a transcript's message, in a row, in a run's
// snapshot or in a plugin's event.
type message struct {
	role, stop, content            []byte
	usage                          *telemetry.Usage
	run, response, key, provenance string
	provider, model                string
	tool, toolName                 string
	failed                         bool // the tool failed
	mirrored                       bool // written by OpenClaw itself, without a call
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

// callsOf finds the calls of one run among the messages of a session: the
// answers after the last one of another run. OpenClaw notes the run of an
// answer when it stores it; the answers of the run itself may not be stored
// yet.
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

// call is the usage of a message's call, named by the model's response and the
// run: the id of a response alone may be repeated.
func (m message) call(run, fallback string) *telemetry.Usage {
	u := *m.usage
	u.ID, u.Request = cmp.Or(m.response, fallback), run
	return &u
}
