package supervisor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/document/yaml"
	"lifeloop/profiles"
	"lifeloop/telemetry"
)

// windowsOf describes the windows of a list of events.
func windowsOf(events string) (out []string) {
	for _, m := range regexp.MustCompile(`"level":(\S+?),.*"window_source":"(\w*)","window_tokens":(\w+)`).FindAllStringSubmatch(events, -1) {
		out = append(out, strings.Join(m[1:], " "))
	}
	return out
}

// TestWindowsOfOpencode observes a recorded database of OpenCode. The window comes from the
// settings of the folder that the session was in, and never from those of another folder.
func TestWindowsOfOpencode(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "opencode.db")
	write(t, store, string(recording(t, "opencode/store/opencode.db")))
	settings := filepath.Join(dir, "settings.json")
	write(t, settings, `{"provider":{"mock":{"models":{"m1":{"limit":{"context":10000,"output":100}}}}}}`)
	profile, _ := profiles.For("opencode")
	observed := func(folder string) []string {
		sources := rows(t, "opencode", store, "store")
		sources[0] = profile.WithWindows(sources[0], profiles.Host{Env: []string{"HOME=" + dir, "OPENCODE_CONFIG=" + settings}, Dir: folder, ReadFile: os.ReadFile})
		return windowsOf(eventsOf(t, "opencode", sources, "ses_e02eb0b1bffeNEIbxmpvhM289s"))
	}
	require.Equal(t, []string{`"moderate" settings 10000`}, observed("/home/dev/project"))
	require.Equal(t, []string{"null  null"}, observed("/home/dev/other"))
}

// TestWindowsAreAdded adds the context window to model calls that report none. Calls of
// sub-agents and side tasks, and of sessions in other folders, stay without a window.
func TestWindowsAreAdded(t *testing.T) {
	asked := 0
	d := decoder{here: map[string]bool{}, models: map[string]modelWindow{}, windows: profiles.Windows{Dir: "/here", Of: func(model string) (int64, string) {
		asked++
		return int64(len(model)), "catalog"
	}}}
	signals := []telemetry.Signal{
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four"},
		{Kind: telemetry.SessionLive, Session: "s", Dir: "/here"},
		{Kind: telemetry.SessionLive, Session: "far", Dir: "/elsewhere"},
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four"},
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four"},
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four", Window: 9, WindowSource: "reported"},
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four", Agent: "a"},
		{Kind: telemetry.UsageSeen, Session: "s", Model: "four", Side: "title"},
		{Kind: telemetry.UsageSeen, Session: "far", Model: "four"},
		{Kind: telemetry.UsageSeen, Session: "s"},
	}
	d.addWindows(signals)
	var got []int64
	for _, s := range signals {
		got = append(got, s.Window)
	}
	require.Equal(t, []int64{0, 0, 0, 4, 4, 9, 0, 0, 0, 0}, got)
	require.Equal(t, 2, asked, "once for each model")

	d.windows.Dir = "" // now the windows apply to the sessions of all folders
	far := []telemetry.Signal{{Kind: telemetry.UsageSeen, Session: "unknown", Model: "four"}}
	d.addWindows(far)
	require.Equal(t, "catalog", far[0].WindowSource)
}

// TestWindowsOfHermes observes rows of Hermes with its settings beside the database.
func TestWindowsOfHermes(t *testing.T) {
	_, path := stored(t, "hermes/state.sql")
	profile, _ := profiles.For("hermes")
	sources := rows(t, "hermes", path, "messages", "sessions")
	with := func() (out []profiles.Source) {
		for _, s := range sources {
			out = append(out, profile.WithWindows(s, profiles.Host{ReadFile: os.ReadFile, YAML: yaml.Parse}))
		}
		return out
	}
	d := (&Files{}).newDecoder(with()[1])
	row := func(calls, tokens string) []telemetry.Signal {
		return d.read([]byte(`{"table":"sessions","session_id":"s","session":{"model":"m1","started_at":1,"api_call_count":` + calls + `,"input_tokens":` + tokens + `}}`))
	}
	row("1", "1000")
	require.Zero(t, row("2", "3000")[0].Window)
	write(t, filepath.Join(filepath.Dir(path), "config.yaml"), "model:\n  default: m1\n  context_length: 128000\n")
	d = (&Files{}).newDecoder(with()[1])
	row("1", "1000")
	signals := row("2", "3000")
	require.EqualValues(t, 128_000, signals[0].Window)
	require.Equal(t, "settings", signals[0].WindowSource)
}
