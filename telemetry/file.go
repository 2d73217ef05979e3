package telemetry

import "time"

// touched decodes the news that an activity file changed. A record is the time
// of the change and nothing of the content: what stands in such a file is
// nobody's business here, so it is not even read.
type touched struct{ tally }

func (d *touched) Decode(record []byte) []Signal {
	at, err := time.Parse(time.RFC3339Nano, string(record))
	if err != nil {
		d.miss(malformed)
		return nil
	}
	return []Signal{{Kind: Alive, Source: "file", Detail: "changed", At: inRange(at.UTC())}}
}
