//go:build linux

package main

import (
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/internal/config"
	"lifeloop/simulate"
)

// What was tried is what runs: a plan that stands in a configuration, as it is,
// is the same policy. JSON is YAML.
func TestThePolicyThatWasTried(t *testing.T) {
	for _, tc := range []struct{ name, plan string }{
		{"nothing", `"crash_loop": {"launches": 0}`},
		{"attempts alone", `"retry": {"attempts": 2}, "crash_loop": {}`},
		{"an explicit 0", `"retry": {"attempts": 2, "max_retries": 0, "retry_on": []}, "crash_loop": {"launches": 3}`},
		{"all", `"retry": {"attempts": 2, "max_retries": 7, "retry_on": ["model", "unknown"], "backoff": {"kind": "exponential", "base_ms": 1000, "max_ms": 9000, "jitter": "full"}},
			"timeouts_ms": {"initial": 1, "inter": 2, "tool": 3, "session": 4, "idle": 5, "abort_grace": 6}, "continuation": true, "checkpoint_every": 20,
			"guardrails": [{"id": "one", "pattern": "a+"}, {"id": "two", "on": "exit", "pattern": "b", "severity": "fatal", "recoverable": false}],
			"drift": {"repeat": 3}, "zero_output": true, "success_codes": [0, 4], "exit_codes": {"75": "rate_limit"},
			"crash_loop": {"launches": 3, "within_ms": 7, "quarantine_ms": 8}, "meta": {"ticket": "A-7"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			block := `{"profiles": [{"name": "a"}, {"name": "b", "command": ["true"], "accepts_continuation": true}], ` + tc.plan + `}`
			world, err := simulate.Parse([]byte(`{"plan": ` + strings.Replace(block, `{"profiles"`, `{"on_limit": "wait", "profiles"`, 1) + `}`))
			require.NoError(t, err)
			cfg, _, err := config.Load(config.Options{File: "/c.yaml", WorkDir: "/", Getenv: func(string) string { return "" },
				ReadFile: func(name string) ([]byte, error) {
					if name == "/c.yaml" {
						return []byte(`{"state_dir": "/s", "on_limit": "wait", "attempts": ` + block + `}`), nil
					}
					return nil, fs.ErrNotExist
				}})
			require.NoError(t, err)
			ways := []attempt.Profile{{Name: "a", Adapter: "generic"}, {Name: "b", Adapter: "generic", AcceptsContinuation: true}}
			tried, runs := world.Config(), policy(cfg, ways)
			// Who says nothing of a cause does not want it tried again.
			for _, p := range []*attempt.Policy{&tried.Policy, &runs} {
				maps.DeleteFunc(p.On, func(_ attempt.Cause, on bool) bool { return !on })
			}
			if tried.Policy.MaxRetries == 0 { // nothing is, whatever it says
				tried.Policy.On, runs.On = nil, nil
			}
			if tried.Policy.Backoff.Kind == "" { // nothing to wait for, however it grows
				runs.Backoff.Kind, runs.Backoff.Jitter = "", ""
			}
			require.Equal(t, runs, tried.Policy)
			require.Equal(t, cfg.AbortGrace, tried.AbortGrace)
			require.Equal(t, len(cfg.Attempts.Meta), len(tried.Began.Meta))
			for _, code := range cfg.Attempts.SuccessCodes {
				require.True(t, tried.Ends.Success[code])
			}
			require.Len(t, tried.Ends.Codes, len(cfg.Attempts.ExitCodes))
		})
	}
}
