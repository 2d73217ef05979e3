package opencode

import (
	"testing"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

func FuzzTerminal(f *testing.F) {
	telemetrytest.Fuzz(f, func() telemetry.Decoder { return Terminal("", true) }, "bus/t*.jsonl",
		`{"k":"init","t":1795247312700,"o":{"sessionID":"s","version":TEXT}}`,
		`{"k":"event","t":1795247312720,"o":{"type":"session.created","properties":{"sessionID":"s","info":{"id":"s","title":TEXT,"time":{"created":1795247312720}}}}}`,
		`{"k":"event","t":1795247312761,"o":{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m1","role":"user","time":{"created":1795247312761},"system":TEXT}}}}`,
		`{"k":"event","t":1795247312762,"o":{"type":"message.part.updated","properties":{"sessionID":"s","part":{"messageID":"m1","type":"text","text":TEXT}}}}`,
		`{"k":"event","t":1795247312782,"o":{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m2","role":"assistant","parentID":"m1","time":{"created":1795247312782}}}}}`,
		`{"k":"event","t":1795247312783,"o":{"type":"message.part.updated","properties":{"sessionID":"s","part":{"messageID":"m2","type":"tool","tool":TEXT}}}}`)
}

func FuzzLog(f *testing.F) {
	telemetrytest.Fuzz(f, func() telemetry.Decoder { return Log("/x", "") }, "bus/none",
		`timestamp=2026-11-23T08:29:15.702Z level=INFO run=1 message=loading path=/x`,
		`timestamp=2026-11-23T08:29:15.702Z level=INFO run=1 message=created id=ses_1 parentID=undefined version=TEXT`,
		`timestamp=2026-11-23T08:29:15.702Z level=INFO run=1 message=created id=ses_TEXT`,
		`timestamp=TEXT level=INFO run=1 message=loop session.id=ses_2 step=0`)
}

func FuzzBus(f *testing.F) {
	telemetrytest.Fuzz(f, Bus, "bus/t*.jsonl",
		`{"id":"evt_1fd140f5700136QWiuMoU1SW2M","type":"session.created","properties":{"sessionID":"s","info":{"id":"s","title":TEXT,"time":{"created":1795247312720}}}}`,
		`{"id":"evt_1fd140f7d001gwJcLPXDBvchl6","type":"message.updated","properties":{"sessionID":"s","info":{"id":"m1","role":"user","time":{"created":1795247312761},"system":TEXT}}}`,
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m1","type":"text","text":TEXT}}}`,
		`{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m2","role":"assistant","parentID":"m1","time":{"created":1795247312782},"error":{"name":"APIError","data":{"message":TEXT}}}}}`,
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"messageID":"m2","type":"tool","callID":"c","tool":TEXT,"state":{"status":"running","input":{"status":TEXT},"title":TEXT}}}}`,
		`{"type":"session.status","properties":{"sessionID":"s","status":{"type":"retry","message":TEXT,"next":1}}}`,
		`{"type":"session.status","properties":{"sessionID":"s","status":{"type":TEXT}}}`,
		`{"type":"session.error","properties":{"sessionID":"s","error":{"name":TEXT,"data":{"message":TEXT}}}}`,
		`{"type":"permission.asked","properties":{"sessionID":"s","permission":TEXT,"metadata":{"command":TEXT}}}`,
		`{"type":"session.idle","properties":{"sessionID":"s"}}`,
		`{"k":TEXT,"o":{}}`, `{"type":TEXT,"properties":{}}`)
}

func FuzzStore(f *testing.F) {
	telemetrytest.Fuzz(f, Store, "store/*.jsonl",
		`{"aggregate_id":"s","seq":0,"type":"session.created.1","data":{"sessionID":"s","info":{"id":"s","title":TEXT,"time":{"created":1795247312720}}}}`,
		`{"aggregate_id":"s","seq":1,"type":"message.updated.1","data":{"sessionID":"s","info":{"id":"m1","role":"user","time":{"created":1795247312761}}}}`,
		`{"aggregate_id":"s","seq":3,"type":"message.part.updated.1","data":{"sessionID":"s","part":{"messageID":"m1","type":"text","text":TEXT}}}`,
		`{"aggregate_id":"s","seq":4,"type":"message.updated.1","data":{"sessionID":"s","info":{"id":"m2","role":"assistant","parentID":"m1","finish":TEXT,"time":{"created":1795247312782,"completed":1795247312783}}}}`,
		`{"aggregate_id":"s","seq":5,"type":"session.updated.1","data":{"sessionID":"s","info":{"title":TEXT,"tokens":{"input":1}}}}`,
		`{"aggregate_id":"s","seq":6,"type":TEXT,"data":{}}`)
}

func FuzzRun(f *testing.F) {
	telemetrytest.Fuzz(f, Run, "run/*.jsonl",
		`{"type":"text","timestamp":1,"sessionID":"s","part":{"messageID":"m","text":TEXT}}`,
		`{"type":"error","timestamp":1,"sessionID":"s","error":{"name":TEXT,"data":{"message":TEXT}}}`,
		`{"type":"step_finish","timestamp":1,"sessionID":"s","part":{"messageID":"m","reason":TEXT,"tokens":{"input":1}}}`)
}
