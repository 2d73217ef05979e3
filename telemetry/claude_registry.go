package telemetry

import (
	"strconv"
	"time"
)

// claudeRegistry decodes the file that a running Claude Code keeps about
// itself, sessions/<pid>.json. A record is the whole file as it stands; it is
// rewritten at each change, so a torn read is possible and the next one tells.
//
// After SIGKILL the file stays behind as it was last written. Each signal
// carries the process that wrote it: who reads a file that he did not see
// written must compare it with the process of that number.
type claudeRegistry struct{ tally }

// permissionPrompt is what a waiting Claude Code waits for. Anything else must
// be a single word to be passed on.
const permissionPrompt = `"permission prompt"`

func (d *claudeRegistry) Decode(record []byte) []Signal {
	s := Signal{Source: "registry"}
	var status, waiting string
	var updated time.Time
	var process Process
	hasStatus := false
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "sessionId":
			s.Session = name(val)
		case "status":
			status, hasStatus = word(val), true
		case "waitingFor":
			waiting = word(val)
			if string(val) == permissionPrompt {
				waiting = name(val)
			}
		case "pid":
			process.PID = int(min(count(val), 1<<31-1))
		case "procStart":
			process.Start, _ = strconv.ParseUint(word(val), 10, 64)
		case "version":
			s.Version = word(val)
		case "cwd":
			s.Dir = path(val)
		case "statusUpdatedAt":
			s.At = stampMilli(val)
		case "updatedAt":
			updated = stampMilli(val)
		}
		return true
	})
	if !ok || s.Session == "" {
		d.miss(malformed)
		return nil
	}
	if s.At.IsZero() {
		s.At = updated
	}
	if process.PID > 0 {
		s.Process = &process
	}
	s.Detail = status
	switch {
	case status == "idle", status == "shell": // shell: the turn is over, a background command runs on
		s.Kind = Idle
	case status == "busy":
		s.Kind = Working
	case status == "waiting":
		s.Kind = NeedsInput
		if waiting != "" {
			s.Detail = waiting
		}
	case !hasStatus: // print mode keeps no status
		s.Kind = Alive
	default:
		d.miss("status/" + status)
		s.Kind, s.Detail = Alive, ""
	}
	return []Signal{s}
}
