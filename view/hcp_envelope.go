package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lifeloop/session"
)

// An HCPEnvelope is one event as it was received, with the members by which a
// consumer orders it.
type HCPEnvelope struct {
	SessionID string
	Sequence  uint64
	EventType string
	Line      []byte // the line as received, without the white space around it
}

// maxSequence is the largest integer that every JSON reader can represent
// exactly.
const maxSequence = 1<<53 - 1

// ParseHCPEvent parses one line: the envelope of a session's event, by HCP L1
// and L2, version 1. It requires the members of the envelope and of its
// payload, each with its type. In an event's data, each member that L2 lists
// must have its type if it is present; an intermediate_result must have all of
// them. Unknown members and event types are accepted, since a later minor
// version may have them.
//
// An error names the member and never quotes its value.
func ParseHCPEvent(line []byte) (HCPEnvelope, error) {
	line = bytes.TrimSpace(line)
	if !utf8.Valid(line) {
		return HCPEnvelope{}, errors.New("not UTF-8")
	}
	envelope, err := members(line)
	if err != nil {
		return HCPEnvelope{}, errors.New("not a JSON object")
	}
	words := map[string]string{}
	for _, name := range []string{"hcp_version", "message_id", "timestamp", "session_id", "type"} {
		if words[name], err = word(envelope[name]); err != nil {
			return HCPEnvelope{}, fmt.Errorf("%s %w", name, err)
		}
	}
	if major, _, ok := strings.Cut(words["hcp_version"], "."); !ok || major != "1" {
		return HCPEnvelope{}, errors.New("hcp_version is not 1.x")
	}
	if words["type"] != "event" {
		return HCPEnvelope{}, errors.New("type is not event")
	}
	payload, err := members(envelope["payload"])
	if err != nil {
		return HCPEnvelope{}, errors.New("payload is not an object")
	}
	e := HCPEnvelope{SessionID: words["session_id"], Line: line}
	if e.EventType, err = word(payload["event_type"]); err != nil {
		return HCPEnvelope{}, fmt.Errorf("payload.event_type %w", err)
	}
	if e.Sequence, err = strconv.ParseUint(string(payload["sequence"]), 10, 64); err != nil || e.Sequence == 0 || e.Sequence > maxSequence {
		return HCPEnvelope{}, errors.New("payload.sequence is not a whole number from 1 to 9007199254740991")
	}
	data, err := members(payload["data"])
	if err != nil {
		return HCPEnvelope{}, errors.New("payload.data is not an object")
	}
	if name, ok := flaw(e.EventType, data); !ok {
		return HCPEnvelope{}, fmt.Errorf("payload.data.%s is missing or has the wrong type or value", name)
	}
	return e, nil
}

// members returns the members of a JSON object by their exact names. null and
// empty text are errors.
func members(doc []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("it is null")
	}
	return m, nil
}

// longestWord is the largest length in bytes of a member that is an id or a name. It
// bounds the state file, which stores the ids of sessions.
const longestWord = 256

func word(doc json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(doc, &s); err != nil || s == nil || *s == "" {
		return "", errors.New("is missing, empty or not a string")
	}
	if len(*s) > longestWord {
		return "", fmt.Errorf("is longer than %d bytes", longestWord)
	}
	return *s, nil
}

// A kindOf is a type of values in L2's table of event data.
type kindOf string

const (
	aText    kindOf = "string"
	aNumber  kindOf = "number"
	aBool    kindOf = "boolean"
	anything kindOf = "any"
	aLevel   kindOf = "one of info, warn and error"
	aState   kindOf = "a state"
	anEnd    kindOf = "a terminal state"
)

// dataOf is L2's table of the data of each event type.
func dataOf(eventType string) map[string]kindOf {
	switch eventType {
	case hcpSessionCreated:
		return map[string]kindOf{"state": aState, "risk_level": aText, "session_token": aText}
	case hcpStateChanged:
		return map[string]kindOf{"from_state": aState, "to_state": aState, "reason": aText}
	case hcpProgress:
		return map[string]kindOf{"stage": aText, "percent": aNumber, "message": aText}
	case hcpIntermediateResult:
		return map[string]kindOf{"result_type": aText, "data": anything, "is_partial": aBool}
	case hcpLog:
		return map[string]kindOf{"level": aLevel, "message": aText, "details": anything}
	case hcpWarning:
		return map[string]kindOf{"code": aText, "message": aText, "details": anything}
	case hcpError:
		return map[string]kindOf{"code": aText, "message": aText, "recoverable": aBool}
	case hcpCheckpointCreated:
		return map[string]kindOf{"checkpoint_id": aText, "description": aText, "resumable": aBool, "created_at": aText}
	case hcpSessionClosed:
		return map[string]kindOf{"final_state": anEnd, "reason": aText}
	}
	return nil
}

// flaw names the first member of an event's data that does not conform to L2.
func flaw(eventType string, data map[string]json.RawMessage) (name string, ok bool) {
	kinds := dataOf(eventType)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		doc, there := data[name]
		if !there && eventType != hcpIntermediateResult {
			continue
		}
		if !there || !kinds[name].fits(doc) {
			return name, false
		}
	}
	return "", true
}

func (k kindOf) fits(doc json.RawMessage) bool {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return k == aText || k == anything || k == aLevel && slices.Contains([]string{"info", "warn", "error"}, v) || k == aState && knownState(v) ||
			k == anEnd && knownState(v) && session.State(v).Terminal()
	case float64:
		return k == aNumber || k == anything
	case bool:
		return k == aBool || k == anything
	}
	return k == anything
}
