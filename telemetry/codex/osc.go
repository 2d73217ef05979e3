package codex

import (
	"strings"

	"lifeloop/telemetry"
)

// osc decodes the text of OSC 7501, in which Codex reports its state to the
// terminal: `state=idle:app=codex`, `state=blocked:app=codex:kind=permission`.
type osc struct {
	telemetry.Tally
	telemetry.Waits
	live bool
}

// OSC returns a decoder of OSC 7501 texts.
func OSC() telemetry.Decoder { return new(osc) }

func (d *osc) Decode(record []byte) []telemetry.Signal {
	var state, app, kind string
	if len(record) <= 1024 {
		for field := range strings.SplitSeq(string(record), ":") {
			key, val, _ := strings.Cut(field, "=")
			switch key {
			case "state":
				state = val
			case "app":
				app = val
			case "kind":
				kind = val
			}
		}
	}
	s := telemetry.Signal{Source: "terminal", Detail: "osc 7501 " + state}
	switch {
	case state == "clear": // Codex sends this text, without an app, when it releases the terminal
		return nil
	case app != "codex":
		d.Miss(telemetry.Malformed)
		return nil
	case state == "idle", state == "done":
		s.Kind = telemetry.Idle
	case state == "working":
		s.Kind = telemetry.Working
	case state == "blocked":
		s.Kind = telemetry.NeedsInput
		if kind == "permission" {
			s.Detail += " " + kind
		}
		return []telemetry.Signal{s}
	default:
		d.Miss("state/" + state)
		return nil
	}
	if d.live {
		return []telemetry.Signal{s}
	}
	// The first state means that a thread exists and no dialog is open. It has
	// no thread id, and does not say whether the thread is new.
	d.live = true
	first := s
	first.Kind = telemetry.SessionLive
	return []telemetry.Signal{first, s}
}
