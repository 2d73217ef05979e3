package telemetry

import "time"

// openclawNode decodes the rows of OpenClaw's session_nodes: the state of each
// session, written over at each change. What a row tells is news when it
// differs from what the row of that session told before.
//
// A row says nothing of the session's being live now: old ones stay.
type openclawNode struct {
	tally
	rows map[string]openclawState // by session key
}

// openclawState is what one row told.
type openclawState struct {
	session, status, run, model string
	aborted                     bool
	used, window                int64
}

func (d *openclawNode) Decode(record []byte) []Signal {
	var key string
	var at, ended time.Time
	var s openclawState
	var writer string
	fresh := false
	ok := members(record, func(k, val []byte) bool {
		switch string(k) {
		case "session_key":
			key = name(val)
		case "current_session_id":
			s.session = name(val)
		case "updated_at":
			at = stampMilli(val)
		case "entry":
			members(val, func(k, val []byte) bool {
				switch string(k) {
				case "status":
					s.status = word(val)
				case "lastRunId":
					s.run = name(val)
				case "activeWriterRunId":
					writer = name(val)
				case "abortedLastRun":
					s.aborted = isTrue(val)
				case "endedAt":
					ended = stampMilli(val)
				case "model":
					s.model = name(val)
				case "totalTokens":
					s.used = count(val)
				case "totalTokensFresh":
					fresh = isTrue(val)
				case "contextTokens":
					s.window = count(val)
				}
				return true
			})
		}
		return true
	})
	if !ok || key == "" || s.session == "" {
		d.miss(malformed)
		return nil
	}
	if s.status == "running" && writer != "" {
		s.run = writer // lastRunId is still the one before
	}
	if !fresh {
		s.used = 0 // of before a compaction, a reset or a change of the model
	}
	before := d.rows[key]
	if d.rows == nil || len(d.rows) >= openclawRuns {
		d.rows = make(map[string]openclawState)
	}
	d.rows[key] = s
	return d.news(before, s, at, ended)
}

func (d *openclawNode) news(before, s openclawState, at, ended time.Time) []Signal {
	signal := func(kind Kind) Signal {
		return Signal{Kind: kind, Source: "store", Detail: s.status, At: at, Session: s.session}
	}
	var out []Signal
	switch {
	case s.used > 0 && (s.used != before.used || s.run != before.run || s.window != before.window):
		u := signal(UsageSeen)
		u.Turn, u.Model, u.Usage = s.run, s.model, &Usage{Request: s.run, Used: s.used}
		if s.window > 0 {
			u.Window, u.WindowSource = s.window, "reported"
		}
		out = append(out, u)
	case s.window > 0 && s.window != before.window:
		w := signal(WindowSeen)
		w.Window, w.WindowSource = s.window, "reported"
		out = append(out, w)
	}
	if s.status == before.status && s.run == before.run && s.session == before.session {
		return out
	}
	if s.status == "running" {
		w := signal(Working)
		w.Turn = s.run
		return append(out, w)
	}
	if s.run == "" {
		return out // no run of it is named, so none is known to have ended
	}
	end := signal(TurnEnd)
	end.Turn = s.run
	if !ended.IsZero() {
		end.At = ended
	}
	switch {
	case s.status == "":
		return out
	case s.aborted, s.status == "killed":
		end.Outcome = Interrupted
	case s.status == "done":
		end.Outcome = Completed
	case s.status == "failed", s.status == "timeout":
		end.Outcome, end.Error = Failed, ErrUnknown
	default:
		d.miss("status/" + s.status)
		return out
	}
	return append(out, end)
}
