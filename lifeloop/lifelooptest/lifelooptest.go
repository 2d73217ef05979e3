// Package lifelooptest checks that documents which this program makes are valid:
// by their published JSON Schema, which other programs read, and by the rules
// beyond it. Tests call it, and so does a wrapper that was built with the tag
// lifeloopdebug. No other build contains it.
//
//	err := lifelooptest.Check("lifecycle_receipt", doc)
package lifelooptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lifeloop/lifeloop"
)

// EventRecord is the kind of an event, which is no document of the contract.
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

// Check returns why a document of this kind is invalid, or nil.
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

// Facts checks the events and receipts among the entries of a ledger, given as
// JSON Lines, and returns how many documents it checked.
func Facts(entries io.Reader) (checked int, err error) {
	for dec := json.NewDecoder(entries); ; checked++ {
		var entry struct {
			Body struct {
				Receipt json.RawMessage `json:"receipt"`
				Record  json.RawMessage `json:"record"`
			} `json:"body"`
		}
		if err := dec.Decode(&entry); err != nil {
			if err == io.EOF {
				return checked, nil
			}
			return checked, err
		}
		switch {
		case entry.Body.Receipt != nil:
			err = Check("lifecycle_receipt", entry.Body.Receipt)
		case entry.Body.Record != nil:
			err = Check(EventRecord, entry.Body.Record)
		default:
			checked--
		}
		if err != nil {
			return checked, err
		}
	}
}
