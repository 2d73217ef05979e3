//go:build linux

package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary is also the guard, the wrapper that tests kill, and the wrapped
// programs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(GuardMain())
	}
	// A program under the race detector sleeps a second before it exits.
	guardEnv = append(guardEnv, "GORACE=atexit_sleep_ms=0")
	if part, ok := parts[os.Getenv("HARNESS_TEST_PART")]; ok {
		os.Exit(part())
	}
	goleak.VerifyTestMain(m)
}

// parts are the programs the tests run, by name.
var parts = map[string]func() int{}

// as returns the specification of a child that plays a part.
func as(part string, args ...string) Spec {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	env := []string{"HARNESS_TEST_PART=" + part, "GORACE=atexit_sleep_ms=0"} // if a variable is given twice, the first value counts
	return Spec{Argv: append([]string{exe}, args...), Env: append(env, os.Environ()...)}
}

func sh(script string) Spec { return Spec{Argv: []string{"sh", "-c", script}} }

// recorder is a sink that records its calls.
type recorder struct {
	mu     sync.Mutex
	totals []int64
	texts  []string
	stops  []syscall.Signal
	conts  int
	begun  []bool // the argument of each call of Line
	text   []byte
	// The text of each stream; a child has three streams at most.
	streams [3][]byte
	lines   int64 // the number that Output reported last, plus the lost lines that TextLost reported
	lost    int64
	slow    func() // called at the start of each Text, to make the sink slow
}

func (e *recorder) Output(total, lines int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.totals, e.lines = append(e.totals, total), lines
}

func (e *recorder) Text(stream int, b []byte, total int64) {
	if e.slow != nil {
		e.slow()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, b...)
	e.streams[stream] = append(e.streams[stream], b...)
	e.totals = append(e.totals, total)
}

func (e *recorder) TextLost(n, lines int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost, e.lines = e.lost+n, e.lines+lines
}

func (e *recorder) OSC(n int, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.texts = append(e.texts, fmt.Sprintf("%d:%s", n, text))
}

func (e *recorder) Stopped(sig syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stops = append(e.stops, sig)
}

func (e *recorder) Line(begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = append(e.begun, begun)
}

func (e *recorder) Continued() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conts++
}

func (e *recorder) snapshot() recorder {
	e.mu.Lock()
	defer e.mu.Unlock()
	return recorder{totals: e.totals, texts: e.texts, stops: e.stops, conts: e.conts, begun: e.begun, text: e.text, streams: e.streams, lines: e.lines, lost: e.lost}
}

// patience limits the wait for something that must happen, also on a busy machine.
const patience = time.Minute

// eventually polls a condition until it is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited %v for: %s", patience, what)
}

// shows waits until the terminal's text ends with last.
func (d *desk) shows(t *testing.T, last string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("it shows %q", d.text())
		}
	}()
	eventually(t, fmt.Sprintf("the terminal shows %q at its end", last), func() bool { return strings.HasSuffix(d.text(), last) })
}

// onFiles opens a Terminal on three files of the test; a nil stdin is empty.
func onFiles(t *testing.T, mode Mode, stdin *os.File) (term *Terminal, stdout, stderr func() []byte) {
	t.Helper()
	dir := t.TempDir()
	if stdin == nil {
		var err error
		stdin, err = os.Open(os.DevNull)
		require.NoError(t, err)
		t.Cleanup(func() { stdin.Close() })
	}
	open := func(name string) (*os.File, func() []byte) {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f, func() []byte {
			b, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			return b
		}
	}
	out, outBytes := open("stdout")
	errs, errBytes := open("stderr")
	term, err := OpenTerminal(stdin, out, errs, mode)
	require.NoError(t, err)
	t.Cleanup(term.Close)
	return term, outBytes, errBytes
}

// begin starts a child. At the end of the test, begin closes the terminal and waits
// until the child and its guard have ended.
func begin(t *testing.T, spec Spec, term *Terminal, sink Sink) *Child {
	t.Helper()
	c, err := Start(spec, term, sink)
	require.NoError(t, err)
	t.Cleanup(func() {
		term.Close()
		<-c.over
		c.Wait()
	})
	return c
}

func run(t *testing.T, spec Spec, term *Terminal) (Exit, *recorder) {
	t.Helper()
	e := &recorder{}
	return begin(t, spec, term, e).Wait(), e
}

func TestExitStatus(t *testing.T) {
	for _, mode := range []Mode{Never, Always} {
		for _, c := range []struct {
			script string
			want   Exit
		}{
			{"exit 0", Exit{}},
			{"exit 7", Exit{Code: 7}},
			{"exit 255", Exit{Code: 255}},
			{"kill -TERM $$", Exit{Code: 143, Signal: syscall.SIGTERM}},
			{"kill -KILL $$", Exit{Code: 137, Signal: syscall.SIGKILL}},
			{"kill -INT $$", Exit{Code: 130, Signal: syscall.SIGINT}},
		} {
			t.Run(string(mode)+"/"+c.script, func(t *testing.T) {
				term, _, _ := onFiles(t, mode, nil)
				got, _ := run(t, sh(c.script), term)
				if got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		}
	}
}

func TestOutputArrives(t *testing.T) {
	term, stdout, stderr := onFiles(t, Never, nil)
	got, e := run(t, sh("echo out; echo err >&2"), term)
	require.Equal(t, Exit{}, got)
	if got, want := string(stdout())+string(stderr()), "out\nerr\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if totals := e.snapshot().totals; totals[len(totals)-1] != 8 {
		t.Errorf("8 bytes were written, %v were reported", totals)
	}
	term, stdout, _ = onFiles(t, Always, nil)
	run(t, sh("echo out; test -t 0 -a -t 1 -a -t 2 && echo tty >&2"), term)
	if !bytes.Equal(stdout(), []byte("out\r\ntty\r\n")) {
		t.Errorf("got %q", stdout())
	}
}
