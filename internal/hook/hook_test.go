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

// With runHook set the test binary is the hook: nothing else tells how it
// behaves as a process of its own.
const runHook = "LIFELOOP_TEST_RUN_HOOK"

func init() {
	if os.Getenv(runHook) != "" {
		os.Unsetenv(runHook)
		os.Exit(hook.Main(os.Args[1:]))
	}
}

// process is `lifeloop-hook args…` in a session whose door is socket.
func process(t *testing.T, socket string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	// A race-built program sleeps a second before it exits, unless told not to.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", runHook+"=1", "LIFELOOP_SOCKET="+socket)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// openDoor serves hook until the test ends.
func openDoor(t *testing.T, answer func(*control.HookCall)) (socket string) {
	t.Helper()
	door, err := control.Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- door.Serve(context.Background(), handler(answer)) }()
	t.Cleanup(func() {
		door.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return door.Path()
}

type handler func(*control.HookCall)

func (f handler) Hook(_ context.Context, call *control.HookCall) { f(call) }

// shortDir has a short name: a socket's address holds 108 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hook-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// received fails the test rather than hang.
func received[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("waited 10 s in vain")
	}
	return v
}

// endless is a stdin that nobody closes before the test ends.
func endless(t *testing.T, said string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	_, err = w.WriteString(said)
	require.NoError(t, err)
	return r
}

func TestHookPrintsTheAnswer(t *testing.T) {
	delivered := make(chan bool, 1)
	socket := openDoor(t, func(call *control.HookCall) {
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
		t.Error("the session was not told that it was printed")
	}
}

func TestHookFailsOpen(t *testing.T) {
	dir := shortDir(t)
	dead := filepath.Join(dir, "dead.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	deaf, err := control.Listen(filepath.Join(dir, "deaf.sock"))
	require.NoError(t, err)
	defer deaf.Close()
	live := openDoor(t, func(call *control.HookCall) { call.Answer([]byte("answer")) })
	// raw is a peer that answers every call with the same bytes and hangs up.
	raw := func(answer string) string {
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
	closedPipe := func() io.Writer {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		r.Close()
		t.Cleanup(func() { w.Close() })
		return w
	}

	cases := []struct {
		name, socket string
		args         []string
		stdin        io.Reader
		stdout       io.Writer
	}{
		{name: "no session", socket: ""},
		{name: "no socket", socket: filepath.Join(dir, "none.sock")},
		{name: "no socket, a path too long", socket: "/" + strings.Repeat("x", 200)},
		{name: "a file for a socket", socket: "/etc/passwd"},
		{name: "a dead session's socket", socket: dead},
		{name: "a session that does not answer", socket: deaf.Path()},
		{name: "a session that hangs up", socket: raw("")},
		{name: "a session that hangs up in mid-answer", socket: raw("{\"bytes\":10}\nhalf")},
		{name: "a session that talks nonsense", socket: raw("HTTP/1.1 400 Bad Request\r\n\r\n")},
		{name: "a session that refuses", socket: raw("{\"error\":\"no\"}\n")},
		{name: "an answer too large", socket: raw("{\"bytes\":99999999}\n")},
		{name: "input too large", socket: live, stdin: bytes.NewReader(make([]byte, control.MaxBody+1))},
		{name: "input without end", socket: live, stdin: endless(t, "{}")},
		{name: "output to nobody", socket: live, stdout: closedPipe()},
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
			// Enough for the cases that work, short for those that wait.
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
	asked, heard := make(chan struct{}), make(chan bool, 1)
	socket := openDoor(t, func(call *control.HookCall) {
		close(asked)
		<-call.Gone()
		heard <- call.Answer([]byte("too late"))
	})
	cmd := process(t, socket, "Stop")
	require.NoError(t, cmd.Start())
	received(t, asked)
	require.NoError(t, cmd.Process.Kill())
	if received(t, heard) {
		t.Error("delivered to a dead hook")
	}
	_ = cmd.Wait() // it was killed
}

func TestHookBecomesItsCommand(t *testing.T) {
	told := make(chan string, 1)
	live := openDoor(t, func(call *control.HookCall) { told <- call.Event + " " + string(call.Input) })
	deaf, err := control.Listen(filepath.Join(shortDir(t), "deaf.sock"))
	require.NoError(t, err)
	defer deaf.Close()

	cases := []struct {
		name, socket string
		size         int
	}{
		{"live", live, 2},
		{"live, much input", live, 100 << 10},
		{"none", "", 2},
		{"missing", "/nowhere/s.sock", 2},
		{"deaf", deaf.Path(), 2},
		{"deaf, more input than the kernel keeps", deaf.Path(), 4 << 20},
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
			if c.socket == live && received(t, told) != "StatusLine "+input {
				t.Error("the session was told something else")
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
	t.Run("an input that is not closed", func(t *testing.T) {
		cmd := process(t, live, "StatusLine", "--then", "cat")
		cmd.Stdin = endless(t, "so far")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "so far", string(out))
	})
	t.Run("it inherits nothing of ours", func(t *testing.T) {
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
		require.Equal(t, "StatusLine {}", received(t, told))
	})
}

// A wrapper that ends while a hook waits lets it go.
func TestHookOfAWrapperThatEnds(t *testing.T) {
	door, err := control.Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- door.Serve(ctx, handler(func(call *control.HookCall) {
			cancel()
			<-call.Gone()
		}))
	}()
	cmd := process(t, door.Path(), "Stop")
	cmd.Stdin = strings.NewReader("{}")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	if len(out) > 0 {
		t.Errorf("printed %q", out)
	}
	require.NoError(t, received(t, served))
}
