package opencode

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// run decodes what `opencode run --format json` prints: the parts of the
// model's answers. OpenCode prints neither the prompt nor its id, so the decoder
// reports the prompt at the first line of the session.
type run struct {
	telemetry.Tally
	telemetry.Digests
	session string
	last    string // the message whose usage was reported last
}

// Run returns a decoder of `opencode run --format json` lines.
func Run() telemetry.Decoder { return new(run) }

func (d *run) Decode(record []byte) []telemetry.Signal {
	var kind, part, failure []byte
	var session string
	var at time.Time
	ok := scan.Object(record,
		scan.Raw("type", &kind), scan.Milli("timestamp", &at), scan.Name("sessionID", &session), scan.Raw("part", &part),
		scan.Raw("error", &failure))
	if !ok || session == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	out := []telemetry.Signal{}
	emit := func(s telemetry.Signal) {
		s.Source, s.Detail, s.At, s.Session = "stream", cmp.Or(s.Detail, scan.WordOf(kind)), at, session
		out = append(out, s)
	}
	if session != d.session {
		d.session = session
		emit(telemetry.Signal{Kind: telemetry.SessionLive, Cause: telemetry.CauseOf("")})
		emit(telemetry.Signal{Kind: telemetry.Prompt})
	}
	var message, call, tool, reason string
	var state []byte
	var m messageInfo
	scan.Object(part,
		scan.Name("messageID", &message), scan.Name("callID", &call), scan.Word("tool", &tool), scan.Raw("state", &state),
		scan.Word("reason", &reason), scan.Func("tokens", func(val []byte) { m.readTokens(val) }))
	switch string(kind) {
	case `"step_start"`:
		emit(telemetry.Signal{Kind: telemetry.Working})
	case `"tool_use"`: // a tool call is printed when it has ended
		c, s := readCall(state), telemetry.Signal{Tool: call, ToolName: tool}
		emit(c.begun(s, &d.Digests))
		emit(c.over(s, &d.Digests))
	case `"text"`, `"reasoning"`:
		emit(telemetry.Signal{Kind: telemetry.Alive})
	case `"step_finish"`:
		if m.sum() > 0 && message != d.last {
			d.last = message
			emit(telemetry.Signal{Kind: telemetry.UsageSeen, Usage: m.usage(message)})
		}
		if reason != "tool-calls" {
			emit(telemetry.Signal{Kind: telemetry.TurnStop, Outcome: telemetry.Completed})
		}
	case `"error"`:
		f := readFailure(failure)
		stop := telemetry.Signal{Kind: telemetry.TurnStop, Outcome: telemetry.Failed, Error: f.kind()}
		if f.name == "MessageAbortedError" {
			stop.Outcome, stop.Error = telemetry.Interrupted, ""
		}
		emit(stop)
	default:
		d.Miss(scan.WordOf(kind))
	}
	return out
}
