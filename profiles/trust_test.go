package profiles

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected hashes were computed by Codex, for all twelve events, six timeouts
// (some beyond its limits), and commands with quotes, angle brackets, control
// characters and a line separator, which JSON encoders escape in different ways.
func TestTrustHashEqualsCodexHash(t *testing.T) {
	data, err := os.ReadFile("testdata/codex-trust-hashes.tsv")
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 5)
		configured, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		held, err := strconv.Atoi(f[2])
		require.NoError(t, err)
		var command string
		require.NoError(t, json.Unmarshal([]byte(f[3]), &command))
		if got := effectiveTimeout(f[0], configured); got != held {
			t.Errorf("%s with %d s holds to %d s, want %d", f[0], configured, got, held)
		}
		if got := trustHash(f[0], command, configured); got != f[4] {
			t.Errorf("%s with %d s, %q: hash %s, want %s", f[0], configured, command, got, f[4])
		}
		n++
	}
	if n != 144 {
		t.Errorf("read %d hashes, want 144", n)
	}
}

// codex-hooks-list.json is the answer of a Codex that was started with the overrides
// that Prepare returns here. The answer lists each command unchanged, as trusted.
func TestCodexTrustsInjectedHooks(t *testing.T) {
	data, err := os.ReadFile("testdata/codex-hooks-list.json")
	require.NoError(t, err)
	var answer struct {
		Result struct {
			Data []struct {
				Hooks []struct {
					Key, Command, CurrentHash, TrustStatus string
					TimeoutSec                             int
				}
				Warnings, Errors []any
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &answer))
	list := answer.Result.Data[0]
	require.Empty(t, list.Warnings)
	require.Empty(t, list.Errors)
	require.Len(t, list.Hooks, len(codexHooks))

	p, _ := For("codex")
	hook := []string{`/opt/it's "quoted" & <odd>/lifeloop-wrap`, "hook"}
	l, err := p.Prepare([]string{"codex"}, Host{Hook: hook})
	require.NoError(t, err)
	state := l.Argv[len(l.Argv)-1]
	for i, h := range list.Hooks {
		if h.TrustStatus != "trusted" {
			t.Errorf("%s is %s", h.Key, h.TrustStatus)
		}
		if want := tomlString(h.Key) + `={trusted_hash="` + h.CurrentHash + `"}`; !strings.Contains(state, want) {
			t.Errorf("the launch does not have %s", want)
		}
		snake := strings.Split(h.Key, ":")[1]
		for _, ours := range codexHooks {
			if codexSnake(ours.event) == snake && h.Command != hookCommand(hook, ours.event) {
				t.Errorf("hook %d: Codex read %s, we meant %s", i, h.Command, hookCommand(hook, ours.event))
			}
		}
	}
}
