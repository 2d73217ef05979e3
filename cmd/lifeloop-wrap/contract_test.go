//go:build linux

package main

import (
	"encoding/json"
	"testing"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
)

// Whatever comes in: a request or problems, each with its place, and never a
// panic; and what is a request has an answer.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{}`, ``, `null`, `[]`, `{"capabilities":null,"payloads":[null]}`, `{} {}`, `{"capabilities":[{"capability":"telemetry.","level":"required"}]}`,
		`{"capabilities":[{"capability":"frame.opening","level":"required","support":"native","accept_partial":true}]}`,
	} {
		f.Add([]byte(seed))
	}
	m, _ := manifests.Get(manifests.Generic)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, problems := parseRequest(text)
		for _, p := range problems {
			if p.Path == "" || p.Message == "" {
				t.Errorf("half a problem: %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if a := negotiated(r.Against(m, 0)); len(a.Capabilities) != len(r.Capabilities) || len(a.Placements) != len(r.Payloads) || a.Outcome == "" {
			t.Errorf("%+v answers %+v", a, r)
		}
	})
}

// What is rendered of any payloads is one object with one key, and an entry
// for each.
func FuzzParsePayloads(f *testing.F) {
	const one = `{"schema_version":1,"payload_id":"a","client_id":"c","payload_kind":"k","format":"f","content_encoding":"utf8","body":"x","byte_size":1,` +
		`"acceptable_placements":[{"placement":"pre_prompt_frame","requirement":"required"}],"redaction":"none","metadata":{}}`
	for _, seed := range []string{one, "[" + one + "," + one + "]", one + "\n\n" + one, ``, `[`, `[]`, `[null]`, `1 2`, one + "x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		payloads, problems := parsePayloads(text)
		if len(problems) > 0 {
			return
		}
		with := 0
		for _, p := range payloads {
			_ = ineligible(p, 0)
			if p.Body != nil || p.BodyRef != nil {
				with++
			}
		}
		var rendered map[string][]map[string]any
		if err := json.Unmarshal([]byte(lifeloop.RenderPayloads(payloads).Reveal()), &rendered); err != nil {
			t.Fatal(err)
		}
		if len(rendered) != 1 || len(rendered["payloads"]) != with {
			t.Errorf("%d payloads with a text are rendered as %v", with, rendered)
		}
	})
}
