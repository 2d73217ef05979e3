package dispatch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lifeloop/lifeloop"
	"lifeloop/testdata/fakeclient/fakeclienttest"
)

// A stay is a persistent client and the pids that Started and Ended got.
type stay struct {
	t *testing.T
	*Persistent
	started, ended []int
}

// persistent creates a client with cfg. At the end of the test it checks that
// closing the client leaves no process and no open file.
func (w *world) persistent(cfg Config) *stay {
	w.t.Helper()
	s := &stay{t: w.t}
	cfg.ID = "notes"
	cfg.Started = func(pid int) { s.started = append(s.started, pid) }
	cfg.Ended = func(pid int) { s.ended = append(s.ended, pid) }
	var err error
	files := openFiles(w.t)
	s.Persistent, err = NewPersistent(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		s.Close()
		if !slices.Equal(s.started, s.ended) {
			w.t.Errorf("Started got %v, Ended %v", s.started, s.ended)
		}
		for _, pid := range s.started {
			w.checkGone(pid)
		}
		if now := openFiles(w.t); now != files {
			w.t.Errorf("%d descriptors open after the end, %d before the start", now, files)
		}
	})
	return s
}

// ask makes a call with an envelope of this event id.
func (s *stay) ask(ctx context.Context, id string) (Answer, error) {
	return s.Call(ctx, fmt.Appendf(nil, `{"schema_version":"lifeloop.v0.2","request":{"event":"frame.opening","event_id":%q,"payload_refs":[]}}`, id))
}

// answers makes a call and checks that the answer belongs to it; fakeclient
// names the event with --name-event.
func (s *stay) answers(id string) {
	s.t.Helper()
	a, err := s.ask(context.Background(), id)
	require.NoError(s.t, err)
	if want := named(id); string(a.Body) != want || a.ExitCode != 0 || a.Duration <= 0 {
		s.t.Fatalf("answer %q, exit %d, after %v; want %q", a.Body, a.ExitCode, a.Duration, want)
	}
}

func named(id string) string {
	return fmt.Sprintf(`{"schema_version":"lifeloop.v0.2","status":"observed","warnings":[%q]}`, id)
}

// lines is a fakeclient that answers line by line.
func lines(args ...string) []string {
	return append([]string{fake, "--persistent", "--name-event"}, args...)
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

const observed = `{"status":"observed"}`

// A secondCall describes the second of three calls. The first one succeeds, and
// the third must get the answer to its own request, from the same process or
// from a new one.
type secondCall struct {
	name    string
	cfg     Config
	ctx     func() (context.Context, context.CancelFunc)
	want    string // the answer, if failure is nil
	failure *Failure
	same    bool // the third call is answered by the same process
}

func secondCalls() []secondCall {
	after := func(d time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
	}
	// then returns a client that gives one valid answer and runs script for the
	// second call.
	then := func(script string) []string {
		return shell(`read -r l; echo '` + observed + `'; read -r l || exit 0; ` + script)
	}
	return []secondCall{
		{name: "nothing", cfg: Config{Command: lines()}, want: named("two"), same: true},
		{name: "an answer that is a failure", cfg: Config{Command: lines("--after", "1", "--status", "failed")}, same: true,
			want: `{"schema_version":"lifeloop.v0.2","status":"failed","warnings":["two"],"failure_class":"internal_error"}`},
		{name: "an answer of the largest size", cfg: Config{MaxAnswer: 300000, Command: lines("--after", "1", "--oversize", "300000")},
			want: named("two") + strings.Repeat(" ", 300000-len(named("two"))), same: true},
		{name: "answers in pieces", cfg: Config{Command: then(`printf '{"status":'; sleep 0.02; echo '"observed"}'; read -r l; echo '` + observed + `'`)},
			want: observed, same: true},
		{name: "crash", cfg: Config{Command: lines("--after", "1", "--crash")},
			failure: &Failure{Class: lifeloop.TransportError, Why: "killed by SIGKILL", ExitCode: -1}},
		{name: "crash with a process left behind", cfg: Config{Command: lines("--after", "1", "--crash", "--fork-linger", "1h")},
			failure: &Failure{Class: lifeloop.TransportError, Why: "killed by SIGKILL", ExitCode: -1}},
		{name: "too slow", cfg: Config{Command: lines("--after", "1", "--delay", "1h")}, ctx: after(30 * time.Millisecond),
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer in time", ExitCode: -1, Err: context.DeadlineExceeded}},
		{name: "canceled", cfg: Config{Command: lines("--after", "1", "--delay", "1h")},
			ctx: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(30*time.Millisecond, cancel)
				return ctx, cancel
			},
			failure: &Failure{Class: lifeloop.Timeout, Why: "canceled before it answered", ExitCode: -1, Err: context.Canceled}},
		{name: "canceled before the start", cfg: Config{Command: lines()}, same: true, ctx: after(0),
			failure: &Failure{Class: lifeloop.Timeout, Why: "no answer in time", ExitCode: -1, Err: context.DeadlineExceeded}},
		{name: "one byte too large", cfg: Config{MaxAnswer: 1000, Command: lines("--after", "1", "--oversize", "1001")},
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "answer larger than 1000 bytes", ExitCode: -1}},
		{name: "a line without an end", cfg: Config{Command: lines("--after", "1", "--babble")},
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "answer larger than 1048576 bytes", ExitCode: -1}},
		{name: "half a document is passed on, not judged", cfg: Config{Command: lines("--after", "1", "--bad-json")},
			want: named("two")[:len(named("two"))/2]},
		{name: "a line that is not an answer", cfg: Config{Command: then(`echo '{"level":"debug"}'; sleep 3600`)}, want: `{"level":"debug"}`},
		{name: "an empty line", cfg: Config{Command: then(`echo; sleep 3600`)}, want: ""},
		{name: "answers twice", cfg: Config{Command: lines("--after", "1", "--twice")}, want: named("two")},
		{name: "exits instead of an answer", cfg: Config{Command: then(`exit 3`)},
			failure: &Failure{Class: lifeloop.TransportError, Why: "exit status 3", ExitCode: 3}},
		{name: "exits with 0 instead of an answer", cfg: Config{Command: then(`exit 0`)},
			failure: &Failure{Class: lifeloop.TransportError, Why: "ended without an answer"}},
		{name: "exits in the middle of the line", cfg: Config{Command: then(`printf '` + observed + `'`)},
			failure: &Failure{Class: lifeloop.TransportError, Why: "ended without an answer"}},
		{name: "exits after its answer", cfg: Config{Command: lines("--exit-after", "2", "--exit", "3")}, want: named("two")},
		{name: "closes stdout and stays", cfg: Config{Command: then(`exec >&-; sleep 3600`)},
			failure: &Failure{Class: lifeloop.TransportError, Why: "closed its stdout without an answer", ExitCode: -1}},
		{name: "reads no more after its answer", cfg: Config{Command: then(`exec <&-; echo '` + observed + `'; sleep 3600`)}, want: observed},
	}
}

func TestEveryFailureIsFollowedByANewProcess(t *testing.T) {
	run := func(t *testing.T) {
		for _, c := range secondCalls() {
			t.Run(c.name, c.check)
		}
	}
	t.Run("pidfd", run)
	testOnlyNoPidfd = true
	defer func() { testOnlyNoPidfd = false }()
	t.Run("no pidfd", run)
}

func (c secondCall) check(t *testing.T) {
	s := (&world{t: t}).persistent(c.cfg)
	_, err := s.ask(context.Background(), "one")
	require.NoError(t, err)

	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if c.ctx != nil {
		ctx, cancel = c.ctx()
	}
	defer cancel()
	a, err := s.ask(ctx, "two")
	if c.failure == nil {
		require.NoError(t, err)
		if string(a.Body) != c.want || a.ExitCode != 0 {
			t.Errorf("answer %q, exit %d; want %q", a.Body, a.ExitCode, c.want)
		}
	} else {
		var got *Failure
		require.ErrorAs(t, err, &got)
		want := *c.failure
		want.Client = "notes"
		require.Equal(t, want, *got)
		if a.Body != nil || a.ExitCode != want.ExitCode {
			t.Errorf("with the error: body %q and exit code %d", a.Body, a.ExitCode)
		}
	}
	if !c.same {
		// Wait until the client has ended, or cannot take another call.
		eventually(t, func() bool { return len(s.ended) == 1 || !s.client.idle() }, "the client is still idle")
	}

	a, err = s.ask(context.Background(), "three")
	require.NoError(t, err)
	if body := string(a.Body); body != observed && !strings.Contains(body, `["three"]`) {
		t.Errorf("third answer %q", body)
	}
	if starts := len(s.started); c.same != (starts == 1) || starts > 2 {
		t.Errorf("%d processes for three calls; the same one was expected for the third: %v", starts, c.same)
	}
}

func TestManyCallsOneProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "asked.jsonl")
	s := (&world{t: t}).persistent(Config{Command: lines("--log", log)})
	const calls = 1000
	for i := range calls {
		s.answers(strconv.Itoa(i))
	}
	for i, r := range fakeclienttest.Asked(t, log) {
		if r.Request.EventID != strconv.Itoa(i) {
			t.Fatalf("question %d was %s", i, r.Request.EventID)
		}
	}
	if len(s.started) != 1 {
		t.Errorf("%d processes for %d calls", len(s.started), calls)
	}
}

var seed = flag.Uint64("seed", rand.Uint64(), "seed of the random deadlines")

// Deadlines pass before, during and after the client's answers. Each answer must
// belong to its request.
func TestALateAnswerIsDropped(t *testing.T) {
	t.Logf("seed %d", *seed)
	s := (&world{t: t}).persistent(Config{Command: lines("--delay", "4ms")})
	random := rand.New(rand.NewPCG(*seed, 0))
	answered, failed := 0, 0
	for i := 0; i < 60 || answered == 0 || failed == 0; i++ {
		if i == 10000 {
			t.Fatalf("%d calls answered, %d timed out", answered, failed)
		}
		limit := time.Duration(random.IntN(16)) * time.Millisecond
		if i%10 == 0 {
			limit = time.Minute
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		id := strconv.Itoa(i)
		a, err := s.ask(ctx, id)
		cancel()
		if err == nil {
			answered++
			if string(a.Body) != named(id) {
				t.Fatalf("asked %s, answered %s", id, a.Body)
			}
			continue
		}
		failed++
		var f *Failure
		if !errors.As(err, &f) || f.Class != lifeloop.Timeout {
			t.Fatal(err)
		}
	}
	t.Logf("%d answered, %d timed out, %d processes", answered, failed, len(s.started))
}

func TestTimeoutOfTheConfig(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: lines("--delay", "1h"), Timeout: 50 * time.Millisecond})
	_, err := s.ask(context.Background(), "one")
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Failure{Client: "notes", Class: lifeloop.Timeout, Why: "no answer within 50ms", ExitCode: -1, Err: context.DeadlineExceeded}, *f)
}

func TestAClientKilledBetweenCallsIsReplaced(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: lines("--fork-linger", "1h")})
	for i := range 3 {
		s.answers("a")
		require.NoError(t, unix.Kill(s.started[i], unix.SIGKILL))
		// Wait, because a call would fail while a thread of the killed client still
		// runs.
		eventually(t, func() bool { return !s.client.idle() }, "the client is still idle after SIGKILL")
	}
	s.answers("b")
	if len(s.started) != 4 {
		t.Errorf("%d processes, want 4", len(s.started))
	}
}

func TestConcurrentCallsUseOneProcess(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: lines()})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			id := strconv.Itoa(i)
			a, err := s.ask(context.Background(), id)
			if err != nil || string(a.Body) != named(id) {
				t.Errorf("asked %s, answered %s, %v", id, a.Body, err)
			}
		})
	}
	wg.Wait()
	if len(s.started) != 1 {
		t.Errorf("%d processes", len(s.started))
	}
}

// A call that waits for its turn has its own deadline, and does not disturb the
// open call.
func TestWaitingForTheTurnTimesOut(t *testing.T) {
	dir := t.TempDir()
	asked, answer := filepath.Join(dir, "asked"), filepath.Join(dir, "answer")
	require.NoError(t, unix.Mkfifo(answer, 0o600))
	s := (&world{t: t}).persistent(Config{
		Command: shell(`read -r l; echo >` + asked + `; read -r l <` + answer + `; echo "$l"; read -r l`), Timeout: 20 * time.Second})
	first := make(chan error, 1)
	go func() {
		_, err := s.ask(context.Background(), "one")
		first <- err
	}()
	eventually(t, func() bool { _, err := os.Stat(asked); return err == nil }, "the first call never began")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.ask(ctx, "two")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	if f := s.wait(context.Background(), time.Now().Add(time.Millisecond)); f == nil || f.Why != "no answer within 20s" {
		t.Errorf("the wait ended with %v", f)
	}
	require.NoError(t, os.WriteFile(answer, []byte(observed+"\n"), 0o600))
	require.NoError(t, <-first)
}

func TestStartFails(t *testing.T) {
	program := filepath.Join(t.TempDir(), "client")
	s := (&world{t: t}).persistent(Config{Command: []string{program}})
	for range 2 {
		_, err := s.ask(context.Background(), "one")
		var f *Failure
		require.ErrorAs(t, err, &f)
		require.Equal(t, Failure{Client: "notes", Class: lifeloop.TransportError, Why: "not found", ExitCode: -1, Err: f.Err}, *f)
	}
	if len(s.started) != 0 {
		t.Errorf("Started was called with %v", s.started)
	}
	// The program may be installed while the session runs.
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nwhile read -r l; do echo '"+observed+"'; done\n"), 0o700))
	_, err := s.ask(context.Background(), "two")
	require.NoError(t, err)
}

func TestLinesOfAnySizeComeBackWhole(t *testing.T) {
	for _, size := range []int{1, 4096, 65535, 65536, 65537, 5 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			sent := bytes.Repeat([]byte("01234567"), size/8+1)[:size]
			s := (&world{t: t}).persistent(Config{Command: []string{"/bin/cat"}, MaxAnswer: size})
			for range 2 {
				a, err := s.Call(context.Background(), sent)
				require.NoError(t, err)
				if !bytes.Equal(a.Body, sent) {
					t.Errorf("%d bytes came back, %d were sent, or they differ", len(a.Body), len(sent))
				}
			}
		})
	}
}

// A client that does not read must not block the call. It gets no second call
// while half a line is in its pipe.
func TestAClientThatAnswersWithoutReading(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: shell(`echo '` + observed + `'; sleep 3600`)})
	large := bytes.Repeat([]byte("x"), 4<<20)
	for range 2 {
		a, err := s.Call(context.Background(), large)
		require.NoError(t, err)
		if string(a.Body) != observed {
			t.Errorf("answer %q", a.Body)
		}
	}
	if len(s.started) != 2 {
		t.Errorf("%d processes, want one for each call", len(s.started))
	}
}

func TestAnEnvelopeOfTwoLinesIsNotSent(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: lines()})
	_, err := s.Call(context.Background(), []byte("{\n}"))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Failure{Client: "notes", Class: lifeloop.InvalidRequest, Why: "the envelope has more than one line", ExitCode: -1}, *f)
	if len(s.started) != 0 {
		t.Error("a client was started for it")
	}
}

// An envelope is encoded on one line even if its members contain newlines.
func TestEncodedEnvelopesAreLines(t *testing.T) {
	const pretty = `{
  "schema_version": "lifeloop.v0.2",
  "request": {"schema_version": "lifeloop.v0.2", "event": "session.started", "event_id": "e1", "adapter_id": "generic",
    "adapter_version": "0.1.0", "integration_mode": "launcher_wrapper", "invocation_id": "i", "payload_refs": [],
    "idempotency_key": "k", "event_data": {
      "cause": "a\r\nb"
    }},
  "payloads": [{"schema_version": 1, "payload_id": "p", "client_id": "c", "payload_kind": "k", "format": "f",
    "content_encoding": "utf8", "body": "two\nlines\u2028", "byte_size": 12,
    "acceptable_placements": [{"placement": "receipt_only", "requirement": "optional"}], "redaction": "none",
    "metadata": {
      "deep": [
        "x"
      ]
    }}]
}`
	env, err := lifeloop.Parse[lifeloop.DispatchEnvelope]([]byte(pretty))
	require.NoError(t, err)
	line, err := env.Encode()
	require.NoError(t, err)
	if bytes.ContainsAny(line, "\n\r") || !bytes.Contains(line, []byte(`two\nlines`)) {
		t.Errorf("not a line: %q", line)
	}
}

func TestStderrOfAPersistentClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.stderr")
	s := (&world{t: t}).persistent(Config{StderrFile: file, Command: shell(
		`read -r l; echo first >&2; echo '` + observed + `'; read -r l; echo '` + observed + `'; read -r l; echo its last words >&2; exit 3`)})
	kept := func() string {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(b)
	}
	for range 2 { // the second call saves output on stderr that the first has not read
		_, err := s.ask(context.Background(), "x")
		require.NoError(t, err)
	}
	if got := kept(); got != "first\n" {
		t.Errorf("saved %q after two calls", got)
	}
	_, err := s.ask(context.Background(), "x")
	require.ErrorContains(t, err, "exit status 3")
	if got := kept(); got != "first\nits last words\n" {
		t.Errorf("saved %q after its end", got)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	bye := filepath.Join(t.TempDir(), "bye")
	const serve = `while read -r l; do echo '` + observed + `'; done; `
	for _, c := range []struct {
		name     string
		command  []string
		stubborn bool
	}{
		{name: "polite", command: shell(serve + `echo bye >` + bye)},
		{name: "prints while it exits", command: shell(serve + `head -c 300000 /dev/zero; echo bye >` + bye)},
		{name: "does not exit", command: shell(`trap '' TERM INT HUP; ` + serve + `exec sleep 3600`), stubborn: true},
		{name: "with a child", command: lines("--fork-linger", "1h")},
		{name: "prints without end", command: shell(serve + `exec cat /dev/zero`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = os.Remove(bye)
			s := (&world{t: t}).persistent(Config{Command: c.command})
			_, err := s.ask(context.Background(), "one")
			require.NoError(t, err)
			began := time.Now()
			s.Close()
			if took := time.Since(began); c.stubborn && took < CloseGrace {
				t.Errorf("Close returned after %v", took)
			}
			if strings.Contains(strings.Join(c.command, " "), bye) {
				if _, err := os.Stat(bye); err != nil {
					t.Errorf("the client was killed before its exit: %v", err)
				}
			}
			w := &world{t: t}
			w.checkGone(s.started[0])

			s.Close()
			_, err = s.ask(context.Background(), "two")
			var f *Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, Failure{Client: "notes", Class: lifeloop.TransportError, Why: "called after Close", ExitCode: -1}, *f)
		})
	}
}

// A client gets its parent-death signal when the thread that started it ends. The
// test ends threads: it starts goroutines that lock their thread and return.
func TestAClientOutlivesTheThreadsOfItsCalls(t *testing.T) {
	s := (&world{t: t}).persistent(Config{Command: lines()})
	s.answers("one")
	for range 20 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(runtime.LockOSThread)
		}
		wg.Wait()
	}
	s.answers("two")
	if len(s.started) != 1 {
		t.Error("the client died with a thread")
	}
}

// The client in the documentation works.
func TestTheDocumentedClient(t *testing.T) {
	text, err := os.ReadFile("../docs/writing-a-client.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## A persistent client\n")
	_, section, found2 := strings.Cut(section, "```sh\n")
	script, _, found3 := strings.Cut(section, "```")
	require.True(t, found && found2 && found3, "there is no such section with a script")
	s := (&world{t: t}).persistent(Config{Command: shell(script)})
	for i := range 3 {
		a, err := s.ask(context.Background(), "x")
		require.NoError(t, err)
		if want := fmt.Sprintf(`{"status":"observed","warnings":["%d prompts so far"]}`, i+1); string(a.Body) != want {
			t.Errorf("answer %s, want %s", a.Body, want)
		}
	}
	if len(s.started) != 1 {
		t.Errorf("%d processes", len(s.started))
	}
}

func TestConfigOfAPersistentClientIsChecked(t *testing.T) {
	if _, err := NewPersistent(Config{ID: "a"}); err == nil || err.Error() != "client a: no command to run" {
		t.Errorf("error %v", err)
	}
}

// BenchmarkPersistent measures a call of a running client; compare BenchmarkCall.
func BenchmarkPersistent(b *testing.B) {
	for _, c := range []struct {
		name    string
		command []string
	}{{"echo", []string{"/bin/cat"}}, {"go", []string{fake, "--persistent"}}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := NewPersistent(Config{ID: "bench", Command: c.command})
			require.NoError(b, err)
			defer p.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			median(b, func() ([]byte, error) {
				a, err := p.Call(ctx, []byte(observed))
				return a.Body, err
			})
		})
	}
}
