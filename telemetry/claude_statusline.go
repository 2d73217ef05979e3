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
	var total, window int64
	var current Usage
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
					current = readClaudeUsage(val)
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
	case total > 0 && current.Used > 0:
		// It repeats the last call, at each of its lines and again later, and does
		// not name it: a figure of the context, and no call to be counted.
		s.Kind = UsageSeen
		s.Usage = &Usage{Used: total}
	case window > 0:
		s.Kind = WindowSeen
	default:
		s.Kind = Alive
	}
	call.tell(s)
	return call, nil
}

// readClaudeUsage reads what Claude Code tells of one model call. What the model
// read, cached or not, all stands in the context; Claude Code itself reckons
// the answer in only when the next call reads it.
func readClaudeUsage(val []byte) Usage {
	var u Usage
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input_tokens":
			u.Input = count(val)
		case "cache_read_input_tokens":
			u.CacheRead = count(val)
		case "cache_creation_input_tokens":
			u.CacheWrite = count(val)
		case "output_tokens":
			u.Output = count(val)
		}
		return true
	})
	u.Used = u.Input + u.CacheRead + u.CacheWrite
	return u
}
