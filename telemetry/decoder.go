package telemetry

import (
	"fmt"
	"maps"
	"strings"
)

// NewDecoder returns a new decoder of the named format, with nothing remembered.
func NewDecoder(name string) (Decoder, error) {
	switch name {
	case "claude-transcript":
		return new(claudeTranscript), nil
	case "claude-registry":
		return new(claudeRegistry), nil
	case "claude-statusline":
		return new(claudeStatusline), nil
	case "codex-rollout":
		return new(codexRollout), nil
	case "codex-osc":
		return new(codexOSC), nil
	}
	return nil, unknownName(name, "claude-registry", "claude-statusline", "claude-transcript", "codex-osc", "codex-rollout")
}

// DecodeHook reads what a harness gave the named hook on its standard input.
// The event is the hook's name as it was injected; input that says it is of
// another hook is refused. A hook that is not known is a sign of life and
// nothing more.
func DecodeHook(decoder, event string, stdin []byte) (HookCall, error) {
	switch decoder {
	case "claude-hook":
		return claudeHook(event, stdin)
	case "codex-hook":
		return codexHook(event, stdin)
	}
	return HookCall{}, unknownName(decoder, "claude-hook", "codex-hook")
}

func unknownName(name string, known ...string) error {
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
