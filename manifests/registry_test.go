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
					t.Errorf("placement %s is %s: max_bytes must be set exactly if the class is available", p, claim.Support)
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
		"gemini": V1, "opencode": Pre, "openclaw": Pre, "hermes": Pre,
		Generic: None, "unknown": None,
	}
	for id, level := range want {
		if got := Conformance(id); got != level {
			t.Errorf("Conformance(%q) = %s, want %s", id, got, level)
		}
	}
}

// A manifest has one role, so an adapter that fills two needs two manifests. Each shipped
// adapter fills one: it has one manifest, in a file of its own.
func TestOneRoleInEachManifest(t *testing.T) {
	owners := map[string]string{}
	for _, id := range IDs() {
		m, ok := Get(id)
		require.True(t, ok)
		require.NotEmpty(t, m.Role, id)
		require.Empty(t, owners[m.AdapterID], "%s has two manifests", m.AdapterID)
		owners[m.AdapterID] = id

		var text map[string]any
		require.NoError(t, json.Unmarshal(Raw(id), &text))
		text["role"] = []string{string(m.Role), "observer"}
		two, err := json.Marshal(text)
		require.NoError(t, err)
		_, err = lifeloop.Parse[lifeloop.Manifest](two)
		require.ErrorContains(t, err, "role", "%s with two roles", id)
	}
}

func TestUnknownAdapter(t *testing.T) {
	for _, id := range []string{"", "unknown", "../registry", "claude.json"} {
		if m, ok := Get(id); ok || m.AdapterID != "" || Raw(id) != nil {
			t.Errorf("Get(%q) found a manifest", id)
		}
	}
}

// A session may weaken its copy of a manifest, which must not change the
// manifest that Get returns.
func TestGetReturnsACopy(t *testing.T) {
	first, _ := Get("codex")
	first.Placement[lifeloop.PreSession] = lifeloop.PlacementClaim{Support: lifeloop.Unavailable}
	Raw("codex")[0] = 'x'
	second, ok := Get("codex")
	require.True(t, ok)
	if got := second.Placement[lifeloop.PreSession].Support; got != lifeloop.Native {
		t.Errorf("pre_session of the second copy is %s, want native", got)
	}
}

// The manifest of a harness whose files are not decoded claims only what can be
// observed of its process.
func TestUnreadHarnessesClaimOnlyTheirProcess(t *testing.T) {
	fromTheProcess := []lifeloop.Event{
		lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.SessionEnding, lifeloop.SessionEnded,
		lifeloop.SupervisorTick, lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted,
	}
	unread := 0
	for _, id := range IDs() {
		m, _ := Get(id)
		if readsFiles(m) {
			continue
		}
		unread++
		if !slices.Contains(m.IntegrationModes, lifeloop.LauncherWrapper) || slices.Contains(m.IntegrationModes, lifeloop.NativeHook) {
			t.Errorf("%s: integration modes %v", id, m.IntegrationModes)
		}
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
			t.Errorf("%s: claims the harness's session id", id)
		}
	}
	if unread == 0 {
		t.Error("every manifest names telemetry that is decoded, even generic's")
	}
}

// readsFiles reports whether a manifest names a source whose content is decoded.
// A terminal and an activity file do not count, because only their bytes or
// changes are counted.
func readsFiles(m lifeloop.Manifest) bool {
	return slices.ContainsFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool {
		return s.Kind != "terminal" && s.Kind != "activity"
	})
}

// In the mode telemetry_only the files of a harness are read and nothing is passed
// to the harness. Anything that only the launching program can know is not claimed
// in this mode.
func TestTelemetryOnlyClaimsWhatFilesTell(t *testing.T) {
	launchers := []lifeloop.Event{lifeloop.FrameOpening, lifeloop.FrameEnding, lifeloop.SessionEnding, lifeloop.SessionEnded, lifeloop.SupervisorTick}
	ours := []lifeloop.Event{lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted} // events about the wrapper itself, claimed for observed sessions too
	observed := 0
	for _, id := range IDs() {
		m, _ := Get(id)
		claims := slices.Contains(m.IntegrationModes, lifeloop.TelemetryOnly)
		if claims {
			observed++
		}
		files := slices.ContainsFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool {
			return s.Kind != "terminal" && s.Kind != "hook" && s.Kind != "osc"
		})
		if claims != files {
			t.Errorf("%s: claims telemetry_only: %v; has files to observe: %v", id, claims, files)
		}
		for e, claim := range m.LifecycleEvents {
			claimed := slices.Contains(claim.Modes, lifeloop.TelemetryOnly)
			if Conformance(id) != Pre && slices.Contains(launchers, e) && claimed {
				t.Errorf("%s: claims %s for a session that is only observed", id, e)
			}
			if slices.Contains(ours, e) && claimed != claims {
				t.Errorf("%s: claims %s for a session that is only observed: %v", id, e, claimed)
			}
		}
	}
	if observed < 3 {
		t.Errorf("%d adapters can be observed; want Claude Code, Codex and any program", observed)
	}
}
