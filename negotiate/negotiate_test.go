package negotiate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

const (
	native, synthesized, manual = lifeloop.Native, lifeloop.Synthesized, lifeloop.Manual
	partial, unavailable        = lifeloop.Partial, lifeloop.Unavailable

	required, preferred, optional = lifeloop.Required, lifeloop.Preferred, lifeloop.Optional
)

// claiming returns a manifest that claims frame.opening with the given support.
func claiming(s lifeloop.Support) lifeloop.Manifest {
	return lifeloop.Manifest{LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{lifeloop.FrameOpening: {Support: s}}}
}

// TestEveryCombination checks every claimed support with every want. Wants differ in
// their level, in the support that they name, and in whether they accept partial
// support. The result is the same for a want that names synthesized and for a want
// that names no support.
func TestEveryCombination(t *testing.T) {
	const (
		no       = lifeloop.CapabilityUnsupported
		operator = lifeloop.OperatorRequired
	)
	cells := []struct {
		have      lifeloop.Support
		native    bool // the want names native
		accept    bool
		outcome   Outcome
		ifRefused lifeloop.FailureClass // the failure class if the want is required
	}{
		{native, false, false, Satisfied, ""},
		{native, false, true, Satisfied, ""},
		{native, true, false, Satisfied, ""},
		{native, true, true, Satisfied, ""},
		{synthesized, false, false, Satisfied, ""},
		{synthesized, false, true, Satisfied, ""},
		{synthesized, true, false, Degraded, no},
		{synthesized, true, true, Satisfied, ""},
		{manual, false, false, RequiresOperator, operator},
		{manual, false, true, RequiresOperator, operator},
		{manual, true, false, RequiresOperator, operator},
		{manual, true, true, RequiresOperator, operator},
		{partial, false, false, Degraded, no},
		{partial, false, true, Satisfied, ""},
		{partial, true, false, Degraded, no},
		{partial, true, true, Satisfied, ""},
		{unavailable, false, false, Unsupported, no},
		{unavailable, false, true, Unsupported, no},
		{unavailable, true, false, Unsupported, no},
		{unavailable, true, true, Unsupported, no},
	}
	seen := map[[2]any]bool{}
	for _, c := range cells {
		for _, level := range requirements() {
			for _, named := range Nameable() {
				if (named == native) != c.native {
					continue
				}
				want := Want{Capability: "frame.opening", Level: level, Support: named, AcceptPartial: c.accept}
				expect := Result{Want: want, Outcome: c.outcome, Have: c.have}
				if level == required {
					expect.Failure = c.ifRefused
				}
				if level == preferred && c.outcome != Satisfied {
					expect.Warning = "preferred capability frame.opening is " + string(c.have) + ", so the outcome is " + string(c.outcome)
				}
				require.Equal(t, []Result{expect}, Capabilities(claiming(c.have), []Want{want}))
				seen[[2]any{want, c.have}] = true
			}
		}
	}
	if want := 3 * 3 * 2 * 5; len(seen) != want {
		t.Errorf("the table covers %d cells of %d", len(seen), want)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		wants   []Want
		class   lifeloop.FailureClass
		refused bool
	}{
		{"nothing asked", nil, "", false},
		{"required and there", []Want{{Capability: "session.started", Level: required}}, "", false},
		{"preferred and missing", []Want{{Capability: "session.ended", Level: preferred}}, "", false},
		{"optional and missing", []Want{{Capability: "session.ended", Level: optional}}, "", false},
		{"required and missing", []Want{{Capability: "session.ended", Level: required}}, lifeloop.CapabilityUnsupported, true},
		{"required and manual", []Want{{Capability: "placement.manual_operator", Level: required}}, lifeloop.OperatorRequired, true},
		{"an operator cannot help with another missing capability", []Want{
			{Capability: "placement.manual_operator", Level: required},
			{Capability: "session.ended", Level: required},
		}, lifeloop.CapabilityUnsupported, true},
		{"an unknown name", []Want{{Capability: "telepathy", Level: required}}, lifeloop.CapabilityUnsupported, true},
		{"a support that cannot be named", []Want{{Capability: "session.started", Level: optional, Support: manual}}, lifeloop.InvalidRequest, true},
		{"an unknown level counts as required", []Want{{Capability: "session.ended", Level: "mandatory"}}, lifeloop.CapabilityUnsupported, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			class, refused := Refused(Capabilities(full(), c.wants))
			if class != c.class || refused != c.refused {
				t.Errorf("got %q, %v; want %q, %v", class, refused, c.class, c.refused)
			}
		})
	}
}

// full returns a manifest that has claims for each kind of capability.
func full() lifeloop.Manifest {
	m := lifeloop.Manifest{
		LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{lifeloop.SessionStarted: {Support: native}},
		Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{
			lifeloop.ToolResult: {Support: partial}, lifeloop.ManualOperator: {Support: manual},
		},
		ContextPressure:  lifeloop.Claim{Support: synthesized},
		Receipts:         lifeloop.ReceiptClaims{Native: true, ReceiptLedger: synthesized},
		SessionIdentity:  &lifeloop.IdentityClaims{HarnessSessionID: native, HarnessRunID: synthesized, HarnessTaskID: partial},
		SessionRename:    &lifeloop.Claim{Support: manual},
		ApprovalSurface:  &lifeloop.Claim{Support: partial},
		Renewal:          &lifeloop.RenewalClaims{},
		TelemetrySources: []lifeloop.TelemetrySource{{Name: "hooks", Support: native}, {Name: "rollout", Support: partial}},
	}
	m.Renewal.Reset.Native = native
	m.Renewal.Reset.WrapperMediated = synthesized
	m.Renewal.Reset.Manual = manual
	m.Renewal.Continuation.Observation = partial
	m.Renewal.Continuation.PayloadDelivery = synthesized
	return m
}

// A claim that lists host integration profiles applies only if one of these profiles
// is requested.
func TestProfiles(t *testing.T) {
	m := full()
	m.Renewal.Profiles = []string{"handoff", "mirror"}
	wants := []Want{{Capability: "renewal.reset.native", Level: required}, {Capability: "session.started", Level: required}}
	for _, c := range []struct {
		profiles []string
		have     lifeloop.Support
		outcome  Outcome
	}{
		{nil, unavailable, Unsupported},
		{[]string{"other", ""}, unavailable, Unsupported},
		{[]string{"other", "mirror"}, native, Satisfied},
	} {
		a := Request{Capabilities: wants, Profiles: c.profiles}.Against(m, 0)
		require.Equal(t, c.have, a.Capabilities[0].Have, "%q", c.profiles)
		require.Equal(t, c.outcome, a.Outcome, "%q", c.profiles)
		require.Equal(t, Satisfied, a.Capabilities[1].Outcome)
	}
	require.Equal(t, native, Support(m, "renewal.reset.native"), "the manifest itself is unchanged")

	m.Renewal.Profiles = nil // a renewal that needs no profile
	require.Equal(t, Satisfied, Capabilities(m, wants)[0].Outcome)
}

// A continuation is stored only if the adapter can carry it across a reset and one of the
// adapter's profiles is active. Without the store, no continuation is carried.
func TestContinuationStore(t *testing.T) {
	m := full()
	m.Renewal.Profiles = []string{"handoff"}
	want := []Want{{Capability: ContinuationStore, Level: required}}
	require.Equal(t, lifeloop.CapabilityUnsupported, Capabilities(m, want)[0].Failure)
	require.Equal(t, Satisfied, Capabilities(m, want, "handoff")[0].Outcome)

	none := Weaken(m, ContinuationStore, unavailable)
	require.Equal(t, unavailable, Support(none, ContinuationDelivery))
	require.Equal(t, lifeloop.CapabilityUnsupported, Capabilities(none, want, "handoff")[0].Failure)
	require.Equal(t, synthesized, Support(m, ContinuationDelivery), "the manifest itself is unchanged")
	require.Equal(t, lifeloop.Manifest{}, Weaken(lifeloop.Manifest{}, ContinuationStore, unavailable))
	m.Renewal.Continuation.PayloadDelivery = manual
	require.Equal(t, unavailable, Support(m, ContinuationStore))
}

func TestSupportByName(t *testing.T) {
	for name, want := range map[string]lifeloop.Support{
		"session.started":                       native,
		"session.ended":                         unavailable,
		"placement.tool_result":                 partial,
		"placement.pre_session":                 unavailable,
		"context_pressure":                      synthesized,
		"receipts.native":                       native,
		"receipts.receipt_ledger":               synthesized,
		"session_identity.harness_session_id":   native,
		"session_identity.harness_run_id":       synthesized,
		"session_identity.harness_task_id":      partial,
		"session_rename":                        manual,
		"approval_surface":                      partial,
		"renewal.reset.native":                  native,
		"renewal.reset.wrapper_mediated":        synthesized,
		"renewal.reset.manual":                  manual,
		"renewal.continuation.observation":      partial,
		"renewal.continuation.payload_delivery": synthesized,
		"continuation_store":                    synthesized,
		"telemetry.hooks":                       native,
		"telemetry.rollout":                     partial,
		"telemetry.statusline":                  unavailable,
		"telepathy":                             unavailable,
		"":                                      unavailable,
		"placement.":                            unavailable,
		"tool_result":                           unavailable,
	} {
		if got := Support(full(), name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		if got := Support(lifeloop.Manifest{}, name); got != unavailable {
			t.Errorf("%q of an empty manifest: %s", name, got)
		}
	}
}

func TestNamesAreKnown(t *testing.T) {
	names := Names(full())
	require.Len(t, names, len(lifeloop.Events())+5+14+2)
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			t.Errorf("%s is listed twice", n)
		}
		seen[n] = true
		if !Known(n) {
			t.Errorf("%s is listed and not known", n)
		}
		if err := (Want{Capability: n, Level: required}).Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []string{"", "placement.", "placement.x", "telemetry.", "frame", "renewal.reset", "receipts.lifeloop_synthesized"} {
		if Known(n) {
			t.Errorf("%q is known", n)
		}
	}
}

func TestWantsAreChecked(t *testing.T) {
	for _, c := range []struct {
		want Want
		err  string
	}{
		{Want{Capability: "frame.opening", Level: required}, ""},
		{Want{Capability: "telemetry.anything", Level: optional, Support: native, AcceptPartial: true}, ""},
		{Want{Capability: "frame.opened.", Level: required}, `capability "frame.opened.": unknown name`},
		{Want{Capability: "frame.opening"}, `level "": want required, preferred or optional`},
		{Want{Capability: "frame.opening", Level: required, Support: synthesized}, ""},
		{Want{Capability: "frame.opening", Level: required, Support: "good"}, `support "good": want native or synthesized; leave support out to accept both`},
		{Want{Capability: "frame.opening", Level: required, Support: partial}, `set accept_partial to accept partial support`},
		{Want{Capability: "frame.opening", Level: required, Support: manual}, `support "manual"`},
		{Want{Capability: "frame.opening", Level: required, Support: unavailable, AcceptPartial: true}, `support "unavailable"`},
	} {
		err := c.want.Validate()
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.err)
	}
}

// requirements lists the contract's requirement levels.
func requirements() []lifeloop.Requirement {
	return []lifeloop.Requirement{lifeloop.Required, lifeloop.Preferred, lifeloop.Optional}
}
