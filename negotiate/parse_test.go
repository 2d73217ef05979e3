package negotiate

import (
	"encoding/json"
	"errors"
	"testing"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
)

// Any input is either a valid request or gives problems with their places, and
// never causes a panic. Every valid request has an answer.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{}`, ``, `null`, `[]`, `{"capabilities":null,"payloads":[null]}`, `{} {}`, `{"capabilities":[{"capability":"telemetry.","level":"required"}]}`,
		`{"capabilities":[{"capability":"frame.opening","level":"required","support":"native","accept_partial":true}]}`,
	} {
		f.Add([]byte(seed))
	}
	m, _ := manifests.Get(manifests.Generic)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRequest(text)
		var invalid *lifeloop.ValidationError
		if errors.As(err, &invalid) {
			for _, p := range invalid.Problems {
				if p.Path == "" || p.Message == "" {
					t.Errorf("incomplete problem: %+v", p)
				}
			}
		}
		if err != nil {
			return
		}
		if a := r.Against(m, 0); len(a.Capabilities) != len(r.Capabilities) || len(a.Placements) != len(r.Payloads) || a.Outcome == "" {
			t.Errorf("%+v answers %+v", a, r)
		}
	})
}

// Valid payloads are rendered as an object with one member, "payloads": a list with an
// entry for each payload that has a body or a reference.
func FuzzParsePayloads(f *testing.F) {
	const one = `{"schema_version":1,"payload_id":"a","client_id":"c","payload_kind":"k","format":"f","content_encoding":"utf8","body":"x","byte_size":1,` +
		`"acceptable_placements":[{"placement":"pre_prompt_frame","requirement":"required"}],"redaction":"none","metadata":{}}`
	for _, seed := range []string{one, "[" + one + "," + one + "]", one + "\n\n" + one, ``, `[`, `[]`, `[null]`, `1 2`, one + "x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		payloads, err := ParsePayloads(text)
		if err != nil {
			return
		}
		with := 0
		for _, p := range payloads {
			_ = Excluded(p, 0)
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
