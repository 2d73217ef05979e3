//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// A claim without a word on what it means would be printed as an empty line.
func TestEveryClaimIsExplained(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		in := inspected(m)
		if in.ConformanceMeans == "" {
			t.Errorf("%s: conformance %s is not explained", id, in.Conformance)
		}
		if len(in.Claims) != len(negotiate.Names(m)) {
			t.Errorf("%s: %d claims are inspected, of %d", id, len(in.Claims), len(negotiate.Names(m)))
		}
		for _, c := range in.Claims {
			if c.Means == "" || !c.Support.Valid() {
				t.Errorf("%s: %+v says nothing", id, c)
			}
		}
	}
}

// A claim of every sort that no shipped manifest makes.
func TestInspectTellsOfProfilesAndDegradations(t *testing.T) {
	m, _ := manifests.Get(manifests.Generic)
	m.Renewal = &lifeloop.RenewalClaims{Profiles: []string{"host"}, Evidence: "seen"}
	m.Renewal.Reset.WrapperMediated = lifeloop.Synthesized
	m.TelemetrySources = []lifeloop.TelemetrySource{{Name: "log", Kind: "jsonl", Path: "~/log", Support: lifeloop.Partial}}
	m.KnownDegradations = []lifeloop.Degradation{
		{Capability: "telemetry.log", PreviousSupport: lifeloop.Native, CurrentSupport: lifeloop.Partial, Evidence: "version 2", RetryClass: lifeloop.RetryAfterReread},
		{Capability: "telemetry.gone", PreviousSupport: lifeloop.Native, CurrentSupport: lifeloop.Unavailable, Evidence: "version 3"},
	}
	m.FailureModes = []lifeloop.FailureClass{lifeloop.Timeout}
	var out strings.Builder
	if err := inspected(m).print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  renewal.reset.wrapper_mediated: the wrapper can make it begin anew\n      evidence: seen\n      note: only with the profile host\n",
		"  telemetry.log: a source of evidence, of the kind jsonl\n      evidence: ~/log\n      note: known to have gone from native to partial: version 2 (retry_after_reread)\n",
		"  telemetry.gone  from native to unavailable: version 3\n",
		"  timeout  safe_retry\n",
		"  renewal.reset.native ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

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
