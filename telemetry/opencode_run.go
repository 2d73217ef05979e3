package telemetry

import (
	"cmp"
	"time"
)

// opencodeRun decodes what `opencode run --format json` prints: the parts of
// the model's answers. The prompt is not told, nor is the message that it was;
// the first sign of the session is its sign.
type opencodeRun struct {
	tally
	digesting
	session string
	last    string // the call that was told last
}

func (d *opencodeRun) Decode(record []byte) []Signal {
	var kind, part, failure []byte
	var session string
	var at time.Time
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = val
		case "timestamp":
			at = stampMilli(val)
		case "sessionID":
			session = name(val)
		case "part":
			part = val
		case "error":
			failure = val
		}
		return true
	})
	if !ok || session == "" {
		d.miss(malformed)
		return nil
	}
	out := []Signal{}
	tell := func(s Signal) {
		s.Source, s.Detail, s.At, s.Session = "stream", cmp.Or(s.Detail, word(kind)), at, session
		out = append(out, s)
	}
	if session != d.session {
		d.session = session
		tell(Signal{Kind: SessionLive, Cause: cause("")})
		tell(Signal{Kind: Prompt})
	}
	var message, call, tool, reason string
	var state []byte
	var m opencodeMessage
	members(part, func(key, val []byte) bool {
		switch string(key) {
		case "messageID":
			message = name(val)
		case "callID":
			call = name(val)
		case "tool":
			tool = word(val)
		case "state":
			state = val
		case "reason":
			reason = word(val)
		case "tokens":
			m.readTokens(val)
		}
		return true
	})
	switch string(kind) {
	case `"step_start"`:
		tell(Signal{Kind: Working})
	case `"tool_use"`: // printed when it is over
		c, s := readOpencodeCall(state), Signal{Tool: call, ToolName: tool}
		tell(c.begun(s, &d.digesting))
		tell(c.over(s, &d.digesting))
	case `"text"`, `"reasoning"`:
		tell(Signal{Kind: Alive})
	case `"step_finish"`:
		if m.sum() > 0 && message != d.last {
			d.last = message
			tell(Signal{Kind: UsageSeen, Usage: &Usage{ID: message, Used: cmp.Or(m.total, m.sum()), Input: m.input, CacheRead: m.cacheR,
				CacheWrite: m.cacheW, Output: m.output + m.reasoning, Reasoning: m.reasoning}})
		}
		if reason != "tool-calls" {
			tell(Signal{Kind: TurnStop, Outcome: Completed})
		}
	case `"error"`:
		f := readOpencodeFailure(failure)
		stop := Signal{Kind: TurnStop, Outcome: Failed, Error: f.kind()}
		if f.name == "MessageAbortedError" {
			stop.Outcome, stop.Error = Interrupted, ""
		}
		tell(stop)
	default:
		d.miss(word(kind))
	}
	return out
}
