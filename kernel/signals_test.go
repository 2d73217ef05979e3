package kernel_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
)

// A word of a scenario has a key and a value, which may be empty. One word
// begins a signal, the words after it set its fields. A field that the signal's
// kind never has is set too.
type word struct{ key, value string }

// parseSignals returns the signals of words, each a copy of base with its own
// fields. The words "ago" and "limit" count from now. The word "in" names the
// harness session of every signal that names none itself.
func parseSignals(base telemetry.Signal, now time.Time, words []word) ([]telemetry.Signal, error) {
	var out []telemetry.Signal
	session := ""
	for _, w := range words {
		if w.key == "in" {
			session = w.value
			continue
		}
		sig := base
		begins, err := beginSignal(&sig, w, now)
		if w.key == "window" && len(out) > 0 { // the window of a usage, not a new signal
			begins = false
		}
		switch {
		case begins:
			out = append(out, sig)
		case len(out) == 0:
			err = fmt.Errorf("no signal before the word %q", w.key)
		default:
			err = setField(&out[len(out)-1], w, now)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range out {
		if out[i].Session == "" {
			out[i].Session = session
		}
	}
	return out, nil
}

// beginSignal makes s the signal that w begins. It returns false if w does not begin
// a signal.
func beginSignal(s *telemetry.Signal, w word, now time.Time) (bool, error) {
	var err error
	switch w.key {
	case "live":
		s.Kind, s.Session = telemetry.SessionLive, w.value
	case "gone":
		s.Kind, s.Session = telemetry.SessionGone, w.value
	case "prompt":
		s.Kind, s.Turn = telemetry.Prompt, w.value
	case "stop":
		s.Kind, s.Turn, s.Outcome = telemetry.TurnStop, w.value, telemetry.Completed
	case "end":
		s.Kind, s.Turn = telemetry.TurnEnd, w.value
	case "tool":
		s.Kind, s.Tool = telemetry.ToolStart, w.value
	case "tool-end":
		s.Kind, s.Tool = telemetry.ToolEnd, w.value
	case "working", "idle", "alive", "cleared", "compacting", "fault":
		s.Kind = telemetry.Kind(w.key)
	case "needs":
		s.Kind = telemetry.NeedsInput
	case "usage":
		s.Kind, s.Usage = telemetry.UsageSeen, &telemetry.Usage{}
		s.Usage.Used, err = parseNumber(w.value)
	case "window":
		s.Kind = telemetry.WindowSeen
		err = parseWindow(s, w.value)
	case "limit": // seconds until the limit is lifted; 0 or no value: unknown
		s.Kind = telemetry.LimitWait
		var seconds int64
		if seconds, err = parseNumber("0" + w.value); seconds > 0 {
			s.Until = now.Add(time.Duration(seconds) * time.Second)
		}
	case "gap": // FIRST-LAST
		s.Kind, s.Missing = telemetry.Gap, &[2]uint64{}
		_, err = fmt.Sscanf(w.value, "%d-%d", &s.Missing[0], &s.Missing[1])
	case "compacted":
		s.Kind = telemetry.Compacted
		s.Compaction, err = parseCompaction(w.value)
	default:
		return false, nil
	}
	return true, err
}

// setField sets a field of the signal before w.
func setField(s *telemetry.Signal, w word, now time.Time) error {
	text := map[string]*string{"path": &s.Path, "cause": &s.Cause, "version": &s.Version, "from": &s.From, "origin": &s.Origin, "reason": &s.Reason, "turn": &s.Turn,
		"outcome": (*string)(&s.Outcome), "error": (*string)(&s.Error), "name": &s.ToolName, "tool-error": &s.ToolError, "agent": &s.Agent, "side": &s.Side, "model": &s.Model}
	if field, ok := text[w.key]; ok {
		*field = w.value
		return nil
	}
	switch {
	case w.key == "ago": // the time from the signal until now
		d, err := time.ParseDuration(w.value)
		s.At = now.Add(-d)
		return err
	case w.key == "window":
		return parseWindow(s, w.value)
	case w.key == "process": // the harness's own process wrote the source
		s.Process = &telemetry.Process{PID: 4242}
		return nil
	case w.key != "estimate" && w.key != "call":
		return fmt.Errorf("unknown signal word %q", w.key)
	case s.Usage == nil:
		return fmt.Errorf("the word %q belongs to a usage", w.key)
	case w.key == "call":
		return parseCall(s.Usage, w.value)
	}
	s.Usage.Estimate = true
	return nil
}

func parseNumber(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// parseWindow parses TOKENS:SOURCE.
func parseWindow(s *telemetry.Signal, text string) (err error) {
	tokens, source, _ := strings.Cut(text, ":")
	s.WindowSource = source
	s.Window, err = parseNumber(tokens)
	return err
}

// parseCall parses ID:INPUT:OUTPUT.
func parseCall(u *telemetry.Usage, text string) (err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("call: want ID:INPUT:OUTPUT, found %q", text)
	}
	u.ID = parts[0]
	var wrong error
	u.Input, err = parseNumber(parts[1])
	u.Output, wrong = parseNumber(parts[2])
	return errors.Join(err, wrong)
}

// parseCompaction parses HALF:TRIGGER[/INTURN][:BEFORE[:AFTER]].
func parseCompaction(text string) (*telemetry.Compaction, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return nil, fmt.Errorf("compacted: want HALF:TRIGGER, found %q", text)
	}
	c := &telemetry.Compaction{Half: parts[0]}
	c.Trigger, c.InTurn, _ = strings.Cut(parts[1], "/")
	for i, to := range []**int64{&c.Before, &c.After} {
		if len(parts) > 2+i {
			n, err := parseNumber(parts[2+i])
			if err != nil {
				return nil, err
			}
			*to = &n
		}
	}
	return c, nil
}

func signalsOf(text string) ([]telemetry.Signal, error) {
	var words []word
	for _, w := range strings.Fields(text) {
		key, value, _ := strings.Cut(w, "=")
		words = append(words, word{key, value})
	}
	return parseSignals(telemetry.Signal{Source: "hook"}, time.Unix(100, 0), words)
}

func TestParseSignals(t *testing.T) {
	before := int64(90)
	for _, c := range []struct {
		text string
		want []telemetry.Signal
	}{
		{"in=S1 live=S2 cause=startup prompt=p1 ago=1s", []telemetry.Signal{
			{Kind: telemetry.SessionLive, Source: "hook", Session: "S2", Cause: "startup"},
			{Kind: telemetry.Prompt, Source: "hook", Session: "S1", Turn: "p1", At: time.Unix(99, 0)}}},
		{"stop=p1 outcome=failed error=quota", []telemetry.Signal{{Kind: telemetry.TurnStop, Source: "hook", Turn: "p1", Outcome: telemetry.Failed, Error: telemetry.ErrQuota}}},
		{"usage=7 call=m:5:2 window=200:table", []telemetry.Signal{{Kind: telemetry.UsageSeen, Source: "hook", Window: 200, WindowSource: "table",
			Usage: &telemetry.Usage{ID: "m", Used: 7, Input: 5, Output: 2}}}},
		{"window=200:table", []telemetry.Signal{{Kind: telemetry.WindowSeen, Source: "hook", Window: 200, WindowSource: "table"}}},
		{"compacted=hook:auto:90", []telemetry.Signal{{Kind: telemetry.Compacted, Source: "hook", Compaction: &telemetry.Compaction{Half: "hook", Trigger: "auto", Before: &before}}}},
		{"gap=3-5 limit limit=20", []telemetry.Signal{{Kind: telemetry.Gap, Source: "hook", Missing: &[2]uint64{3, 5}},
			{Kind: telemetry.LimitWait, Source: "hook"}, {Kind: telemetry.LimitWait, Source: "hook", Until: time.Unix(120, 0)}}},
		{"tool=t1 name=read tool-end=t1 tool-error=failed", []telemetry.Signal{{Kind: telemetry.ToolStart, Source: "hook", Tool: "t1", ToolName: "read"},
			{Kind: telemetry.ToolEnd, Source: "hook", Tool: "t1", ToolError: "failed"}}},
	} {
		got, err := signalsOf(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
}

func TestParseSignalsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"turn=p1":         `no signal before the word "turn"`,
		"prompt=p1 foo":   `unknown signal word "foo"`,
		"prompt=p1 call":  `the word "call" belongs to a usage`,
		"usage=7 call=m":  `call: want ID:INPUT:OUTPUT, found "m"`,
		"compacted=hook":  `compacted: want HALF:TRIGGER, found "hook"`,
		"prompt=p ago=1y": `time: unknown unit "y" in duration "1y"`,
	} {
		_, err := signalsOf(text)
		require.EqualError(t, err, want)
	}
}
