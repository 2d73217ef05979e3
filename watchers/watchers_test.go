package watchers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"nobody to tell":  {},
		"negative period": {Deliver: func(Line) {}, PollEvery: -1},
		"negative limit":  {Deliver: func(Line) {}, MaxLine: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: New accepts it", name)
		}
	}
}

func TestRunRunsOnce(t *testing.T) {
	w, err := New(Config{Deliver: func(Line) {}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, w.Run(ctx))
	require.Error(t, w.Run(ctx))
}

// A run that watches nothing opens nothing, and one that ended holds nothing.
func TestHoldsNothingWhenNotNeeded(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	// The runtime's own poller opens its files with the first file that needs it.
	warm := newRig(t, false)
	warm.start()
	warm.stop()

	before := open()
	asked := make(chan struct{})
	w, err := New(Config{Deliver: func(Line) {}, Trouble: func(Trouble) { close(asked) }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.Add(Spec{Source: "s", Path: "not/absolute"}) // told from within Run: it runs
	<-asked
	if n := open(); n != before {
		t.Errorf("%d files open while nothing is watched, want %d", n, before)
	}
	cancel()
	require.NoError(t, <-done)

	r := newRig(t, false)
	r.script(`append a "one\n"`)
	r.start()
	for i := range 20 {
		r.w.Add(Spec{Source: fmt.Sprint(i), Path: filepath.Join(r.dir, "a")})
	}
	r.sync()
	r.stop()
	if n := open(); n != before {
		t.Errorf("%d files open after Run returned, want %d", n, before)
	}
}

// Polling is told with its cause, once, and so is its end.
func TestPollingIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	told := make(chan string, 10)
	w, err := New(Config{
		PollEvery: time.Millisecond,
		Deliver:   func(Line) {},
		Trouble:   func(x Trouble) { told <- fmt.Sprintf("%s: %v", x.What, x.Err) },
	})
	require.NoError(t, err)
	w.noNotify = errNoInotify
	w.cfg.Deliver = func(l Line) {
		if string(l.Text) == "two" {
			w.noNotify = nil // on the loop's own goroutine
		}
		told <- string(l.Text)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w.Add(Spec{Source: "s", Path: path})
	go func() { done <- w.Run(ctx) }()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			require.Equal(t, want, got)
		case <-time.After(patience):
			require.FailNow(t, "nothing is told", "want %s", want)
		}
	}
	next("polling: " + errNoInotify.Error())
	appendTo(t, path, "one\n")
	next("one")
	appendTo(t, path, "two\n")
	next("two")
	next("recovered: <nil>")
	appendTo(t, path, "three\n")
	next("three")
	cancel()
	require.NoError(t, <-done)
	require.Empty(t, told)
}

// Once inotify has failed in the middle of a run, a new instance takes over.
func TestInotifyFailsInBetween(t *testing.T) {
	r := newRig(t, false)
	r.start()
	r.w.Add(Spec{Source: "s", Path: filepath.Join(r.dir, "a")})
	r.sync()
	deliver := r.w.cfg.Deliver
	var once sync.Once
	r.together(func() {
		// The watcher is held inside of Deliver: nothing else touches it now.
		r.w.cfg.Deliver = func(l Line) {
			once.Do(func() { r.w.fault(errors.New("broken")) })
			deliver(l)
		}
		r.script(`append a "one\n"`)
	})
	r.sync()
	r.script(`append a "two\n"`)
	r.sync()
	r.stop()
	if got, want := r.take(), "s a: \"one\" @4\ns a: \"two\" @8\n"; got != want {
		t.Errorf("told:\n%swant:\n%s", got, want)
	}
}

// When the kernel had to throw events away, the lines they stood for are told
// all the same.
func TestEventsOverflow(t *testing.T) {
	var limit int
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(raw), &limit)
	require.NoError(t, err)
	if limit > 50_000 {
		t.Skipf("an event queue of %d is too long to fill here", limit)
	}
	r := newRig(t, false)
	r.start()
	for _, file := range []string{"a", "b", "last"} {
		r.w.Add(Spec{Source: "s", Path: filepath.Join(r.dir, file)})
	}
	r.sync()
	overflows := 0
	r.together(func() {
		trouble := r.w.cfg.Trouble
		r.w.cfg.Trouble = func(x Trouble) { overflows++; trouble(x) }
		var files []*os.File
		for _, file := range []string{"a", "b"} {
			f, err := os.Create(filepath.Join(r.dir, file))
			require.NoError(t, err)
			defer f.Close()
			files = append(files, f)
		}
		// Only a run of equal events is told as one, so the two take turns. The
		// watcher is held: what comes after the queue is full is thrown away.
		for i := range limit + 4096 {
			if _, err := files[i%2].WriteString("x"); err != nil {
				require.NoError(t, err)
			}
		}
		for _, f := range files {
			if _, err := f.WriteString("\n"); err != nil {
				require.NoError(t, err)
			}
		}
		r.script(`append last "told\n"`)
	})
	r.sync()
	r.stop()
	got := r.take()
	if strings.Count(got, "\n") != 3 || !strings.HasSuffix(got, "s last: \"told\" @5\n") {
		t.Errorf("%d lines told, want one of each of 3 files: …%s", strings.Count(got, "\n"), got[max(0, len(got)-80):])
	}
	if overflows != 0 {
		t.Errorf("%d troubles told, want none: nothing was lost", overflows)
	}
}

// Add and Remove are safe from everywhere, from within a callback too, and what
// is asked for by one of the last lines is still read.
func TestAddFromEverywhere(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			const writers, lines = 8, 25
			r := newRig(t, mode.polling)
			r.script(`append chain.0 "1\n"
				append chain.1 "2\n"
				append chain.2 "end\n"`)
			r.start()
			deliver := r.w.cfg.Deliver
			r.together(func() {
				w := r.w
				w.cfg.Deliver = func(l Line) {
					deliver(l)
					if l.Source == "chain" && string(l.Text) != "end" {
						w.Add(Spec{Source: "chain", Path: filepath.Join(r.dir, "chain."+string(l.Text))})
					}
				}
			})
			var wg sync.WaitGroup
			for i := range writers {
				path := filepath.Join(r.dir, fmt.Sprintf("dir%d", i), "file")
				wg.Go(func() {
					r.w.Add(Spec{Source: "s", Path: path})
					r.w.Add(Spec{Source: "gone", Path: path})
					if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
						t.Error(err)
						return
					}
					f, err := os.Create(path)
					if err != nil {
						t.Error(err)
						return
					}
					defer f.Close()
					for n := range lines {
						fmt.Fprintf(f, "%d\n", n)
					}
					r.w.Remove("gone", path)
				})
			}
			wg.Wait()
			r.w.Add(Spec{Source: "chain", Path: filepath.Join(r.dir, "chain.0")})
			r.stop()

			var want strings.Builder
			for i, text := range []string{"1", "2", "end"} {
				fmt.Fprintf(&want, "chain chain.%d: %q @%d\n", i, text, len(text)+1)
			}
			for _, source := range []string{"gone", "s"} {
				for i := range writers {
					off := 0
					for n := range lines {
						off += len(fmt.Sprint(n)) + 1
						fmt.Fprintf(&want, "%s dir%d/file: \"%d\" @%d\n", source, i, n, off)
					}
				}
			}
			if got := r.take(); got != want.String() {
				t.Errorf("told:\n%s\nwant:\n%s", got, want.String())
			}
		})
	}
}

// A file that is far larger than one turn does not keep the others waiting.
func TestLargeFileSharesTurns(t *testing.T) {
	r := newRig(t, false)
	big := strings.Repeat(strings.Repeat("x", 8191)+"\n", 3*turn/8192)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "big"), []byte(big), 0o600))
	r.script(`append small "one\n"`)
	var order []string
	w, err := New(Config{Deliver: func(l Line) {
		if n := len(order); n == 0 || order[n-1] != l.Source {
			order = append(order, l.Source)
		}
	}})
	require.NoError(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	deliver := w.cfg.Deliver
	var bytes int
	w.cfg.Deliver = func(l Line) {
		deliver(l)
		if bytes += len(l.Text) + 1; bytes == len(big)+len("one\n") {
			cancel()
		}
	}
	w.Add(Spec{Source: "big", Path: filepath.Join(r.dir, "big")})
	w.Add(Spec{Source: "small", Path: filepath.Join(r.dir, "small")})
	go func() { done <- w.Run(ctx) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "not everything was told")
	}
	require.Equal(t, []string{"big", "small", "big"}, order)
}

// What a long session left behind is read by a thread that gives way to all
// others; what is written from then on is not.
func TestCatchesUpAside(t *testing.T) {
	policy := func() uint32 {
		attr, err := unix.SchedGetAttr(0, 0)
		require.NoError(t, err)
		return attr.Policy
	}
	if policy() == unix.SCHED_IDLE {
		t.Skip("this test already runs on a thread of the lowest class")
	}
	r := newRig(t, false)
	path := filepath.Join(r.dir, "long")
	line := strings.Repeat("x", 1<<16-1) + "\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(line, 3*turn/len(line))), 0o600))
	var seen []string
	r.start()
	deliver := r.w.cfg.Deliver
	r.together(func() {
		r.w.cfg.Deliver = func(l Line) {
			if l.Source == "bell" {
				deliver(l)
				return
			}
			how := "at once"
			if policy() == unix.SCHED_IDLE {
				how = "aside"
			}
			if n := len(seen); n == 0 || seen[n-1] != how {
				seen = append(seen, how)
			}
		}
	})
	r.w.Add(Spec{Source: "s", Path: path})
	for w := r.w; ; {
		r.sync()
		caughtUp := false
		r.together(func() { caughtUp = len(w.tails) == 2 && w.tails[1].off == 3*turn })
		if caughtUp {
			break
		}
	}
	appendTo(t, path, "live\n")
	r.sync()
	r.stop()
	require.Equal(t, []string{"at once", "aside", "at once"}, seen)
}

// However many files and folders are followed, there is one inotify instance:
// a user may have few of them.
func TestOneInotifyInstance(t *testing.T) {
	instances := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, e := range entries {
			if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == "anon_inode:inotify" {
				n++
			}
		}
		return n
	}
	before := instances()
	r := newRig(t, false)
	r.start()
	for i := range 30 {
		dir := filepath.Join(r.dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(dir, 0o700))
		r.w.Add(Spec{Source: "file", Path: filepath.Join(dir, "a")})
		r.w.Add(Spec{Source: "files", Path: dir, Pattern: "b*"})
	}
	r.sync()
	if n := instances() - before; n != 1 {
		t.Errorf("%d inotify instances, want 1", n)
	}
	r.stop()
	if n := instances() - before; n != 0 {
		t.Errorf("%d inotify instances are left", n)
	}
}

// Each part of a position alone tells that the file is another one: it is read
// from its start, and that is told.
func TestPositionsOfOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	appendTo(t, path, "one\ntwo\nthree\n")
	read := func(from *Position) (told []string, last Position) {
		w, err := New(Config{
			Deliver: func(l Line) { told, last = append(told, string(l.Text)), l.Pos },
			Trouble: func(x Trouble) { told = append(told, string(x.What)) },
		})
		require.NoError(t, err)
		w.Add(Spec{Source: "s", Path: path, From: from})
		w.finish()
		w.close()
		return told, last
	}
	_, end := read(nil)
	for _, c := range []struct {
		name   string
		change func(*Position)
		want   []string
	}{
		{"the same", func(*Position) {}, nil},
		{"another name of it", func(p *Position) { p.Path += ".1" }, nil},
		{"another device", func(p *Position) { p.Dev++ }, []string{"replaced", "one", "two", "three"}},
		{"another inode", func(p *Position) { p.Ino++ }, []string{"replaced", "one", "two", "three"}},
		{"other first bytes", func(p *Position) { p.Prefix = digest([]byte("other")) }, []string{"replaced", "one", "two", "three"}},
		{"no first bytes", func(p *Position) { p.Prefix = "" }, []string{"replaced", "one", "two", "three"}},
		{"behind its end", func(p *Position) { p.Offset++ }, []string{"truncated", "one", "two", "three"}},
		{"its beginning", func(p *Position) { *p = Position{} }, []string{"one", "two", "three"}},
	} {
		from := end
		c.change(&from)
		if got, _ := read(&from); !slices.Equal(got, c.want) {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}
}
