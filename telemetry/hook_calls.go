package telemetry

import (
	"strconv"
	"time"
)

// hookCalls decodes recorded calls of hooks, one a line, as somebody kept them
// who had nothing but a hook: {"t":unix seconds,"stdin":{…}}.
type hookCalls struct {
	tally
	decode func(event string, stdin []byte) (HookCall, error)
	last   uint64 // digest of the newest record: one that is there twice is one call
}

func (d *hookCalls) Decode(record []byte) []Signal {
	this := digest(record)
	if this == d.last {
		return nil
	}
	d.last = this
	var at time.Time
	var stdin []byte
	var event string
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "t":
			at = stampSeconds(val)
		case "stdin":
			stdin = val
		}
		return true
	})
	members(stdin, func(key, val []byte) bool {
		if string(key) == "hook_event_name" {
			event = word(val)
		}
		return true
	})
	if !ok || event == "" {
		d.miss(malformed)
		return nil
	}
	call, err := d.decode(event, stdin)
	if err != nil {
		d.miss("hook/" + event)
		return nil
	}
	for i := range call.Signals {
		call.Signals[i].At = at
	}
	return call.Signals
}

// stampSeconds returns the time of the number val, seconds since 1970 with
// fractions, to the millisecond.
func stampSeconds(val []byte) time.Time {
	t, err := strconv.ParseFloat(string(val), 64)
	if err != nil || !(t > 0 && t < 1<<40) {
		return time.Time{}
	}
	return inRange(time.UnixMilli(int64(t * 1000)).UTC())
}
