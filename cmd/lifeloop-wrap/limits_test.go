//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user that may start only a few more threads gets the reason instead of a trace
// of the runtime. Commands that start no harness need fewer threads, so that such a user
// can still end a session. The limit does not apply to root.
func TestTooFewTasks(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing: it sets the limit and starts a program under another name")
	}
	for _, c := range []struct {
		limit, command string
		code           int
		want           string
	}{
		{"20", "run -- true", 125, `^lifeloop-wrap: only \d+ more processes and threads may be started, and a session needs 32\nhint: `},
		{"20", "version", 0, `^lifeloop-wrap `},
		{"9", "version", 125, `^lifeloop-wrap: only \d+ more processes and threads may be started, and this command needs 8\nhint: `},
	} {
		cmd := exec.Command(bash, "-c", "ulimit -u "+c.limit+"; exec -a lifeloop-wrap /proc/self/fd/3 "+c.command)
		// HOME is replaced, because the user set below may be unable to read the real home.
		cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{exe}, "/", append(os.Environ(), "HOME=/nonexistent")
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54322, Gid: 54322}}
		}
		out, _ := cmd.CombinedOutput()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s", out)
		require.Regexp(t, c.want, string(out))
	}
}

// If there is too little address space, the program prints the reason. Below 810 MiB, Go's
// runtime sometimes cannot start, and the reason is not printed. A hook exits with 0, so
// that its harness continues.
func TestTooLittleAddressSpace(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing: it sets the limit")
	}
	program := built(t, product)
	for _, c := range []struct {
		words string
		code  int
		want  string
	}{
		{"900000; exec $0 run -- true", 125, "lifeloop-wrap: this process has too little address space: it needs 900 MiB\nhint: ulimit -v shows the limit; ulimit -v unlimited removes it\n"},
		{"900000; exec $0 hook Stop", 0, ""},
		{"1000000; exec $0 version", 0, "lifeloop-wrap "},
	} {
		cmd := exec.Command(bash, "-c", "ulimit -v "+c.words, program)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s", out)
		require.Contains(t, string(out), c.want)
	}
}

// A hook, for which a harness waits, and a guard do not initialize the packages of SQLite
// and HTTP.
func TestQuickCommands(t *testing.T) {
	t.Parallel()
	program := built(t, product)
	for command, code := range map[string]int{"hook": 0, "guard": 125, "version": 0} {
		cmd := exec.Command(program, command)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, _ := cmd.CombinedOutput()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s", out)
		require.Contains(t, string(out), "init os ")
		for _, costly := range []string{"init modernc.org/libc ", "init net/http "} {
			require.Equal(t, command == "version", strings.Contains(string(out), costly), "%s: %s", command, out)
		}
	}
}
