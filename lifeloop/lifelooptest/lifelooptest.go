// Package lifelooptest checks that documents which this program makes are valid: by
// their published JSON Schema, which other programs read, and by the rules that no
// schema can express. Tests call it, and so does a wrapper that was built with the
// tag lifeloopdebug. No other build contains it.
//
//	err := lifelooptest.Check("lifecycle_receipt", doc)
package lifelooptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lifeloop/lifeloop"
)

// EventRecord is the kind of an event record, which is not a document of the
// contract.
const EventRecord = "event_record"

const urn = "urn:lifeloop:v0.2:"

// compiled compiles every schema once.
var compiled = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	kinds := append(lifeloop.Kinds(), EventRecord)
	for _, name := range append(slices.Clone(kinds), "common") {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(lifeloop.Schema(name)))
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		if err := c.AddResource(urn+name, doc); err != nil {
			return nil, err
		}
	}
	out := map[string]*jsonschema.Schema{}
	for _, kind := range kinds {
		s, err := c.Compile(urn + kind)
		if err != nil {
			return nil, err
		}
		out[kind] = s
	}
	return out, nil
})

// Check returns an error that says why a document of this kind is invalid, or
// nil.
func Check(kind string, doc []byte) error {
	schemas, err := compiled()
	if err != nil {
		return err
	}
	schema := schemas[kind]
	if schema == nil {
		return fmt.Errorf("no schema of kind %q", kind)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s %.300s: %w", kind, doc, err)
	}
	if kind == EventRecord {
		_, err = lifeloop.Parse[lifeloop.EventRecord](doc)
	} else {
		_, err = lifeloop.Echo(kind, doc)
	}
	if err != nil {
		return fmt.Errorf("%s %.300s: %w", kind, doc, err)
	}
	return nil
}

// Line checks the document in a line of JSON that a program of ours wrote: an entry
// of a ledger, a line of `events` or `receipts`, or the request in an envelope that a
// client stored. A line that contains none of these documents is
// valid.
func Line(line []byte) error {
	var in struct {
		Body struct {
			Receipt json.RawMessage `json:"receipt"`
			Record  json.RawMessage `json:"record"`
		} `json:"body"`
		Prev    string          `json:"prev"`
		Receipt string          `json:"receipt_id"`
		EventID string          `json:"event_id"`
		Data    json.RawMessage `json:"data"`
		Request json.RawMessage `json:"request"`
	}
	if json.Unmarshal(line, &in) != nil {
		return nil
	}
	switch {
	case in.Prev != "" && in.Body.Receipt != nil:
		return Check("lifecycle_receipt", in.Body.Receipt)
	case in.Prev != "" && in.Body.Record != nil:
		return Check(EventRecord, in.Body.Record)
	case in.Receipt != "":
		return Check("lifecycle_receipt", line)
	case in.EventID != "" && in.Data != nil:
		return Check(EventRecord, line)
	case in.Request != nil:
		return Check("callback_request", in.Request)
	}
	return nil
}
