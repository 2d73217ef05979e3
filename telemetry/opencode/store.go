package opencode

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// store decodes the rows of the table `event` of OpenCode's database, in the
// order in which they were written:
//
//	{"id":"evt_…","aggregate_id":"ses_…","seq":0,"type":"session.created.1","data":{…}}
//
// The rows of a session are numbered without gaps. A repeated row is skipped.
type store struct{ fold }

// Store returns a decoder of rows of the event table.
func Store() telemetry.Decoder { return newStore() }

func newStore() *store {
	return &store{fold{source: "store", store: true}}
}

func (d *store) Decode(record []byte) []telemetry.Signal {
	var id, session, kind string
	var data []byte
	seq, numbered := uint64(0), false
	ok := scan.Object(record,
		scan.Name("id", &id), scan.Name("aggregate_id", &session),
		scan.Func("seq", func(val []byte) {
			n, err := strconv.ParseUint(string(val), 10, 53)
			seq, numbered = n, err == nil
		}),
		scan.Word("type", &kind), scan.Raw("data", &data))
	if !ok || session == "" || kind == "" || !numbered {
		d.Miss(telemetry.Malformed)
		return nil
	}
	plain, found := strings.CutSuffix(kind, ".1")
	s := d.session(session)
	next, begun := s.next, s.numbered
	if begun && seq < next {
		return nil
	}
	s.next, s.numbered = seq+1, true
	var out []telemetry.Signal
	if begun && seq > next {
		d.signals, d.now = nil, timeOf(id, d.now)
		d.emit(s, telemetry.Signal{Kind: telemetry.Gap, Turn: s.turn, Missing: &[2]uint64{next, seq - 1}}, "seq "+strconv.FormatUint(seq, 10))
		out = d.signals
	}
	if !found {
		d.Miss(kind)
		return out
	}
	return append(out, d.event(id, plain, data)...)
}

// End implements telemetry.Holder. `opencode run` may exit before it writes the sum of a
// turn's tokens, the row that ends the turn. If the turn's last answer is complete, End
// ends the turn. If that answer called tools, the outcome is interrupted: the model did
// not answer the tools' results, for example because the user refused a permission. If
// that answer is the summary of a compaction, End does not end the turn, because the
// turn continues after a summary.
func (d *store) End() []telemetry.Signal {
	var out []telemetry.Signal
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) {
		s := d.sessions[id]
		if !s.held || s.turn == "" || s.answer.summary {
			continue
		}
		if s.called { // some providers then report the finish "stop"
			s.answer.finish = "tool-calls"
		}
		d.signals, d.now = nil, s.answer.completed
		d.idle(s, s.answer.id)
		out = append(out, d.signals...)
	}
	return out
}

// storeOfRun decodes the store for a launch of only one turn. The decoder of OneTurn
// reports the session and the prompt, without the turn's id. So storeOfRun reports
// neither of them, and removes that id from its signals.
type storeOfRun struct{ *store }

// StoreOfRun returns a decoder of rows of the event table, for `opencode run` with
// [OneTurn]. It reports no session and no prompt, and its signals have no turn.
func StoreOfRun() telemetry.Decoder { return storeOfRun{newStore()} }

func (d storeOfRun) Decode(record []byte) []telemetry.Signal {
	return ofRun(d.store.Decode(record))
}

// End implements telemetry.Holder.
func (d storeOfRun) End() []telemetry.Signal { return ofRun(d.store.End()) }

// ofRun removes the sessions and prompts, which the decoder of OneTurn reports, and the
// turns' ids.
func ofRun(signals []telemetry.Signal) []telemetry.Signal {
	var out []telemetry.Signal
	for _, s := range signals {
		if s.Kind != telemetry.SessionLive && s.Kind != telemetry.Prompt {
			s.Turn = ""
			out = append(out, s)
		}
	}
	return out
}
