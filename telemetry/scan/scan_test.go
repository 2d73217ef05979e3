package scan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWalk(t *testing.T) {
	for _, c := range []struct {
		json string
		ok   bool
		want string
	}{
		{`{}`, true, ""},
		{" {\t\"a\" : 1 , \"b\":[1,{\"c\":\"}\"}] ,\"d\":\"x\\\"y\\\\\" }\r\n", true, `a=1 b=[1,{"c":"}"}] d="x\"y\\" `},
		{`{"a":"\\\\","b":true}`, true, `a="\\\\" b=true `},
		{`{"a":1}x`, false, `a=1 `},
		{`{"a":1,}`, false, `a=1 `},
		{`{"a":}`, false, ``},
		{`{"a" 1}`, false, ``},
		{`{a:1}`, false, ``},
		{`{"a":"\"}`, false, ``},
		{`{"a":[1,2}`, false, `a=[1,2} `}, // brackets are counted, not matched
		{`{"a":{"b":1}`, false, `a={"b":1} `},
	} {
		var b strings.Builder
		ok := Members([]byte(c.json), func(key, val []byte) bool {
			fmt.Fprintf(&b, "%s=%s ", key, val)
			return true
		})
		if ok != c.ok || b.String() != c.want {
			t.Errorf("members(%q) = %v %q, want %v %q", c.json, ok, b.String(), c.ok, c.want)
		}
	}
	require.True(t, Members([]byte(`{"a":1,"b":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}`), func(_, _ []byte) bool { return true }))

	var got []string
	require.True(t, Elements([]byte(` [ 1, "a,b" ,[2],{"c":3} ] `), func(val []byte) bool { got = append(got, string(val)); return true }))
	require.Equal(t, []string{"1", `"a,b"`, "[2]", `{"c":3}`}, got)
	require.True(t, Elements([]byte(`[]`), func([]byte) bool { return false }))
	for _, bad := range []string{``, `{}`, `[1`, `[1 2]`, `[,]`, `[1]]`} {
		require.False(t, Elements([]byte(bad), func([]byte) bool { return true }), bad)
	}
}

func TestIs(t *testing.T) {
	for _, c := range []struct {
		json, text string
		want       bool
	}{
		{`"a"`, "a", true}, {`"\u0061\n"`, "a\n", true}, {`""`, "", true},
		{`"a"`, "b", false}, {`5`, "", false}, {``, "", false}, {`["a"]`, "a", false}, {`"\x"`, "x", false},
	} {
		require.Equal(t, c.want, Is([]byte(c.json), c.text), c.json)
	}
}
