package claude

import (
	"bytes"
	"time"

	"lifeloop/telemetry/scan"
)

// Begins reads the beginning of a transcript: the time of its first record, and how the
// session began. cause is "clear" if it began with `/clear`, "fork" if it begins with
// copies of another session's records, which keep their times, "unknown" if it began in
// another way, and empty if the transcript does not show it yet. Records that are written
// together may be in any order, so a record shows it only if the records before it, by
// their parents, were read.
func Begins(head []byte) (at time.Time, cause string) {
	parents := map[string]string{} // the parent of each record
	var prompt string              // a record of the user, or of a command
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
