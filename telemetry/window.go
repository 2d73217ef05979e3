package telemetry

import (
	"strings"
)

// oneMillion is how Claude Code spells a model that runs with a window of a
// million tokens.
const OneMillion = "[1m]"

// modelWindows are the windows of models that have only one unless their name
// says otherwise. A model that is sold with several windows under one name is
// not here: for it only the harness itself can tell.
var modelWindows = []struct {
	prefix string
	tokens int64
}{
	{"claude-sonnet-4-5", 200_000},
	{"claude-sonnet-4-6", 200_000},
	{"claude-opus-4-6", 200_000},
	// Gemini CLI reckons with one window for all of Gemini's models.
	{"gemini", 1_048_576},
	{"gemma-4", 256_000},
}

// largerWindows are the windows of models that are sold with two: with the
// smaller one unless their name says otherwise, or a call shows it.
var largerWindows = []struct {
	prefix         string
	small, largest int64
}{
	{"claude-", 200_000, 1_000_000},
}

// SeenWindow tells the context window that a model must have in which so many
// tokens were in use; 0 when that proves nothing, or is more than any window
// of the model that is known.
func SeenWindow(model string, used int64) int64 {
	for _, w := range largerWindows {
		if strings.HasPrefix(model, w.prefix) && used > w.small && used <= w.largest {
			return w.largest
		}
	}
	return 0
}

// ModelWindow tells the context window that a model's name gives away, and
// how ("suffix" or "table"); 0 when it does not. The name must be the
// configured one, with its suffix if it has one: the model name inside a
// Claude transcript has lost it.
func ModelWindow(model string) (tokens int64, source string) {
	if strings.HasSuffix(model, OneMillion) {
		return 1_000_000, "suffix"
	}
	for _, w := range modelWindows {
		rest, ok := strings.CutPrefix(model, w.prefix)
		// claude-sonnet-4-50 would be another model; -20250929 is a release of this one.
		if ok && (rest == "" || rest[0] == '-' || rest[0] == '@') {
			return w.tokens, "table"
		}
	}
	return 0, ""
}
