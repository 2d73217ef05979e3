package profiles

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuardCommandFailsClosed: a guarding hook that cannot be started, or that is
// killed, refuses the tool, because a harness runs it after any code but 2.
func TestGuardCommandFailsClosed(t *testing.T) {
	for program, want := range map[string]int{"/no/such/program": 2, "/bin/true": 0, "/bin/false": 2} {
		err := exec.Command("/bin/sh", "-c", guardCommand([]string{program, "--key=a b"}, "PreToolUse")).Run()
		exit, failed := errors.AsType[*exec.ExitError](err)
		require.Equal(t, want != 0, failed, program)
		if failed {
			require.Equal(t, want, exit.ExitCode(), program)
		}
	}
	killed := exec.Command("/bin/sh", "-c", "sh -c 'kill -KILL $$' || exit 2").Run()
	exit, _ := errors.AsType[*exec.ExitError](killed)
	require.Equal(t, 2, exit.ExitCode())
}
