package telemetry

// This file holds what the sources of OpenClaw have in common. They name a turn
// by the id of its run, so what one tells another tells again under the same id.

// openclawRuns bounds what a decoder remembers of sessions and runs. A store
// holds those of years; only the newest can still be told of.
const openclawRuns = 4096

// openclawPerson says whether a run that was triggered so answers a prompt of a
// person: `openclaw agent`, a terminal and a channel say user or manual. A
// heartbeat, a schedule and the harness's own upkeep say their own word.
func openclawPerson(trigger string) bool {
	return trigger == "" || trigger == "user" || trigger == "manual"
}

// openclawUsage reads the usage of one call. OpenClaw counts cached tokens
// beside the input, and reckons the context in use without the answer: what it
// shows of a session is the size of its last prompt. It is nil for a record
// that no call stands behind.
func openclawUsage(val []byte) *Usage {
	var u Usage
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input":
			u.Input = count(val)
		case "output":
			u.Output = count(val)
		case "cacheRead":
			u.CacheRead = count(val)
		case "cacheWrite":
			u.CacheWrite = count(val)
		case "reasoning":
			u.Reasoning = count(val)
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
func openclawSum(all, last []byte) *Usage {
	u, of := openclawUsage(all), openclawUsage(last)
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
type openclawMessage struct {
	role, stop, content            []byte
	usage                          *Usage
	run, response, key, provenance string
	provider, model                string
	tool, toolName                 string
	failed                         bool // the tool did
	mirrored                       bool // written by OpenClaw itself, no call behind it
}

func readOpenclawMessage(val []byte) openclawMessage {
	var m openclawMessage
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "role":
			m.role = val
		case "stopReason":
			m.stop = val
		case "content":
			m.content = val
		case "usage":
			m.usage = openclawUsage(val)
		case "responseId":
			m.response = name(val)
		case "idempotencyKey":
			m.key = name(val)
		case "provider":
			m.provider = name(val)
		case "model":
			m.model = name(val)
		case "toolCallId":
			m.tool = name(val)
		case "toolName":
			m.toolName = word(val)
		case "isError":
			m.failed = isTrue(val)
		case "provenance":
			m.provenance = member(val, "kind", word)
		case "__openclaw":
			m.run = member(val, "runId", name)
		}
		return true
	})
	m.mirrored = m.provider == "openclaw"
	return m
}

// member reads one member of the object val, "" when it has none.
func member(val []byte, key string, read func([]byte) string) string {
	var out string
	members(val, func(k, v []byte) bool {
		if string(k) != key {
			return true
		}
		out = read(v)
		return false
	})
	return out
}

// openclawCalls finds the calls of one run among the messages of a session: the
// answers behind the last one of another run. OpenClaw notes the run of an
// answer when it stores it; the run's own, not stored yet, may lack the note.
func openclawCalls(messages []byte, run string) []openclawMessage {
	var calls []openclawMessage
	elements(messages, func(val []byte) bool {
		m := readOpenclawMessage(val)
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
func (m openclawMessage) call(run, fallback string) *Usage {
	u := *m.usage
	u.ID, u.Request = m.response, run
	if u.ID == "" {
		u.ID = fallback
	}
	return &u
}
