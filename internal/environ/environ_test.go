package environ

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	from := []string{"PATH=/bin", "ANTHROPIC_API_KEY=secret", "LC_ALL=C", "NOTES_DIR=/n", "NOTES=1", "LIFELOOP_SESSION_ID=outer", "PATH=/later", "broken", "HOMER=x", "XDG_STATE_HOME="}
	own := "LIFELOOP_SESSION_ID=mine"
	for _, c := range []struct {
		name string
		spec Spec
		want []string
	}{
		{"by default", Spec{}, []string{"LC_ALL=C", "LIFELOOP_SESSION_ID=mine", "PATH=/bin", "XDG_STATE_HOME="}},
		{"one more", Spec{Inherit: Names{"NOTES", "ABSENT"}}, []string{"LC_ALL=C", "LIFELOOP_SESSION_ID=mine", "NOTES=1", "PATH=/bin", "XDG_STATE_HOME="}},
		{"a family", Spec{Inherit: Names{"NOTES_*"}}, []string{"LC_ALL=C", "LIFELOOP_SESSION_ID=mine", "NOTES_DIR=/n", "PATH=/bin", "XDG_STATE_HOME="}},
		{"set", Spec{Env: map[string]string{"PATH": "/x", "K": "v=w"}}, []string{"K=v=w", "LC_ALL=C", "LIFELOOP_SESSION_ID=mine", "PATH=/x", "XDG_STATE_HOME="}},
		{"all", Spec{Inherit: all}, []string{"ANTHROPIC_API_KEY=secret", "HOMER=x", "LC_ALL=C", "LIFELOOP_SESSION_ID=mine", "NOTES=1", "NOTES_DIR=/n", "PATH=/bin", "XDG_STATE_HOME="}},
	} {
		require.Equal(t, c.want, c.spec.Of(from, own), c.name)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Env: map[string]string{"A_1": "x y"}, Inherit: Names{"B", "C_*"}}, ""},
		{Spec{Inherit: all}, ""},
		{Spec{Env: map[string]string{"inherit": "all"}}, "c.env.inherit: inherit is not a variable; write the key inherit beside env, not in it"},
		{Spec{Env: map[string]string{"A-B": ""}}, "c.env.A-B: the name of a variable may contain only letters, digits and underscores, and must not begin with a digit"},
		{Spec{Env: map[string]string{"A": "\x00"}}, "c.env.A: a variable cannot contain a NUL byte"},
		{Spec{Inherit: Names{"A", "B=c"}}, `c.inherit[1]: "B=c" is not the name of a variable; a name may end in *`},
		{Spec{Inherit: Names{""}}, `c.inherit[0]: "" is not the name of a variable; a name may end in *`},
	} {
		got := ""
		if err := c.spec.Check("c"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.spec, got, c.want)
		}
	}
}
