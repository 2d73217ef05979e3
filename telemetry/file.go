package telemetry

import (
	"time"

	"lifeloop/telemetry/scan"
)

// touched decodes the news that an activity file changed. A record is the time
// of the change and nothing of the content: what stands in such a file is
// nobody's business here, so it is not even read.
type file struct{ Tally }

// File returns a decoder of an activity file's modification times.
func File() Decoder { return new(file) }

func (d *file) Decode(record []byte) []Signal {
	at, err := time.Parse(time.RFC3339Nano, string(record))
	if err != nil {
		d.Miss(Malformed)
		return nil
	}
	return []Signal{{Kind: Alive, Source: "file", Detail: "changed", At: scan.InRange(at.UTC())}}
}
