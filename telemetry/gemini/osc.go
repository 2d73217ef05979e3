package gemini

import (
	"bytes"

	"lifeloop/telemetry"
)

// osc decodes the title that Gemini CLI gives its terminal (OSC 0): `◇  Ready
// (project)`, `✦  Working… (project)`, `✋  Action Required (project)`, padded
// with spaces. The text after the sign may be the model's thought and is not
// read.
type osc struct {
	telemetry.Tally
	telemetry.Waits
	drawn bool // the first title was seen
}

// OSC returns a decoder of terminal titles.
func OSC() telemetry.Decoder { return new(osc) }

func (d *osc) Decode(record []byte) []telemetry.Signal {
	sign, rest, _ := bytes.Cut(record, []byte("  "))
	s := telemetry.Signal{Source: "terminal"}
	switch string(sign) {
	case "◇":
		if !bytes.HasPrefix(rest, []byte("Ready (")) {
			d.Miss("title")
			return nil
		}
		s.Kind, s.Detail = telemetry.Idle, "title ready"
		// Unless a turn was answered, Gemini CLI writes down how it ended
		// before it shows that it is ready.
		s.Outcome = telemetry.Completed
		if !d.drawn { // the first title is set before there is a screen
			s.Kind, s.Outcome = telemetry.Alive, ""
		}
	case "✦", "⏲":
		s.Kind, s.Detail = telemetry.Working, "title working"
	case "✋":
		s.Kind, s.Detail = telemetry.NeedsInput, "title action required"
	case "": // Gemini CLI releases the terminal
		return nil
	default:
		// The fixed title of users who disabled the changing one.
		if !bytes.HasPrefix(record, []byte("Gemini CLI (")) {
			d.Miss("title")
		}
		return nil
	}
	d.drawn = true
	return []telemetry.Signal{s}
}
