package hook_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/control"
	"lifeloop/internal/hook"
)

// runHook is an environment variable that makes the test binary act as the
// hook, so that the tests run it as a separate process.
const runHook = "LIFELOOP_TEST_RUN_HOOK"

func init() {
	if os.Getenv(runHook) != "" {
		os.Unsetenv(runHook)
		os.Exit(hook.Main(os.Args[1:]))
	}
}

// process returns the command `lifeloop-hook args…` with this LIFELOOP_SOCKET.
func process(t *testing.T, socket string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	// By default a program with the race detector sleeps a second before it exits.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", runHook+"=1", "LIFELOOP_SOCKET="+socket)
	cmd.WaitDelay = time.Hour
	return cmd
}

// serve answers hooks until the test ends.
func serve(t *testing.T, answer func(*control.HookCall)) (socket string) {
	t.Helper()
	server, err := control.Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), handler(answer)) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return server.Path()
}

type handler func(*control.HookCall)

func (f handler) Hook(_ context.Context, call *control.HookCall) { f(call) }

// shortDir returns a folder with a short path, because the address of a socket
// has at most 108 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hook-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// received receives from c. If nothing arrives, it fails the test shortly
// before the test binary would time out.
func received[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	var late <-chan time.Time
	if end, limited := t.Deadline(); limited {
		late = time.After(time.Until(end) - 10*time.Second)
	}
	select {
	case v = <-c:
	case <-late:
		t.Fatal("nothing was received")
	}
	return v
}

// endless returns a stdin that is not closed before the test ends.
func endless(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	_, err = w.WriteString(text)
	require.NoError(t, err)
	return r
}

func TestHookPrintsTheAnswer(t *testing.T) {
	delivered := make(chan bool, 1)
	socket := serve(t, func(call *control.HookCall) {
		delivered <- call.Answer(fmt.Appendf(nil, "%s %s", call.Event, call.Input))
	})
	cmd := process(t, socket, "SessionStart")
	cmd.Stdin = strings.NewReader(`{"source":"startup"}`)
	out, err := cmd.Output()
	require.NoError(t, err)
	if want := `SessionStart {"source":"startup"}`; string(out) != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if !received(t, delivered) {
		t.Error("the answer was not acknowledged")
	}
}

// staleSocket returns the socket of a process that was killed.
func staleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "stale.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	return path
}

// idleSocket returns a socket whose listener never accepts.
func idleSocket(t *testing.T) string {
	t.Helper()
	server, err := control.Listen(filepath.Join(shortDir(t), "idle.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return server.Path()
}

// rawSocket returns a socket at which every call gets the same bytes and is
// then closed.
func rawSocket(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(shortDir(t), "raw.sock"))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

func closedPipe(t *testing.T) io.Writer {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

func TestHookFailsOpen(t *testing.T) {
	live := serve(t, func(call *control.HookCall) { call.Answer([]byte("answer")) })
	cases := []struct {
		name, socket string
		args         []string
		stdin        io.Reader
		stdout       io.Writer
	}{
		{name: "no session", socket: ""},
		{name: "no socket", socket: filepath.Join(shortDir(t), "none.sock")},
		{name: "no socket, a path too long", socket: "/" + strings.Repeat("x", 200)},
		{name: "a file for a socket", socket: "/etc/passwd"},
		{name: "a stale socket", socket: staleSocket(t)},
		{name: "a session that does not answer", socket: idleSocket(t)},
		{name: "a session that closes", socket: rawSocket(t, "")},
		{name: "a session that closes within its answer", socket: rawSocket(t, "{\"bytes\":10}\nhalf")},
		{name: "another protocol", socket: rawSocket(t, "HTTP/1.1 400 Bad Request\r\n\r\n")},
		{name: "a session that refuses", socket: rawSocket(t, "{\"error\":\"no\"}\n")},
		{name: "an answer too large", socket: rawSocket(t, "{\"bytes\":99999999}\n")},
		{name: "input too large", socket: live, stdin: bytes.NewReader(make([]byte, control.MaxBody+1))},
		{name: "input without end", socket: live, stdin: endless(t, "{}")},
		{name: "output to a closed pipe", socket: live, stdout: closedPipe(t)},
		{name: "no event", socket: live, args: []string{}},
		{name: "only unknown flags", socket: live, args: []string{"--new", "-x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.args == nil {
				c.args = []string{"Stop"}
			}
			if c.stdin == nil {
				c.stdin = strings.NewReader("{}")
			}
			var out, errs bytes.Buffer
			if c.stdout == nil {
				c.stdout = &out
			}
			cmd := process(t, c.socket, c.args...)
			// Only two cases reach this time-out: a session that does not answer, and
			// input without end.
			cmd.Env = append(cmd.Env, "LIFELOOP_HOOK_TIMEOUT_MS=500")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, &errs
			require.NoError(t, cmd.Run(), "a hook always exits 0")
			if out.Len() > 0 || errs.Len() > 0 {
				t.Errorf("printed %q, and %q on stderr; want nothing", &out, &errs)
			}
		})
	}
}

func TestHookThatIsKilledIsGone(t *testing.T) {
	asked, delivered := make(chan struct{}), make(chan bool, 1)
	socket := serve(t, func(call *control.HookCall) {
		close(asked)
		<-call.Gone()
		delivered <- call.Answer([]byte("too late"))
	})
	cmd := process(t, socket, "Stop")
	require.NoError(t, cmd.Start())
	received(t, asked)
	require.NoError(t, cmd.Process.Kill())
	if received(t, delivered) {
		t.Error("delivered to a killed hook")
	}
	_ = cmd.Wait() // an error, because the process was killed
}

func TestHookBecomesItsCommand(t *testing.T) {
	calls := make(chan string, 1)
	live := serve(t, func(call *control.HookCall) { calls <- call.Event + " " + string(call.Input) })
	cases := []struct {
		name, socket string
		size         int
	}{
		{"live", live, 2},
		{"live, much input", live, 100 << 10},
		{"none", "", 2},
		{"missing", "/nowhere/s.sock", 2},
		{"idle", idleSocket(t), 2},
		{"idle, more input than the socket buffers", idleSocket(t), 4 << 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			input := strings.Repeat("x", c.size)
			cmd := process(t, c.socket, "StatusLine", "--then", `cat; printf err >&2; exit 7`)
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Run(), &exit)
			if exit.ExitCode() != 7 || out.String() != input || errs.String() != "err" {
				t.Errorf("exit %d, %d bytes on stdout, stderr %q; want 7, %d and \"err\"", exit.ExitCode(), out.Len(), &errs, c.size)
			}
			if c.socket == live && received(t, calls) != "StatusLine "+input {
				t.Error("the session received another input")
			}
		})
	}

	t.Run("a signal ends it as it would the command", func(t *testing.T) {
		cmd := process(t, live, "--then=kill -TERM $$")
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Run(), &exit)
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGTERM {
			t.Errorf("ended by %v, want SIGTERM", ws)
		}
	})
	t.Run("a command that reads nothing", func(t *testing.T) {
		cmd := process(t, "", "StatusLine", "--then", "echo hi")
		cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "hi\n", string(out))
	})
	t.Run("it inherits no open file", func(t *testing.T) {
		const list = "ls /proc/self/fd; cat >/dev/null"
		plain := exec.Command("/bin/sh", "-c", list)
		plain.Stdin = strings.NewReader("{}")
		want, err := plain.Output()
		require.NoError(t, err)
		cmd := process(t, live, "StatusLine", "--then", list)
		cmd.Stdin = strings.NewReader("{}")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, string(want), string(out))
		require.Equal(t, "StatusLine {}", received(t, calls))
	})
}

// The command gets all input that comes without a long pause.
func TestHookWaitsForTheInputOfItsCommand(t *testing.T) {
	calls := make(chan string, 1)
	live := serve(t, func(call *control.HookCall) { calls <- call.Event + " " + string(call.Input) })
	t.Run("an input that is not closed", func(t *testing.T) {
		cmd := process(t, live, "StatusLine", "--then", "cat")
		cmd.Stdin = endless(t, "so far")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "so far", string(out))
	})
	t.Run("an input that comes slowly", func(t *testing.T) {
		const pieces = 12
		read, write, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { read.Close(); write.Close() })
		go func() {
			for range pieces {
				time.Sleep(100 * time.Millisecond) // in total the pieces take more than a second
				write.WriteString("x")
			}
			write.Close()
		}()
		cmd := process(t, live, "StatusLine", "--then", "cat")
		cmd.Stdin = read
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x", pieces), string(out))
		require.Equal(t, "StatusLine "+string(out), received(t, calls))
	})
}

// A waiting hook ends when its wrapper ends.
func TestHookEndsWithItsWrapper(t *testing.T) {
	server, err := control.Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, handler(func(call *control.HookCall) {
			cancel()
			<-call.Gone()
		}))
	}()
	cmd := process(t, server.Path(), "Stop")
	cmd.Stdin = strings.NewReader("{}")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	if len(out) > 0 {
		t.Errorf("printed %q", out)
	}
	require.NoError(t, received(t, served))
}
