//go:build linux

package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The strictest limit of a control group and the groups above it counts.
func TestGroupRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		dir   string
		room  int
		none  bool
	}{
		{name: "no limit", dir: "app", files: map[string]string{"app/pids.max": "max\n", "app/pids.current": "7\n"}, none: true},
		{name: "no controller", dir: "app", none: true},
		{name: "its own limit", dir: "app", files: map[string]string{"app/pids.max": "20\n", "app/pids.current": "7\n"}, room: 13},
		{name: "the limit of the group above", dir: "box/app", room: 2, files: map[string]string{
			"box/app/pids.max": "max\n", "box/app/pids.current": "1\n", "box/pids.max": "30\n", "box/pids.current": "28\n"}},
		{name: "the limit of the topmost group", dir: "box/app", room: 4, files: map[string]string{
			"box/pids.max": "30\n", "box/pids.current": "20\n", "pids.max": "100\n", "pids.current": "96\n"}},
		{name: "more tasks than the limit, which was lowered", dir: "app", room: 0, files: map[string]string{"app/pids.max": "3\n", "app/pids.current": "5\n"}},
		{name: "the topmost group", dir: "/", room: 1, files: map[string]string{"pids.max": "6\n", "pids.current": "5\n"}},
		{name: "a container that does not show the group's path", dir: "docker/1", room: 9, files: map[string]string{"pids.max": "10\n", "pids.current": "1\n"}},
		{name: "a limit above the topmost group", dir: "../app", none: true, files: map[string]string{"../pids.max": "1\n", "../pids.current": "1\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := filepath.Join(t.TempDir(), "top")
			require.NoError(t, os.Mkdir(top, 0o700))
			for name, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o600))
			}
			room, limited := groupRoom(top, c.dir)
			require.Equal(t, !c.none, limited)
			require.Equal(t, c.room, room)
		})
	}
}
