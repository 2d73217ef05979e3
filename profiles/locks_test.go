package profiles

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockOwners(t *testing.T) {
	for data, want := range map[string]LockOwner{
		`{"token":"x","pid":7,"hostname":"h","createdAt":"…"}`: {7, "h"},
		`{"pid":7}`:                  {PID: 7},
		`{"pid":-7,"hostname":"h"}`:  {},
		`{"pid":0,"hostname":"h"}`:   {},
		`{"pid":"7","hostname":"h"}`: {},
		`{"hostname":"h"}`:           {},
		`{`:                          {},
		``:                           {},
	} {
		owner, ok := ParseLockOwner([]byte(data))
		require.Equal(t, want, owner, data)
		require.Equal(t, want.PID != 0, ok, data)
	}
	owner, heartbeat := LockFiles("/cache/lock")
	require.Equal(t, []string{"/cache/lock/meta.json", "/cache/lock/heartbeat"}, []string{owner, heartbeat})
}
