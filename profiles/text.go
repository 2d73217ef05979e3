package profiles

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"lifeloop/canon"
)

// quote returns s quoted as one word for a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// alphanumeric reports whether r is an ASCII letter or digit.
func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// word splits the leading letters, digits and underscores off s.
func word(s string) (word, rest string) {
	rest = strings.TrimLeftFunc(s, func(r rune) bool { return r == '_' || alphanumeric(r) })
	return s[:len(s)-len(rest)], rest
}

// hookCommand returns the shell line of a hook: the words of hook, quoted where
// needed, and the event.
func hookCommand(hook []string, event string) string {
	var line strings.Builder
	for _, w := range hook {
		if bare, rest := word(w); bare == "" || rest != "" {
			w = quote(w)
		}
		line.WriteString(w + " ")
	}
	return line.String() + event
}

// guardTime is the time limit of a hook that asks whether a tool may run. guardSpare is
// how much longer the harness waits for the hook. The hook must end first, because a
// harness runs the tool if it had to end the hook.
const (
	guardTime  = 8 * time.Second
	guardSpare = 12 * time.Second
)

// MaxGuardWait is the longest time that a hook can wait for an approval.
const MaxGuardWait = 12 * time.Hour

// guardLimit returns the time limit, in milliseconds, of a hook that asks whether a tool
// may run. wait is how long the hook may wait until a person approves the call.
func guardLimit(wait time.Duration) string {
	return strconv.FormatInt((guardTime + min(wait, MaxGuardWait)).Milliseconds(), 10)
}

// guardTimeout returns the harness's time limit, in seconds, for a hook that asks whether
// a tool may run.
func guardTimeout(wait time.Duration) int {
	return int((guardTime + min(wait, MaxGuardWait) + guardSpare + time.Second - 1) / time.Second)
}

// guardCommand is like hookCommand, but fails closed: if the hook fails, cannot be
// started or is killed, the shell exits with 2, which refuses the tool. The trap does
// the same if the shell gets a signal together with the hook. When the wrapper has died,
// the guard process signals the whole tree. Without the trap, a harness that is still
// cleaning up might then run the tool. Two cases are not covered: if the shell itself
// gets SIGKILL, or is stopped until the hook's time-out, Claude Code runs the tool.
func guardCommand(hook []string, event string, wait time.Duration) string {
	return "trap 'exit 2' HUP INT QUIT TERM; " + hookCommand(append(slices.Clone(hook), "--guard="+guardLimit(wait)), event) + " || exit 2"
}

// encode returns JSON without HTML escapes. So the text of the user's settings, such as
// `a && b`, is the same in a merged settings file.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// tomlString returns s as a quoted TOML string: a canonical JSON string, but
// with an escape for DEL, which is a control character in TOML.
func tomlString(s string) string {
	text, err := canon.Marshal(s)
	if err != nil { // encoding a string cannot fail
		panic("profiles: " + err.Error())
	}
	return strings.ReplaceAll(string(text), "\x7f", `\u007f`)
}
