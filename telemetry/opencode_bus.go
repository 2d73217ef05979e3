package telemetry

import (
	"bytes"
	"cmp"
	"time"
)

// opencodeBus decodes the events of OpenCode's bus: as its server tells them
// (SSE), or as a plugin wrote them down, with the names of the hooks that it was
// called by, `{"k":"event","t":…,"o":{…}}`.
type opencodeBus struct {
	opencodeFold
	last string // id of the newest event, which may be given twice
}

func newOpencodeBus() *opencodeBus { return &opencodeBus{opencodeFold: opencodeFold{source: "stream"}} }

func (d *opencodeBus) Decode(record []byte) []Signal {
	var id, kind, hook string
	var props, input []byte
	var at time.Time
	ok := members(bytes.TrimSpace(record), func(key, val []byte) bool {
		switch string(key) {
		case "id":
			id = name(val)
		case "type":
			kind = word(val)
		case "properties":
			props = val
		case "k":
			hook = word(val)
		case "t":
			at = stampMilli(val)
		case "o":
			input = val
		}
		return true
	})
	switch {
	case !ok:
		d.miss(malformed)
		return nil
	case hook != "":
		return d.plugin(hook, at, input)
	case kind == "" || props == nil:
		d.miss(cmp.Or(kind, malformed))
		return nil
	}
	if id != "" && id == d.last {
		return nil
	}
	d.last = id
	return d.event(id, kind, props)
}

// plugin reads what a plugin wrote down of one of its hooks.
func (d *opencodeBus) plugin(hook string, at time.Time, input []byte) []Signal {
	if d.now.IsZero() || at.After(d.now) {
		d.now = at
	}
	switch hook {
	case "event":
		return d.Decode(input)
	case "chat.params":
		return d.params(input)
	case "init", "config", "chat.message", "system.transform", "messages.transform", "session.compacting", "autocontinue",
		"text.complete", "tool.before", "tool.after", "command.before", "permission.ask", "shell.env", "dispose":
	default:
		d.miss("hook/" + hook)
	}
	return nil
}

// params reads the settings of a call to the model: only there the window is
// told.
func (d *opencodeBus) params(input []byte) []Signal {
	var session, agent string
	var window int64
	members(input, func(key, val []byte) bool {
		switch string(key) {
		case "sessionID":
			session = name(val)
		case "agent":
			agent = name(val)
		case "model":
			members(val, func(key, val []byte) bool {
				if string(key) != "limit" {
					return true
				}
				members(val, func(key, val []byte) bool {
					if string(key) == "context" {
						window = count(val)
					}
					return true
				})
				return false
			})
		}
		return true
	})
	if session == "" || agent == "title" || agent == "compaction" {
		return nil
	}
	d.said = nil
	s := d.session(session)
	if window == 0 || window == s.window {
		return nil
	}
	s.window = window
	d.tell(s, Signal{Kind: WindowSeen, Turn: s.turn, Window: window, WindowSource: "reported"}, "chat.params")
	return d.said
}
