package telemetry

import "strings"

// codexOSC decodes the text of OSC 7501, in which Codex tells its state to the
// terminal: `state=idle:app=codex`, `state=blocked:app=codex:kind=permission`.
type codexOSC struct {
	tally
	live bool
}

func (d *codexOSC) Decode(record []byte) []Signal {
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
	s := Signal{Source: "terminal", Detail: "osc 7501 " + state}
	switch {
	case state == "clear": // the terminal is given back and belongs to nobody: no app is named
		return nil
	case app != "codex":
		d.miss(malformed)
		return nil
	case state == "idle", state == "done":
		s.Kind = Idle
	case state == "working":
		s.Kind = Working
	case state == "blocked":
		s.Kind = NeedsInput
		if kind == "permission" {
			s.Detail += " " + kind
		}
		return []Signal{s}
	default:
		d.miss("state/" + state)
		return nil
	}
	if d.live {
		return []Signal{s}
	}
	// The first state means that a thread exists and no dialog is in the way.
	// Neither the id of the thread is told here nor whether it is a new one.
	d.live = true
	first := s
	first.Kind = SessionLive
	return []Signal{first, s}
}
