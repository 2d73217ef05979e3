package telemetry

import (
	"fmt"
	"maps"
	"strings"
)

// A named is one entry of a list of this package: what is told by name.
type named[T any] struct {
	name string
	of   T
}

// decoders lists every format that is read line by line or whole, one line
// each. It is made when it is asked for: made at the start of the program, it
// would be paid for by every hook that a harness runs.
func decoders() []named[func() Decoder] {
	return []named[func() Decoder]{
		{"claude-osc", func() Decoder { return new(claudeOSC) }},
		{"claude-otlp", func() Decoder { return new(claudeOTLP) }},
		{"claude-registry", func() Decoder { return new(claudeRegistry) }},
		{"claude-statusline", func() Decoder { return new(claudeStatusline) }},
		{"claude-stream", func() Decoder { return new(claudeStream) }},
		{"claude-transcript", func() Decoder { return new(claudeTranscript) }},
		{"codex-app-server", func() Decoder { return new(codexAppServer) }},
		{"codex-exec", func() Decoder { return new(codexExec) }},
		{"codex-history", func() Decoder { return new(codexHistory) }},
		{"codex-notify", func() Decoder { return new(codexNotify) }},
		{"codex-osc", func() Decoder { return new(codexOSC) }},
		{"codex-otlp", func() Decoder { return new(codexOTLP) }},
		{"codex-rollout", func() Decoder { return new(codexRollout) }},
		{"file", func() Decoder { return new(touched) }},
		{"gemini-chat", func() Decoder { return new(geminiChat) }},
		{"gemini-logs", func() Decoder { return new(geminiLogs) }},
		{"gemini-osc", func() Decoder { return new(geminiOSC) }},
		{"gemini-stream", func() Decoder { return new(geminiStream) }},
		{"gemini-telemetry", func() Decoder { return new(geminiTelemetry) }},
		{"hermes-store", func() Decoder { return new(hermesStore) }},
		{"openclaw-agent", func() Decoder { return new(openclawAgent) }},
		{"openclaw-node", func() Decoder { return new(openclawNode) }},
		{"openclaw-plugin", func() Decoder { return new(openclawPlugin) }},
		{"openclaw-run", func() Decoder { return new(openclawRun) }},
		{"openclaw-transcript", func() Decoder { return new(openclawTranscript) }},
		{"opencode-bus", func() Decoder { return newOpencodeBus() }},
		{"opencode-run", func() Decoder { return new(opencodeRun) }},
		{"opencode-store", func() Decoder { return newOpencodeStore() }},
	}
}

// hookDecoders lists every kind of hook input, one line each.
func hookDecoders() []named[func(event string, stdin []byte) (HookCall, error)] {
	return []named[func(event string, stdin []byte) (HookCall, error)]{
		{"claude-hook", claudeHook},
		{"codex-hook", codexHook},
		{"gemini-hook", geminiHook},
		{"hermes-hook", hermesHook},
		{"opencode-hook", opencodeHook},
	}
}

// NewDecoder returns a new decoder of the named format, with nothing remembered.
// The name of a hook's decoder gives one of recorded calls of such hooks.
func NewDecoder(name string) (Decoder, error) {
	if decode, err := find(hookDecoders(), name); err == nil {
		return &hookCalls{decode: decode}, nil
	}
	create, err := find(decoders(), name)
	if err != nil {
		return nil, err
	}
	return create(), nil
}

// DecodeHook reads what a harness gave the named hook on its standard input.
// The event is the hook's name as it was injected; input that says it is of
// another hook is refused. A hook that is not known is a sign of life and
// nothing more.
func DecodeHook(decoder, event string, stdin []byte) (HookCall, error) {
	decode, err := find(hookDecoders(), decoder)
	if err != nil {
		return HookCall{}, err
	}
	return decode(event, stdin)
}

// TellsWaiting says that a decoder knows from its format that the harness waits
// for a person.
func TellsWaiting(decoder string) bool {
	switch decoder {
	case "claude-hook", "claude-registry", "codex-app-server", "codex-hook", "codex-osc", "gemini-hook", "gemini-osc", "hermes-hook", "opencode-bus":
		return true
	}
	return false
}

func find[T any](list []named[T], name string) (T, error) {
	var known []string
	for _, entry := range list {
		if entry.name == name {
			return entry.of, nil
		}
		known = append(known, entry.name)
	}
	var none T
	return none, fmt.Errorf("no telemetry decoder is named %q: use one of %s", name, strings.Join(known, ", "))
}

// A tally counts, by type, the records that a decoder passed over without
// knowing them. Types come from outside, so their number is bounded.
type tally struct {
	seen map[string]int
	all  int
}

const (
	malformed  = "malformed" // not a record of this format at all
	otherTypes = "other"     // what came after the first maxTypes types
	maxTypes   = 64
)

func (t *tally) miss(kind string) {
	if t.seen == nil {
		t.seen = make(map[string]int)
	}
	if !isWord(kind) {
		kind = malformed
	}
	if _, ok := t.seen[kind]; !ok && len(t.seen) >= maxTypes {
		kind = otherTypes
	}
	t.seen[kind]++
	t.all++
}

// Missed implements Decoder.
func (t *tally) Missed() int { return t.all }

// Unknown implements Decoder.
func (t *tally) Unknown() map[string]int { return maps.Clone(t.seen) }
