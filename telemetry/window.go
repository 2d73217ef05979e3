package telemetry

import "strings"

// OneMillion is the suffix by which Claude Code marks a model with a window of a
// million tokens.
const OneMillion = "[1m]"

// modelWindows are the windows of models that have only one, unless their name
// has a suffix. A model that is sold with several windows under one name is not
// here: only the harness knows its window.
var modelWindows = []struct {
	prefix string
	tokens int64
}{
	{"claude-sonnet-4-5", 200_000},
	{"claude-sonnet-4-6", 200_000},
	{"claude-opus-4-6", 200_000},
	{"claude-opus-5-5", 1_000_000},
	{"claude-sonnet-5", 1_000_000},
	{"claude-fable-5", 1_000_000},
	{"claude-mythos-5", 1_000_000},
	// Gemini CLI uses one window for all of Gemini's models.
	{"gemini", 1_048_576},
	{"gemma-4", 256_000},
}

// largerWindows are the windows of models that are sold with two. A model has the
// smaller one unless its name or a call shows the larger.
var largerWindows = []struct {
	prefix         string
	small, largest int64
}{
	{"claude-", 200_000, 1_000_000},
}

// SeenWindow returns the context window that a model must have if so many tokens
// were in use. It returns 0 when the number proves nothing, or exceeds every known
// window of the model.
func SeenWindow(model string, used int64) int64 {
	for _, w := range largerWindows {
		if strings.HasPrefix(model, w.prefix) && used > w.small && used <= w.largest {
			return w.largest
		}
	}
	return 0
}

// ModelWindow returns the context window that a model's name implies, and by
// what: "suffix" or "table". It returns 0 where the name implies none. The name
// must be the configured one: inside a Claude transcript it has no suffix.
func ModelWindow(model string) (tokens int64, source string) {
	if strings.HasSuffix(model, OneMillion) {
		return 1_000_000, "suffix"
	}
	for _, w := range modelWindows {
		if isModel(model, w.prefix) {
			return w.tokens, "table"
		}
	}
	return 0, ""
}

// isModel reports whether a model has this name, or is a release or a variant of
// that model. claude-sonnet-4-5-20250929 is a release of claude-sonnet-4-5;
// claude-sonnet-4-50 would be another model.
func isModel(model, name string) bool {
	rest, ok := strings.CutPrefix(model, name)
	return ok && (rest == "" || strings.ContainsRune("-@[", rune(rest[0])))
}

// WindowOf returns the window of a model in a table by the models' names. The
// longest name that fits wins. It returns 0 where none fits.
func WindowOf(windows map[string]int64, model string) (tokens int64) {
	longest := ""
	for name, n := range windows {
		if isModel(model, name) && len(name) > len(longest) {
			longest, tokens = name, n
		}
	}
	return tokens
}
