package profiles

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file is Codex's own answer to hooks/list, in which it tells the hash
// that it computed for each of twelve hooks.
func TestTrustHashIsCodexsOwn(t *testing.T) {
	data, err := os.ReadFile("testdata/codex-hooks-list.json")
	require.NoError(t, err)
	var answer struct {
		Result struct {
			Data []struct {
				Hooks []struct {
					Key, EventName, Command, CurrentHash string
					TimeoutSec                           int
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &answer))
	hooks := answer.Result.Data[0].Hooks
	require.Len(t, hooks, 12)
	for _, h := range hooks {
		snake := strings.Split(h.Key, ":")[1]
		if got := trustHash(snake, h.Command, 0); got != h.CurrentHash {
			t.Errorf("%s without a time-out: hash %s, want %s", h.EventName, got, h.CurrentHash)
		}
		if got := trustHash(snake, h.Command, h.TimeoutSec); got != h.CurrentHash {
			t.Errorf("%s with its own time-out: hash %s, want %s", h.EventName, got, h.CurrentHash)
		}
	}
}

// These hold quotes, ampersands and angle brackets, which a JSON encoder that
// thinks of HTML would spell differently, and time-outs beyond the clamp.
func TestTrustHashVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/codex-trust-hashes.tsv")
	require.NoError(t, err)
	snakes := map[string]string{"PreToolUse": "pre_tool_use"}
	for _, h := range codexHooks {
		snakes[h.event] = h.snake
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 4)
		if got := trustHash(snakes[f[0]], f[2], 10); got != f[3] {
			t.Errorf("%s: hash %s, want %s", f[0], got, f[3])
		}
		n++
	}
	if n != 10 {
		t.Errorf("read %d vectors, want 10", n)
	}
}
