package watchers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoInotifyLeft makes the kernel refuse inotify, in a namespace that allows no
// instance, and then allow it.
func TestNoInotifyLeft(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), limited+"="+filepath.Join(t.TempDir(), "log"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, started := err.(*exec.ExitError); err != nil && !started {
		t.Skipf("user namespaces are not available here: %v", err)
	}
	require.NoError(t, err, string(out))
	require.Equal(t, "try: max_user_instances: inotify_init: too many open files\ntry: max_user_watches: inotify_add_watch /: no space left on device\n"+
		"polling: inotify_init: too many open files\none\nrecovered\ntwo\n", string(out))
}

// TestTry checks that Try returns no error while no limit is reached.
func TestTry(t *testing.T) {
	limit, err := Try(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, limit)
	limit, err = Try(filepath.Join(t.TempDir(), "nothing"))
	require.ErrorContains(t, err, "no such file")
	require.Empty(t, limit)
	require.Contains(t, Limits(), "max_user_instances")
}

// TestOpensNothingUnused checks that a run that watches nothing opens nothing, and
// that a run that ended has closed everything.
func TestOpensNothingUnused(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	// Run one watcher before counting: Go's runtime opens files for its poller at
	// the first use.
	warm := newRig(t, false)
	warm.start()
	warm.stop()

	before := open()
	added := make(chan struct{})
	w, err := New(Config{Deliver: func(Line) {}, Trouble: func(Trouble) { close(added) }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.Add(Spec{Source: "s", Path: "not/absolute"}) // Run reports this error
	<-added
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

// TestEventsOverflow checks that no line is missed when the kernel drops events.
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
		// The kernel merges equal events in a row, so the two files alternate. The
		// watcher is blocked, so the kernel drops events once the queue is full.
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
		r.script(`append last "done\n"`)
	})
	r.sync()
	r.stop()
	got := r.take()
	if strings.Count(got, "\n") != 3 || !strings.HasSuffix(got, "s last: \"done\" @5\n") {
		t.Errorf("%d lines delivered, want one of each of 3 files: …%s", strings.Count(got, "\n"), got[max(0, len(got)-80):])
	}
	if overflows != 0 {
		t.Errorf("%d troubles reported, want none: no line was lost", overflows)
	}
}

// TestCatchesUpAtLowPriority checks that the file of a long session is read by a
// thread of the lowest priority, and lines written later are not.
func TestCatchesUpAtLowPriority(t *testing.T) {
	policy := func() uint32 {
		attr, err := unix.SchedGetAttr(0, 0)
		require.NoError(t, err)
		return attr.Policy
	}
	if policy() == unix.SCHED_IDLE {
		t.Skip("this test runs at the lowest priority already")
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
			how := "normal"
			if policy() == unix.SCHED_IDLE {
				how = "low"
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
	require.Equal(t, []string{"normal", "low", "normal"}, seen)
}

// TestOneInotifyInstance checks that any number of files and folders needs one
// inotify instance: a user may have few of them.
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
		t.Errorf("%d inotify instances after Run returned, want 0", n)
	}
}
