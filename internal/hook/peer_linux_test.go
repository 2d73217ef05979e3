package hook_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/control"
)

// strangersSocket returns the socket of another user's server. received gets the
// bytes that the first peer sent.
func strangersSocket(t *testing.T) (path string, received <-chan string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can serve as another user")
	}
	dir := shortDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	path = filepath.Join(dir, "s.sock")

	// The system records the user of the thread that begins to listen.
	const stranger, keep = 65533, ^uintptr(0)
	runtime.LockOSThread()
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, stranger, keep)
	require.Zero(t, errno)
	ln, err := net.Listen("unix", path)
	_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, keep, 0, keep)
	require.Zero(t, errno)
	runtime.UnlockOSThread()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o666))

	sent := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "{\"bytes\":4}\nevil")
		text, _ := io.ReadAll(conn)
		sent <- string(text)
	}()
	t.Cleanup(func() { ln.Close() })
	return path, sent
}

// The hook sends nothing to a server of another user, and prints nothing of its
// answer.
func TestHookSendsNothingToAnotherUser(t *testing.T) {
	for _, args := range [][]string{{"Stop"}, {"StatusLine", "--then", "true"}} {
		socket, sent := strangersSocket(t)
		cmd := process(t, socket, args...)
		cmd.Stdin = strings.NewReader(`{"prompt":"secret"}`)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err)
		require.Empty(t, string(out))
		require.Empty(t, received(t, sent))
	}
	socket, sent := strangersSocket(t)
	_, err := control.Do(socket, control.Command{Name: "pause", Token: "secret"}, time.Now().Add(time.Hour))
	require.ErrorContains(t, err, socket+": the server belongs to user 65533; remove the socket")
	require.Empty(t, received(t, sent))
}

// The hook reads the key of its launch from a file, and sends it. If the file cannot
// be read, no key is sent; a FIFO does not delay the hook.
func TestHookSendsItsKey(t *testing.T) {
	keys := make(chan string, 1)
	socket := serve(t, func(call *control.HookCall) { keys <- call.Key })
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "key"), filepath.Join(dir, "fifo")
	require.NoError(t, os.WriteFile(file, []byte("K1"), 0o600))
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for path, want := range map[string]string{file: "K1", fifo: "", filepath.Join(dir, "none"): "", "": ""} {
		for _, args := range [][]string{{"--key=" + path, "Stop"}, {"--key=" + path, "StatusLine", "--then", "true"}} {
			cmd := process(t, socket, args...)
			cmd.Stdin = strings.NewReader("{}")
			require.NoError(t, cmd.Run())
			require.Equal(t, want, received(t, keys), "key of %v", args)
		}
	}
}
