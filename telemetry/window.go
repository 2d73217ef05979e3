package telemetry

import "strings"

// OneMillion is the suffix by which Claude Code marks a model with a window of a
// million tokens.
const OneMillion = "[1m]"

// modelWindows are the context windows of models that have only one window
// size, unless their name has a suffix. Models that are sold with several sizes
// under one name are not listed: only the harness knows their window.
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

// largerWindows has the two window sizes of Claude's models. A model must have the
// larger window if its context has more tokens than the smaller window.
var largerWindows = []struct {
	prefix         string
	small, largest int64
}{
	{"claude-", 200_000, 1_000_000},
}

// SeenWindow returns the context window that a model must have if used is the number of
// tokens in its context. It returns 0 if several windows are possible, or if used exceeds
// every known window of the model.
func SeenWindow(model string, used int64) int64 {
	for _, w := range largerWindows {
		if strings.HasPrefix(model, w.prefix) && used > w.small && used <= w.largest {
			return w.largest
		}
	}
	return 0
}

// ModelWindow returns the context window that a model's name implies, and how
// it was found: "suffix" or "table". It returns 0 if the name implies none. The
// name must be the configured one, because names in a Claude transcript have no
// suffix.
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

// isModel reports whether model is the named model, or a release or variant of
// it. claude-sonnet-4-5-20250929 is a release of claude-sonnet-4-5;
// claude-sonnet-4-50 would be another model.
func isModel(model, name string) bool {
	rest, ok := strings.CutPrefix(model, name)
	return ok && (rest == "" || strings.ContainsRune("-@[", rune(rest[0])))
}

// SameModel reports whether two names can belong to one model. The provider, the
// release and a suffix in brackets are ignored, because the configured name and the
// name in the record of a call can differ in them. An alias such as "opus" matches
// each Claude model of that family.
func SameModel(a, b string) bool {
	if a == b {
		return true
	}
	a, b = bare(a), bare(b)
	return a == b || isAliasOf(a, b) || isAliasOf(b, a)
}

// bare returns a model's name without the parts that SameModel ignores: the provider before
// "claude-" ("us.anthropic."), releases ("-20260101", "@20260101", "-latest", "-v1:0") and
// suffixes in brackets at the end.
func bare(model string) string {
	if i := strings.LastIndex(model, "claude-"); i > 0 && (model[i-1] == '.' || model[i-1] == '/') {
		model = model[i:]
	}
	for {
		end := strings.LastIndexAny(model, "-@")
		if strings.HasSuffix(model, "]") {
			end = strings.LastIndexByte(model, '[')
		} else if end >= 0 && !isRelease(model[end+1:]) {
			end = -1
		}
		if end <= 0 {
			return model
		}
		model = model[:end]
	}
}

// isRelease reports whether a part of a model's name is a date, "latest" or a version.
func isRelease(part string) bool {
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if version, ok := strings.CutPrefix(part, "v"); ok {
		major, minor, more := strings.Cut(version, ":")
		return digits(major) && (!more || digits(minor))
	}
	return part == "latest" || len(part) == len("20060102") && digits(part)
}

func isAliasOf(alias, model string) bool {
	return alias != "" && !strings.Contains(alias, "-") && strings.HasPrefix(model, "claude-"+alias+"-")
}

// WindowOf looks up a model's window in a table of names. If several names
// match, the longest one is used. It returns 0 if none matches.
func WindowOf(windows map[string]int64, model string) (tokens int64) {
	longest := ""
	for name, n := range windows {
		if isModel(model, name) && len(name) > len(longest) {
			longest, tokens = name, n
		}
	}
	return tokens
}
