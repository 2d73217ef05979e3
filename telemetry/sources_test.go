package telemetry_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/telemetry/gemini"
	"lifeloop/telemetry/hermes"
	"lifeloop/telemetry/openclaw"
	"lifeloop/telemetry/opencode"
	"lifeloop/telemetry/telemetrytest"
)

// A source is one format with its recordings. Its name is the name of the
// harness's folder, a hyphen, and the name of the golden lists in that folder.
type source struct {
	name    string
	new     func() telemetry.Decoder
	pattern string // file name pattern of the recordings in the harness's testdata; empty if there are none
	split   func(t testing.TB, file string) [][]byte
	text    textLaw
}

// sources lists every decoder. TestEveryDecoderIsListed fails when a profile
// names one that is missing here.
var sources = []source{
	{"claude-osc", claude.OSC, "", nil, sameFor("✳ TEXT", "⠂ TEXT")},
	{"claude-otlp", claude.OTLP, "otlp/*.json", whole, replacing(muffleOTLP)},
	{"claude-registry", claude.Registry, "sessions/*.json", telemetrytest.Records, replacing(muffle)},
	{"claude-statusline", claude.Statusline, "statusline/*.json*", telemetrytest.Records, replacing(muffle)},
	{"claude-stream", claude.Stream, "stream/*.json*", telemetrytest.Records, replacing(muffle)},
	{"claude-transcript", claude.Transcript, "transcripts/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"codex-app-server", codex.AppServer, "app-server/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"codex-exec", codex.Exec, "exec-json/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"codex-history", codex.History, "history/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"codex-notify", codex.Notify, "notify/*.json", telemetrytest.Records, replacing(muffle)},
	{"codex-osc", codex.OSC, "", nil, sameFor("state=blocked:app=codex:kind=TEXT", "state=idle:app=codex:note=TEXT")},
	{"codex-otlp", codex.OTLP, "otlp/*.json", whole, replacing(muffleOTLP)},
	{"codex-rollout", codex.Rollout, "rollouts/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"file", telemetry.File, "", nil, sameFor("TEXT")},
	{"gemini-chat", gemini.Chat, "chats/*.jsonl", telemetrytest.Records, notFound},
	{"gemini-logs", gemini.Logs, "logs/*.json", whole, notFound},
	{"gemini-osc", gemini.OSC, "titles/*.txt", telemetrytest.Records, notFound},
	{"gemini-stream", gemini.Stream, "stream/*.jsonl", telemetrytest.Records, notFound},
	{"gemini-telemetry", gemini.Telemetry, "telemetry/*.log", telemetrytest.Values, notFound},
	{"hermes-store", hermes.Store, "[ms]e*.jsonl", telemetrytest.Records, notFound},
	{"openclaw-agent", openclaw.Agent, "agent-local-json-output.json", whole, replacing(muffleOpenclaw)},
	{"openclaw-node", openclaw.Node, "session_nodes.jsonl", telemetrytest.Records, replacing(muffleOpenclaw)},
	{"openclaw-plugin", openclaw.Plugin, "plugin-hook-log.jsonl", telemetrytest.Records, replacing(muffleOpenclaw)},
	{"openclaw-run", openclaw.Run, "trajectory_runtime_events.jsonl", telemetrytest.Records, replacing(muffleOpenclaw)},
	{"openclaw-transcript", openclaw.Transcript, "transcript_events.jsonl", telemetrytest.Records, replacing(muffleOpenclaw)},
	{"opencode-bus", opencode.Bus, "bus/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"opencode-run", opencode.Run, "run/*.jsonl", telemetrytest.Records, replacing(muffle)},
	{"opencode-store", opencode.Store, "store/*.jsonl", telemetrytest.Records, replacing(muffle)},
}

// dialects lists the dialect of each harness that has hooks.
var dialects = map[string]telemetry.Dialect{
	"claude-hook": claude.Hooks{}, "codex-hook": codex.Hooks{}, "gemini-hook": gemini.Hooks{}, "hermes-hook": hermes.Hooks{}, "openclaw-hook": openclaw.Hooks{}, "opencode-hook": opencode.Hooks{},
}

// Every decoder and every dialect that a profile names is in the lists above,
// so each law of this package holds for it.
func TestEveryDecoderIsListed(t *testing.T) {
	listed := map[string]string{}
	for _, s := range sources {
		listed[fmt.Sprintf("%T", s.new())] = s.name
	}
	named := func(adapter string, constructor func() telemetry.Decoder) {
		if constructor != nil && listed[fmt.Sprintf("%T", constructor())] == "" {
			t.Errorf("%s: %T is not in sources", adapter, constructor())
		}
	}
	for _, adapter := range profiles.Adapters() {
		p, _ := profiles.For(adapter)
		if p.Hooks != nil && dialects[adapter+"-hook"] != p.Hooks {
			t.Errorf("%s: %T is not in dialects", adapter, p.Hooks)
		}
		for _, otlp := range []string{"", "http://127.0.0.1:1"} {
			l, err := p.Prepare([]string{adapter}, profiles.Host{Env: []string{"HOME=/h"}, Dir: "/d", OTLP: otlp, Terminal: true})
			require.NoError(t, err)
			named(adapter, l.OSCDecoder)
			named(adapter, l.Export.Decoder)
			for _, s := range append(l.Sources, p.Observable()...) {
				if s.Name != profiles.HookCalls {
					named(adapter, s.Decoder)
				}
			}
		}
	}
}

// newDecoder returns a decoder by name. For a dialect it decodes recorded hook
// calls.
func newDecoder(t require.TestingT, name string) telemetry.Decoder {
	if hooks, ok := dialects[name]; ok {
		return telemetry.HookCalls(hooks)
	}
	for _, s := range sources {
		if s.name == name {
			return s.new()
		}
	}
	require.FailNow(t, "no decoder is named "+name)
	return nil
}

// files lists the recordings of a source.
func (s source) files(t *testing.T) []string {
	if s.pattern == "" {
		return nil
	}
	harness, _, _ := strings.Cut(s.name, "-")
	var kept []string
	for _, file := range files(t, harness+"/testdata/"+s.pattern) {
		if !strings.HasSuffix(file, ".hooks.jsonl") {
			kept = append(kept, file)
		}
	}
	return kept
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.FromSlash(pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

// golden compares got with a list in the harness's folder.
func golden(t *testing.T, name, base, got string) {
	t.Helper()
	harness, format, _ := strings.Cut(name, "-")
	telemetrytest.Golden(t, filepath.Join(harness, "testdata", "golden", format, base+".txt"), got)
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

// whole returns the recording of a file that is rewritten at each change, as one
// record.
func whole(t testing.TB, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return [][]byte{data}
}
