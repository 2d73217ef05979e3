package supervisor

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/synth"
	"lifeloop/telemetry"
	"lifeloop/view"
)

var update = flag.Bool("update", false, "write the golden event lists anew; read the diff against what the harness really did")

// recordings lists the golden files with their sources. The source kind=HARNESS/PATH
// is the file telemetry/HARNESS/testdata/PATH. The sources of an entry are read together.
// If a name contains "*", each matching recording has a separate golden file.
var recordings = []struct {
	adapter string
	name    string // the name of the golden file; "*" is replaced by the recording's file name
	sources []string
}{
	{"claude", "transcript/*", []string{"transcript=claude/transcripts/*.jsonl"}},
	{"claude", "hooks/*", []string{"hooks=claude/transcripts/*.hooks.jsonl"}},
	{"claude", "stream/*", []string{"stream=claude/stream/*.jsonl"}},
	{"claude", "statusline/*", []string{"statusline=claude/statusline/*.json*"}},
	{"claude", "registry/*", []string{"registry=claude/sessions/*.json"}},
	{"codex", "rollout/*", []string{"rollout=codex/rollouts/*.jsonl"}},
	{"codex", "exec/*", []string{"exec=codex/exec-json/*.jsonl"}},
	{"codex", "app-server/*", []string{"app-server=codex/app-server/*.jsonl"}},
	{"codex", "notify/*", []string{"notify=codex/notify/*.json"}},
	{"codex", "history/*", []string{"history=codex/history/*.jsonl"}},
	{"codex", "hooks/*", []string{"hooks=codex/hooks/sequence-*.jsonl"}},
	{"gemini", "hooks/*", []string{"hooks=gemini/hooks/sequence-*.jsonl"}},
	{"gemini", "transcript/*", []string{"transcript=gemini/chats/*.jsonl"}},
	{"gemini", "telemetry/*", []string{"telemetry=gemini/telemetry/*.log"}},
	{"gemini", "stream/*", []string{"stream=gemini/stream/*.jsonl"}},
	{"gemini", "log/*", []string{"log=gemini/logs/*.json"}},
	{"opencode", "hooks/*", []string{"hooks=opencode/hooks/sequence-*.jsonl"}},
	{"opencode", "events/*", []string{"events=opencode/bus/*.jsonl"}},
	{"opencode", "rows/*", []string{"rows=opencode/store/*.jsonl"}}, // each session of the store separately
	{"opencode", "stream/*", []string{"stream=opencode/run/*.jsonl"}},

	{"openclaw", "transcript", []string{"transcript=openclaw/transcript_events.jsonl"}},
	{"openclaw", "runs", []string{"runs=openclaw/trajectory_runtime_events.jsonl"}},
	{"openclaw", "sessions", []string{"sessions=openclaw/session_nodes.jsonl"}},
	{"openclaw", "plugin", []string{"plugin=openclaw/plugin-hook-log.jsonl"}},
	{"openclaw", "agent", []string{"agent=openclaw/agent-local-json-output.json"}},
	{"openclaw", "merged/store", []string{"transcript=openclaw/transcript_events.jsonl", "runs=openclaw/trajectory_runtime_events.jsonl", "sessions=openclaw/session_nodes.jsonl"}},
	{"openclaw", "merged/all", []string{"transcript=openclaw/transcript_events.jsonl", "runs=openclaw/trajectory_runtime_events.jsonl", "sessions=openclaw/session_nodes.jsonl", "plugin=openclaw/plugin-hook-log.jsonl"}},
	{"hermes", "messages", []string{"messages=hermes/messages.jsonl"}},
	{"hermes", "hooks/*", []string{"hooks=hermes/hooks/sequence-*.jsonl"}},
	{"hermes", "merged/store", []string{"messages=hermes/messages.jsonl", "sessions=hermes/sessions.jsonl"}},

	// Most entries below merge several sources. Each turn must still be one frame.
	{"claude", "merged/simple_turn", []string{"transcript=claude/transcripts/simple_turn.jsonl", "hooks=claude/transcripts/simple_turn.hooks.jsonl"}},
	{"claude", "merged/tool_turn", []string{"transcript=claude/transcripts/tool_turn.jsonl", "hooks=claude/transcripts/tool_turn.hooks.jsonl"}},
	{"claude", "merged/auto_compact", []string{"transcript=claude/transcripts/auto_compact.jsonl", "hooks=claude/transcripts/auto_compact.hooks.jsonl"}},
	{"claude", "merged/manual_compact", []string{"transcript=claude/transcripts/manual_compact.jsonl", "hooks=claude/transcripts/manual_compact.hooks.jsonl"}},
	{"claude", "merged/api_errors", []string{"transcript=claude/transcripts/api_errors.jsonl", "hooks=claude/transcripts/api_errors.hooks.jsonl"}},
	{"claude", "merged/subagent", []string{"transcript=claude/transcripts/subagent.jsonl", "transcript=claude/transcripts/subagent__subagents__agent-a9b0c2bda14673fbf.jsonl", "hooks=claude/transcripts/subagent.hooks.jsonl"}},
	{"claude", "otlp/session", []string{"otlp=claude/otlp/*-logs.json"}},
	{"claude", "otlp/print", []string{"otlp=claude/otlp-print/*.json"}},
	{"codex", "otlp/exec-tool-turn", []string{"otlp=codex/otlp/logs.exec-*.json"}},
	{"codex", "otlp/tui-turn-and-title", []string{"otlp=codex/otlp/logs.tui-*.json"}},
	{"claude", "merged/clear", []string{"transcript=claude/transcripts/clear-1-before.jsonl", "transcript=claude/transcripts/clear-2-after.jsonl", "hooks=claude/transcripts/clear.hooks.jsonl"}},
	{"codex", "merged/approval", []string{"rollout=codex/rollouts/approval.tui.jsonl", "hooks=codex/hooks/sequence-tui-approval.jsonl"}},
	{"codex", "merged/auto_compact_on_resume", []string{"rollout=codex/rollouts/auto-compact-preturn-on-resume.exec.jsonl", "hooks=codex/hooks/sequence-exec-autocompact-resume-midturn.jsonl"}},
	{"codex", "merged/compact_new_clear", []string{"rollout=codex/rollouts/manual-compact.tui.jsonl", "rollout=codex/rollouts/unused-thread-from-new.tui.jsonl",
		"rollout=codex/rollouts/after-clear.tui.jsonl", "hooks=codex/hooks/sequence-tui-tool-compact-new-clear-quit.jsonl"}},
	{"codex", "merged/review", []string{"rollout=codex/rollouts/review.exec.jsonl", "rollout=codex/rollouts/review-thread.exec.jsonl", "hooks=codex/hooks/sequence-exec-review.jsonl"}},
	{"codex", "merged/subagent", []string{"rollout=codex/rollouts/subagent-parent.exec.jsonl", "rollout=codex/rollouts/subagent-child.exec.jsonl", "hooks=codex/hooks/sequence-exec-subagent.jsonl"}},
	{"codex", "merged/history", []string{"rollout=codex/rollouts/manual-compact.tui.jsonl", "rollout=codex/rollouts/after-clear.tui.jsonl", "history=codex/history/history.jsonl"}},
	{"codex", "merged/resumed_then_forked", []string{"rollout=codex/rollouts/resumed.exec.jsonl", "rollout=codex/rollouts/forked.exec.jsonl"}},
	{"gemini", "merged/interactive", []string{"transcript=gemini/chats/interactive-error-cancel-compress-auto.jsonl", "hooks=gemini/hooks/sequence-interactive.jsonl"}},
	{"gemini", "merged/denied", []string{"transcript=gemini/chats/denied-cleared.jsonl", "transcript=gemini/chats/denied-cleared-next-file.jsonl", "hooks=gemini/hooks/sequence-denied.jsonl"}},
	{"gemini", "merged/telemetry", []string{"transcript=gemini/chats/interactive-error-cancel-compress-auto.jsonl", "telemetry=gemini/telemetry/error-cancel-compress-auto.log"}},
	{"gemini", "merged/three", []string{"transcript=gemini/chats/interactive-error-cancel-compress-auto.jsonl", "hooks=gemini/hooks/sequence-interactive.jsonl", "telemetry=gemini/telemetry/error-cancel-compress-auto.log"}},
	{"opencode", "merged/plugin_and_store", []string{"hooks=opencode/hooks/sequence-serve-queued-refused-aborted.jsonl", "rows=opencode/store/serve-with-plugin-queued-refused-aborted.jsonl"}},
	{"opencode", "merged/bus_and_store", []string{"events=opencode/bus/serve-queued-abort-permission-retry.jsonl", "rows=opencode/store/serve-queued-abort-permission-retry.jsonl"}},
}

// TestObservedRecordings compares the events of every recording with its golden
// list, as `observe --once` emits them. Every line of the lists was reviewed.
func TestObservedRecordings(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range recordings {
		kind, pattern, _ := strings.Cut(c.sources[0], "=")
		if !strings.Contains(c.name, "*") {
			golden(t, seen, c.adapter, c.name, every(t, c.sources))
			continue
		}
		files, err := filepath.Glob(recordedFile(pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			if kind != profiles.HookCalls && strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			base := filepath.Base(file)
			golden(t, seen, c.adapter, strings.Replace(c.name, "*", base, 1), []string{kind + "=" + strings.Replace(strings.TrimPrefix(file, "../telemetry/"), "/testdata", "", 1)})
		}
	}
	require.NoError(t, filepath.WalkDir(filepath.Join("testdata", "observed"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !seen[path] {
			t.Errorf("%s has no recording", path)
		}
		return err
	}))
}

// recordedFile returns the path of a recording.
func recordedFile(path string) string {
	harness, file, _ := strings.Cut(path, "/")
	return filepath.Join("..", "telemetry", harness, "testdata", filepath.FromSlash(file))
}

// every lists the files of each pattern, in the order of their names.
func every(t *testing.T, sources []string) (out []string) {
	for _, s := range sources {
		kind, pattern, _ := strings.Cut(s, "=")
		files, err := filepath.Glob(recordedFile(pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			out = append(out, kind+"="+strings.Replace(strings.TrimPrefix(file, "../telemetry/"), "/testdata", "", 1))
		}
	}
	return out
}

func golden(t *testing.T, seen map[string]bool, adapter, name string, sources []string) {
	file := filepath.Join("testdata", "observed", adapter, name+".txt")
	require.False(t, seen[file], "two recordings have the name %s", file)
	seen[file] = true
	t.Run(adapter+"/"+name, func(t *testing.T) {
		observe := func(t *testing.T, adapter string, sources []string) string {
			if kind, path, _ := strings.Cut(sources[0], "="); kind == "rows" && len(sources) == 1 {
				return observeEach(t, adapter, sources, path)
			}
			return observe(t, adapter, sources, "")
		}
		got := observe(t, adapter, sources)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		if got != string(want) {
			t.Errorf("events differ from %s\ngot:\n%swant:\n%s", file, got, want)
		}
		require.Equal(t, got, observe(t, adapter, sources), "the same files give the same events")
	})
}

// observeEach lists the events of each session of a store.
func observeEach(t *testing.T, adapter string, sources []string, path string) string {
	profile, _ := profiles.For(adapter)
	d := profile.Transcript.Decoder()
	data, err := os.ReadFile(recordedFile(path))
	require.NoError(t, err)
	var b strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		for _, s := range d.Decode([]byte(strings.TrimSuffix(line, "\n"))) {
			if s.Kind == telemetry.SessionLive && s.Agent == "" && !seen[s.Session] {
				seen[s.Session] = true
				b.WriteString("# " + s.Session + "\n" + observe(t, adapter, sources, s.Session))
			}
		}
	}
	return b.String()
}

// observe lists the events of sources, one per line. If session is not empty,
// it lists only the events of that session.
func observe(t *testing.T, adapter string, kinds []string, session string) string {
	profile, ok := profiles.For(adapter)
	require.True(t, ok)
	var sources []profiles.Source
	for _, k := range kinds {
		kind, path, _ := strings.Cut(k, "=")
		found := false
		for _, s := range profile.Observable() {
			if s.Name == kind {
				s.Path, found = recordedFile(path), true
				abs, err := filepath.Abs(s.Path)
				require.NoError(t, err)
				s.Path = abs
				if s.Form == profiles.Rows && strings.HasSuffix(path, ".jsonl") {
					s.Form = profiles.Lines // the recording has the rows as lines
				}
				sources = append(sources, s)
			}
		}
		require.True(t, found, "adapter %s has no source %s", adapter, kind)
	}
	return eventsOf(t, adapter, sources, session)
}

// eventsOf lists the events of sources, one per line.
func eventsOf(t *testing.T, adapter string, sources []profiles.Source, session string) string {
	manifest, ok := manifests.Get(adapter)
	require.True(t, ok)
	profile, _ := profiles.For(adapter)
	n := map[string]int{}
	launch := setup.Launch{Manifest: manifest, HarnessSession: session, Synth: synth.Config{Estimates: profile.Estimates}}
	k := kernel.New(kernel.Config{Session: "observed", Observing: true, Launch: launch, NewID: func(prefix string) string {
		n[prefix]++
		return fmt.Sprint(prefix, n[prefix])
	}})
	var b strings.Builder
	var status view.Status
	require.NoError(t, Once(t.Context(), k, sources, nil, Ports{}, each(func(e kernel.Entry) error {
		status.Apply(e)
		b.WriteString(eventLine(t, e))
		return nil
	})))
	fmt.Fprintf(&b, "turns %d%s%s%s\n", status.Turns, callsLine(" main", status.Usage.Main), callsLine(" agents", status.Usage.Agents), callsLine(" side", status.Usage.Side))
	return b.String()
}

// callsLine prints the sums of model calls: input tokens, those read from and written
// to the cache, output tokens, and those of reasoning.
func callsLine(name string, c synth.Calls) string {
	if c.Calls == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d×(in %d read %d wrote %d out %d reasoning %d)", name, c.Calls, c.Input, c.CacheRead, c.CacheWrite, c.Output, c.Reasoning)
}

func eventLine(t *testing.T, e kernel.Entry) string {
	r, ok := view.Event(e.Fact)
	if !ok {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.At.UTC().Format("15:04:05.000"), r.Event)
	if r.HarnessSessionID != nil {
		fmt.Fprintf(&b, " session=%s", *r.HarnessSessionID)
	}
	if r.FrameContext != nil {
		fmt.Fprintf(&b, " frame=%s", r.FrameContext.FrameID)
	}
	data, err := json.Marshal(r.Data)
	require.NoError(t, err)
	fmt.Fprintf(&b, " %s", data)
	for _, ev := range r.Evidence {
		fmt.Fprintf(&b, " | %s: %s", ev.Source, ev.Detail)
	}
	return b.String() + "\n"
}

// each returns a listener that calls f with each entry.
func each(f func(kernel.Entry) error) Listener {
	return func(entries []kernel.Entry) error {
		for _, e := range entries {
			if err := f(e); err != nil {
				return err
			}
		}
		return nil
	}
}
