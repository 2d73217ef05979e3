package telemetry

import "time"

// openclawAgent decodes what `openclaw agent --local --json` prints: one object
// when the one turn is over. It is all of a session's turn at once, and its only
// time is that of the turn's start.
type openclawAgent struct {
	tally
	told string // the run that was told: a file may be read again
}

// openclawResult is what is read of the object's meta.
type openclawResult struct {
	failure                        []byte
	stop, session, run, dir, model string
	aborted                        bool
	usage                          *Usage
	window                         int64
	at                             time.Time
}

func (d *openclawAgent) Decode(record []byte) []Signal {
	var meta []byte
	ok := members(record, func(key, val []byte) bool {
		if string(key) == "meta" {
			meta = val
		}
		return true
	})
	if !ok || len(meta) == 0 {
		d.miss(malformed)
		return nil
	}
	var r openclawResult
	r.read(meta)
	if r.session == "" || r.run != "" && r.run == d.told {
		return nil
	}
	d.told = r.run
	return r.signals()
}

func (r *openclawResult) read(meta []byte) {
	members(meta, func(key, val []byte) bool {
		switch string(key) {
		case "agentMeta":
			r.readAgent(val)
		case "aborted":
			r.aborted = isTrue(val)
		case "error":
			r.failure = val
		case "stopReason":
			r.stop = word(val)
		case "systemPromptReport":
			members(val, func(key, val []byte) bool {
				switch string(key) {
				case "workspaceDir":
					r.dir = path(val)
				case "generatedAt":
					r.at = stampMilli(val)
				}
				return true
			})
		}
		return true
	})
}

func (r *openclawResult) readAgent(agent []byte) {
	var all, last []byte
	members(agent, func(key, val []byte) bool {
		switch string(key) {
		case "sessionId":
			r.session = name(val)
		case "model":
			r.model = name(val)
		case "contextTokens":
			r.window = count(val)
		case "usage":
			all = val
		case "lastCallUsage":
			last = val
		case "terminalReceipt":
			r.run = member(val, "runId", name)
		}
		return true
	})
	r.usage = openclawSum(all, last)
}

func (r *openclawResult) signals() []Signal {
	signal := func(kind Kind) Signal {
		return Signal{Kind: kind, Source: "stream", Detail: "agent", At: r.at, Session: r.session, Turn: r.run}
	}
	live := signal(SessionLive)
	live.Turn, live.Cause, live.Dir, live.Model = "", "unknown", r.dir, r.model
	out := []Signal{live, signal(Prompt)}
	if r.usage != nil { // all calls of the turn, told as one
		u := signal(UsageSeen)
		u.Model, u.Usage = r.model, r.usage
		u.Usage.Request = r.run
		if r.window > 0 {
			u.Window, u.WindowSource = r.window, "reported"
		}
		out = append(out, u)
	}
	end := signal(TurnEnd)
	switch {
	case r.aborted, r.stop == "aborted":
		end.Outcome = Interrupted
	case len(r.failure) > 0 && !isNull(r.failure), r.stop == "error":
		end.Outcome, end.Error = Failed, ErrUnknown
	default:
		end.Outcome = Completed
	}
	return append(out, end)
}
