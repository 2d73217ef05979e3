package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden signal lists anew; read the diff against what the harness really did")

// line writes a signal on one line: its kind, then what is set, in the order
// of the struct.
func line(s Signal) string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	put := func(key, val string) {
		if val == "" {
			return
		}
		if strings.ContainsAny(val, " \t\"") {
			val = fmt.Sprintf("%q", val)
		}
		fmt.Fprintf(&b, " %s=%s", key, val)
	}
	number := func(key string, n int64) {
		if n != 0 {
			fmt.Fprintf(&b, " %s=%d", key, n)
		}
	}
	put("from", s.Source)
	put("detail", s.Detail)
	if !s.At.IsZero() {
		put("at", s.At.Format("15:04:05.000"))
	}
	put("session", s.Session)
	put("turn", s.Turn)
	put("agent", s.Agent)
	put("side", s.Side)
	put("cause", s.Cause)
	put("reason", s.Reason)
	put("outcome", string(s.Outcome))
	put("error", string(s.Error))
	if u := s.Usage; u != nil {
		fmt.Fprintf(&b, " used=%d", u.Used)
		put("call", u.ID)
		put("request", u.Request)
		number("input", u.Input)
		number("cache_read", u.CacheRead)
		number("cache_write", u.CacheWrite)
		number("output", u.Output)
		number("reasoning", u.Reasoning)
		if u.Estimate {
			b.WriteString(" estimate")
		}
	}
	if c := s.Compaction; c != nil {
		put("half", c.Half)
		put("trigger", c.Trigger)
		if c.Before != nil {
			fmt.Fprintf(&b, " before=%d", *c.Before)
		}
		if c.After != nil {
			fmt.Fprintf(&b, " after=%d", *c.After)
		}
	}
	put("tool", s.Tool)
	put("name", s.ToolName)
	put("args", shortSized(s.Args))
	put("result", shortSized(s.Result))
	put("tool_error", s.ToolError)
	put("model", s.Model)
	number("window", s.Window)
	put("by", s.WindowSource)
	put("path", s.Path)
	put("origin", s.From)
	put("dir", s.Dir)
	put("version", s.Version)
	if p := s.Process; p != nil {
		fmt.Fprintf(&b, " process=%d/%d", p.PID, p.Start)
	}
	if !s.Until.IsZero() {
		put("until", s.Until.Format("15:04:05.000"))
	}
	return b.String()
}

// shortSized is the size of a text and how its digest begins.
func shortSized(s *Sized) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d/%s", s.Size, strings.TrimPrefix(s.Digest, "sha256:")[:8])
}

func unknownLines(seen map[string]int) string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(&b, "unknown %s %d\n", kind, seen[kind])
	}
	return b.String()
}

// golden compares got with the list beside the test data.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if got != string(want) {
		t.Errorf("%s: signals differ from %s\ngot:\n%swant:\n%s", name, file, got, want)
	}
}

func recordings(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(pattern)))
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

// records splits a recording into lines.
func records(t testing.TB, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// TestRecordedFiles decodes every recorded file record by record. A golden
// list shows the number of the record and what it told.
func TestRecordedFiles(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-transcript", "claude/transcripts/*.jsonl"},
		{"claude-statusline", "claude/statusline/*.json*"},
		{"claude-registry", "claude/sessions/*.json"},
		{"claude-stream", "claude/stream/*.json*"},
		{"codex-rollout", "codex/rollouts/*.jsonl"},
		{"opencode-bus", "opencode/bus/*.jsonl"},
		{"opencode-run", "opencode/run/*.jsonl"},
		{"opencode-store", "opencode/store/*.jsonl"},
		{"codex-exec", "codex/exec-json/*.jsonl"},
		{"codex-app-server", "codex/app-server/*.jsonl"},
		{"codex-notify", "codex/notify/*.json"},
		{"codex-history", "codex/history/*.jsonl"},
	} {
		for _, file := range recordings(t, c.pattern) {
			if strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			base := filepath.Base(file)
			t.Run(c.decoder+"/"+base, func(t *testing.T) {
				d, err := NewDecoder(c.decoder)
				require.NoError(t, err)
				Digesting(d)
				var b strings.Builder
				for i, record := range records(t, file) {
					for _, s := range d.Decode(record) {
						fmt.Fprintf(&b, "%d %s\n", i+1, line(s))
					}
				}
				b.WriteString(unknownLines(d.Unknown()))
				golden(t, filepath.Join(c.decoder, base), b.String())
			})
		}
	}
}

// hookLines writes what a hook call told.
func hookLines(call HookCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", call.Event)
	if call.Slot != "" {
		fmt.Fprintf(&b, " slot=%s capacity=%d", call.Slot, call.Capacity)
	}
	b.WriteByte('\n')
	for _, s := range call.Signals {
		fmt.Fprintf(&b, "  %s\n", line(s))
	}
	return b.String()
}

// TestRecordedHookSequences decodes the hook calls of whole sessions in the
// order in which they came.
func TestRecordedHookSequences(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/transcripts/*.hooks.jsonl"},
		{"codex-hook", "codex/hooks/sequence-*.jsonl"},
		{"gemini-hook", "gemini/hooks/sequence-*.jsonl"},
		{"opencode-hook", "opencode/hooks/sequence-*.jsonl"},
	} {
		for _, file := range recordings(t, c.pattern) {
			base := filepath.Base(file)
			t.Run(c.decoder+"/"+base, func(t *testing.T) {
				var b strings.Builder
				for _, record := range records(t, file) {
					var r struct {
						Stdin json.RawMessage `json:"stdin"`
					}
					require.NoError(t, json.Unmarshal(record, &r))
					b.WriteString(hookLines(decodeRecordedHook(t, c.decoder, r.Stdin)))
				}
				golden(t, filepath.Join(c.decoder, base), b.String())
			})
		}
	}
}

// TestRecordedHooks decodes one recorded call of every hook that was seen.
func TestRecordedHooks(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/hooks/*.json"},
		{"codex-hook", "codex/hooks/stdin.*.json"},
		{"gemini-hook", "gemini/hooks/stdin.*.json"},
	} {
		t.Run(c.decoder, func(t *testing.T) {
			var b strings.Builder
			for _, file := range recordings(t, c.pattern) {
				stdin, err := os.ReadFile(file)
				require.NoError(t, err)
				fmt.Fprintf(&b, "# %s\n%s", filepath.Base(file), hookLines(decodeRecordedHook(t, c.decoder, stdin)))
			}
			golden(t, filepath.Join(c.decoder, "all"), b.String())
		})
	}
}

func decodeRecordedHook(t *testing.T, decoder string, stdin []byte) HookCall {
	t.Helper()
	var in struct {
		Event   string `json:"hook_event_name"`
		Session string `json:"session_id"`
		Prompt  string `json:"prompt_id"`
		Turn    string `json:"turn_id"`
	}
	require.NoError(t, json.Unmarshal(stdin, &in))
	call, err := DecodeHook(decoder, in.Event, stdin)
	require.NoError(t, err)
	require.Equal(t, in.Event, call.Event)
	require.Equal(t, in.Session, call.Session)
	// Claude Code's MessageDisplay has a turn_id of its own beside the prompt_id.
	require.Equal(t, cmp.Or(in.Prompt, in.Turn), call.Turn)
	for _, s := range call.Signals {
		require.Equal(t, in.Session, s.Session)
		require.Equal(t, time.Time{}, s.At, "a hook's input has no time")
	}
	return call
}
