package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"lifeloop/internal/hook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler is a function as a Handler.
type handler func(ctx context.Context, call *HookCall)

func (h handler) Hook(ctx context.Context, call *HookCall) { h(ctx, call) }

// echo answers with the event and the input.
var echo = handler(func(_ context.Context, call *HookCall) {
	call.Answer(fmt.Appendf(nil, "%s: %s", call.Event, call.Input))
})

// open serves h until the test ends, and waits for the end.
func open(t *testing.T, h Handler) *Server {
	t.Helper()
	s, err := Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := within(t, served); err != nil {
			t.Errorf("serve: %v", err)
		}
		if _, err := os.Lstat(s.Path()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	return s
}

// shortDir returns a private folder whose path is short enough for a socket in
// it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ctl-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// within receives from c. If nothing arrives, it fails the test shortly before
// the test binary would time out.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	var late <-chan time.Time
	if end, limited := t.Deadline(); limited {
		late = time.After(time.Until(end) - 10*time.Second)
	}
	select {
	case v := <-c:
		return v
	case <-late:
		t.Fatal("nothing was received")
		panic("unreachable")
	}
}

// later returns a deadline that no test reaches.
func later() time.Time { return time.Now().Add(time.Hour) }

func dialRaw(t *testing.T, s *Server) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.Path(), Net: "unix"})
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(later()))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answer reads the answer on a raw connection.
func answer(conn *net.UnixConn) ([]byte, error) {
	in := bufio.NewReader(conn)
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	var head reply
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head.Error != "" {
		return nil, errors.New("refused: " + head.Error)
	}
	return readBody(in, head.Bytes)
}

func TestAHookIsAnswered(t *testing.T) {
	s := open(t, echo)
	for _, size := range []int{0, 1, 5000, 1 << 20, MaxBody - 64} {
		input := strings.Repeat("ü", size/2) + strings.Repeat("\x00", size%2)
		var out bytes.Buffer
		require.NoError(t, hook.Call(s.Path(), "k", "SessionStart", []byte(input), &out, later()))
		if want := "SessionStart: " + input; out.String() != want {
			t.Errorf("size %d: %d bytes came back, want %d", size, out.Len(), len(want))
		}
	}
	for _, event := range []string{"Stop", `with "quotes" \ and <angles>`, "über\n\x00\x7f\u2028", strings.Repeat("e", maxEvent)} {
		var out bytes.Buffer
		require.NoError(t, hook.Call(s.Path(), "k", event, []byte("in"), &out, later()))
		require.Equal(t, event+": in", out.String())
	}
}

func TestDeliveredMeansWrittenWhole(t *testing.T) {
	// Each case describes a peer; delivered is the value that Answer must return.
	ask := func(out io.Writer) func(*testing.T, *Server) {
		return func(_ *testing.T, s *Server) {
			_ = hook.Call(s.Path(), "k", "Stop", []byte("in"), out, later())
		}
	}
	raw := func(after string) func(*testing.T, *Server) {
		return func(t *testing.T, s *Server) {
			conn := dialRaw(t, s)
			_, err := io.WriteString(conn, `{"op":"hook","event":"Stop","bytes":2}`+"\nin")
			require.NoError(t, err)
			_, err = answer(conn)
			require.NoError(t, err)
			_, err = io.WriteString(conn, after)
			require.NoError(t, err)
			conn.Close()
		}
	}
	cases := []struct {
		name      string
		peer      func(*testing.T, *Server)
		delivered bool
	}{
		{"a hook that prints", ask(io.Discard), true},
		{"a hook whose harness closed the pipe", ask(brokenWriter{}), false},
		{"a peer that sends ok", raw("ok\n"), true},
		{"a peer that sends nothing", raw(""), false},
		{"a peer that sends something else", raw("nok\n"), false},
		{"a peer that sends ok without a newline", raw("ok"), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			delivered := make(chan bool, 1)
			s := open(t, handler(func(_ context.Context, call *HookCall) { delivered <- call.Answer([]byte("out")) }))
			c.peer(t, s)
			if got := within(t, delivered); got != c.delivered {
				t.Errorf("delivered %v, want %v", got, c.delivered)
			}
		})
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAHookThatClosesBeforeTheAnswer(t *testing.T) {
	delivered := make(chan bool, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) {
		<-call.Gone()
		delivered <- call.Answer([]byte("too late"))
	}))
	conn := dialRaw(t, s)
	_, err := io.WriteString(conn, `{"op":"hook","event":"Stop","bytes":2}`+"\nin")
	require.NoError(t, err)
	conn.Close()
	if within(t, delivered) {
		t.Error("delivered to a closed connection")
	}
}

func TestAnOkBeforeTheAnswerIsIgnored(t *testing.T) {
	delivered := make(chan bool, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) {
		<-call.Gone()
		delivered <- call.Answer([]byte("out"))
	}))
	conn := dialRaw(t, s)
	_, err := io.WriteString(conn, `{"op":"hook","event":"Stop","bytes":2}`+"\ninok\n")
	require.NoError(t, err)
	if within(t, delivered) {
		t.Error("delivered before it was sent")
	}
}

func TestTheWaitForAnOkIsLimited(t *testing.T) {
	delivered := make(chan bool, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) { delivered <- call.Answer([]byte("out")) }))
	conn := dialRaw(t, s)
	began := time.Now()
	_, err := io.WriteString(conn, `{"op":"hook","event":"Stop","bytes":0}`+"\n")
	require.NoError(t, err)
	if within(t, delivered) {
		t.Error("delivered without an ok")
	}
	if took := time.Since(began); took < replyTime {
		t.Errorf("returned after %v, want %v", took, replyTime)
	}
}

func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	delivered := make(chan []bool, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) {
		delivered <- []bool{call.Answer([]byte("first")), call.Answer([]byte("second"))}
	}))
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte(""), &out, later()))
	require.Equal(t, []bool{true, false}, within(t, delivered))
	if out.String() != "first" {
		t.Errorf("printed %q", out.String())
	}
}

func TestAHandlerThatDoesNotAnswer(t *testing.T) {
	s := open(t, handler(func(context.Context, *HookCall) {}))
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte(""), &out, later()))
	if out.Len() != 0 {
		t.Errorf("printed %q, want nothing", out.String())
	}
}

// As in the supervisor, another goroutine answers while the connection's
// goroutine waits.
func TestAnAnswerFromAnotherGoroutine(t *testing.T) {
	calls := make(chan *HookCall)
	delivered := make(chan bool, 1)
	var loop sync.WaitGroup
	loop.Go(func() {
		call := <-calls
		delivered <- call.Answer([]byte("from the loop"))
	})
	defer loop.Wait()
	answered := make(chan struct{})
	s := open(t, handler(func(_ context.Context, call *HookCall) {
		calls <- call
		select {
		case <-call.Gone():
		case <-answered:
		}
	}))
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte(""), &out, later()))
	if !within(t, delivered) || out.String() != "from the loop" {
		t.Errorf("printed %q", out.String())
	}
	close(answered)
}

func TestAnAnswerTooLargeIsNotSent(t *testing.T) {
	delivered := make(chan bool, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) { delivered <- call.Answer(make([]byte, MaxBody+1)) }))
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte(""), &out, later()))
	if within(t, delivered) || out.Len() != 0 {
		t.Errorf("delivered %d bytes", out.Len())
	}
}

func TestNotifyDoesNotWait(t *testing.T) {
	received := make(chan *HookCall, 1)
	s := open(t, handler(func(_ context.Context, call *HookCall) {
		<-call.Gone()
		received <- call
	}))
	require.NoError(t, hook.Notify(s.Path(), "k", "StatusLine", []byte("{}"), later()))
	call := within(t, received)
	if call.Event != "StatusLine" || string(call.Input) != "{}" || !call.OneWay {
		t.Errorf("received %+v", call)
	}
	if call.Answer([]byte("out")) {
		t.Error("delivered to a one-way call")
	}

	// A call to a server that does not accept succeeds too: it waits in the queue.
	idle, err := Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	defer idle.Close()
	require.NoError(t, hook.Notify(idle.Path(), "k", "StatusLine", []byte("{}"), later()))
}

func TestManyHooksAtOnce(t *testing.T) {
	const n = 3 * maxPeers / 2
	// No call is answered before all places are taken, so these calls wait at the same
	// time. The other calls wait for a place, and none is lost. Their requests are small,
	// because a peer that needs more than idleTime to send one may lose its place.
	var inside atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	s := open(t, handler(func(ctx context.Context, call *HookCall) {
		if now := inside.Add(1); now == maxPeers {
			once.Do(func() { close(full) })
		} else if now > maxPeers {
			t.Errorf("%d calls at the same time", now)
		}
		<-full
		inside.Add(-1) // counted before the answer, because the answer frees the place
		echo(ctx, call)
	}))
	errs := make(chan error, n)
	for i := range n {
		go func() {
			var out bytes.Buffer
			input := strings.Repeat("x", 10*i)
			err := hook.Call(s.Path(), "k", "Stop", []byte(input), &out, later())
			if err == nil && out.String() != "Stop: "+input {
				err = fmt.Errorf("hook %d got %d bytes", i, out.Len())
			}
			errs <- err
		}()
	}
	for range n {
		if err := within(t, errs); err != nil {
			t.Error(err)
		}
	}
}

// closed reports whether the server has closed a connection without an answer. It does
// not use a deadline, because a read whose deadline has passed always fails.
func closed(t *testing.T, conn *net.UnixConn) (yes bool) {
	t.Helper()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		yes = n == 0 && err == nil || err != nil && err != unix.EAGAIN
	}))
	return yes
}

// Silent peers cannot keep the others out: the oldest one loses its place.
func TestTheOldestIdlePeerMakesRoom(t *testing.T) {
	s := open(t, echo)
	var silent []*net.UnixConn
	for range maxPeers {
		silent = append(silent, dialRaw(t, s))
	}
	for n := range 2 { // another silent peer comes
		silent = append(silent, dialRaw(t, s))
		_, err := silent[n].Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "the oldest one has lost its place")
	}
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte("in"), &out, later()))
	require.Equal(t, "Stop: in", out.String())
	require.True(t, closed(t, silent[2]))
	for _, conn := range silent[3:] {
		require.False(t, closed(t, conn))
	}
}

// The memory for the requests of all peers together is limited.
func TestPeersHoldLimitedMemory(t *testing.T) {
	over := make(chan struct{})
	held := make(chan int, 8)
	s := open(t, handler(func(ctx context.Context, call *HookCall) {
		if call.Event == "Hold" {
			held <- len(call.Input)
			<-over
		}
		echo(ctx, call)
	}))
	// Two peers send most of a request of the largest size and stop.
	var idle []*net.UnixConn
	most := append([]byte(`{"op":"hook","event":"Stop","bytes":16777216}`+"\n"), make([]byte, MaxBody-1<<10)...)
	for range 2 {
		conn := dialRaw(t, s)
		_, err := conn.Write(most)
		require.NoError(t, err)
		idle = append(idle, conn)
	}
	var answers sync.WaitGroup
	hold := func(size int) {
		answers.Go(func() {
			_ = hook.Call(s.Path(), "k", "Hold", make([]byte, size), io.Discard, later())
		})
		require.Equal(t, size, within(t, held))
	}
	hold(15 << 20)
	_, err := idle[0].Read(make([]byte, 1))
	require.Error(t, err, "the oldest idle one has lost its place")
	hold(15 << 20)
	_, err = idle[1].Read(make([]byte, 1))
	require.Error(t, err, "and so has the other")

	// Peers that wait for an answer keep their places.
	err = hook.Call(s.Path(), "k", "Stop", make([]byte, 4<<20), io.Discard, later())
	require.Error(t, err)
	var out bytes.Buffer
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte("small"), &out, later()))
	require.Equal(t, "Stop: small", out.String())
	close(over)
	answers.Wait()
	require.NoError(t, hook.Call(s.Path(), "k", "Stop", make([]byte, 15<<20), io.Discard, later()), "the memory is free again")
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	s := open(t, echo)
	cases := []struct{ name, send, want string }{
		{"unknown op", `{"op":"dance"}` + "\n", `unknown op "dance"`},
		{"no op", `{}` + "\n", `unknown op ""`},
		{"no event", `{"op":"hook","bytes":0}` + "\n", "event name of 0 bytes, want 1 to 256"},
		{"long event", `{"op":"hook","event":"` + strings.Repeat("e", 257) + `"}` + "\n", "event name of 257 bytes, want 1 to 256"},
		{"no JSON", "GET / HTTP/1.1\r\n\r\n", "cannot read the request: "},
		{"endless line", strings.Repeat("x", maxLine+1), "cannot read the request: line longer than 4096 bytes"},
		{"too many bytes", `{"op":"hook","event":"e","bytes":16777217}` + "\n", "cannot read the input: body of 16777217 bytes, want at most 16777216"},
		{"negative bytes", `{"op":"hook","event":"e","bytes":-1}` + "\n", "cannot read the input: body of -1 bytes"},
		{"bytes that is not a number", `{"op":"hook","event":"e","bytes":"2"}` + "\n", "cannot read the request: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conn := dialRaw(t, s)
			_, err := io.WriteString(conn, c.send)
			require.NoError(t, err)
			_, err = answer(conn)
			if err == nil || !strings.HasPrefix(err.Error(), "refused: "+c.want) {
				t.Errorf("answer %v, want %q", err, "refused: "+c.want)
			}
		})
	}
	t.Run("half a body", func(t *testing.T) {
		conn := dialRaw(t, s)
		_, err := io.WriteString(conn, `{"op":"hook","event":"e","bytes":10}`+"\nfive5")
		require.NoError(t, err)
		require.NoError(t, conn.CloseWrite())
		_, err = answer(conn)
		if want := "refused: cannot read the input: unexpected EOF"; err == nil || err.Error() != want {
			t.Errorf("answer %v, want %q", err, want)
		}
	})
	t.Run("members of another version are ignored", func(t *testing.T) {
		conn := dialRaw(t, s)
		_, err := io.WriteString(conn, `{"op":"hook","event":"e","bytes":2,"lang":"de"}`+"\nin")
		require.NoError(t, err)
		got, err := answer(conn)
		require.NoError(t, err)
		require.Equal(t, "e: in", string(got))
	})
}

func TestCloseEndsAllConnections(t *testing.T) {
	s, err := Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	entered := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(context.Background(), handler(func(ctx context.Context, call *HookCall) {
			close(entered)
			<-ctx.Done()
		}))
	}()
	asked := make(chan error, 1)
	var out bytes.Buffer
	go func() { asked <- hook.Call(s.Path(), "k", "Stop", []byte(""), &out, later()) }()
	silent := dialRaw(t, s) // this peer sends no request
	within(t, entered)

	require.NoError(t, s.Close())
	require.NoError(t, within(t, served))
	// The connection is closed, or it gets the empty answer of a canceled handler.
	if err := within(t, asked); out.Len() != 0 {
		t.Errorf("hook: %v, printed %q; want nothing", err, out.String())
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of a silent peer is still open")
	}
	require.NoError(t, s.Close(), "closing twice")
}

func TestCallErrors(t *testing.T) {
	dir := shortDir(t)
	idle, err := Listen(filepath.Join(dir, "idle.sock")) // this server never accepts
	require.NoError(t, err)
	defer idle.Close()
	cases := []struct {
		name, socket string
		input        []byte
		want         string
	}{
		{"no socket", filepath.Join(dir, "none"), nil, "no such file"},
		{"no answer", idle.Path(), []byte("in"), "i/o timeout"},
		{"a full socket buffer", idle.Path(), make([]byte, 8<<20), "i/o timeout"},
		{"too large", idle.Path(), make([]byte, MaxBody+1), "larger than"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := hook.Call(c.socket, "k", "Stop", c.input, &out, time.Now().Add(50*time.Millisecond))
			if err == nil || !strings.Contains(err.Error(), c.want) || out.Len() != 0 {
				t.Errorf("error %v, printed %q; want %q and nothing", err, out.String(), c.want)
			}
		})
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())

	s, err := Listen(path)
	require.NoError(t, err)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, want a socket with 0600", info.Mode())
	}

	_, err = Listen(path)
	if err == nil || !strings.Contains(err.Error(), "another process is listening there") {
		t.Errorf("second listener: %v", err)
	}
	require.NoError(t, s.Close())
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err = Listen(path); err == nil {
		t.Error("Listen replaced a regular file")
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(got))
}

// Several goroutines call Listen with the path of a stale socket; one replaces the socket.
func TestOneListenerWins(t *testing.T) {
	path := filepath.Join(shortDir(t), "s.sock")
	for range 20 {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		stale.SetUnlinkOnClose(false)
		require.NoError(t, stale.Close())

		won := make(chan *Server, 8)
		for range cap(won) {
			go func() {
				s, _ := Listen(path) // nil if another goroutine was faster
				won <- s
			}()
		}
		winners := 0
		var servers []*Server
		for range cap(won) {
			if s := within(t, won); s != nil {
				winners++
				servers = append(servers, s)
			}
		}
		if winners != 1 {
			t.Errorf("%d listeners, want one", winners)
		}
		for _, s := range servers {
			require.NoError(t, s.Close())
		}
	}
}

func TestSocketDir(t *testing.T) {
	t.Run("in the runtime folder", func(t *testing.T) {
		run := shortDir(t)
		t.Setenv("XDG_RUNTIME_DIR", run)
		for range 2 { // the first call creates the folder, the second finds it
			dir, err := SocketDir()
			require.NoError(t, err)
			require.Equal(t, filepath.Join(run, "lifeloop"), dir)
			requirePrivate(t, dir)
		}
	})
	for name, runtimeDir := range map[string]string{"unset": "", "missing": "/nowhere/run", "relative": "run"} {
		t.Run("runtime folder "+name, func(t *testing.T) {
			tmp := shortDir(t)
			t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
			t.Setenv("TMPDIR", tmp)
			for range 2 {
				dir, err := SocketDir()
				require.NoError(t, err)
				require.Equal(t, filepath.Join(tmp, fmt.Sprintf("lifeloop-%d", os.Geteuid())), dir)
				requirePrivate(t, dir)
			}
		})
	}
	squat := map[string]func(t *testing.T, path string){
		"open to others": func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.Chmod(path, 0o755))
		},
		"a link": func(t *testing.T, path string) { require.NoError(t, os.Symlink(shortDir(t), path)) },
		"a file": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o700)) },
		"another user's": func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can create a folder of another user")
			}
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.Chown(path, 65534, 65534))
		},
	}
	for name, take := range squat {
		t.Run("the name is taken: "+name, func(t *testing.T) {
			tmp := shortDir(t)
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", tmp)
			usual := filepath.Join(tmp, fmt.Sprintf("lifeloop-%d", os.Geteuid()))
			take(t, usual)
			dir, err := SocketDir()
			require.NoError(t, err)
			if dir == usual || filepath.Dir(dir) != tmp {
				t.Errorf("folder %s, want a new one beside %s", dir, usual)
			}
			requirePrivate(t, dir)
		})
	}
}

// A session ends even if a stopped process has the lock of our folder in the temporary
// folder.
func TestALockedTemporaryFolderIsLeft(t *testing.T) {
	tmp := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	t.Setenv("TMPDIR", tmp)
	folder := filepath.Join(tmp, tempName())
	require.NoError(t, os.Mkdir(folder, 0o700))
	unlock, err := lockDir(folder, 0)
	require.NoError(t, err)
	defer unlock()
	s, err := Open("s")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, s.Serve(ctx, nil))
	require.DirExists(t, folder)
}

// A suspended process that has the lock of the folder delays a session, but not forever.
func TestALockedFolderIsReported(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", shortDir(t))
	s, err := Open("before")
	require.NoError(t, err)
	folder := filepath.Dir(s.Path())
	unlock, err := lockDir(folder, 0)
	require.NoError(t, err)
	defer unlock()
	synctest.Test(t, func(t *testing.T) { // its clock passes the five seconds at once
		_, err = Open("after")
		require.EqualError(t, err, fmt.Sprintf("listen on %s/after.sock: another process, which may be suspended, has held the lock of %[1]s for 5s", folder))
		require.NoError(t, s.Close())
		require.NoFileExists(t, s.Path())
		require.DirExists(t, folder)
	})
}

func requirePrivate(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Lstat(dir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
}

// Without a runtime folder, the sockets are in a folder of ours in the temporary folder.
// The last session that ends removes our folder. The next session removes the folders that
// killed sessions left.
func TestTheTemporaryFolderIsRemoved(t *testing.T) {
	tmp := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	empty := func() bool {
		entries, err := os.ReadDir(tmp)
		require.NoError(t, err)
		return len(entries) == 0
	}
	usual := filepath.Join(tmp, tempName())
	for _, dir := range []string{usual, usual + "-1"} { // these folders are like those that killed processes leave
		require.NoError(t, os.Mkdir(dir, 0o700))
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "a.sock"), Net: "unix"})
		require.NoError(t, err)
		stale.SetUnlinkOnClose(false)
		require.NoError(t, stale.Close())
	}
	first, err := Open("first")
	require.NoError(t, err)
	second, err := Open("second")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, first.Serve(ctx, nil))
	require.NoDirExists(t, usual+"-1")
	require.FileExists(t, second.Path())
	require.NoError(t, second.Serve(ctx, nil))
	require.NoFileExists(t, second.Path())
	require.NoError(t, second.Close()) // after Serve, Close removes the folder
	require.True(t, empty())
	_, err = CheckSocketDir()
	require.NoError(t, err)
	require.True(t, empty())

	// A session that begins while another one ends does not lose its folder.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 50 {
				s, err := Open(fmt.Sprintf("s%d-%d", i, n))
				if err != nil {
					t.Error(err)
					return
				}
				if conn, err := net.Dial("unix", s.Path()); err != nil {
					t.Error(err)
				} else {
					conn.Close()
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.True(t, empty())

	// A folder that others can write is not used, and the error names it.
	require.NoError(t, os.Chmod(tmp, 0o777))
	_, err = tempDir(tmp)
	require.ErrorContains(t, err, "set XDG_RUNTIME_DIR to a folder that you own")
	require.ErrorContains(t, err, "every user can write "+tmp+", which has mode 0777 (choose another folder, or: chmod o-w '"+tmp+"')")
	require.True(t, empty())
}

// doer is a function as a Doer. It ignores hooks.
type doer func(ctx context.Context, c Command) []byte

func (doer) Hook(context.Context, *HookCall) {}

func (d doer) Do(ctx context.Context, c Command) []byte { return d(ctx, c) }

func TestACommandIsAnswered(t *testing.T) {
	s := open(t, doer(func(_ context.Context, c Command) []byte {
		if c.PID != os.Getpid() || c.Token != "token" {
			return fmt.Appendf(nil, "process %d, token %s", c.PID, c.Token)
		}
		return fmt.Appendf(nil, "%s: %s", c.Name, c.Input)
	}))
	for _, size := range []int{0, 1, 5000, MaxBody - 64} {
		input := bytes.Repeat([]byte("x"), size)
		out, err := Do(s.Path(), Command{Name: "pause", Input: input, Token: "token"}, later())
		require.NoError(t, err)
		require.Equal(t, "pause: "+string(input), string(out))
	}
	_, err := Do(s.Path(), Command{Name: "", Input: nil, Token: "token"}, later())
	require.ErrorContains(t, err, "event name of 0 bytes")
	_, err = Do(s.Path(), Command{Name: "pause", Input: make([]byte, MaxBody+1), Token: "token"}, later())
	require.Error(t, err)
	_, err = Do(open(t, echo).Path(), Command{Name: "pause", Input: nil, Token: "token"}, later())
	require.ErrorContains(t, err, `unknown op "do"`)
	_, err = Do(filepath.Join(shortDir(t), "s.sock"), Command{Name: "pause", Input: nil, Token: "token"}, later())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A command that runs when the session ends is still answered.
func TestACommandIsAnsweredAtTheEnd(t *testing.T) {
	s, err := Listen(filepath.Join(shortDir(t), "s.sock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	const peers = 20
	asked := make(chan bool, peers)
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, doer(func(ctx context.Context, _ Command) []byte {
			asked <- true
			<-ctx.Done()
			return []byte("it has ended")
		}))
	}()
	answers := make(chan string, peers)
	for range peers {
		go func() {
			out, err := Do(s.Path(), Command{Name: "pause", Input: nil, Token: "token"}, later())
			answers <- fmt.Sprint(string(out), err)
		}()
	}
	for range peers {
		within(t, asked)
	}
	cancel()
	for range peers {
		if got := within(t, answers); got != "it has ended<nil>" {
			t.Errorf("answered %q", got)
		}
	}
	require.NoError(t, within(t, served))
}

func TestSocketPathFitsAnAddress(t *testing.T) {
	run := shortDir(t)
	long := filepath.Join(run, strings.Repeat("d", 120))
	require.NoError(t, os.Mkdir(long, 0o700))
	middling := filepath.Join(run, strings.Repeat("d", 45))
	require.NoError(t, os.Mkdir(middling, 0o700))
	const uuid = "0b9c1f0e-6f1d-4d3a-9f0a-1a2b3c4d5e6f"

	cases := []struct{ name, runtimeDir, id, want string }{
		{"the usual", run, uuid, run + "/lifeloop/" + uuid + ".sock"},
		{"a long folder", middling, uuid, middling + "/lifeloop/*.sock"},
		{"a folder too long", long, uuid, "/tmp/lifeloop-*/*.sock"},
		{"a long id", run, strings.Repeat("i", 256), run + "/lifeloop/*.sock"},
		{"an id that is not a file name", run, "../../etc/x", run + "/lifeloop/*.sock"},
		{"a hidden id", run, "..", run + "/lifeloop/*.sock"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", c.runtimeDir)
			path, err := SocketPath(c.id)
			require.NoError(t, err)
			if ok, _ := filepath.Match(c.want, path); !ok || len(path) > 100 {
				t.Errorf("path %s of %d bytes, want %s", path, len(path), c.want)
			}
			again, err := SocketPath(c.id)
			require.NoError(t, err)
			require.Equal(t, path, again)
			other, err := SocketPath(c.id + "2")
			require.NoError(t, err)
			if other == path {
				t.Errorf("two sessions share %s", path)
			}
			s, err := Listen(path)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
	if _, err := SocketPath(""); err == nil {
		t.Error("SocketPath accepts an empty session id")
	}
}

// FuzzPeer sends any bytes. The peer gets an answer or its connection is
// closed, and the next peer is served.
func FuzzPeer(f *testing.F) {
	f.Add([]byte(`{"op":"hook","event":"Stop","bytes":2}` + "\ninok\n"))
	f.Add([]byte(`{"op":"tell","event":"Stop","bytes":2}` + "\nin"))
	f.Add([]byte(`{"op":"hook","event":"Stop","bytes":99999999999}` + "\n"))
	f.Add([]byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := open(t, echo)
		conn := dialRaw(t, s)
		_, _ = conn.Write(sent)
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		var out bytes.Buffer
		require.NoError(t, hook.Call(s.Path(), "k", "Stop", []byte("in"), &out, later()))
		require.Equal(t, "Stop: in", out.String())
	})
}
