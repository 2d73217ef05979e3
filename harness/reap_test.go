//go:build linux

package harness

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// printedPID waits for a line with the number of a process.
func printedPID(t *testing.T, stdout func() []byte) int {
	t.Helper()
	var pid int
	eventually(t, "a process prints its number", func() (ok bool) {
		var err error
		pid, err = strconv.Atoi(strings.TrimSuffix(string(stdout()), "\n"))
		return err == nil && strings.HasSuffix(string(stdout()), "\n")
	})
	return pid
}

// The system shows a process as a zombie once its first thread has exited, even while
// other threads of the process run. Such a process is killed like any other process.
func TestAProcessWithoutItsFirstThreadIsAlive(t *testing.T) {
	for _, how := range []string{"the tree is killed", "it outlives the harness"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			term, stdout, _ := onFiles(t, Never, nil)
			spec := as("headless")
			if how == "it outlives the harness" {
				spec = sh(`"$0" & sleep 300`)
				spec.Argv, spec.Env = append(spec.Argv, as("headless").Argv...), as("headless").Env
			}
			c := begin(t, spec, term, &recorder{})
			pid := printedPID(t, stdout)
			require.True(t, Runs(pid, 0), "its other thread runs")
			if how == "it outlives the harness" {
				require.NoError(t, c.Signal(15))
			} else {
				require.NoError(t, c.KillTree())
			}
			select {
			case <-c.Gone():
			case <-time.After(patience):
				t.Fatal("its tree never ended")
			}
			require.False(t, Runs(pid, 0))
		})
	}
}

// If a limit on the number of processes is reached, the error names such limits and
// does not blame the program. RLIMIT_NPROC, which the test sets, does not apply to root.
func TestTooManyProcesses(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3") // run by descriptor: user 54321 may have no access to the folder of the test program
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{exe}, "/", as("starved").Env
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	}
	out, _ := cmd.Output()
	require.Equal(t, 125, cmd.ProcessState.ExitCode(), "%s", out)
	require.Equal(t, "start sh: too many processes (see ulimit -u, or pids.max of the control group): resource temporarily unavailable\n", string(out))
}
