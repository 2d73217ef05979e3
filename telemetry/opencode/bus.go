package opencode

import (
	"bytes"
	"cmp"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// bus decodes the events of OpenCode's bus, either as its server sends them
// (SSE) or as a plugin recorded them, with the name of the plugin's hook:
// `{"k":"event","t":…,"o":{…}}`.
type bus struct {
	fold
	telemetry.Waits
	last string // id of the newest event, to detect an event that is sent twice
}

// Bus returns a decoder of bus events.
func Bus() telemetry.Decoder { return &bus{fold: fold{source: "stream"}} }

func (d *bus) Decode(record []byte) []telemetry.Signal {
	var id, kind, hook string
	var props, input []byte
	var at time.Time
	ok := scan.Object(bytes.TrimSpace(record),
		scan.Name("id", &id), scan.Word("type", &kind), scan.Raw("properties", &props), scan.Word("k", &hook), scan.Milli("t", &at),
		scan.Raw("o", &input))
	switch {
	case !ok:
		d.Miss(telemetry.Malformed)
		return nil
	case hook != "":
		return d.plugin(hook, at, input)
	case kind == "" || props == nil:
		d.Miss(cmp.Or(kind, telemetry.Malformed))
		return nil
	}
	if id != "" && id == d.last {
		return nil
	}
	d.last = id
	return d.event(id, kind, props)
}

// plugin reads a plugin's record of a call of one of its hooks.
func (d *bus) plugin(hook string, at time.Time, input []byte) []telemetry.Signal {
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
		d.Miss("hook/" + hook)
	}
	return nil
}

// params reads the plugin's record of the settings of a model call. No other record has
// the context window.
func (d *bus) params(input []byte) []telemetry.Signal {
	var session, agent string
	var window int64
	scan.Object(input,
		scan.Name("sessionID", &session), scan.Name("agent", &agent),
		scan.In("model", scan.In("limit", scan.Count("context", &window))))
	if session == "" || agent == "title" || agent == "compaction" {
		return nil
	}
	d.signals = nil
	s := d.session(session)
	if window == 0 || window == s.window {
		return nil
	}
	s.window = window
	d.emit(s, telemetry.Signal{Kind: telemetry.WindowSeen, Turn: s.turn, Window: window, WindowSource: "reported"}, "chat.params")
	return d.signals
}
