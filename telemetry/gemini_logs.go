package telemetry

// geminiLogs decodes logs.json, the list of what was typed into the terminal
// sessions of one folder, kept for recalling it. A record is the whole list, so
// the decoder remembers how far it told each session.
//
// What was typed may be a prompt, a prompt that a hook refused or a command of
// the shell, and the list does not say which. So it tells signs of life and no
// prompts.
type geminiLogs struct {
	tally
	next map[string]int64 // by session: the number after the newest one told
}

func (d *geminiLogs) Decode(record []byte) []Signal {
	var out []Signal
	if !elements(record, func(val []byte) bool {
		if s, ok := d.entry(val); ok {
			out = append(out, s)
		}
		return true
	}) {
		d.miss(malformed)
	}
	return out
}

func (d *geminiLogs) entry(val []byte) (Signal, bool) {
	var kind string
	var number []byte
	s := Signal{Kind: Alive, Source: "log"}
	if !members(val, func(key, val []byte) bool {
		switch string(key) {
		case "sessionId":
			s.Session = name(val)
		case "messageId":
			number = val
		case "type":
			kind = word(val)
		case "timestamp":
			s.At = stamp(val)
		}
		return true
	}) || s.Session == "" {
		d.miss(malformed)
		return s, false
	}
	if kind != "user" {
		d.miss("type/" + kind)
		return s, false
	}
	n := count(number)
	if n < d.next[s.Session] {
		return s, false
	}
	if d.next == nil {
		d.next = map[string]int64{}
	}
	d.next[s.Session] = n + 1
	s.Detail = "typed"
	return s, true
}
