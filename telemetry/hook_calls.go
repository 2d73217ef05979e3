package telemetry

import (
	"time"

	"lifeloop/telemetry/scan"
)

// hookCalls decodes recorded calls of hooks, one per line, in a format that a hook can
// easily write: {"t":unix seconds,"stdin":{…}}.
type hookCalls struct {
	Tally
	hooks Dialect
	last  uint64 // hash of the newest record: a record that repeats it is the same call
}

// HookCalls returns a decoder of recorded calls of these hooks.
func HookCalls(hooks Dialect) Decoder { return &hookCalls{hooks: hooks} }

// IsHookCall reports whether a record is a recorded call of a hook, in the format that
// HookCalls decodes.
func IsHookCall(record []byte) bool {
	_, event, _ := recordedCall(record)
	return event != ""
}

// recordedCall reads the time, the hook's name and the hook's input in a recorded call.
// The name is empty if the record is not a recorded call.
func recordedCall(record []byte) (at time.Time, event string, stdin []byte) {
	if !scan.Object(record, scan.Seconds("t", &at), scan.Raw("stdin", &stdin)) {
		return time.Time{}, "", nil
	}
	scan.Object(stdin, scan.Word("hook_event_name", &event))
	return at, event, stdin
}

func (d *hookCalls) Decode(record []byte) []Signal {
	this := scan.Hash(record)
	if this == d.last {
		return nil
	}
	d.last = this
	at, event, stdin := recordedCall(record)
	if event == "" {
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
