//go:build linux

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The folder of this process's control group is found in every layout of
// mounts.
func TestGroupFolder(t *testing.T) {
	const (
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		bound   = "30 23 0:26 /box/7 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
	)
	for _, c := range []struct{ name, own, mounts, want string }{
		{"unified", "0::/user.slice/app\n", unified, "/sys/fs/cgroup/user.slice/app"},
		{"beside version 1", "4:cpu:/x\n0::/\n", hybrid, "/sys/fs/cgroup/unified"},
		{"a part of the tree is mounted", "0::/box/7/in\n", bound, "/sys/fs/cgroup/in"},
		{"another part is mounted", "0::/elsewhere\n", bound, ""},
		{"outside of the namespace", "0::/../other\n", unified, ""},
		{"version 1 only", "4:cpu:/x\n", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := groupFolder([]byte(c.own), []byte(c.mounts))
			require.Equal(t, c.want, got)
			require.Equal(t, c.want == "", err != nil)
		})
	}
}

// If a new control group cannot be killed as a whole, its folder is removed
// again.
func TestGroupWithoutKill(t *testing.T) {
	dir := t.TempDir()
	_, err := newGroupIn(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = newGroupIn(filepath.Join(dir, "nowhere"))
	require.ErrorContains(t, err, "create a control group")
}

// A warden that a user starts by hand kills and removes nothing.
func TestWardenByHand(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	folder, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer folder.Close()
	pipe, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer pipe.Close()
	cmd := exec.Command(exe, "guard", "warden")
	cmd.ExtraFiles = []*os.File{pipe, folder}
	out, _ := cmd.CombinedOutput()
	require.Equal(t, 125, cmd.ProcessState.ExitCode())
	require.Equal(t, "guard: only the wrapper can start a warden\n", string(out))
	require.DirExists(t, folder.Name())
}

// The empty control group of a wrapper that has ended is removed, and so are the
// empty groups of the wrappers that it started. Other groups stay.
func TestEmptyGroupsAreRemoved(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	dir, dead := t.TempDir(), fmt.Sprint("lifeloop-", gone.Process.Pid)
	alive := fmt.Sprint("lifeloop-", os.Getppid())
	for _, group := range []string{dead + "/lifeloop-x", alive + "/" + dead, "lifeloop-0x1", "lifeloop-", "other-1", fmt.Sprint("lifeloop-", os.Getpid())} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, group), 0o700))
	}
	removeEmptyIn(dir)
	require.DirExists(t, filepath.Join(dir, dead), "it is not empty")
	require.NoError(t, os.Rename(filepath.Join(dir, dead, "lifeloop-x"), filepath.Join(dir, dead, dead)))
	removeEmptyIn(dir)
	var left []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.ElementsMatch(t, []string{alive, "lifeloop-0x1", "lifeloop-", "other-1"}, left)
	require.DirExists(t, filepath.Join(dir, alive, dead))
}
