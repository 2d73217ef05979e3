package claude

import (
	"errors"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// statusline decodes the JSON that Claude Code passes to its status line
// command. Outside print mode it is the only source of the context window's size.
type statusline struct{ telemetry.Tally }

// Statusline returns a decoder of status line inputs.
func Statusline() telemetry.Decoder { return new(statusline) }

func (d *statusline) Decode(record []byte) []telemetry.Signal {
	call, err := decodeStatusline(record)
	if err != nil {
		d.Miss(telemetry.Malformed)
		return nil
	}
	return call.Signals
}

func decodeStatusline(stdin []byte) (telemetry.HookCall, error) {
	s := telemetry.Signal{Source: "statusline", Detail: "Statusline"}
	var total, window int64
	var current telemetry.Usage
	ok := scan.Object(stdin,
		scan.Name("session_id", &s.Session), scan.Name("prompt_id", &s.Turn), scan.In("model", scan.Name("id", &s.Model)),
		scan.In("context_window", scan.Count("total_input_tokens", &total), scan.Count("context_window_size", &window), scan.Func("current_usage", func(val []byte) { current = readUsage(val) })))
	if !ok {
		return telemetry.HookCall{}, errors.New("read input of the status line: it is not a JSON object")
	}
	if s.Session == "" {
		return telemetry.HookCall{}, errors.New("read input of the status line: it names no session")
	}
	call := telemetry.HookCall{Event: "Statusline", Session: s.Session, Turn: s.Turn}
	if window > 0 {
		s.Window, s.WindowSource = window, "statusline"
	}
	switch {
	// Before the first answer the usage is null, and right after a compaction it
	// is all zeros: neither shows how full the context is.
	case total > 0 && current.Used > 0:
		// Each status line repeats the tokens of the last call without its id. They
		// show the size of the context and are not counted as a call.
		s.Kind = telemetry.UsageSeen
		s.Usage = &telemetry.Usage{Used: total}
	case window > 0:
		s.Kind = telemetry.WindowSeen
	default:
		s.Kind = telemetry.Alive
	}
	call.Add(s)
	return call, nil
}

// readUsage reads the usage of one model call. All input of the call, cached or
// not, is in the context. Claude Code counts the answer as context only when
// the next call reads it.
func readUsage(val []byte) telemetry.Usage {
	var u telemetry.Usage
	scan.Object(val,
		scan.Count("input_tokens", &u.Input), scan.Count("cache_read_input_tokens", &u.CacheRead),
		scan.Count("cache_creation_input_tokens", &u.CacheWrite), scan.Count("output_tokens", &u.Output))
	u.Used = u.Input + u.CacheRead + u.CacheWrite
	return u
}
