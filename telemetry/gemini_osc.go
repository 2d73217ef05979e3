package telemetry

import "bytes"

// geminiOSC decodes the title that Gemini CLI gives its terminal (OSC 0):
// `◇  Ready (project)`, `✦  Working… (project)`, `✋  Action Required (project)`,
// padded with blanks. What stands behind the sign may be the model's thought
// and is not read.
type geminiOSC struct {
	tally
	drawn bool // the first title was seen
}

func (d *geminiOSC) Decode(record []byte) []Signal {
	sign, rest, _ := bytes.Cut(record, []byte("  "))
	s := Signal{Source: "terminal"}
	switch string(sign) {
	case "◇":
		if !bytes.HasPrefix(rest, []byte("Ready (")) {
			d.miss("title")
			return nil
		}
		s.Kind, s.Detail = Idle, "title ready"
		// Gemini CLI writes down how a turn ended unless it was answered, and does
		// so before it shows that it is ready.
		s.Outcome = Completed
		if !d.drawn { // it is given before there is a screen
			s.Kind, s.Outcome = Alive, ""
		}
	case "✦", "⏲":
		s.Kind, s.Detail = Working, "title working"
	case "✋":
		s.Kind, s.Detail = NeedsInput, "title action required"
	case "": // the terminal is given back
		return nil
	default:
		// The one title of those who do not want it to change.
		if !bytes.HasPrefix(record, []byte("Gemini CLI (")) {
			d.miss("title")
		}
		return nil
	}
	d.drawn = true
	return []Signal{s}
}
