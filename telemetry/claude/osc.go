package claude

import (
	"strings"

	"lifeloop/telemetry"
)

// claudeOSC decodes the window title that Claude Code sets (OSC 0): a mark and
// the session's title. The mark alone is read; the title is text.
//
// It is a weak witness. The turning mark says that a turn runs. The resting
// mark says only that none runs at this moment: it stands there when Claude
// Code waits for the next prompt and just the same when it waits for a
// permission in mid-turn (seen on 2.1.197), so it is a sign of life and no
// idleness. A title is told when its mark changes what it says; that it turns
// shows no more than that a timer runs.
type osc struct {
	telemetry.Tally
	mark string
}

// OSC returns a decoder of window titles.
func OSC() telemetry.Decoder { return new(osc) }

func (d *osc) Decode(record []byte) []telemetry.Signal {
	title := string(record[:min(len(record), 8)])
	s := telemetry.Signal{Source: "terminal"}
	switch {
	case title == "": // the title is taken away at the end
		return nil
	case strings.HasPrefix(title, "✳ "):
		s.Kind, s.Detail = telemetry.Alive, "osc 0 resting"
	case strings.HasPrefix(title, "⠂ "), strings.HasPrefix(title, "⠐ "):
		s.Kind, s.Detail = telemetry.Working, "osc 0 turning"
	default:
		d.Miss("title")
		return nil
	}
	if s.Detail == d.mark {
		return nil
	}
	d.mark = s.Detail
	return []telemetry.Signal{s}
}
