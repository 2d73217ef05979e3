package telemetry

import (
	"time"

	"lifeloop/telemetry/scan"
)

// hookCalls decodes recorded calls of hooks, one per line, as a hook can log them
// itself: {"t":unix seconds,"stdin":{…}}.
type hookCalls struct {
	Tally
	hooks Dialect
	last  uint64 // hash of the newest record: a record that repeats it is the same call
}

// HookCalls returns a decoder of recorded calls of these hooks.
func HookCalls(hooks Dialect) Decoder { return &hookCalls{hooks: hooks} }

func (d *hookCalls) Decode(record []byte) []Signal {
	this := scan.Hash(record)
	if this == d.last {
		return nil
	}
	d.last = this
	var at time.Time
	var stdin []byte
	var event string
	ok := scan.Object(record, scan.Seconds("t", &at), scan.Raw("stdin", &stdin))
	scan.Object(stdin, scan.Word("hook_event_name", &event))
	if !ok || event == "" {
		d.Miss(Malformed)
		return nil
	}
	call, err := d.hooks.Decode(event, stdin)
	if err != nil {
		d.Miss("hook/" + event)
		return nil
	}
	for i := range call.Signals {
		call.Signals[i].At = at
	}
	return call.Signals
}
