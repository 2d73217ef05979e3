package gemini

import (
	"bytes"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// TypedLines reads logs.json, in the order of the file. A process of Gemini CLI writes
// all lines typed into it under the id of its first session, also after `/clear`.
func TypedLines(list []byte) (lines []telemetry.Typed, whole bool) {
	whole = scan.Elements(list, func(val []byte) bool {
		var l telemetry.Typed
		var kind string
		var text []byte
		scan.Object(val, scan.Name("sessionId", &l.Session), scan.Word("type", &kind), scan.Time("timestamp", &l.At), scan.Raw("message", &text))
		if text = scan.Inner(text); kind != "user" || l.Session == "" || l.At.IsZero() || len(text) == 0 {
			return true
		}
		switch command, _, _ := bytes.Cut(text, []byte(" ")); string(command) {
		case "/clear", "/new":
			l.Begins = "clear"
		case "/resume":
			l.Begins = "resume"
		}
		l.Text = scan.Hash(text)
		lines = append(lines, l)
		return true
	})
	return lines, whole
}

// TypedPrompt reads one record of a chat file. It returns the time and the hash of the
// typed text, and whether the record is a prompt.
func TypedPrompt(record []byte) (telemetry.Typed, bool) {
	var r chatRecord
	if !r.read(record) || r.id == "" || r.kind != "user" || r.at.IsZero() {
		return telemetry.Typed{}, false
	}
	u := readUser(r.content)
	return telemetry.Typed{At: r.at, Text: r.typed(u)}, u.typed && !u.context
}

// typed returns the hash of the text that the user typed. The hash has a meaning only if
// the record is a prompt.
func (r *chatRecord) typed(u userParts) uint64 {
	if r.display != nil {
		return scan.Hash(firstText(r.display))
	}
	return u.text
}
