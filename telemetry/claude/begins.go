package claude

import (
	"bytes"
	"time"

	"lifeloop/telemetry/scan"
)

// Begins reads the beginning of a transcript: the earliest time of a record, and how the
// session began. cause is "clear" if the session began with `/clear`, and "fork" if the
// transcript begins with copies of another session's records, which keep their times.
// cause is "unknown" if the session began in another way. Records that are written
// together may be in any order, so cause is "unknown" only if head has a prompt, the
// prompt's parent, that record's parent, and so on. If a record is missing, cause is empty.
func Begins(head []byte) (at time.Time, cause string) {
	parents := map[string]string{} // the uuid of each record's parent; empty if it has none
	var prompt string              // the uuid of the newest record of the user, or of a command
	for len(head) > 0 {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole {
			break
		}
		head = rest
		var r transcriptRecord
		var id string
		var message []byte
		fork := false
		scan.Object(line, scan.Raw("type", &r.kind), scan.Raw("timestamp", &r.at), scan.True("isMeta", &r.meta),
			scan.Name("uuid", &id), scan.Raw("parentUuid", &r.parent), scan.Raw("message", &message), scan.Has("forkedFrom", &fork))
		if t := scan.TimeOf(r.at); !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
		if fork {
			return at, "fork"
		}
		if id != "" {
			parents[id] = scan.NameOf(r.parent)
		}
		if string(r.kind) != `"user"` || r.meta || len(message) == 0 {
			continue
		}
		r.message.read(message, 0)
		if bytes.HasPrefix(r.message.text, []byte("<command-name>/clear</command-name>")) {
			return at, "clear"
		}
		prompt = id
	}
	for range parents {
		parent, read := parents[prompt]
		if read && parent == "" {
			return at, "unknown"
		}
		prompt = parent
	}
	return at, ""
}
