package watchers

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(followed); path != "" {
		if err := followUntilKilled(path); err != nil {
			panic(err)
		}
		return
	}
	if path := os.Getenv(limited); path != "" {
		if err := followLimited(path); err != nil {
			panic(err)
		}
		return
	}
	// Only 20 checks, because each check of a law runs real watchers on real files.
	// The flag on the command line overrides this number.
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience is the time after which a hanging test fails.
const patience = 2 * time.Minute

// modes are the two ways to notice a change. Both must deliver the same.
var modes = []struct {
	name    string
	polling bool
}{{"inotify", false}, {"polling", true}}

var errNoInotify = errors.New("inotify is disabled in this test")

// rig runs a Watcher on a folder of its own. The Watcher also watches a file outside the
// folder, called the bell. A write to the bell is a ring. When several rings have been
// delivered, the watcher has seen all earlier changes (see sync). The callback for a
// ring can also block the watcher while the test makes several changes. The bell is a
// Whole file, delivered at most once in a round.
type rig struct {
	t       *testing.T
	dir     string
	polling bool
	maxLine int

	w      *Watcher
	cancel context.CancelFunc
	done   chan error
	bell   string
	rings  int
	rung   chan struct{}
	held   chan struct{} // the bell's callback waits for this channel while the test blocks the watcher

	mu     sync.Mutex // guards got and cursor
	got    []report
	cursor map[name]Position
}

// report is one line or one trouble, as a scenario prints it.
type report struct {
	name
	what string
}

func newRig(t *testing.T, polling bool) *rig {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	r := &rig{t: t, dir: filepath.Join(dir, "files"), polling: polling, cursor: map[name]Position{}}
	require.NoError(t, os.Mkdir(r.dir, 0o700))
	r.bell = filepath.Join(dir, "bell")
	return r
}

func (r *rig) start() {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.bell, nil, 0o600))
	w, err := New(Config{Deliver: r.deliver, Trouble: r.trouble, PollEvery: time.Millisecond, MaxLine: r.maxLine})
	require.NoError(r.t, err)
	if r.polling {
		w.noNotify = errNoInotify
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.w, r.cancel = w, cancel
	r.done, r.rung, r.held = make(chan error, 1), make(chan struct{}, 16), make(chan struct{})
	w.Add(Spec{Source: "bell", Path: r.bell, Form: Whole})
	go func() { r.done <- w.Run(ctx) }()
	r.sync()
}

func (r *rig) deliver(l Line) {
	if l.Source == "bell" {
		r.rung <- struct{}{}
		if bytes.HasPrefix(l.Text, []byte("h")) {
			<-r.held
		}
		return
	}
	what := fmt.Sprintf("%q @%d", l.Text, l.Pos.Offset)
	if l.Gone {
		what = "gone"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := name{l.Source, l.Path}
	r.cursor[n] = l.Pos
	r.got = append(r.got, report{n, what})
}

func (r *rig) trouble(x Trouble) {
	if r.polling && x.What == Polling && errors.Is(x.Err, errNoInotify) {
		return // not printed, because in polling mode every file reports this trouble
	}
	what := string(x.What)
	if x.What == LineTooLong || x.What == Broken {
		what += ": " + x.Err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, report{name{x.Source, x.Path}, what})
}

// ring writes to the bell and waits until the watcher delivers the text. The text
// has a constant length, so that one write causes one event.
func (r *rig) ring(text string) {
	r.t.Helper()
	r.rings++
	f, err := os.OpenFile(r.bell, os.O_WRONLY, 0)
	require.NoError(r.t, err)
	_, err = fmt.Fprintf(f, "%s%08d", text, r.rings)
	require.NoError(r.t, err)
	require.NoError(r.t, f.Close())
	select {
	case <-r.rung:
	case <-time.After(patience):
		require.FailNow(r.t, "the watcher did not deliver the ring")
	}
}

// sync returns when the watcher has seen every earlier change. It rings several
// times. The first ring may be delivered in a round in which the other files
// already had their turn, or because of an event of an earlier ring. Each folder
// that a pattern finds, and each file in it, also needs one more round.
func (r *rig) sync() {
	r.t.Helper()
	for range 6 {
		r.ring("s")
	}
}

// together runs do while the watcher is blocked, so that it sees all changes of
// do at once.
func (r *rig) together(do func()) {
	r.t.Helper()
	r.ring("h")
	do()
	r.held <- struct{}{}
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	r.wait()
}

func (r *rig) wait() {
	r.t.Helper()
	select {
	case err := <-r.done:
		require.NoError(r.t, err)
		r.w = nil
	case <-time.After(patience):
		require.FailNow(r.t, "Run does not return")
	}
}

// take returns the reports since the last call, sorted by file: the order among
// files is not defined.
func (r *rig) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.got, func(a, b report) int {
		return strings.Compare(a.source+"\x00"+a.path, b.source+"\x00"+b.path)
	})
	var b strings.Builder
	for _, x := range r.got {
		path, _ := filepath.Rel(r.dir, x.path)
		fmt.Fprintf(&b, "%s %s: %s\n", x.source, path, x.what)
	}
	r.got = nil
	return b.String()
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// script runs the commands of a scenario on the files, like a shell.
func (r *rig) script(lines string) {
	for line := range strings.Lines(lines) {
		word := strings.SplitN(strings.TrimSpace(line), " ", 3)
		path, rest := filepath.Join(r.dir, word[1]), ""
		if len(word) == 3 {
			rest = word[2]
		}
		text := func() string {
			s, err := strconv.Unquote(rest)
			require.NoError(r.t, err, line)
			return s
		}
		var err error
		switch word[0] {
		case "append":
			appendTo(r.t, path, text())
		case "fill": // writes the given number of letters, without a newline
			n, err2 := strconv.Atoi(rest)
			require.NoError(r.t, err2, line)
			appendTo(r.t, path, strings.Repeat("x", n))
		case "overwrite": // keeps the inode
			err = os.WriteFile(path, []byte(text()), 0o600)
		case "replace": // changes the inode, in one step
			err = errors.Join(os.WriteFile(path+".new", []byte(text()), 0o600), os.Rename(path+".new", path))
		case "truncate":
			n, err2 := strconv.ParseInt(rest, 10, 64)
			require.NoError(r.t, err2, line)
			err = os.Truncate(path, n)
		case "rename":
			err = os.Rename(path, filepath.Join(r.dir, rest))
		case "delete":
			err = os.RemoveAll(path)
		case "mkdir":
			err = os.MkdirAll(path, 0o700)
		case "link": // make path a symbolic link to rest
			err = errors.Join(os.Symlink(rest, path+".new"), os.Rename(path+".new", path))
		case "fifo":
			err = unix.Mkfifo(path, 0o600)
		default:
			err = errors.New("no such command")
		}
		require.NoError(r.t, err, line)
	}
}

// TestScenarios plays each file of testdata in both modes.
//
//	start [max-line=N]             a watcher begins
//	watch SOURCE PATH [pattern=P] [whole|values] [at-end] [resume]
//	                               Add; resume starts at the last position delivered
//	do                             run the script while the watcher is blocked, then
//	                               wait until it has seen the changes
//	end                            like do, but the context ends after the script, before
//	                               the watcher continues
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		for _, mode := range modes {
			t.Run(mode.name, func(t *testing.T) {
				r := newRig(t, mode.polling)
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					return r.play(d)
				})
				if r.w != nil {
					r.stop()
				}
			})
		}
	})
}

func (r *rig) play(d *datadriven.TestData) string {
	switch d.Cmd {
	case "start":
		d.MaybeScanArgs(r.t, "max-line", &r.maxLine)
		r.start()
	case "watch":
		n := name{d.CmdArgs[0].Key, filepath.Join(r.dir, d.CmdArgs[1].Key)}
		s := Spec{Source: n.source, Path: n.path, AtEnd: d.HasArg("at-end")}
		d.MaybeScanArgs(r.t, "pattern", &s.Pattern)
		switch {
		case d.HasArg("whole"):
			s.Form = Whole
		case d.HasArg("values"):
			s.Form = Values
		}
		if d.HasArg("resume") {
			pos, ok := r.cursor[n]
			require.True(r.t, ok, "nothing was delivered of %s yet", n.path)
			s.From = &pos
		}
		r.w.Add(s)
		r.sync()
	case "do":
		if r.w == nil { // without a running watcher, only make the changes
			r.script(d.Input)
			return r.take()
		}
		r.together(func() { r.script(d.Input) })
		r.sync()
	case "end":
		r.together(func() {
			r.script(d.Input)
			r.cancel()
		})
		r.wait()
	default:
		d.Fatalf(r.t, "no such command: %s", d.Cmd)
	}
	if out := r.take(); out != "" {
		return out
	}
	return "nothing\n"
}
