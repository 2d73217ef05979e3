package telemetry

import (
	"strconv"
	"strings"
)

// opencodeStore decodes the rows of the table `event` of OpenCode's database,
// in the order in which they were written:
//
//	{"id":"evt_…","aggregate_id":"ses_…","seq":0,"type":"session.created.1","data":{…}}
//
// The rows of a session are numbered without a hole. A row that comes again is
// passed over.
type opencodeStore struct{ opencodeFold }

func newOpencodeStore() *opencodeStore {
	return &opencodeStore{opencodeFold{source: "store", store: true}}
}

func (d *opencodeStore) Decode(record []byte) []Signal {
	var id, session, kind string
	var data []byte
	seq, numbered := uint64(0), false
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			id = name(val)
		case "aggregate_id":
			session = name(val)
		case "seq":
			n, err := strconv.ParseUint(string(val), 10, 53)
			seq, numbered = n, err == nil
		case "type":
			kind = word(val)
		case "data":
			data = val
		}
		return true
	})
	if !ok || session == "" || kind == "" || !numbered {
		d.miss(malformed)
		return nil
	}
	plain, found := strings.CutSuffix(kind, ".1")
	s := d.session(session)
	next, begun := s.next, s.begun
	if begun && seq < next {
		return nil
	}
	s.next, s.begun = seq+1, true
	var out []Signal
	if begun && seq > next {
		d.said, d.now = nil, opencodeTime(id, d.now)
		d.tell(s, Signal{Kind: Gap, Turn: s.turn, Missing: &[2]uint64{next, seq - 1}}, "seq "+strconv.FormatUint(seq, 10))
		out = d.said
	}
	if !found {
		d.miss(kind)
		return out
	}
	return append(out, d.event(id, plain, data)...)
}
