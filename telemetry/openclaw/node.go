package openclaw

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// node decodes the rows of OpenClaw's session_nodes: the state of each
// session, which is overwritten at each change. The decoder reports how a row
// differs from the previous row of its session.
//
// A row does not show whether the session is live, because old rows remain.
type node struct {
	telemetry.Tally
	rows map[string]state // the newest state of each session, by session key
}

// state is what one row reported.
type state struct {
	session, status, run, model string
	aborted                     bool
	used, window                int64
}

// Node returns a decoder of rows of session_nodes.
func Node() telemetry.Decoder { return new(node) }

func (d *node) Decode(record []byte) []telemetry.Signal {
	var key string
	var at, ended time.Time
	var s state
	var writer string
	fresh := false
	ok := scan.Object(record,
		scan.Name("session_key", &key), scan.Name("current_session_id", &s.session), scan.Milli("updated_at", &at),
		scan.In("entry", scan.Word("status", &s.status), scan.Name("lastRunId", &s.run), scan.Name("activeWriterRunId", &writer), scan.True("abortedLastRun", &s.aborted), scan.Milli("endedAt", &ended), scan.Name("model", &s.model), scan.Count("totalTokens", &s.used), scan.True("totalTokensFresh", &fresh), scan.Count("contextTokens", &s.window)))
	if !ok || key == "" || s.session == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if s.status == "running" && writer != "" {
		s.run = writer // while a run is active, lastRunId is still the id of the previous run
	}
	if !fresh {
		s.used = 0 // the number is older than a compaction, a reset or a change of the model
	}
	before := d.rows[key]
	remember(&d.rows, key, s)
	return d.changes(before, s, at, ended)
}

func (d *node) changes(before, s state, at, ended time.Time) []telemetry.Signal {
	signal := func(kind telemetry.Kind) telemetry.Signal {
		return telemetry.Signal{Kind: kind, Source: "store", Detail: s.status, At: at, Session: s.session}
	}
	var out []telemetry.Signal
	switch {
	case s.used > 0 && (s.used != before.used || s.run != before.run || s.window != before.window):
		u := signal(telemetry.UsageSeen)
		u.Turn, u.Model, u.Usage = s.run, s.model, &telemetry.Usage{Request: s.run, Used: s.used}
		u.ReportWindow(s.window)
		out = append(out, u)
	case s.window > 0 && s.window != before.window:
		w := signal(telemetry.WindowSeen)
		w.Window, w.WindowSource = s.window, "reported"
		out = append(out, w)
	}
	if s.status == before.status && s.run == before.run && s.session == before.session {
		return out
	}
	if s.status == "running" {
		w := signal(telemetry.Working)
		w.Turn = s.run
		return append(out, w)
	}
	if s.run == "" {
		return out // the row names no run, so it does not show which run has ended
	}
	end := signal(telemetry.TurnEnd)
	end.Turn, end.At = s.run, cmp.Or(ended, at)
	switch {
	case s.status == "":
		return out
	case s.aborted, s.status == "killed":
		end.Outcome = telemetry.Interrupted
	case s.status == "done":
		end.Outcome = telemetry.Completed
	case s.status == "failed", s.status == "timeout":
		end.Outcome, end.Error = telemetry.Failed, telemetry.ErrUnknown
	default:
		d.Miss("status/" + s.status)
		return out
	}
	return append(out, end)
}
