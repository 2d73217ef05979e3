package openclaw

import (
	"encoding/json"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// This file encodes the requests to our plugin in a gateway, and decodes the plugin's
// replies. The plugin reports one session. On the request "fresh" it resets that session
// with the gateway's method sessions.reset. Before the plugin replies, it reports the
// fresh session as a call of the hook sessionReset:
//
//	fresh ─► sessions.reset ─► sessionReset ─► reply … the next prompt: sessionContext

// requests decodes the stream of our plugin, which contains only replies to requests of
// the wrapper.
type requests struct{ telemetry.Tally }

// Requests returns the decoder for the stream of our plugin in a gateway.
func Requests() telemetry.Requests { return &requests{} }

func (d *requests) Decode([]byte) []telemetry.Signal {
	d.Miss(telemetry.Malformed)
	return nil
}

// Request implements telemetry.Requests. OpenClaw does not ask the wrapper before its
// requests to the model.
func (d *requests) Request(bool) (telemetry.Request, bool) { return telemetry.Request{}, true }

func (d *requests) End() []telemetry.Signal { return nil }

// Ask implements telemetry.Resetter.
func (d *requests) Ask(r telemetry.PluginRequest) []byte {
	line, err := json.Marshal(struct {
		Op telemetry.PluginOp `json:"op"`
		ID string             `json:"id"`
	}{r.Op, r.ID})
	if err != nil {
		panic("openclaw: encode a request to the plugin: " + err.Error())
	}
	return line
}

// Reply implements telemetry.Resetter.
func (d *requests) Reply(record []byte) (r telemetry.PluginReply, is bool) {
	var kind string
	var input []byte
	scan.Object(record, scan.Word("k", &kind), scan.Raw("o", &input))
	if kind != string(telemetry.Fresh) {
		return r, false
	}
	r.Op = telemetry.Fresh
	scan.Object(input, scan.Name("id", &r.ID), scan.True("busy", &r.Busy), scan.Word("failure", &r.Failure))
	return r, true
}
