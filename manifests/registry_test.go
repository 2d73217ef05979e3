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
		"gemini": V1, "opencode": Pre, "openclaw": Pre, "hermes": Pre,
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

// What is not built is claimed unavailable: where nobody reads what a program
// writes, a claim that needs reading would be a lie.
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
			t.Errorf("%s: claims to know the harness's session id", id)
		}
	}
	if unread == 0 {
		t.Error("every manifest names telemetry that is read, even that of any program")
	}
}

// readsFiles says that a manifest names a source whose content is understood.
// A terminal's bytes are counted, and an activity file's changes.
func readsFiles(m lifeloop.Manifest) bool {
	return slices.ContainsFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool {
		return s.Kind != "terminal" && s.Kind != "activity"
	})
}

// To observe without launching is another thing than to launch or to be called
// by hooks: no adapter can be given anything that way, only the files it writes
// are read, and what only a launcher knows is not claimed of it.
func TestTelemetryOnlyClaimsWhatFilesTell(t *testing.T) {
	onlyOurs := []lifeloop.Event{lifeloop.FrameOpening, lifeloop.FrameEnding, lifeloop.SessionEnding, lifeloop.SessionEnded,
		lifeloop.SupervisorTick, lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted}
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
			t.Errorf("%s: telemetry_only is claimed: %v; it has files to be observed: %v", id, claims, files)
		}
		for e, claim := range m.LifecycleEvents {
			if Conformance(id) != Pre && slices.Contains(onlyOurs, e) && slices.Contains(claim.Modes, lifeloop.TelemetryOnly) {
				t.Errorf("%s: claims %s of a session that is only observed", id, e)
			}
		}
	}
	if observed < 3 {
		t.Errorf("%d adapters can be observed; want Claude Code, Codex and any program", observed)
	}
}
