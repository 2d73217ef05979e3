package gemini

import (
	"bytes"

	"lifeloop/telemetry"
)

// osc decodes the title that Gemini CLI gives its terminal (OSC 0): `◇ Ready
// (project)`, `✦ Working… (project)`, `✋ Action Required (project)`, padded
// with spaces. The text after the symbol may be a thought of the model and is
// not read.
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
		// If a turn was not answered, Gemini CLI records its end before it sets this title.
		// So if no end is recorded, the turn was answered.
		s.Outcome = telemetry.Completed
		if !d.drawn { // the first title is set before Gemini CLI shows its screen
			s.Kind, s.Outcome = telemetry.Alive, ""
		}
	case "✦", "⏲":
		s.Kind, s.Detail = telemetry.Working, "title working"
	case "✋":
		s.Kind, s.Detail = telemetry.NeedsInput, "title action required"
	case "":
		// Gemini CLI empties the title when it stops using the terminal, for example to
		// restart. The next title may then be the first title of a new process.
		d.drawn = false
		return nil
	default:
		// The fixed title, for users who disabled the dynamic one, gives no signal.
		if !bytes.HasPrefix(record, []byte("Gemini CLI (")) {
			d.Miss("title")
		}
		return nil
	}
	d.drawn = true
	return []telemetry.Signal{s}
}
