package telemetry_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// TestRecordedFiles decodes every recorded file record by record. A golden list
// shows the number of each record and the signals that it gave.
func TestRecordedFiles(t *testing.T) {
	for _, c := range sources {
		if strings.HasSuffix(c.name, "-otlp") {
			continue // an OTLP session consists of many files; TestRecordedOTLP reads them
		}
		for _, file := range c.files(t) {
			base := filepath.Base(file)
			t.Run(c.name+"/"+base, func(t *testing.T) {
				d := telemetry.Digesting(c.new())
				var b strings.Builder
				for i, record := range c.split(t, file) {
					for _, s := range d.Decode(record) {
						telemetrytest.CheckSignal(t, s)
						fmt.Fprintf(&b, "%d %s\n", i+1, telemetrytest.Line(s))
					}
				}
				b.WriteString(unknownLines(d.Unknown()))
				golden(t, c.name, base, b.String())
			})
		}
	}
}

// TestRecordedOTLP decodes the bodies of whole sessions, in the order in which
// they were received. Print mode was recorded in both formats.
func TestRecordedOTLP(t *testing.T) {
	for _, c := range []struct{ decoder, name, pattern string }{
		{"claude-otlp", "session", "claude/testdata/otlp/*.json"},
		{"claude-otlp", "print.json", "claude/testdata/otlp-print/*.json"},
		{"claude-otlp", "print.protobuf", "claude/testdata/otlp-print/*.pb"},
		{"codex-otlp", "exec-tool-turn", "codex/testdata/otlp/logs.exec-*.json"},
		{"codex-otlp", "tui-turn-and-title", "codex/testdata/otlp/logs.tui-*.json"},
	} {
		t.Run(c.decoder+"/"+c.name, func(t *testing.T) {
			d := newDecoder(t, c.decoder)
			var b strings.Builder
			for _, file := range files(t, c.pattern) {
				for _, s := range d.Decode(read(t, file)) {
					fmt.Fprintf(&b, "%s %s\n", strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), telemetrytest.Line(s))
				}
			}
			b.WriteString(unknownLines(d.Unknown()))
			golden(t, c.decoder, c.name, b.String())
		})
	}
}

// TestRecordedHookSequences decodes the hook calls of whole sessions in the
// order in which they were made.
func TestRecordedHookSequences(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/testdata/transcripts/*.hooks.jsonl"},
		{"codex-hook", "codex/testdata/hooks/sequence-*.jsonl"},
		{"gemini-hook", "gemini/testdata/hooks/sequence-*.jsonl"},
		{"openclaw-hook", "openclaw/testdata/hooks/sequence-*.jsonl"},
		{"opencode-hook", "opencode/testdata/hooks/sequence-*.jsonl"},
	} {
		for _, file := range files(t, c.pattern) {
			base := filepath.Base(file)
			t.Run(c.decoder+"/"+base, func(t *testing.T) {
				var b strings.Builder
				for _, record := range telemetrytest.Records(t, file) {
					var r struct {
						Stdin json.RawMessage `json:"stdin"`
					}
					require.NoError(t, json.Unmarshal(record, &r))
					b.WriteString(telemetrytest.HookLines(decodeRecordedHook(t, c.decoder, r.Stdin)))
				}
				golden(t, c.decoder, base, b.String())
			})
		}
	}
}

// TestRecordedHooks decodes one recorded call of every hook.
func TestRecordedHooks(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/testdata/hooks/*.json"},
		{"codex-hook", "codex/testdata/hooks/stdin.*.json"},
		{"gemini-hook", "gemini/testdata/hooks/stdin.*.json"},
	} {
		t.Run(c.decoder, func(t *testing.T) {
			var b strings.Builder
			for _, file := range files(t, c.pattern) {
				fmt.Fprintf(&b, "# %s\n%s", filepath.Base(file), telemetrytest.HookLines(decodeRecordedHook(t, c.decoder, read(t, file))))
			}
			golden(t, c.decoder, "all", b.String())
		})
	}
}

func decodeRecordedHook(t *testing.T, decoder string, stdin []byte) telemetry.HookCall {
	t.Helper()
	var in struct {
		Event   string `json:"hook_event_name"`
		Session string `json:"session_id"`
		Prompt  string `json:"prompt_id"`
		Turn    string `json:"turn_id"`
	}
	require.NoError(t, json.Unmarshal(stdin, &in))
	call, err := dialects[decoder].Decode(in.Event, stdin)
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

// When a file is read again from its start, calls and compactions are not
// reported a second time, but appended ones are reported.
func TestReadAgain(t *testing.T) {
	for decoder, pattern := range map[string]string{"codex-rollout": "codex/testdata/rollouts/*.jsonl", "claude-transcript": "claude/testdata/transcripts/*.jsonl"} {
		for _, file := range files(t, pattern) {
			if strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			lines := strings.Split(strings.TrimSuffix(string(read(t, file)), "\n"), "\n")
			heavy := func(d telemetry.Decoder, lines []string) (n int) {
				for _, line := range lines {
					for _, s := range d.Decode([]byte(line)) {
						if s.Kind == telemetry.UsageSeen || s.Kind == telemetry.Compacted {
							n++
						}
					}
				}
				return n
			}
			once := newDecoder(t, decoder)
			all := heavy(once, lines)
			require.Zero(t, heavy(once, lines), file)
			for _, cut := range []int{1, len(lines) / 2, len(lines) - 1} {
				d := newDecoder(t, decoder)
				require.Equal(t, all, heavy(d, lines[:cut])+heavy(d, lines), "%s, %d lines of it before", file, cut)
			}
		}
	}
}

// TestEachRecordTwice repeats each record of the recordings, as a sender may
// do. The repetitions give no signal.
func TestEachRecordTwice(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"gemini-chat", "gemini/testdata/chats/*.jsonl"},
		{"gemini-hook", "gemini/testdata/hooks/sequence-*.jsonl"},
		{"opencode-bus", "opencode/testdata/bus/*.jsonl"},
		{"opencode-store", "opencode/testdata/store/*.jsonl"},
		{"openclaw-plugin", "openclaw/testdata/plugin-hook-log.jsonl"},
		{"hermes-hook", "hermes/testdata/hooks/sequence-*.jsonl"},
	} {
		for _, file := range files(t, c.pattern) {
			repeat := func(times int) (out []string) {
				d := newDecoder(t, c.decoder)
				for _, record := range telemetrytest.Records(t, file) {
					for range times {
						for _, s := range d.Decode(record) {
							// Signals of these kinds may be repeated, so the test ignores them.
							if s.Kind != telemetry.Alive && s.Kind != telemetry.Working && s.Kind != telemetry.Idle && s.Kind != telemetry.ToolEnd && s.Kind != telemetry.Cleared {
								out = append(out, telemetrytest.Line(s))
							}
						}
					}
				}
				return out
			}
			require.Equal(t, repeat(1), repeat(2), file)
		}
	}
}

// TestReportsWaiting checks that ReportsWaiting is true for exactly the decoders whose
// golden lists contain needs_input, and for two more.
func TestReportsWaiting(t *testing.T) {
	reports := map[string]bool{"codex-osc": true, "codex-app-server": true} // these formats report waiting, but no recording contains an example
	for _, path := range files(t, "*/testdata/golden/*/*") {
		parts := strings.Split(filepath.ToSlash(path), "/")
		name := parts[0] + "-" + parts[3]
		reports[name] = reports[name] || bytes.Contains(read(t, path), []byte("needs_input"))
	}
	for name, want := range reports {
		var source any = dialects[name]
		if dialects[name] == nil {
			source = newDecoder(t, name)
		}
		if got := telemetry.ReportsWaiting(source); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

// unknownLines writes the counts of unknown records, one type per line.
func unknownLines(seen map[string]int) string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(&b, "unknown %s %d\n", kind, seen[kind])
	}
	return b.String()
}
