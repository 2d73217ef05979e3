package openclaw

import (
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// run decodes the events of OpenClaw's trajectory_runtime_events. In the names
// of the events, session means one run, the answer to one prompt: a turn begins
// with `session.started` and ends with `session.ended`. OpenClaw writes the events
// in batches, mostly when the run is over, and drops the oldest events.
type run struct {
	telemetry.Tally
	triggers map[string]string // the trigger of each run, by the run's id
	session  string            // the session that was last reported as live
	version  string            // the harness's version that was last reported
}

// event is one event, with its data not yet decoded.
type event struct {
	kind, session, run, dir, model string
	at                             time.Time
	data                           []byte
}

// Run returns a decoder of rows of trajectory_runtime_events.
func Run() telemetry.Decoder { return new(run) }

func (d *run) Decode(record []byte) []telemetry.Signal {
	var e event
	ok := scan.Object(record,
		scan.Word("type", &e.kind), scan.Time("ts", &e.at), scan.Name("sessionId", &e.session), scan.Name("runId", &e.run),
		scan.Path("workspaceDir", &e.dir), scan.Name("modelId", &e.model), scan.Raw("data", &e.data))
	if !ok || e.kind == "" || e.session == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	return d.event(e)
}

func (e event) signal(kind telemetry.Kind) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "stream", Detail: e.kind, At: e.at, Session: e.session, Turn: e.run}
}

func (d *run) event(e event) []telemetry.Signal {
	trigger, begun := d.triggers[e.run]
	if e.kind == "session.started" {
		trigger, begun = scan.MemberOf(e.data, "trigger", scan.WordOf), true
		remember(&d.triggers, e.run, trigger)
	}
	// Only the first event of a run names its trigger. If that event was not read,
	// only the model calls and the end of the run are reported.
	person := begun && byUser(trigger)
	switch e.kind {
	case "session.started":
		if person {
			return []telemetry.Signal{e.signal(telemetry.Working)}
		}
		return nil
	case "trace.metadata":
		if person {
			return d.live(e, e.version())
		}
		return nil
	case "prompt.submitted":
		if person {
			return append(d.live(e, d.version), e.signal(telemetry.Prompt))
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
	d.Miss(e.kind)
	return nil
}

func (e event) version() (version string) {
	scan.Object(e.data,
		scan.In("harness", scan.Word("version", &version)))
	return version
}

// live reports that a session is live, unless the newest report had the same session
// and version.
func (d *run) live(e event, version string) []telemetry.Signal {
	if e.session == d.session && version == d.version {
		return nil
	}
	d.session, d.version = e.session, version
	s := e.signal(telemetry.SessionLive)
	s.Turn = ""
	s.Cause, s.Version, s.Dir, s.Model = "unknown", version, e.dir, e.model
	return []telemetry.Signal{s}
}

// completed reports a run's model calls from the run's copy of the messages. Each call
// has the same id as in the transcript. OpenClaw limits the copy to 64 messages. If the
// copy contains no call, completed reports the run as one call, with the sum of the
// tokens of all calls and the size of the context at the last call.
func (d *run) completed(e event, trigger string, person bool) []telemetry.Signal {
	var messages, all, last []byte
	scan.Object(e.data,
		scan.Raw("messagesSnapshot", &messages), scan.Raw("usage", &all), scan.In("promptCache", scan.Raw("lastCallUsage", &last)))
	var usages []*telemetry.Usage
	for _, m := range callsOf(messages, e.run) {
		usages = append(usages, m.call(e.run, ""))
	}
	if u := sumUsage(all, last); len(usages) == 0 && u != nil {
		u.Request = e.run
		usages = append(usages, u)
	}
	var out []telemetry.Signal
	for _, u := range usages {
		s := e.signal(telemetry.UsageSeen)
		s.Model, s.Usage = e.model, u
		if !person {
			s.Side = trigger
		}
		out = append(out, s)
	}
	return out
}

func (d *run) ended(e event) []telemetry.Signal {
	var status string
	var aborted, late bool
	scan.Object(e.data,
		scan.Word("status", &status), scan.Func("aborted", func(val []byte) { aborted = aborted || scan.IsTrue(val) }),
		scan.Func("externalAbort", func(val []byte) { aborted = aborted || scan.IsTrue(val) }),
		scan.Func("timedOut", func(val []byte) { late = late || scan.IsTrue(val) }),
		scan.Func("idleTimedOut", func(val []byte) { late = late || scan.IsTrue(val) }),
		scan.Func("timedOutDuringCompaction", func(val []byte) { late = late || scan.IsTrue(val) }),
		scan.Func("timedOutDuringToolExecution", func(val []byte) { late = late || scan.IsTrue(val) }),
		scan.Func("timedOutByRunBudget", func(val []byte) { late = late || scan.IsTrue(val) }))
	s := e.signal(telemetry.TurnEnd)
	switch {
	case late:
		s.Outcome, s.Error = telemetry.Failed, telemetry.ErrUnknown // tested first, because a run that timed out is also marked as aborted
	case aborted, status == "interrupted", status == "aborted":
		s.Outcome = telemetry.Interrupted
	case status == "success":
		s.Outcome = telemetry.Completed
	case status == "error", status == "failed":
		s.Outcome, s.Error = telemetry.Failed, telemetry.ErrUnknown
	default:
		d.Miss("session.ended/" + status)
	}
	return []telemetry.Signal{s}
}
