package negotiate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"lifeloop/lifeloop"
)

// maxProblems is the number of problems after which the rest of a list is not read.
const maxProblems = 100

// ParseRequest reads a request: a JSON object with the members capabilities, payloads and
// profiles. An unknown member is an error, because a request with a misspelt member would
// request nothing and always be satisfied. The error is a *lifeloop.ValidationError.
func ParseRequest(text []byte) (Request, error) {
	var parts struct {
		Capabilities []json.RawMessage `json:"capabilities"`
		Payloads     []json.RawMessage `json:"payloads"`
		Profiles     []string          `json:"profiles"`
	}
	var r Request
	if err := decodeStrictly(text, &parts); err != nil {
		return r, &lifeloop.ValidationError{Problems: []lifeloop.Problem{{Path: "$", Message: mismatch(err)}}}
	}
	var problems []lifeloop.Problem
	for i, part := range parts.Capabilities {
		if len(problems) >= maxProblems {
			break
		}
		var want Want
		err := decodeStrictly(part, &want)
		if err == nil {
			err = want.Validate()
		}
		if err != nil {
			problems = append(problems, lifeloop.Problem{Path: fmt.Sprintf("capabilities[%d]", i), Message: mismatch(err)})
		}
		r.Capabilities = append(r.Capabilities, want)
	}
	r.Profiles = parts.Profiles
	r.Payloads, problems = payloads("payloads", parts.Payloads, problems)
	return r, invalid(problems)
}

// ParsePayloads reads a JSON array of payload envelopes, or JSON Lines of them.
// The error is a *lifeloop.ValidationError.
func ParsePayloads(text []byte) ([]lifeloop.PayloadEnvelope, error) {
	list, err := values(text)
	if err != nil {
		return nil, &lifeloop.ValidationError{Problems: []lifeloop.Problem{{Path: "$", Message: mismatch(err)}}}
	}
	all, problems := payloads("", list, nil)
	return all, invalid(problems)
}

func payloads(at string, list []json.RawMessage, problems []lifeloop.Problem) ([]lifeloop.PayloadEnvelope, []lifeloop.Problem) {
	var all []lifeloop.PayloadEnvelope
	for i, text := range list {
		if len(problems) >= maxProblems {
			break
		}
		p, err := lifeloop.Parse[lifeloop.PayloadEnvelope](text)
		if err != nil {
			problems = append(problems, below(fmt.Sprintf("%s[%d]", at, i), err)...)
		}
		all = append(all, p)
	}
	return all, problems
}

// below returns the problems in err, which are about one part of a document. The returned
// paths begin with at, the path of this part in the document.
func below(at string, err error) []lifeloop.Problem {
	var invalid *lifeloop.ValidationError
	if !errors.As(err, &invalid) {
		return []lifeloop.Problem{{Path: at, Message: err.Error()}}
	}
	moved := slices.Clone(invalid.Problems)
	for i, p := range moved {
		switch {
		case p.Path == "$":
			moved[i].Path = at
		case p.Path[0] == '[':
			moved[i].Path = at + p.Path
		default:
			moved[i].Path = at + "." + p.Path
		}
	}
	return moved
}

func invalid(problems []lifeloop.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &lifeloop.ValidationError{Problems: problems}
}

// values splits a JSON array or JSON Lines.
func values(text []byte) (list []json.RawMessage, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return list, json.Unmarshal(text, &list)
	}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", len(list)+1, err)
		}
		list = append(list, value)
	}
}

// decodeStrictly reads exactly one JSON value. A member for which v has no field
// is an error.
func decodeStrictly(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return errors.New("expected one JSON object, got nothing")
	}
	if err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("expected one JSON object, but more text follows it")
	}
	return nil
}

// mismatch returns the reason why encoding/json could not read a value, without
// quoting the value.
func mismatch(err error) string {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err.Error()
	}
	expected := map[reflect.Kind]string{reflect.Struct: "an object", reflect.Slice: "an array", reflect.Bool: "true or false"}[typed.Type.Kind()]
	text := "expected " + cmp.Or(expected, "a string") + ", got " + typed.Value
	if typed.Field != "" {
		return typed.Field + ": " + text
	}
	return text
}

// Excluded returns the reason why a payload must not be injected, or "" if it may
// be. A payload whose first placement is receipt_only is never injected, because
// later placements are not considered. The contract says about receipt_only: "No
// prompt injection".
func Excluded(p lifeloop.PayloadEnvelope, epoch int64) string {
	switch {
	case p.Expired(epoch):
		return "it has expired"
	case p.AcceptablePlacements[0].Placement == lifeloop.ReceiptOnly:
		return "its first placement is receipt_only"
	}
	return ""
}

// DropExpired removes expired payloads and returns a warning for each. An
// expired payload with a required placement fails the dispatch with class
// payload_rejected (DECISIONS L13).
func DropExpired(e *lifeloop.DispatchEnvelope, epoch int64) (warnings []string, err error) {
	for _, p := range e.Payloads {
		if !p.Expired(epoch) {
			continue
		}
		if slices.ContainsFunc(p.AcceptablePlacements, func(a lifeloop.AcceptablePlacement) bool { return a.Requirement == lifeloop.Required }) {
			return nil, fmt.Errorf("payload %s has expired and has a required placement", p.PayloadID)
		}
		warnings = append(warnings, fmt.Sprintf("payload %s has expired and was not delivered", p.PayloadID))
	}
	e.Payloads = slices.DeleteFunc(e.Payloads, func(p lifeloop.PayloadEnvelope) bool { return p.Expired(epoch) })
	return warnings, nil
}
