package opencode

import (
	"encoding/json"
	"slices"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// This file encodes the requests to our plugin in the terminal interface, and decodes
// the plugin's replies. One request creates a session and shows it. Another puts a
// message into a session, without an answer of the model. The plugin replies on its
// stream, among the events of the sessions:
//
//	session.created ─ fresh ─ … ─ message.updated ─ placed

// freshSession is the name of the hook call that reports a session that was begun on
// request. The text in its answer goes into that session.
const freshSession = "plugin.fresh"

// Ask implements telemetry.Resetter.
func (d *terminal) Ask(r telemetry.PluginRequest) []byte {
	line, err := json.Marshal(struct {
		Op      telemetry.PluginOp `json:"op"`
		ID      string             `json:"id"`
		Session string             `json:"sessionID,omitempty"`
		Text    string             `json:"text,omitempty"`
	}{r.Op, r.ID, r.Session, r.Text})
	if err != nil {
		panic("opencode: encode a request to the plugin: " + err.Error())
	}
	return line
}

// Reply implements telemetry.Resetter.
func (d *terminal) Reply(record []byte) (r telemetry.PluginReply, is bool) {
	var kind, session string
	var input []byte
	scan.Object(record, scan.Word("k", &kind), scan.Raw("o", &input))
	switch kind {
	case "fresh":
		r.Op = telemetry.Fresh
	case "placed":
		r.Op = telemetry.Place
	default:
		return r, false
	}
	scan.Object(input, scan.Name("id", &r.ID), scan.Name("sessionID", &session), scan.True("busy", &r.Busy), scan.Word("failure", &r.Failure))
	switch {
	case r.Op != telemetry.Fresh:
	case r.Busy || r.Failure != "":
		d.disown(session)
	case session == "":
		r.Failure = "no-session"
	default:
		r.Before = d.adopt(session)
		r.Call = d.freshCall(session)
	}
	return r, true
}

// disown drops the signals of a session that the plugin created and removed again:
// those that are held back and those that follow.
func (d *terminal) disown(session string) {
	if session == "" {
		return
	}
	d.own[session] = false
	d.held = slices.DeleteFunc(d.held, func(s telemetry.Signal) bool { return s.Session == session })
}

// adopt records that the plugin created this session. It returns the signals that were
// held back, except those of this session: freshCall reports the session's start.
func (d *terminal) adopt(session string) []telemetry.Signal {
	d.known[session], d.own[session] = true, true
	return slices.DeleteFunc(d.End(), func(s telemetry.Signal) bool { return s.Session == session })
}

// freshCall reports the start of a session as a call of the hook freshSession.
func (d *terminal) freshCall(session string) telemetry.HookCall {
	call := telemetry.HookCall{Event: freshSession, Session: session}
	call.Fill(telemetry.SlotSession)
	for _, s := range []telemetry.Signal{{Kind: telemetry.SessionLive, Cause: "clear"}, {Kind: telemetry.Idle}} {
		s.Source, s.Detail, s.At, s.Session = pluginSource, freshSession, d.now, session
		call.Add(s)
	}
	return call
}
