package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"lifeloop/lifeloop"
	"lifeloop/testdata/fakeclient/fakeclienttest"
)

// fake is the path of the scripted client, whose source is in
// testdata/fakeclient.
var fake string

const envelope = `{"schema_version":"lifeloop.v0.2","request":{"event":"frame.opening","event_id":"e1","payload_refs":[]}}`

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if client := os.Getenv("DISPATCH_TEST_CALL"); client != "" {
		return callAndPrintPid(client)
	}
	dir, err := os.MkdirTemp("", "dispatch-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if fake, err = fakeclienttest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// callAndPrintPid is the main function of a process that calls a client. The
// test kills this process during a call, or while a persistent client is idle.
func callAndPrintPid(client string) int {
	cfg := Config{ID: "doomed", Command: []string{client, "--delay", "1h"}, Timeout: time.Hour, Started: func(pid int) { fmt.Println(pid) }}
	if os.Getenv("DISPATCH_TEST_STAYS") == "" {
		o, err := NewOneshot(cfg)
		if err == nil {
			_, err = o.Call(context.Background(), []byte(envelope))
		}
		fmt.Println(err)
		return 1
	}
	var pid int
	cfg.Command, cfg.Started = []string{client, "--persistent", "--stay"}, func(p int) { pid = p }
	p, err := NewPersistent(cfg)
	if err == nil {
		_, err = p.Call(context.Background(), []byte(envelope))
	}
	if err == nil {
		fmt.Println(pid)
		time.Sleep(time.Hour)
	}
	fmt.Println(err)
	return 1
}

// A world runs clients and checks that no process is left after a call.
type world struct{ t *testing.T }

// call makes one call of a client with cfg. It checks that Started and Ended
// were called, and that no process of the client is left.
func (w *world) call(ctx context.Context, cfg Config, env []byte) (Answer, error) {
	w.t.Helper()
	var pid, ended int
	cfg.ID = "notes"
	cfg.Started = func(p int) { pid = p }
	cfg.Ended = func(p int) { ended = p }
	o, err := NewOneshot(cfg)
	require.NoError(w.t, err)
	a, err := o.Call(ctx, env)
	if pid != ended {
		w.t.Errorf("Started got pid %d, Ended %d", pid, ended)
	}
	if pid != 0 {
		w.checkGone(pid)
	}
	return a, err
}

// checkGone waits until the group has no living member: the client itself was
// reaped before the call returned, the others were sent SIGKILL.
func (w *world) checkGone(pgid int) {
	w.t.Helper()
	if alive(w.t, pgid) {
		w.t.Errorf("client %d is alive after the call", pgid)
	}
	eventually(w.t, func() bool { return len(members(w.t, pgid)) == 0 },
		"the client's group still has living members")
}

// eventually polls ok until it is true. It fails shortly before the test binary
// would time out.
func eventually(t *testing.T, ok func() bool, otherwise string) {
	t.Helper()
	end, limited := t.Deadline()
	for !ok() {
		if limited && time.Until(end) < 10*time.Second {
			t.Fatal(otherwise)
		}
		time.Sleep(time.Millisecond)
	}
}

// members lists the living processes of a group. Zombies are not counted: only
// their parent, another process, can reap them.
func members(t *testing.T, pgid int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		state, group, ok := stat(pid)
		if ok && group == pgid && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(t *testing.T, pid int) bool {
	t.Helper()
	state, _, ok := stat(pid)
	return ok && state != "Z"
}

func stat(pid int) (state string, pgid int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 3 {
		return "", 0, false
	}
	pgid, err = strconv.Atoi(f[2])
	return f[0], pgid, err == nil
}

// openFiles counts the open descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// A callCase is one call of a client and its result.
type callCase struct {
	name    string
	cfg     Config // if Command is nil, it is fakeclient with args
	args    []string
	ctx     func() (context.Context, context.CancelFunc)
	want    string // the body of the answer, if failure is nil
	failure *Failure
	cause   error
}

func answeringClients() []callCase {
	return []callCase{
		{name: "answers", args: []string{"--status", "delivered"},
			want: `{"schema_version":"lifeloop.v0.2","status":"delivered"}`},
		{name: "prints nothing", cfg: Config{Command: []string{"/bin/sh", "-c", "cat >/dev/null"}}, want: ""},
		{name: "bad JSON is passed on, not judged", args: []string{"--bad-json", "--ignore-stdin"}, want: `{"status":`},
		{name: "found in PATH", cfg: Config{Command: []string{"cat"}}, want: envelope},
		{name: "relative to its folder", cfg: Config{Dir: "/bin", Command: []string{"./cat"}}, want: envelope},
		{name: "runs in its folder with its environment", cfg: Config{Dir: "/", Env: []string{"MOOD=calm"}, Command: []string{"/bin/sh", "-c", `printf %s "$PWD $MOOD"`}}, want: "/ calm"},
		{name: "no shell expands its arguments", cfg: Config{Command: []string{"/bin/echo", "-n", "$HOME;*"}}, want: "$HOME;*"},
		{name: "leaves a process that holds stdout", args: []string{"--fork-linger", "1h"},
			want: `{"schema_version":"lifeloop.v0.2","status":"observed"}`},
		{name: "an answer of the largest size", cfg: Config{MaxAnswer: 300000}, args: []string{"--oversize", "300000", "--ignore-stdin"},
			want: `{"status":"observed"}` + strings.Repeat(" ", 300000-len(`{"status":"observed"}`))},
	}
}

func failingClients() []callCase {
	return []callCase{
		{name: "exit status", args: []string{"--exit", "3"},
			failure: &Failure{Class: lifeloop.TransportError, Why: "exit status 3", ExitCode: 3}},
		{name: "crash", args: []string{"--crash"},
			failure: &Failure{Class: lifeloop.TransportError, Why: "killed by SIGKILL", ExitCode: -1}},
		{name: "crash with a process left behind", args: []string{"--crash", "--fork-linger", "1h"},
			failure: &Failure{Class: lifeloop.TransportError, Why: "killed by SIGKILL", ExitCode: -1}},
		{name: "too slow", cfg: Config{Timeout: 50 * time.Millisecond}, args: []string{"--delay", "1h"},
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer within 50ms", ExitCode: -1}, cause: context.DeadlineExceeded},
		{name: "too slow, with a child", cfg: Config{Timeout: 100 * time.Millisecond}, args: []string{"--delay", "1h", "--fork-linger", "1h"},
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer within 100ms", ExitCode: -1}, cause: context.DeadlineExceeded},
		{name: "ignores TERM", cfg: Config{Timeout: 50 * time.Millisecond, Command: []string{"/bin/sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done"}},
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer within 50ms", ExitCode: -1}, cause: context.DeadlineExceeded},
		{name: "closes stdout and stays", cfg: Config{Timeout: 50 * time.Millisecond, Command: []string{"/bin/sh", "-c", "exec >&-; sleep 3600"}},
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer within 50ms", ExitCode: -1}, cause: context.DeadlineExceeded},
		{name: "deadline of the context", args: []string{"--delay", "1h"},
			ctx: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), 50*time.Millisecond)
			},
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer in time", ExitCode: -1}, cause: context.DeadlineExceeded},
		{name: "canceled", args: []string{"--delay", "1h"},
			ctx: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(50*time.Millisecond, cancel)
				return ctx, cancel
			},
			failure: &Failure{Class: lifeloop.Timeout, Why: "canceled before it answered", ExitCode: -1}, cause: context.Canceled},
		{name: "canceled before the start",
			ctx: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				return ctx, cancel
			},
			failure: &Failure{Class: lifeloop.Timeout, Why: "canceled before it answered", ExitCode: -1}, cause: context.Canceled},
		{name: "one byte too large", cfg: Config{MaxAnswer: 1000}, args: []string{"--oversize", "1001"},
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "answer larger than 1000 bytes", ExitCode: -1}},
		{name: "prints without end", cfg: Config{Timeout: time.Hour}, args: []string{"--babble"},
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "answer larger than 1048576 bytes", ExitCode: -1}},
		{name: "prints without end and without reading", cfg: Config{Timeout: time.Hour}, args: []string{"--babble", "--ignore-stdin"},
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "answer larger than 1048576 bytes", ExitCode: -1}},
	}
}

func unstartableClients(t *testing.T) []callCase {
	script := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "client")
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	return []callCase{
		{name: "program missing", cfg: Config{Command: []string{"/nowhere/client"}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "not found", ExitCode: -1}, cause: os.ErrNotExist},
		{name: "not in PATH", cfg: Config{Command: []string{"no-such-client-anywhere"}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "not found", ExitCode: -1}, cause: exec.ErrNotFound},
		{name: "interpreter missing", cfg: Config{Command: []string{script("#!/nowhere/sh\n", 0o700)}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "not found", ExitCode: -1}},
		{name: "not executable", cfg: Config{Command: []string{script("#!/bin/sh\n", 0o600)}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "not executable", ExitCode: -1}, cause: os.ErrPermission},
		{name: "not a program", cfg: Config{Command: []string{script("hello", 0o700)}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "not executable", ExitCode: -1}, cause: syscall.ENOEXEC},
		{name: "working directory missing", cfg: Config{Dir: "/nowhere", Command: []string{"/bin/cat"}},
			failure: &Failure{Class: lifeloop.TransportError, Why: "working directory not found", ExitCode: -1}},
	}
}

func TestEveryClientEndsAndLeavesNothing(t *testing.T) {
	run := func(t *testing.T) {
		for _, c := range slices.Concat(answeringClients(), failingClients(), unstartableClients(t)) {
			t.Run(c.name, c.check)
		}
	}
	t.Run("pidfd", run)
	testOnlyNoPidfd = true
	defer func() { testOnlyNoPidfd = false }()
	t.Run("no pidfd", run)
}

func (c callCase) check(t *testing.T) {
	w := &world{t: t}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if c.ctx != nil {
		ctx, cancel = c.ctx()
	}
	defer cancel()
	cfg := c.cfg
	if cfg.Command == nil {
		cfg.Command = append([]string{fake}, c.args...)
	}
	files := openFiles(t)
	a, err := w.call(ctx, cfg, []byte(envelope))
	if now := openFiles(t); now != files {
		t.Errorf("%d descriptors open after the call, %d before", now, files)
	}
	if c.failure == nil {
		require.NoError(t, err)
		if string(a.Body) != c.want || a.ExitCode != 0 || a.Duration <= 0 {
			t.Errorf("answer %q, exit %d, after %v; want %q", a.Body, a.ExitCode, a.Duration, c.want)
		}
		return
	}
	var got *Failure
	require.ErrorAs(t, err, &got)
	want := *c.failure
	want.Client, want.Err = "notes", got.Err
	require.Equal(t, want, *got)
	if c.cause != nil && !errors.Is(err, c.cause) {
		t.Errorf("cause %v, want %v", got.Err, c.cause)
	}
	if a.Body != nil || a.ExitCode != want.ExitCode {
		t.Errorf("with the error: body %q and exit code %d", a.Body, a.ExitCode)
	}
}

// A process that the client leaves behind holds stdout for an hour. If the call waited
// for it, the test binary would time out.
func TestALeftoverProcessDoesNotDelayTheAnswer(t *testing.T) {
	w := &world{t: t}
	_, err := w.call(context.Background(), Config{Timeout: time.Hour, Command: []string{fake, "--fork-linger", "1h"}}, []byte(envelope))
	require.NoError(t, err)
}

// Output that a client's child prints shortly after the client's exit belongs
// to the answer. On a busy machine this output may be printed too late, so the
// test repeats the call until the answer contains the output.
func TestOutputRightAfterTheExitIsRead(t *testing.T) {
	w := &world{t: t}
	eventually(t, func() bool {
		a, err := w.call(context.Background(), Config{Command: []string{"/bin/sh", "-c", "printf one; (printf ' two') &"}}, nil)
		require.NoError(t, err)
		return string(a.Body) == "one two"
	}, "the late output was never part of the answer")
}

func TestEnvelopesOfAnySizeComeBackWhole(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 65535, 65536, 65537, 1 << 20, 5 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			sent := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			w := &world{t: t}
			a, err := w.call(context.Background(), Config{Command: []string{fake, "--echo"}, MaxAnswer: size}, sent)
			require.NoError(t, err)
			if !bytes.Equal(a.Body, sent) {
				t.Errorf("%d bytes came back, %d were sent, or they differ", len(a.Body), len(sent))
			}
		})
	}
}

// A client that does not read its stdin must not block the call, whether it
// exits at once or later.
func TestAClientNeedNotRead(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 4<<20)
	w := &world{t: t}
	for _, args := range [][]string{{"--ignore-stdin"}, {"--ignore-stdin", "--delay", "50ms"}} {
		a, err := w.call(context.Background(), Config{Command: append([]string{fake}, args...)}, large)
		require.NoError(t, err)
		if string(a.Body) != `{"status":"observed"}` {
			t.Errorf("%v: answer %q", args, a.Body)
		}
	}
}

func TestTheEndOfStderrIsSaved(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.stderr")
	w := &world{t: t}
	call := func(args ...string) error {
		_, err := w.call(context.Background(), Config{Command: append([]string{fake}, args...), StderrFile: file}, []byte(envelope))
		return err
	}

	require.NoError(t, call())
	_, err := os.Stat(file)
	require.ErrorIs(t, err, os.ErrNotExist, "no stderr, no file")

	require.NoError(t, call("--stderr-size", "1000000", "--stderr", "the end"))
	require.NoError(t, call()) // without output on stderr the file is not changed
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	if want := strings.Repeat("x", MaxStderr-len("the end")) + "the end"; string(got) != want {
		t.Errorf("saved %d bytes ending in %q, want the last %d", len(got), got[max(0, len(got)-20):], len(want))
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}

	err = call("--stderr", "secret words", "--exit", "1")
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the client: %v", err)
	}
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	if string(got) != "secret words" {
		t.Errorf("saved %q, want the last call's", got)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	if len(entries) != 1 {
		t.Errorf("%d files in the folder, want one", len(entries))
	}

	_, err = w.call(context.Background(), Config{
		Command:    []string{fake, "--stderr", "lost"},
		StderrFile: filepath.Join(dir, "no", "such", "folder"),
	}, []byte(envelope))
	require.NoError(t, err, "an error of saving stderr must not fail the call")
}

func TestOneClientServesManyCalls(t *testing.T) {
	log := filepath.Join(t.TempDir(), "asked.jsonl")
	o, err := NewOneshot(Config{ID: "notes", Command: []string{fake, "--log", log}})
	require.NoError(t, err)
	const calls = 32
	errs := make(chan error, calls)
	for i := range calls {
		go func() {
			_, err := o.Call(context.Background(), fmt.Appendf(nil, `{"request":{"event":"frame.opening","event_id":"e%d"}}`, i))
			errs <- err
		}()
	}
	for range calls {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, r := range fakeclienttest.Asked(t, log) {
		seen[r.Request.EventID] = true
	}
	if len(seen) != calls {
		t.Errorf("%d different envelopes arrived, want %d", len(seen), calls)
	}
}

// If the wrapper is killed, its clients end too.
func TestAClientDiesWithItsCaller(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name, env := range map[string][]string{"oneshot": nil, "persistent": {"DISPATCH_TEST_STAYS=1"}} {
		t.Run(name, func(t *testing.T) {
			caller := exec.Command(self)
			caller.Env = append(append(os.Environ(), "DISPATCH_TEST_CALL="+fake), env...)
			out, err := caller.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, caller.Start())
			var client int
			_, err = fmt.Fscan(out, &client)
			require.NoError(t, err)
			if !alive(t, client) {
				t.Errorf("client %d is not running", client)
			}
			require.NoError(t, caller.Process.Kill())
			_ = caller.Wait() // the caller was killed
			eventually(t, func() bool { return !alive(t, client) }, "the client outlived its caller")
		})
	}
}

func TestConfigErrors(t *testing.T) {
	cases := []struct {
		cfg  Config
		want string
	}{
		{Config{}, "client without an id"},
		{Config{ID: "a"}, "client a: no command to run"},
		{Config{ID: "a", Command: []string{""}}, "client a: no command to run"},
		{Config{ID: "a", Command: []string{"x", "y\x00z"}}, "client a: command word 1 holds a NUL byte"},
		{Config{ID: "a", Command: []string{"x"}, Dir: "\x00"}, "client a: working directory holds a NUL byte"},
		{Config{ID: "a", Command: []string{"x"}, Env: []string{"A=b", "C"}}, "client a: environment entry 1 is not KEY=value, or holds a NUL byte"},
		{Config{ID: "a", Command: []string{"x"}, Timeout: -1}, "client a: time-out -1ns is negative"},
		{Config{ID: "a", Command: []string{"x"}, MaxAnswer: -1}, "client a: the largest size of an answer, -1 bytes, is negative"},
	}
	for _, c := range cases {
		_, err := NewOneshot(c.cfg)
		if err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// BenchmarkCall measures a whole call: spawn, envelope in, answer out, reap.
// BenchmarkExecCommand measures a call with os/exec, for comparison.
func BenchmarkCall(b *testing.B) {
	o, err := NewOneshot(Config{ID: "bench", Command: []string{benchClient()}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	median(b, func() ([]byte, error) {
		a, err := o.Call(ctx, []byte(envelope))
		return a.Body, err
	})
}

func BenchmarkExecCommand(b *testing.B) {
	median(b, func() ([]byte, error) {
		cmd := exec.Command(benchClient())
		cmd.Stdin = strings.NewReader(envelope)
		return cmd.Output()
	})
}

// median also reports the median of the single calls: on a shared machine the
// mean depends on the other programs.
func median(b *testing.B, call func() ([]byte, error)) {
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		body, err := call()
		took = append(took, time.Since(began))
		if err != nil || len(body) == 0 {
			b.Fatalf("answer %q, %v", body, err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}

// benchClient returns the cheapest client, or the program that
// DISPATCH_BENCH_CLIENT names.
func benchClient() string {
	if c := os.Getenv("DISPATCH_BENCH_CLIENT"); c != "" {
		return c
	}
	return "/bin/cat"
}
