package gemini

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// logs decodes logs.json, the history of the lines typed into the terminal
// sessions of one folder. A record is the whole list, so the decoder remembers
// the newest reported line of each session.
//
// A typed line may be a prompt, a prompt that a hook rejected or a shell
// command, and the list does not say which. A typed line is therefore reported
// as a sign of life and not as a prompt.
type logs struct {
	telemetry.Tally
	next map[string]int64 // session → the number of its newest reported line, plus 1
}

// Logs returns a decoder of logs.json.
func Logs() telemetry.Decoder { return &logs{next: map[string]int64{}} }

func (d *logs) Decode(record []byte) []telemetry.Signal {
	var out []telemetry.Signal
	if !scan.Elements(record, func(val []byte) bool {
		if s, ok := d.entry(val); ok {
			out = append(out, s)
		}
		return true
	}) {
		d.Miss(telemetry.Malformed)
	}
	return out
}

func (d *logs) entry(val []byte) (telemetry.Signal, bool) {
	var kind string
	var number []byte
	s := telemetry.Signal{Kind: telemetry.Alive, Source: "log"}
	if !scan.Object(val,
		scan.Name("sessionId", &s.Session), scan.Raw("messageId", &number), scan.Word("type", &kind), scan.Time("timestamp", &s.At)) || s.Session == "" {
		d.Miss(telemetry.Malformed)
		return s, false
	}
	if kind != "user" {
		d.Miss("type/" + kind)
		return s, false
	}
	n := scan.CountOf(number)
	if n < d.next[s.Session] {
		return s, false
	}
	d.next[s.Session] = n + 1
	s.Detail = "typed"
	return s, true
}
