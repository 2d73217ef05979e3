package telemetry

import "errors"

// claudeStatusline decodes the JSON that Claude Code gives its status line
// command: the only place where it tells the size of the context window.
type claudeStatusline struct{ tally }

func (d *claudeStatusline) Decode(record []byte) []Signal {
	call, err := claudeStatuslineCall(record)
	if err != nil {
		d.miss(malformed)
		return nil
	}
	return call.Signals
}

func claudeStatuslineCall(stdin []byte) (HookCall, error) {
	s := Signal{Source: "statusline", Detail: "Statusline"}
	var total, window, current, output int64
	ok := members(stdin, func(key, val []byte) bool {
		switch string(key) {
		case "session_id":
			s.Session = name(val)
		case "prompt_id":
			s.Turn = name(val)
		case "model":
			members(val, func(key, val []byte) bool {
				if string(key) == "id" {
					s.Model = name(val)
				}
				return true
			})
		case "context_window":
			members(val, func(key, val []byte) bool {
				switch string(key) {
				case "total_input_tokens":
					total = count(val)
				case "context_window_size":
					window = count(val)
				case "current_usage":
					u := readClaudeUsage(val)
					current, output = u.input, u.output
				}
				return true
			})
		}
		return true
	})
	if !ok {
		return HookCall{}, errors.New("read input of the status line: it is not a JSON object")
	}
	if s.Session == "" {
		return HookCall{}, errors.New("read input of the status line: it names no session")
	}
	call := HookCall{Event: "Statusline", Session: s.Session, Turn: s.Turn}
	if window > 0 {
		s.Window, s.WindowSource = window, "statusline"
	}
	switch {
	// Before the first answer the usage is null, and right after a compaction it
	// is all zeros: neither says how full the context is.
	case total > 0 && current > 0:
		s.Kind = UsageSeen
		s.Usage = &Usage{Used: total, Output: output}
	case window > 0:
		s.Kind = WindowSeen
	default:
		s.Kind = Alive
	}
	call.tell(s)
	return call, nil
}

// claudeUsage is what Claude Code tells of one model call.
type claudeUsage struct{ input, output int64 }

// readClaudeUsage adds up what was read by the model: cached or not, it all
// stands in the context.
func readClaudeUsage(val []byte) claudeUsage {
	var u claudeUsage
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens":
			u.input += count(val)
		case "output_tokens":
			u.output = count(val)
		}
		return true
	})
	return u
}
