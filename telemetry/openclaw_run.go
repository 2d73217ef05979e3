package telemetry

import "time"

// openclawRun decodes the events of OpenClaw's trajectory_runtime_events. What
// it calls a session there is one run, the answer to one prompt: its
// `session.started` and `session.ended` frame a turn. They are a stream that is
// kept in a table: OpenClaw writes them in batches, mostly when the run is over,
// and drops the oldest.
type openclawRun struct {
	tally
	triggers map[string]string // of runs, by id
	session  string            // that was told to be live, with
	version  string            // the harness's version then
}

// openclawEvent is one event, with its data not yet read.
type openclawEvent struct {
	kind, session, run, dir, model string
	at                             time.Time
	data                           []byte
}

func (d *openclawRun) Decode(record []byte) []Signal {
	var e openclawEvent
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			e.kind = word(val)
		case "ts":
			e.at = stamp(val)
		case "sessionId":
			e.session = name(val)
		case "runId":
			e.run = name(val)
		case "workspaceDir":
			e.dir = path(val)
		case "modelId":
			e.model = name(val)
		case "data":
			e.data = val
		}
		return true
	})
	if !ok || e.kind == "" || e.session == "" {
		d.miss(malformed)
		return nil
	}
	return d.event(e)
}

func (e openclawEvent) signal(kind Kind) Signal {
	return Signal{Kind: kind, Source: "stream", Detail: e.kind, At: e.at, Session: e.session, Turn: e.run}
}

func (d *openclawRun) event(e openclawEvent) []Signal {
	trigger, begun := d.triggers[e.run]
	if e.kind == "session.started" {
		trigger, begun = member(e.data, "trigger", word), true
		if d.triggers == nil || len(d.triggers) >= openclawRuns {
			d.triggers = make(map[string]string)
		}
		d.triggers[e.run] = trigger
	}
	// Who asked for a run stands in its first event. One that is met in its
	// middle is work of somebody, and no prompt.
	person := begun && openclawPerson(trigger)
	switch e.kind {
	case "session.started":
		if person {
			return []Signal{e.signal(Working)}
		}
		return nil
	case "trace.metadata":
		if person {
			return d.live(e, e.version())
		}
		return nil
	case "prompt.submitted":
		if person {
			return append(d.live(e, d.version), e.signal(Prompt))
		}
		return nil
	case "model.completed":
		return d.completed(e, trigger, person)
	case "session.ended":
		delete(d.triggers, e.run)
		if begun && !person {
			return nil
		}
		return d.ended(e)
	case "context.compiled", "trace.artifacts", "trace.truncated":
		return nil
	}
	d.miss(e.kind)
	return nil
}

func (e openclawEvent) version() (version string) {
	members(e.data, func(key, val []byte) bool {
		if string(key) != "harness" {
			return true
		}
		version = member(val, "version", word)
		return false
	})
	return version
}

// live tells that a session is live, once until another one is.
func (d *openclawRun) live(e openclawEvent, version string) []Signal {
	if e.session == d.session && version == d.version {
		return nil
	}
	d.session, d.version = e.session, version
	s := e.signal(SessionLive)
	s.Turn = ""
	s.Cause, s.Version, s.Dir, s.Model = "unknown", version, e.dir, e.model
	return []Signal{s}
}

// completed tells the calls of a run, named as the transcript names them, if the
// run's copy of the messages reaches as far; OpenClaw cuts it behind 64. Else
// they are told as one, with the size of the last prompt.
func (d *openclawRun) completed(e openclawEvent, trigger string, person bool) []Signal {
	var messages, all, last []byte
	members(e.data, func(key, val []byte) bool {
		switch string(key) {
		case "messagesSnapshot":
			messages = val
		case "usage":
			all = val
		case "promptCache":
			members(val, func(key, val []byte) bool {
				if string(key) == "lastCallUsage" {
					last = val
				}
				return true
			})
		}
		return true
	})
	var usages []*Usage
	for _, m := range openclawCalls(messages, e.run) {
		usages = append(usages, m.call(e.run, ""))
	}
	if u := openclawSum(all, last); len(usages) == 0 && u != nil {
		u.Request = e.run
		usages = append(usages, u)
	}
	var out []Signal
	for _, u := range usages {
		s := e.signal(UsageSeen)
		s.Model, s.Usage = e.model, u
		if !person {
			s.Side = trigger
		}
		out = append(out, s)
	}
	return out
}

func (d *openclawRun) ended(e openclawEvent) []Signal {
	var status string
	var aborted, late bool
	members(e.data, func(key, val []byte) bool {
		switch string(key) {
		case "status":
			status = word(val)
		case "aborted", "externalAbort":
			aborted = aborted || isTrue(val)
		case "timedOut", "idleTimedOut", "timedOutDuringCompaction", "timedOutDuringToolExecution", "timedOutByRunBudget":
			late = late || isTrue(val)
		}
		return true
	})
	s := e.signal(TurnEnd)
	switch {
	case late:
		s.Outcome, s.Error = Failed, ErrUnknown // a time-out aborts, too
	case aborted, status == "interrupted", status == "aborted":
		s.Outcome = Interrupted
	case status == "success":
		s.Outcome = Completed
	case status == "error", status == "failed":
		s.Outcome, s.Error = Failed, ErrUnknown
	default:
		d.miss("session.ended/" + status)
	}
	return []Signal{s}
}
