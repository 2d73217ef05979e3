package claude

import (
	"cmp"
	"strconv"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// registry decodes the file that a running Claude Code writes about itself,
// sessions/<pid>.json. A record is the whole file. Claude Code rewrites it at
// each change, so a read may find an incomplete file; the next read then finds
// the complete one.
//
// After SIGKILL the file remains, with its last content. Each signal has the
// pid and start time of the process that wrote the file, so that a reader can
// check whether that process still runs.
type registry struct {
	telemetry.Tally
	telemetry.Waits
}

// permissionPrompt is the only reported reason to wait that has two words. Other
// reasons of several words are dropped, because they may be text of the session.
const permissionPrompt = `"permission prompt"`

// Registry returns a decoder of sessions/<pid>.json.
func Registry() telemetry.Decoder { return new(registry) }

func (d *registry) Decode(record []byte) []telemetry.Signal {
	s := telemetry.Signal{Source: "registry"}
	var status, waiting string
	var updated time.Time
	var process telemetry.Process
	hasStatus := false
	ok := scan.Object(record,
		scan.Name("sessionId", &s.Session), scan.Func("status", func(val []byte) { status, hasStatus = scan.WordOf(val), true }),
		scan.Func("waitingFor", func(val []byte) {
			waiting = scan.WordOf(val)
			if string(val) == permissionPrompt {
				waiting = scan.NameOf(val)
			}
		}),
		scan.Func("pid", func(val []byte) { process.PID = int(min(scan.CountOf(val), 1<<31-1)) }),
		scan.Func("procStart", func(val []byte) { process.Start, _ = strconv.ParseUint(scan.WordOf(val), 10, 64) }),
		scan.Word("version", &s.Version), scan.Path("cwd", &s.Dir), scan.Milli("statusUpdatedAt", &s.At),
		scan.Milli("updatedAt", &updated))
	if !ok || s.Session == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	s.At = cmp.Or(s.At, updated)
	if process.PID > 0 {
		s.Process = &process
	}
	s.Detail = status
	switch {
	case status == "idle", status == "shell": // shell means that the turn has ended but a background command still runs
		s.Kind = telemetry.Idle
	case status == "busy":
		s.Kind = telemetry.Working
	case status == "waiting":
		s.Kind = telemetry.NeedsInput
		if waiting != "" {
			s.Detail = waiting
		}
	case !hasStatus: // in print mode the file has no status
		s.Kind = telemetry.Alive
	default:
		d.Miss("status/" + status)
		s.Kind, s.Detail = telemetry.Alive, ""
	}
	return []telemetry.Signal{s}
}
