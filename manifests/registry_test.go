package manifests

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

func TestEveryShippedManifestIsValid(t *testing.T) {
	for _, id := range IDs() {
		t.Run(id, func(t *testing.T) {
			m, err := lifeloop.Parse[lifeloop.Manifest](Raw(id))
			require.NoError(t, err)
			if m.ContractVersion != lifeloop.Version {
				t.Errorf("contract_version %s, want %s", m.ContractVersion, lifeloop.Version)
			}
			for _, e := range lifeloop.Events() {
				if _, ok := m.LifecycleEvents[e]; !ok {
					t.Errorf("no claim for the event %s", e)
				}
			}
			for _, p := range lifeloop.Placements() {
				claim, ok := m.Placement[p]
				if !ok {
					t.Errorf("no claim for the placement %s", p)
				}
				if open := claim.Support != lifeloop.Unavailable; open != (claim.MaxBytes != nil) {
					t.Errorf("placement %s is %s: a limit belongs to a class that can be used, and to no other", p, claim.Support)
				}
			}
		})
	}
}

func TestIDsRoundTrip(t *testing.T) {
	for _, id := range IDs() {
		m, ok := Get(id)
		require.True(t, ok, id)
		if m.AdapterID != id {
			t.Errorf("Get(%q) has adapter_id %q", id, m.AdapterID)
		}
		again, err := json.Marshal(m)
		require.NoError(t, err)
		require.JSONEq(t, string(Raw(id)), string(again))
	}
}

func TestEveryFileIsListed(t *testing.T) {
	names, err := fs.Glob(files, "*.json")
	require.NoError(t, err)
	ids := IDs()
	slices.Sort(ids)
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], ".json")
	}
	require.Equal(t, ids, names)
}

func TestConformance(t *testing.T) {
	want := map[string]string{
		"claude": V1, "codex": V1,
		"gemini": Pre, "opencode": Pre, "openclaw": Pre, "hermes": Pre,
		Generic: None, "nobody": None,
	}
	for id, level := range want {
		if got := Conformance(id); got != level {
			t.Errorf("Conformance(%q) = %s, want %s", id, got, level)
		}
	}
}

func TestUnknownAdapter(t *testing.T) {
	for _, id := range []string{"", "nobody", "../registry", "claude.json"} {
		if m, ok := Get(id); ok || m.AdapterID != "" || Raw(id) != nil {
			t.Errorf("Get(%q) found a manifest", id)
		}
	}
}

// A session weakens its copy of a manifest; the next one must not inherit that.
func TestGetGivesEachItsOwn(t *testing.T) {
	first, _ := Get("codex")
	first.Placement[lifeloop.PreSession] = lifeloop.PlacementClaim{Support: lifeloop.Unavailable}
	Raw("codex")[0] = 'x'
	second, ok := Get("codex")
	require.True(t, ok)
	if got := second.Placement[lifeloop.PreSession].Support; got != lifeloop.Native {
		t.Errorf("pre_session of the second copy is %s, want native", got)
	}
}

// What is not built is claimed unavailable: nobody reads what these harnesses
// write, so a claim that needs reading would be a lie.
func TestUnreadHarnessesClaimOnlyTheirProcess(t *testing.T) {
	fromTheProcess := []lifeloop.Event{
		lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.SessionEnding, lifeloop.SessionEnded,
		lifeloop.SupervisorTick, lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted,
	}
	for _, id := range IDs() {
		if Conformance(id) == V1 {
			continue
		}
		m, _ := Get(id)
		require.Equal(t, []lifeloop.IntegrationMode{lifeloop.LauncherWrapper}, m.IntegrationModes, id)
		for e, claim := range m.LifecycleEvents {
			want := lifeloop.Unavailable
			if slices.Contains(fromTheProcess, e) {
				want = lifeloop.Synthesized
			}
			if claim.Support != want {
				t.Errorf("%s: %s is %s, want %s", id, e, claim.Support, want)
			}
		}
		for p, claim := range m.Placement {
			if claim.Support != lifeloop.Unavailable {
				t.Errorf("%s: placement %s is %s, want unavailable", id, p, claim.Support)
			}
		}
		if m.SessionIdentity.HarnessSessionID != lifeloop.Unavailable {
			t.Errorf("%s: claims to know the harness's session id", id)
		}
	}
}
