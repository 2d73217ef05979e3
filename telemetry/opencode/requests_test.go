package opencode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"lifeloop/telemetry"
	"lifeloop/telemetry/opencode"
	"lifeloop/telemetry/telemetrytest"
)

// TestRequests runs the stories in testdata/requests. Some are recordings of our plugin
// in the real OpenCode, with the moments when OpenCode read the URL of our instructions.
// Commands:
//
//	terminal [cause=WORD] [attached]   a terminal interface begins
//	run [cause=WORD]                   `opencode run` begins
//	records                            the input is records, a line each; a line
//	                                   READING is a reading of the URL
//	end                                the plugin's stream ends
//
// A reading waits if the events before it were not read yet. A waiting reading is
// tried again after each record; LATE is the end of its wait.
func TestRequests(t *testing.T) {
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		var d telemetry.Requests
		waiting := 0
		var out strings.Builder
		print := func(prefix string, signals []telemetry.Signal) {
			for _, s := range signals {
				telemetrytest.CheckSignal(t, s)
				fmt.Fprintf(&out, "%s%s\n", prefix, telemetrytest.Line(s))
			}
		}
		read := func(late bool) bool {
			r, ok := d.Request(late)
			if !ok {
				return false
			}
			fmt.Fprintf(&out, "reading: %d calls\n", len(r.Calls))
			for _, c := range r.Calls {
				fmt.Fprintf(&out, "  %s slot=%s session=%s turn=%s\n", c.Event, c.Slot, c.Session, c.Turn)
				print("    ", c.Signals)
			}
			print("  then ", r.Then)
			return true
		}
		datadriven.RunTest(t, path, func(t *testing.T, in *datadriven.TestData) string {
			out.Reset()
			cause := ""
			in.MaybeScanArgs(t, "cause", &cause)
			switch in.Cmd {
			case "terminal":
				d, waiting = opencode.Terminal(cause, !in.HasArg("attached")), 0
			case "run":
				d, waiting = opencode.OneTurn(cause), 0
			case "records":
				for record := range strings.Lines(in.Input) {
					switch record = strings.TrimSpace(record); record {
					case "READING":
						if waiting > 0 || !read(false) {
							waiting++
						}
						continue
					case "LATE":
						waiting--
						read(true)
						continue
					}
					if r, ok := d.(telemetry.Resetter); ok {
						if reply, is := r.Reply([]byte(record)); is {
							print("before ", reply.Before)
							fmt.Fprintf(&out, "%s %s busy=%t failure=%q: %s slot=%s session=%s\n", reply.Op, reply.ID, reply.Busy, reply.Failure, reply.Call.Event, reply.Call.Slot, reply.Call.Session)
							print("  ", reply.Call.Signals)
							continue
						}
					}
					print("", d.Decode([]byte(record)))
					for waiting > 0 && read(false) {
						waiting--
					}
				}
			case "end":
				print("", d.End())
			default:
				in.Fatalf(t, "no such command")
			}
			if waiting > 0 {
				fmt.Fprintf(&out, "%d readings wait\n", waiting)
			}
			for kind, n := range d.Unknown() {
				fmt.Fprintf(&out, "unknown: %s %d\n", kind, n)
			}
			return out.String()
		})
	})
}
