package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

var decoders = map[string]func() Decoder{
	"claude-transcript": func() Decoder { return new(claudeTranscript) },
	"claude-registry":   func() Decoder { return new(claudeRegistry) },
	"claude-statusline": func() Decoder { return new(claudeStatusline) },
	"codex-rollout":     func() Decoder { return new(codexRollout) },
	"codex-osc":         func() Decoder { return new(codexOSC) },
}

var hookDecoders = map[string]func(event string, stdin []byte) (HookCall, error){
	"claude-hook": claudeHook,
	"codex-hook":  codexHook,
}

// NewDecoder returns a new decoder of the named format, with nothing remembered.
func NewDecoder(name string) (Decoder, error) {
	mk, ok := decoders[name]
	if !ok {
		return nil, unknownName(name, slices.Sorted(maps.Keys(decoders)))
	}
	return mk(), nil
}

// DecodeHook reads what a harness gave the named hook on its standard input.
// The event is the hook's name as it was injected; input that says it is of
// another hook is refused. A hook that is not known is a sign of life and
// nothing more.
func DecodeHook(decoder, event string, stdin []byte) (HookCall, error) {
	f, ok := hookDecoders[decoder]
	if !ok {
		return HookCall{}, unknownName(decoder, slices.Sorted(maps.Keys(hookDecoders)))
	}
	return f(event, stdin)
}

func unknownName(name string, known []string) error {
	return fmt.Errorf("no telemetry decoder is named %q: use one of %s", name, strings.Join(known, ", "))
}

// A tally counts, by type, the records that a decoder passed over without
// knowing them. Types come from outside, so their number is bounded.
type tally struct{ seen map[string]int }

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
}

// Unknown implements Decoder.
func (t *tally) Unknown() map[string]int { return maps.Clone(t.seen) }
