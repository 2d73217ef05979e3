package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Codex numbers its records without a hole, so a hole is a loss.
func TestCodexOrdinals(t *testing.T) {
	for _, c := range []struct {
		name     string
		ordinals []any
		want     []string
	}{
		{"dense", []any{0, 1, 2, 3}, nil},
		{"from the middle of a resumed file", []any{40, 41, 42}, nil},
		{"one lost", []any{0, 1, 3, 4}, []string{"2-2"}},
		{"several lost, twice", []any{5, 9, 10, 12}, []string{"6-8", "11-11"}},
		{"told again", []any{0, 1, 2, 1, 2, 3}, nil},
		{"a record without a number says nothing of the next", []any{0, nil, 7, 8}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewDecoder("codex-rollout")
			require.NoError(t, err)
			var got []string
			for _, n := range c.ordinals {
				record := `{"timestamp":"2026-01-02T03:04:05.000Z","type":"turn_context","payload":{}}`
				if n != nil {
					record = fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":%d,"type":"turn_context","payload":{}}`, n)
				}
				for _, s := range d.Decode([]byte(record)) {
					require.Equal(t, Gap, s.Kind)
					got = append(got, fmt.Sprintf("%d-%d", s.Missing[0], s.Missing[1]))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A file that lies under the name of another begins its numbers anew.
func TestCodexOrdinalsOfAReplacedFile(t *testing.T) {
	meta := func(n int, id string) string {
		return fmt.Sprintf(`{"ordinal":%d,"type":"session_meta","payload":{"id":%q}}`, n, id)
	}
	rest := func(n int) string { return fmt.Sprintf(`{"ordinal":%d,"type":"world_state","payload":{}}`, n) }
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"by a longer one", []string{meta(0, "a"), rest(1), meta(7, "b"), rest(8)}, nil},
		{"by a shorter one", []string{meta(24, "a"), rest(25), meta(0, "b"), rest(1), rest(3)}, []string{"2-2"}},
		{"by itself", []string{meta(0, "a"), rest(1), rest(2), meta(0, "a"), rest(1), rest(2), rest(3)}, nil},
		{"cut behind its second line", []string{meta(24, "a"), rest(25), rest(27)}, []string{"26-26"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewDecoder("codex-rollout")
			require.NoError(t, err)
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					if s.Kind == Gap {
						got = append(got, fmt.Sprintf("%d-%d", s.Missing[0], s.Missing[1]))
					}
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A file that is read from its start once more tells no call and no compaction
// again; what was appended since is told.
func TestReadOnceMore(t *testing.T) {
	for decoder, pattern := range map[string]string{"codex-rollout": "codex/rollouts/*.jsonl", "claude-transcript": "claude/transcripts/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join("testdata", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			heavy := func(d Decoder, lines []string) (n int) {
				for _, line := range lines {
					for _, s := range d.Decode([]byte(line)) {
						if s.Kind == UsageSeen || s.Kind == Compacted {
							n++
						}
					}
				}
				return n
			}
			once, err := NewDecoder(decoder)
			require.NoError(t, err)
			all := heavy(once, lines)
			require.Zero(t, heavy(once, lines), file)
			for _, cut := range []int{1, len(lines) / 2, len(lines) - 1} {
				d, err := NewDecoder(decoder)
				require.NoError(t, err)
				require.Equal(t, all, heavy(d, lines[:cut])+heavy(d, lines), "%s, %d lines of it before", file, cut)
			}
		}
	}
}

// A history that was written anew under the same numbers is news.
func TestCodexHistoryWrittenAnew(t *testing.T) {
	meta := `{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":0,"type":"session_meta","payload":{"id":"a"}}`
	compacted := `{"timestamp":"2026-01-02T03:04:06.000Z","ordinal":1,"type":"compacted","payload":{}}`
	younger := strings.Replace(compacted, "04:06", "05:06", 1)
	got := told(t, "codex-rollout", meta, compacted, meta, compacted, meta, younger)
	require.Equal(t, []string{
		`session_live from=rollout detail="ordinal 0" at=03:04:05.000 session=a cause=startup`,
		`compacted from=rollout detail="ordinal 1" at=03:04:06.000 session=a half=record trigger=unknown`,
		`compacted from=rollout detail="ordinal 1" at=03:05:06.000 session=a half=record trigger=unknown`}, got)
}

// What nobody knows says nothing of what the call before it was for.
func TestCodexUnknownBeforeACompaction(t *testing.T) {
	call := `{"timestamp":"2026-01-02T03:04:05.000Z","type":"token_usage_record","payload":{"thread_id":"a","turn_id":"t","response_id":"r","usage":{"input_tokens":9,"output_tokens":1,"total_tokens":10}}}`
	for _, unknown := range []string{`{"type":"of_a_later_version","payload":{}}`, `{"type":"event_msg","payload":{"type":"of_a_later_version"}}`, `{`} {
		got := told(t, "codex-rollout", call, unknown, `{"timestamp":"2026-01-02T03:04:06.000Z","type":"compacted","payload":{"compaction_response_id":"r"}}`)
		require.Equal(t, []string{
			`usage from=rollout at=03:04:05.000 session=a turn=t side=compaction used=10 call=r request=t input=9 output=1`,
			`compacted from=rollout at=03:04:06.000 session=a turn=t half=record trigger=unknown`}, got, unknown)
	}
}

// Records of versions that told no call by a record of its own, and the ones
// in which a newer version does.
const (
	codexMeta    = `{"timestamp":"2026-01-02T03:04:00.000Z","type":"session_meta","payload":{"id":"s","cwd":"/p","cli_version":"0.98.0","source":"cli"}}`
	codexFork    = `{"timestamp":"2026-01-02T03:04:00.000Z","type":"session_meta","payload":{"id":"s","forked_from_id":"o","source":"cli"}}`
	codexAnswer  = `{"timestamp":"2026-01-02T03:04:04.000Z","type":"event_msg","payload":{"type":"agent_message","message":"hello"}}`
	codexTool    = `{"timestamp":"2026-01-02T03:04:04.000Z","type":"response_item","payload":{"type":"function_call","call_id":"c"}}`
	codexRewrote = `{"timestamp":"2026-01-02T03:04:30.000Z","type":"compacted","payload":{"message":"sum"}}`
)

// codexCount is a token_count at a second of a minute: totals, then last.
func codexCount(second, input, cached, output, lastInput, lastCached, lastOutput int) string {
	tokens := func(i, c, o int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":0,"total_tokens":%d}`, i, c, o, i+o)
	}
	return fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:%02d.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":%s,"last_token_usage":%s,"model_context_window":1000},"rate_limits":null}}`,
		second, tokens(input, cached, output), tokens(lastInput, lastCached, lastOutput))
}

func TestCodexUsages(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string
		want    []string // side, id, used, input, cache read, output
	}{
		{"each step of the total is a call", []string{codexMeta, codexAnswer, codexCount(5, 100, 40, 10, 100, 40, 10), codexTool, codexCount(6, 300, 140, 30, 200, 100, 20)},
			[]string{"/total 110/110/60/40/10", "/total 330/220/100/100/20"}},
		{"a repeated total is none", []string{codexMeta, codexAnswer, codexCount(5, 100, 0, 10, 100, 0, 10), codexCount(5, 100, 0, 10, 100, 0, 10), codexCount(6, 100, 0, 10, 100, 0, 10)},
			[]string{"/total 110/110/100/0/10"}},
		{"a file that is read from its middle begins with a total that is not ours", []string{codexAnswer, codexCount(5, 900, 0, 90, 100, 0, 10), codexAnswer, codexCount(6, 1000, 0, 100, 100, 0, 10)},
			[]string{"//110/0/0/0", "/total 1100/110/100/0/10"}},
		{"so does one that is read behind its first call", []string{codexAnswer, codexCount(5, 100, 0, 10, 100, 0, 10), codexAnswer, codexCount(6, 150, 0, 20, 50, 0, 10)},
			[]string{"//110/0/0/0", "/total 170/60/50/0/10"}},
		{"so does a fork into which its origin was copied", []string{codexFork, codexCount(0, 100, 0, 10, 100, 0, 10), codexCount(0, 300, 0, 30, 200, 0, 20), codexAnswer, codexCount(9, 700, 0, 70, 400, 0, 40)},
			[]string{"//110/0/0/0", "//220/0/0/0", "/total 770/440/400/0/40"}},
		{"a total that falls begins anew", []string{codexMeta, codexAnswer, codexCount(5, 900, 0, 90, 900, 0, 90), codexAnswer, codexCount(6, 100, 0, 10, 100, 0, 10), codexAnswer, codexCount(7, 200, 0, 20, 100, 0, 10)},
			[]string{"/total 990/990/900/0/90", "/total 110/110/100/0/10", "/total 220/110/100/0/10"}},
		{"the call of a compaction is beside the main chain, and the estimate is none",
			[]string{codexMeta, codexAnswer, codexCount(5, 100, 0, 10, 100, 0, 10), codexCount(29, 130, 0, 15, 30, 0, 5), codexRewrote, codexCount(30, 130, 0, 15, 0, 0, 0), codexAnswer, codexCount(40, 150, 0, 20, 20, 0, 5)},
			[]string{"/total 110/110/100/0/10", "compaction/total 145/35/30/0/5", "/total 170/25/20/0/5"}},
		{"a record counts, and not the total as well", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"s"}}`, codexAnswer,
			`{"ordinal":1,"type":"token_usage_record","payload":{"thread_id":"s","session_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":100,"cached_input_tokens":30,"cache_write_input_tokens":20,"output_tokens":10,"total_tokens":110}}}`,
			codexCount(5, 100, 30, 10, 100, 30, 10)},
			[]string{"/r/110/50/30/10", "//110/0/0/0"}}, // the window was news
		{"a call without an id has its number", []string{codexAnswer,
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"","usage":{"input_tokens":100,"output_tokens":10}}}`},
			[]string{"/ordinal 7/110/100/0/10"}},
		{"a call that cost nothing is none", []string{codexAnswer,
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}}`}, nil},
		{"the call that a compaction does not name was an answer", []string{
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":100,"output_tokens":10,"total_tokens":110}}}`,
			`{"ordinal":8,"type":"compacted","payload":{"compaction_response_id":"q"}}`},
			[]string{"/r/110/100/0/10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewDecoder("codex-rollout")
			require.NoError(t, err)
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					if u := s.Usage; u != nil && !u.Estimate {
						got = append(got, fmt.Sprintf("%s/%s/%d/%d/%d/%d", s.Side, u.ID, u.Used, u.Input, u.CacheRead, u.Output))
					}
				}
			}
			require.Equal(t, c.want, got)
			require.Empty(t, d.Unknown())
		})
	}
}

// Whose thread a file is, its first line says; of one that is read from its
// middle the first record of a call does.
func TestCodexThreads(t *testing.T) {
	usage := `{"ordinal":9,"type":"token_usage_record","payload":{"thread_id":"child","session_id":"root","turn_id":"t","response_id":"r","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`
	tool := `{"type":"response_item","payload":{"type":"function_call","call_id":"c"}}`
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a sub-agent's", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"child","session_id":"root","source":{"subagent":{"thread_spawn":{"parent_thread_id":"root","depth":1}}}}}`, tool, usage},
			[]string{"session_live root child", "tool_start root child", "usage root child"}},
		{"a sub-agent's, of a version that names its parent only", []string{`{"type":"session_meta","payload":{"id":"child","parent_thread_id":"root","thread_source":"subagent"}}`},
			[]string{"session_live root child"}},
		{"a sub-agent's, read from its middle", []string{tool, usage}, []string{"tool_start  ", "usage root child"}},
		{"one that a person began", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"a","session_id":"a","source":"cli","thread_source":"user"}}`, tool},
			[]string{"session_live a ", "tool_start a "}},
		{"one into which another was copied", []string{codexFork, `{"type":"session_meta","payload":{"id":"o"}}`, tool}, []string{"session_live s ", "tool_start s "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewDecoder("codex-rollout")
			require.NoError(t, err)
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					got = append(got, fmt.Sprintf("%s %s %s", s.Kind, s.Session, s.Agent))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestCodexLimits(t *testing.T) {
	end := `{"timestamp":"2026-01-02T03:04:06.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","error":{"message":"try again at noon","codex_error_info":"usage_limit_exceeded"}}}`
	limits := func(limits string) string {
		return `{"timestamp":"2026-01-02T03:04:05.000Z","type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":` + limits + `}}`
	}
	const at, fault, ended = "at=03:04:05.000", "fault from=rollout ", "turn_end from=rollout at=03:04:06.000 turn=t outcome=failed error=quota"
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"one window is used up", []string{limits(`{"primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1767330000},"secondary":{"used_percent":40,"resets_at":1767900000}}`), end},
			[]string{fault + at + " error=quota until=05:00:00.000", ended + " until=05:00:00.000"}},
		{"both are, and the later one holds", []string{limits(`{"primary":{"used_percent":100,"resets_at":1767330000},"secondary":{"used_percent":100,"resets_at":1767333600}}`), end},
			[]string{fault + at + " error=quota until=06:00:00.000", ended + " until=06:00:00.000"}},
		{"told twice", []string{limits(`{"primary":{"used_percent":100,"resets_at":1767330000}}`), limits(`{"primary":{"used_percent":100,"resets_at":1767330000}}`)},
			[]string{fault + at + " error=quota until=05:00:00.000"}},
		{"an older version counts seconds", []string{limits(`{"primary":{"used_percent":100,"resets_in_seconds":60}}`)},
			[]string{fault + at + " error=quota until=03:05:05.000"}},
		{"reached without a window", []string{limits(`{"primary":null,"secondary":null,"rate_limit_reached_type":"workspace_owner_credits_depleted"}`), end},
			[]string{fault + at + " error=quota", ended}},
		{"nearly used up", []string{limits(`{"primary":{"used_percent":99.9,"resets_at":1767330000}}`), end}, []string{ended}},
		{"nothing is told", []string{limits(`null`), limits(`{"primary":null}`), end}, []string{ended}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "codex-rollout", c.records...))
		})
	}
}

// The app-server writes in camel case what the rollout writes with underscores.
func TestCodexErrorsInCamelCase(t *testing.T) {
	for info, want := range map[string]ErrorKind{
		`{"httpConnectionFailed":{"httpStatusCode":401}}`:           ErrAuth,
		`{"responseStreamConnectionFailed":{"httpStatusCode":503}}`: ErrServer,
		`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`:  ErrRateLimit,
		`"serverOverloaded"`:      ErrServer,
		`"usageLimitExceeded"`:    ErrQuota,
		`"rateLimitExceeded"`:     ErrRateLimit,
		`"contextWindowExceeded"`: ErrContextFull,
		`"badRequest"`:            ErrInvalidRequest,
		`"modelNotFound"`:         ErrInvalidRequest,
		`"other"`:                 ErrUnknown,
	} {
		if got := codexError([]byte(`{"message":"429 Too Many Requests","codexErrorInfo":` + info + `}`)); got != want {
			t.Errorf("%s is %s, want %s", info, got, want)
		}
	}
}
