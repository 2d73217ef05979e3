package acts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/gate"
	"lifeloop/internal/document/yaml"
)

func TestCases(t *testing.T) {
	doc, err := yaml.Parse([]byte("default_verdict: block\n"))
	require.NoError(t, err)
	policy, err := gate.DecodePolicy(doc)
	require.NoError(t, err)
	scene := Scene{Session: "s", Identity: "me", Workspace: "/work", Home: "/home/me", Producer: "test", Now: time.Unix(1, 0),
		Resolve: func(p string) string { return p }, Exists: func(string) bool { return false }}
	for _, c := range []Case{
		{Command: "ls"}, {Write: "a"}, {Delete: "a"}, {Read: "a"}, {URL: "https://example.com"},
		{Tool: "bash", Command: "ls"}, {Tool: "mcp"}, {Launch: "claude"}, {Renew: "claude"}, {Inject: "pre_prompt_frame"},
	} {
		c.Verdict = "block"
		r, err := c.Result(policy, scene)
		require.NoError(t, err, "%+v", c)
		require.True(t, r.OK, "%+v", r)
		require.NotEmpty(t, r.Case)

		c.Verdict = "allow"
		r, err = c.Result(policy, scene)
		require.NoError(t, err)
		require.Equal(t, [3]any{"allow", "block", false}, [3]any{r.Want, r.Got, r.OK})

		c.Verdict, c.Reason = "block", "a_reason_of_no_rule"
		r, err = c.Result(policy, scene)
		require.NoError(t, err)
		require.False(t, r.OK)
	}
	for _, c := range []Case{{}, {Command: "ls", Write: "a"}, {Tool: "bash", Launch: "claude"}, {Tool: "bash", Read: "a", URL: "u"}} {
		c.Verdict = "allow"
		_, err := c.Result(policy, scene)
		require.ErrorContains(t, err, "want exactly one of")
	}
	_, err = Case{Command: "ls", Verdict: "maybe"}.Result(policy, scene)
	require.ErrorContains(t, err, `verdict is "maybe"`)
}
