package inspect

import (
	"strings"
	"testing"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// A claim without an explanation would be printed as an empty line.
func TestEveryClaimIsExplained(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		in := Manifest(m)
		if in.ConformanceMeans == "" {
			t.Errorf("%s: conformance %s is not explained", id, in.Conformance)
		}
		if len(in.Claims) != len(negotiate.Names(m)) {
			t.Errorf("%s: %d of %d claims are inspected", id, len(in.Claims), len(negotiate.Names(m)))
		}
		for _, c := range in.Claims {
			if c.Means == "" || !c.Support.Valid() {
				t.Errorf("%s: %+v is not explained", id, c)
			}
		}
	}
}

// No shipped manifest has these kinds of claims, so the test adds them.
func TestInspectShowsProfilesAndDegradations(t *testing.T) {
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
	if err := Manifest(m).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  renewal.reset.wrapper_mediated: the wrapper can reset the session\n      evidence: seen\n      note: only with the profile host\n",
		"  telemetry.log: a source of kind jsonl\n      evidence: ~/log\n      note: degraded from native to partial: version 2 (retry class: retry_after_reread)\n",
		"  telemetry.gone  from native to unavailable: version 3\n",
		"  timeout  safe_retry\n",
		"  renewal.reset.native ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
