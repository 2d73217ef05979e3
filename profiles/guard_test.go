package profiles

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGuardCommandFailsClosed checks that the tool is refused if the guarding
// hook cannot be started or is killed. The command must then exit with 2, because
// a harness runs the tool after any other code.
func TestGuardCommandFailsClosed(t *testing.T) {
	for program, want := range map[string]int{"/no/such/program": 2, "/bin/true": 0, "/bin/false": 2} {
		err := exec.Command("/bin/sh", "-c", guardCommand([]string{program, "--key=a b"}, "PreToolUse", 0)).Run()
		exit, failed := errors.AsType[*exec.ExitError](err)
		require.Equal(t, want != 0, failed, program)
		if failed {
			require.Equal(t, want, exit.ExitCode(), program)
		}
	}
	// A shell cannot trap a signal that was ignored when the shell started, as under
	// nohup. So this process catches the signals, which gives them their default action
	// in the shell.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	defer signal.Stop(caught)
	for _, sig := range []string{"HUP", "INT", "QUIT", "TERM"} { // sent to the shell and the hook, as by the wrapper's guard
		signalled := exec.Command("/bin/sh", "-c", guardCommand([]string{"/bin/sh", "-c", "kill -" + sig + " 0; exit 0"}, "PreToolUse", 0))
		signalled.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		exit, failed := errors.AsType[*exec.ExitError](signalled.Run())
		require.True(t, failed, sig)
		require.Equal(t, 2, exit.ExitCode(), sig)
	}
	killed := exec.Command("/bin/sh", "-c", "sh -c 'kill -KILL $$' || exit 2").Run()
	exit, failed := errors.AsType[*exec.ExitError](killed)
	require.True(t, failed)
	require.Equal(t, 2, exit.ExitCode())
}

// TestGuardLimits: a guarding hook ends before the harness's own limit for hooks, however
// long an approval may take. A harness that had to end the hook would run the tool.
func TestGuardLimits(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, 50 * time.Minute, 1000 * time.Hour} {
		limit, err := strconv.Atoi(guardLimit(wait))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(limit)*time.Millisecond, min(wait, MaxGuardWait)+guardTime)
		require.GreaterOrEqual(t, time.Duration(guardTimeout(wait))*time.Second, time.Duration(limit)*time.Millisecond+guardSpare)
	}
	argv := map[string][]string{"claude": {"claude", "hi"}, "codex": {"codex", "hi"}, "gemini": {"gemini", "-p", "hi"}, "opencode": {"opencode", "run", "hi"},
		"openclaw": {"openclaw", "agent", "--local", "-m", "hi"}}
	for adapter, want := range map[string][]string{"claude": {"--guard=68000", `"timeout":80`}, "codex": {"--guard=68000", "timeout=80"},
		"gemini": {"--guard=68000", `"timeout":80000`}, "opencode": {"const limit = 68000 "}, "openclaw": {"const limit = 68000 ", "const spare = 12000 "}} {
		w := newWorld(adapter)
		w.files["/home/dev/.openclaw/openclaw.json"] = "{}"
		h := w.host
		h.Guards, h.GuardWait = true, time.Minute
		p, _ := For(adapter)
		l, err := p.Prepare(argv[adapter], h)
		require.NoError(t, err)
		require.True(t, l.Guards, adapter)
		text := strings.Join(l.Argv, " ")
		for _, f := range l.Files {
			text += string(f.Data)
		}
		for _, part := range want {
			require.Contains(t, text, part, adapter)
		}
	}
}
