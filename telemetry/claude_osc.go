package telemetry

import "strings"

// claudeOSC decodes the window title that Claude Code sets (OSC 0): a mark and
// the session's title. The mark alone is read; the title is text.
//
// It is a weak witness. The turning mark says that a turn runs. The resting
// mark says only that none runs at this moment: it stands there when Claude
// Code waits for the next prompt and just the same when it waits for a
// permission in mid-turn (seen on 2.1.197), so it is a sign of life and no
// idleness. A title is told when its mark changes what it says; that it turns
// shows no more than that a timer runs.
type claudeOSC struct {
	tally
	mark string
}

func (d *claudeOSC) Decode(record []byte) []Signal {
	title := string(record[:min(len(record), 8)])
	s := Signal{Source: "terminal"}
	switch {
	case title == "": // the title is taken away at the end
		return nil
	case strings.HasPrefix(title, "✳ "):
		s.Kind, s.Detail = Alive, "osc 0 resting"
	case strings.HasPrefix(title, "⠂ "), strings.HasPrefix(title, "⠐ "):
		s.Kind, s.Detail = Working, "osc 0 turning"
	default:
		d.miss("title")
		return nil
	}
	if s.Detail == d.mark {
		return nil
	}
	d.mark = s.Detail
	return []Signal{s}
}
