//go:build linux

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lifeloop-hook is used only if it is an executable file.
func TestHookWords(t *testing.T) {
	for name, c := range map[string]struct {
		lay   func(path string) error
		small bool
	}{
		"a program":  {func(path string) error { return os.WriteFile(path, nil, 0o755) }, true},
		"nothing":    {func(string) error { return nil }, false},
		"a document": {func(path string) error { return os.WriteFile(path, nil, 0o644) }, false},
		"a folder":   {func(path string) error { return os.Mkdir(path, 0o755) }, false},
		"a link":     {func(path string) error { return os.Symlink("/bin/sh", path) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			exe, small := filepath.Join(dir, "lifeloop-wrap"), filepath.Join(dir, "lifeloop-hook")
			require.NoError(t, c.lay(small))
			want := []string{exe, "hook"}
			if c.small {
				want = []string{small}
			}
			require.Equal(t, want, hookWords(exe))
		})
	}
}

// The harness ignores the signals that were ignored when lifeloop-wrap started. To find
// some of them, lifeloop-wrap reads its own symbol table. The test runs the built program,
// because go test leaves out the symbol table.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	wrap := built(t, product)
	t.Setenv("LIFELOOP_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	ignoring := func(words ...string) string {
		words = append(words, "grep", "^Sig[IB]", "/proc/self/status")
		out, err := exec.Command("env", append([]string{"--ignore-signal=HUP,INT,QUIT,PIPE,USR1,USR2,ALRM,TERM,TSTP,TTIN,TTOU,WINCH"}, words...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Equal(t, ignoring(), ignoring(wrap, "run", "--"))
}

// A signal that was ignored when lifeloop-wrap started does not end it. The test checks
// this for the commands `run` and `events --follow`.
func TestIgnoredSignalsDoNotEndTheWrapper(t *testing.T) {
	wrap := built(t, product)
	t.Setenv("LIFELOOP_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	cmd := exec.Command("env", "--ignore-signal=HUP,INT,QUIT,TERM", wrap, "run", "--", "sh", "-c", "echo begun; read -r x; echo $x; exit 3")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	begun, err := lines.ReadString('\n')
	require.NoError(t, err)
	follow := exec.Command("env", "--ignore-signal=HUP,INT,QUIT,TERM", wrap, "events", "last", "--follow")
	events, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	seen := bufio.NewReader(events)
	_, err = seen.ReadString('\n')
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		require.NoError(t, cmd.Process.Signal(sig))
		require.NoError(t, follow.Process.Signal(sig))
	}
	_, err = stdin.Write([]byte("ended\n"))
	require.NoError(t, err)
	ended, _ := lines.ReadString('\n')
	require.Equal(t, "begun\nended\n", begun+ended)
	require.Error(t, cmd.Wait())
	require.Equal(t, 3, cmd.ProcessState.ExitCode(), "%v", cmd.ProcessState)
	rest, err := io.ReadAll(seen)
	require.NoError(t, err)
	require.NoError(t, follow.Wait())
	require.Contains(t, string(rest), "session.ended")
}
