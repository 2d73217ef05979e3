package opencode

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// log decodes the log that all OpenCode processes of a user share:
//
//	timestamp=… level=INFO run=3351cfe2 message=loading path=/run/…/opencode.json
//	timestamp=… level=INFO run=3351cfe2 message=created id=ses_… parentID=undefined …
//	timestamp=… level=INFO run=3351cfe2 message=loop session.id=ses_… step=0
//
// Each launch has a configuration file at a path of its own. The first process that loads
// the file is the launched OpenCode: a tool can start OpenCode again, but only later. All
// lines of one process have the same `run`.
type log struct {
	telemetry.Tally
	path  string // the path of the launch's configuration file, as it is written in the log
	cause string
	run   string
	known map[string]bool // sessions that were reported, and sessions of sub-agents
}

// Log returns a decoder of the log's lines. It reports the sessions of the first process
// that loads the configuration file at path. cause is the cause of these sessions. If it
// is empty, a created session has the cause startup, and any other session has resume.
func Log(path, cause string) telemetry.Decoder {
	return &log{path: logged(path), cause: cause, known: map[string]bool{}}
}

// logged returns a value in the form in which the log contains it.
func logged(value string) string {
	if value != "" && !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`="\`, r) }) {
		return value
	}
	quoted, _ := json.Marshal(value) // encoding a string cannot fail
	return string(quoted)
}

func (d *log) Decode(record []byte) []telemetry.Signal {
	line := string(record)
	when, rest, _ := strings.Cut(line, " ")
	_, rest, _ = strings.Cut(rest, " ") // skip the level
	run, rest, more := strings.Cut(rest, " ")
	if !more || !strings.HasPrefix(when, "timestamp=") || !strings.HasPrefix(run, "run=") {
		return nil // the line is a part of a longer text
	}
	rest += " "
	if d.run == "" && strings.HasPrefix(rest, "message=loading path="+d.path+" ") {
		d.run = run
	}
	if d.run == "" || run != d.run {
		return nil
	}
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: "log"}
	switch {
	case strings.HasPrefix(rest, "message=created id=ses_"):
		live.Session, live.Cause, live.Detail = value(rest, "id"), cmp.Or(d.cause, "startup"), "created"
		if live.Version = value(rest, "version"); !scan.IsWord(live.Version) {
			live.Version = ""
		}
		if parent := value(rest, "parentID"); parent != "undefined" && parent != "" {
			d.known[live.Session] = true
		}
	case strings.HasPrefix(rest, "message=loop session.id=ses_"):
		live.Session, live.Cause, live.Detail = value(rest, "session.id"), cmp.Or(d.cause, "resume"), "loop"
	default:
		return nil
	}
	if d.known[live.Session] || !scan.IsWord(live.Session) {
		return nil
	}
	d.known[live.Session] = true
	if at, err := time.Parse(time.RFC3339Nano, value(when, "timestamp")); err == nil {
		live.At = scan.InRange(at)
	}
	return []telemetry.Signal{live}
}

// value returns the value of a key, if the value is one word.
func value(line, key string) string {
	_, rest, found := strings.Cut(" "+line, " "+key+"=")
	if !found {
		return ""
	}
	word, _, _ := strings.Cut(rest, " ")
	return word
}
