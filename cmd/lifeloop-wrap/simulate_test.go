//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/internal/config"
	"lifeloop/internal/document/yaml"
	"lifeloop/simulate"
)

// The plan of a simulation and the attempts block of a configuration give the same
// policy if they have the same members.
func TestSimulatedPlanIsTheConfiguredPolicy(t *testing.T) {
	const block = `
  profiles: [{name: a}, {name: b, command: ["true"], accepts_continuation: true}]
  retry: {attempts: 2, retry_on: [model, unknown], backoff: {kind: exponential, base_ms: 1000, max_ms: 9000, jitter: full}}
  timeouts_ms: {initial: 1, inter: 2, tool: 3, session: 4, idle: 5, abort_grace: 6}
  guardrails: [{id: one, pattern: a+}, {id: two, on: exit, pattern: b, severity: fatal, recoverable: false}]
  success_codes: [0, 4]
  exit_codes: {75: rate_limit}
  crash_loop: {launches: 3}
  meta: {ticket: A-7}
`
	doc, err := yaml.Parse([]byte("plan:\n  on_limit: wait" + block))
	require.NoError(t, err)
	world, err := simulate.Parse(doc)
	require.NoError(t, err)
	cfg, _, err := config.Load(config.Options{File: "/c.yaml", WorkDir: "/", Getenv: func(string) string { return "" },
		ReadFile: func(string) ([]byte, error) { return []byte("state_dir: /s\non_limit: wait\nattempts:" + block), nil }})
	require.NoError(t, err)
	simulated := world.Config()
	require.Equal(t, simulated.Policy, cfg.Attempts.Policy([]attempt.Profile{{Name: "a", Adapter: "generic"}, {Name: "b", Adapter: "generic", AcceptsContinuation: true}}, cfg.OnLimit))
	require.Equal(t, simulated.AbortGrace, cfg.Attempts.Timeouts.AbortGrace)
	require.Equal(t, simulated.Began.Meta, cfg.Attempts.Meta)
	require.Equal(t, simulated.Ends.Success, cfg.Attempts.Success())
	require.Equal(t, simulated.Ends.Codes, cfg.Attempts.Codes())
}
