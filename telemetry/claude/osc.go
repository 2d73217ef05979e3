package claude

import (
	"strings"

	"lifeloop/telemetry"
)

// osc decodes the window title that Claude Code sets (OSC 0): a mark and the session's
// title. It reads only the mark, because signals contain no text of the session.
//
// The title is weak evidence. A spinning mark means that a turn runs. A static
// mark may mean that no turn runs, but Claude Code also shows it while it waits
// for a permission within a turn (observed on 2.1.197). A static mark is therefore
// reported as a sign of life and not as Idle. A title gives a signal when its
// mark starts or stops spinning; the steps of the animation give none.
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
	case title == "": // Claude Code removes the title when it exits
		return nil
	case strings.HasPrefix(title, "✳ "):
		s.Kind, s.Detail = telemetry.Alive, "title mark resting"
	case strings.HasPrefix(title, "⠂ "), strings.HasPrefix(title, "⠐ "):
		s.Kind, s.Detail = telemetry.Working, "title mark moving"
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
