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
)

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no Deliver":      {},
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

// TestDo checks that Run reads the files that one function added before it calls the next
// function, even if the context has already ended.
func TestDo(t *testing.T) {
	for name, ends := range map[string]bool{"while Run runs": false, "at its end": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range []string{"a", "b"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(file+"\n"), 0o600))
			}
			var seen []string // owned by Run's goroutine
			w, err := New(Config{Deliver: func(l Line) { seen = append(seen, string(l.Text)) }})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if ends {
				cancel()
			}
			for _, file := range []string{"a", "b"} {
				w.Do(func() {
					seen = append(seen, "add "+file)
					w.Add(Spec{Source: "s", Path: filepath.Join(dir, file)})
				})
			}
			w.Do(cancel)
			require.NoError(t, w.Run(ctx))
			require.Equal(t, []string{"add a", "a", "add b", "b"}, seen)
		})
	}
}

// TestPollingIsReported checks that polling is reported once with its cause, and
// so is its end.
func TestPollingIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	reports := make(chan string, 10)
	w, err := New(Config{
		PollEvery: time.Millisecond,
		Deliver:   func(Line) {},
		Trouble:   func(x Trouble) { reports <- fmt.Sprintf("%s: %v", x.What, x.Err) },
	})
	require.NoError(t, err)
	w.noNotify = errNoInotify
	w.cfg.Deliver = func(l Line) {
		if string(l.Text) == "two" {
			w.noNotify = nil // this callback runs on Run's goroutine, which owns the field
		}
		reports <- string(l.Text)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w.Add(Spec{Source: "s", Path: path})
	go func() { done <- w.Run(ctx) }()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-reports:
			require.Equal(t, want, got)
		case <-time.After(patience):
			require.FailNow(t, "no report", "want %s", want)
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
	require.Empty(t, reports)
}

// TestNotifierFails checks that a new notifier replaces one that fails during a
// run.
func TestNotifierFails(t *testing.T) {
	r := newRig(t, false)
	r.start()
	r.w.Add(Spec{Source: "s", Path: filepath.Join(r.dir, "a")})
	r.sync()
	deliver := r.w.cfg.Deliver
	var once sync.Once
	r.together(func() {
		// Run waits in Deliver, so nothing else accesses the watcher now.
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
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestAddFromAnyGoroutine checks that Add is safe from any goroutine and from a
// callback. A file that a callback adds during the last read is still
// read.
func TestAddFromAnyGoroutine(t *testing.T) {
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
					r.w.Add(Spec{Source: "other", Path: path})
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
				})
			}
			wg.Wait()
			r.w.Add(Spec{Source: "chain", Path: filepath.Join(r.dir, "chain.0")})
			r.stop()

			var want strings.Builder
			for i, text := range []string{"1", "2", "end"} {
				fmt.Fprintf(&want, "chain chain.%d: %q @%d\n", i, text, len(text)+1)
			}
			for _, source := range []string{"other", "s"} {
				for i := range writers {
					off := 0
					for n := range lines {
						off += len(fmt.Sprint(n)) + 1
						fmt.Fprintf(&want, "%s dir%d/file: \"%d\" @%d\n", source, i, n, off)
					}
				}
			}
			if got := r.take(); got != want.String() {
				t.Errorf("got:\n%s\nwant:\n%s", got, want.String())
			}
		})
	}
}

// TestLargeFileSharesTurns checks that a file far larger than one turn does not
// delay the others.
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
		require.FailNow(t, "not everything was delivered")
	}
	require.Equal(t, []string{"big", "small", "big"}, order)
}

// TestPositionsOfOtherFiles changes one part of a position at a time. For each part except
// the path, the watcher must report that the file was replaced or truncated, and read the
// file from its start.
func TestPositionsOfOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	appendTo(t, path, "one\ntwo\nthree\n")
	read := func(from *Position) (got []string, last Position) {
		w, err := New(Config{
			Deliver: func(l Line) { got, last = append(got, string(l.Text)), l.Pos },
			Trouble: func(x Trouble) { got = append(got, string(x.What)) },
		})
		require.NoError(t, err)
		w.Add(Spec{Source: "s", Path: path, From: from})
		w.finish()
		w.close()
		return got, last
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
		{"after its end", func(p *Position) { p.Offset++ }, []string{"truncated", "one", "two", "three"}},
		{"its beginning", func(p *Position) { *p = Position{} }, []string{"one", "two", "three"}},
	} {
		from := end
		c.change(&from)
		if got, _ := read(&from); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
