package openclaw

import (
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// agent decodes the output of `openclaw agent --local --json`: one object,
// written after the only turn. It describes the whole turn, and its only time
// is that of the turn's start.
type agent struct {
	telemetry.Tally
	reported string // the run that was reported last; it is not reported again if its file is read again
}

// result holds what is read from the object's member meta.
type result struct {
	failure                        []byte
	stop, session, run, dir, model string
	aborted                        bool
	usage                          *telemetry.Usage
	window                         int64
	at                             time.Time
}

// Agent returns a decoder of the output of `openclaw agent --local --json`.
func Agent() telemetry.Decoder { return new(agent) }

func (d *agent) Decode(record []byte) []telemetry.Signal {
	var meta []byte
	ok := scan.Object(record, scan.Raw("meta", &meta))
	if !ok || len(meta) == 0 {
		d.Miss(telemetry.Malformed)
		return nil
	}
	var r result
	r.read(meta)
	if r.session == "" || r.run != "" && r.run == d.reported {
		return nil
	}
	d.reported = r.run
	return r.signals()
}

func (r *result) read(meta []byte) {
	scan.Object(meta,
		scan.Func("agentMeta", func(val []byte) { r.readAgent(val) }), scan.True("aborted", &r.aborted),
		scan.Raw("error", &r.failure), scan.Word("stopReason", &r.stop),
		scan.In("systemPromptReport", scan.Path("workspaceDir", &r.dir), scan.Milli("generatedAt", &r.at)))
}

func (r *result) readAgent(agent []byte) {
	var all, last []byte
	scan.Object(agent,
		scan.Name("sessionId", &r.session), scan.Name("model", &r.model), scan.Count("contextTokens", &r.window),
		scan.Raw("usage", &all), scan.Raw("lastCallUsage", &last),
		scan.In("terminalReceipt", scan.Name("runId", &r.run)))
	r.usage = sumUsage(all, last)
}

func (r *result) signals() []telemetry.Signal {
	signal := func(kind telemetry.Kind) telemetry.Signal {
		return telemetry.Signal{Kind: kind, Source: "stream", Detail: "agent", At: r.at, Session: r.session, Turn: r.run}
	}
	live := signal(telemetry.SessionLive)
	live.Turn, live.Cause, live.Dir, live.Model = "", "unknown", r.dir, r.model
	out := []telemetry.Signal{live, signal(telemetry.Prompt)}
	if r.usage != nil { // reported as one call: the sum of all calls of the turn
		u := signal(telemetry.UsageSeen)
		u.Model, u.Usage = r.model, r.usage
		u.Usage.Request = r.run
		u.ReportWindow(r.window)
		out = append(out, u)
	}
	end := signal(telemetry.TurnEnd)
	switch {
	case r.aborted, r.stop == "aborted":
		end.Outcome = telemetry.Interrupted
	case len(r.failure) > 0 && !scan.IsNull(r.failure), r.stop == "error":
		end.Outcome, end.Error = telemetry.Failed, telemetry.ErrUnknown
	default:
		end.Outcome = telemetry.Completed
	}
	return append(out, end)
}
