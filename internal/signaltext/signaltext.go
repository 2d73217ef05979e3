// Package signaltext parses telemetry signals from words, as scenario files and
// simulated worlds write them: one word begins a signal, the words after it set
// its fields.
//
// It does not judge signals: a field that its kind never has is set too.
//
//	signals, err := signaltext.Parse(telemetry.Signal{Source: "hook"}, now,
//		[]signaltext.Word{{"prompt", "p1"}, {"ago", "1s"}, {"stop", "p1"}})
package signaltext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lifeloop/telemetry"
)

// A Word is a key with its value, which may be empty.
type Word struct{ Key, Value string }

// Parse returns the signals of words, each a copy of base with its own fields.
// now is the time that ago and limit count from. The word in names the harness
// session of every signal that names none itself.
func Parse(base telemetry.Signal, now time.Time, words []Word) ([]telemetry.Signal, error) {
	var out []telemetry.Signal
	session := ""
	for _, w := range words {
		if w.Key == "in" {
			session = w.Value
			continue
		}
		sig := base
		begins, err := begin(&sig, w, now)
		if w.Key == "window" && len(out) > 0 { // of a usage
			begins = false
		}
		switch {
		case begins:
			out = append(out, sig)
		case len(out) == 0:
			err = fmt.Errorf("no signal before the word %q", w.Key)
		default:
			err = set(&out[len(out)-1], w, now)
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

// begin makes s the signal that w begins. It reports false for any other word.
func begin(s *telemetry.Signal, w Word, now time.Time) (bool, error) {
	var err error
	switch w.Key {
	case "live":
		s.Kind, s.Session = telemetry.SessionLive, w.Value
	case "gone":
		s.Kind, s.Session = telemetry.SessionGone, w.Value
	case "prompt":
		s.Kind, s.Turn = telemetry.Prompt, w.Value
	case "stop":
		s.Kind, s.Turn, s.Outcome = telemetry.TurnStop, w.Value, telemetry.Completed
	case "end":
		s.Kind, s.Turn = telemetry.TurnEnd, w.Value
	case "tool":
		s.Kind, s.Tool = telemetry.ToolStart, w.Value
	case "tool-end":
		s.Kind, s.Tool = telemetry.ToolEnd, w.Value
	case "working", "idle", "alive", "cleared", "compacting", "fault":
		s.Kind = telemetry.Kind(w.Key)
	case "needs":
		s.Kind = telemetry.NeedsInput
	case "usage":
		s.Kind, s.Usage = telemetry.UsageSeen, &telemetry.Usage{}
		s.Usage.Used, err = number(w.Value)
	case "window":
		s.Kind = telemetry.WindowSeen
		err = window(s, w.Value)
	case "limit": // seconds until it is lifted; 0 or nothing: unknown
		s.Kind = telemetry.LimitWait
		var seconds int64
		if seconds, err = number("0" + w.Value); seconds > 0 {
			s.Until = now.Add(time.Duration(seconds) * time.Second)
		}
	case "gap": // FIRST-LAST
		s.Kind, s.Missing = telemetry.Gap, &[2]uint64{}
		_, err = fmt.Sscanf(w.Value, "%d-%d", &s.Missing[0], &s.Missing[1])
	case "compacted":
		s.Kind = telemetry.Compacted
		s.Compaction, err = compaction(w.Value)
	default:
		return false, nil
	}
	return true, err
}

// set sets a field of the signal before w.
func set(s *telemetry.Signal, w Word, now time.Time) error {
	text := map[string]*string{"path": &s.Path, "cause": &s.Cause, "version": &s.Version, "from": &s.From, "reason": &s.Reason, "turn": &s.Turn,
		"outcome": (*string)(&s.Outcome), "error": (*string)(&s.Error), "name": &s.ToolName, "tool-error": &s.ToolError, "agent": &s.Agent, "side": &s.Side}
	if field, ok := text[w.Key]; ok {
		*field = w.Value
		return nil
	}
	switch {
	case w.Key == "ago": // how long before now it happened
		d, err := time.ParseDuration(w.Value)
		s.At = now.Add(-d)
		return err
	case w.Key == "window":
		return window(s, w.Value)
	case w.Key != "estimate" && w.Key != "call":
		return fmt.Errorf("unknown signal word %q", w.Key)
	case s.Usage == nil:
		return fmt.Errorf("the word %q belongs to a usage", w.Key)
	case w.Key == "call":
		return call(s.Usage, w.Value)
	}
	s.Usage.Estimate = true
	return nil
}

func number(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// window parses TOKENS:SOURCE.
func window(s *telemetry.Signal, text string) (err error) {
	tokens, source, _ := strings.Cut(text, ":")
	s.WindowSource = source
	s.Window, err = number(tokens)
	return err
}

// call parses ID:INPUT:OUTPUT.
func call(u *telemetry.Usage, text string) (err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("call: want ID:INPUT:OUTPUT, found %q", text)
	}
	u.ID = parts[0]
	var wrong error
	u.Input, err = number(parts[1])
	u.Output, wrong = number(parts[2])
	return errors.Join(err, wrong)
}

// compaction parses HALF:TRIGGER[:BEFORE[:AFTER]].
func compaction(text string) (*telemetry.Compaction, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return nil, fmt.Errorf("compacted: want HALF:TRIGGER, found %q", text)
	}
	c := &telemetry.Compaction{Half: parts[0], Trigger: parts[1]}
	for i, to := range []**int64{&c.Before, &c.After} {
		if len(parts) > 2+i {
			n, err := number(parts[2+i])
			if err != nil {
				return nil, err
			}
			*to = &n
		}
	}
	return c, nil
}
