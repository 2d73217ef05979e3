//go:build linux

package harness

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A desk is an outer terminal as a terminal emulator sees it.
type desk struct {
	master, slave *os.File
	mu            sync.Mutex
	seen          bytes.Buffer
	over          chan struct{}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	master, slave, err := newPty()
	require.NoError(t, err)
	d := &desk{master: master, slave: slave, over: make(chan struct{})}
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 99}))
	go func() {
		defer close(d.over)
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			d.mu.Lock()
			d.seen.Write(buf[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		slave.Close()
		master.SetReadDeadline(longAgo())
		<-d.over
		master.Close()
	})
	return d
}

func (d *desk) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.String()
}

func (d *desk) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.Len()
}

func (d *desk) key(t *testing.T, keys string) {
	t.Helper()
	_, err := d.master.WriteString(keys)
	require.NoError(t, err)
}

// line reads the keys that wait, as the next program would. Except in raw mode, line
// returns one line, or "" for a Ctrl-D at the beginning of a line.
func (d *desk) line(t *testing.T) string {
	t.Helper()
	eventually(t, "keys wait", func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fdOf(d.slave)), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	})
	buf := make([]byte, 4<<10)
	n, err := unix.Read(fdOf(d.slave), buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func (d *desk) attrs(t *testing.T) unix.Termios {
	t.Helper()
	a, err := getTermios(d.slave)
	require.NoError(t, err)
	return *a
}

func (d *desk) terminal(t *testing.T) *Terminal {
	t.Helper()
	term, err := OpenTerminal(d.slave, d.slave, d.slave, Auto)
	require.NoError(t, err)
	t.Cleanup(term.Close)
	return term
}

func living(pid int) bool {
	p, err := readProc(pid)
	return err == nil && !p.dead()
}

func TestBytesAreUntouched(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.attrs(t)
	want := screenful(16 << 20)
	term := d.terminal(t)
	e := &recorder{}
	began := time.Now()
	exit := begin(t, as("paint", strconv.Itoa(len(want))), term, e).Wait()
	require.Equal(t, Exit{}, exit)
	// At the end of the output, modes may still be set, so the sequences that undo
	// them follow.
	undo := scanned(string(want)).modes.undo(false)
	eventually(t, "the terminal has all of it", func() bool { return d.size() >= len(want)+len(undo) })
	term.Restore()
	got := d.text()
	if sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(string(want)+undo)) {
		t.Errorf("%d bytes became %d other ones", len(want), len(got))
	}
	if after := d.attrs(t); !sameTermios(&after, &before) {
		t.Errorf("terminal attributes were %+v and are %+v", before, after)
	}
	totals := e.snapshot().totals
	if last := totals[len(totals)-1]; last != int64(len(want)) {
		t.Errorf("%d bytes were reported, want %d", last, len(want))
	}
	if limit := 3 + int(time.Since(began)/time.Second); len(totals) > limit {
		t.Errorf("Output was called %d times, want at most %d", len(totals), limit)
	}
}

func TestNothingToUndoNothingWritten(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	exit, _ := run(t, sh(`printf '\033[?2004h\033[?25lhello\033[?25h\033[?2004l\n'`), term)
	require.Equal(t, Exit{}, exit)
	term.Restore()
	term.Restore()
	term.Close()
	want := "\x1b[?2004h\x1b[?25lhello\x1b[?25h\x1b[?2004l\r\n"
	eventually(t, "the greeting was seen", func() bool { return len(d.text()) >= len(want) })
	if got := d.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestModesAChildLeavesAreUndone(t *testing.T) {
	d := newDesk(t)
	before := d.attrs(t)
	term := d.terminal(t)
	exit, _ := run(t, sh(`printf '\033[?1049h\033[>1u\033[?25l'; kill -KILL $$`), term)
	require.Equal(t, Exit{Code: 137, Signal: syscall.SIGKILL}, exit)
	term.Close()
	want := "\x1b[?1049h\x1b[>1u\x1b[?25l" + "\x1b[?25h\x1b[<1u\x1b[?1049l"
	eventually(t, "the undo was seen", func() bool { return len(d.text()) >= len(want) })
	if got := d.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if after := d.attrs(t); !sameTermios(&after, &before) {
		t.Errorf("terminal attributes were %+v and are %+v", before, after)
	}
}

func TestDieLeavesNoCore(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGSEGV, unix.SIGABRT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGKILL, 40} {
		spec := as("die", strconv.Itoa(int(sig)))
		cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
		cmd.Env, cmd.Dir = spec.Env, t.TempDir()
		printed, _ := cmd.CombinedOutput()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled(), "%v", sig)
		require.Equal(t, sig, status.Signal())
		require.False(t, status.CoreDump(), "%v", sig)
		require.Empty(t, string(printed), "%v", sig)
	}
}

// After a death by signal, the colour and other modes are undone too. A program that
// exits by itself may leave them set on purpose.
func TestALookIsUndoneAfterASignal(t *testing.T) {
	const left = "\x1b[?25l\x1b[4h\x1b(0\x1b]9;4;1;50\x07\x1b[1;31mtext"
	for end, undo := range map[string]string{
		"exit 1":        "\x1b[?25h",
		"kill -TERM $$": "\x1b[?25h\x1b[4l\x1b(B\x1b]9;4;0\x1b\\\x1b[0m",
	} {
		d := newDesk(t)
		term := d.terminal(t)
		run(t, sh(`printf '\033[?25l\033[4h\033(0\033]9;4;1;50\007\033[1;31mtext'; `+end), term)
		term.Close()
		eventually(t, "the undo was seen", func() bool { return len(d.text()) >= len(left+undo) })
		require.Equal(t, left+undo, d.text(), end)
	}
}

func TestTheLastSizeWins(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	c := begin(t, as("size"), term, &recorder{})
	d.key(t, "?\r")
	eventually(t, "the size at the start", func() bool { return strings.Contains(d.text(), "size 33 99") })
	for i := 1; i <= 1000; i++ {
		require.NoError(t, pty.Setsize(d.master, &pty.Winsize{Rows: uint16(i), Cols: uint16(2 * i)}))
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	}
	eventually(t, "the pty has the last size", func() bool {
		ws, err := unix.IoctlGetWinsize(fdOf(c.ptmx), unix.TIOCGWINSZ)
		return err == nil && ws.Row == 1000 && ws.Col == 2000
	})
	d.key(t, "?\r")
	eventually(t, "the child has the last size", func() bool { return strings.Contains(d.text(), "size 1000 2000") })
	require.NoError(t, pty.Setsize(d.master, &pty.Winsize{}))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	eventually(t, "no size is a size", func() bool {
		ws, err := unix.IoctlGetWinsize(fdOf(c.ptmx), unix.TIOCGWINSZ)
		return err == nil && ws.Row == 0 && ws.Col == 0
	})
	d.key(t, "end\r")
	if exit := c.Wait(); exit != (Exit{}) {
		t.Errorf("%+v", exit)
	}
}

func TestNotFoundAndNotExecutable(t *testing.T) {
	dir := t.TempDir()
	plain, script, broken := filepath.Join(dir, "plain"), filepath.Join(dir, "script"), filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(script, []byte("exit 3"), 0o700))
	require.NoError(t, os.WriteFile(broken, []byte("\x7fELF broken"), 0o700))
	foreign := filepath.Join(dir, "foreign")
	require.NoError(t, os.WriteFile(foreign, []byte("\x7fELF\x00\x00\nexit 3"), 0o700))
	for _, c := range []struct {
		name string
		spec Spec
		code int
	}{
		{"no such name", Spec{Argv: []string{"no-such-program-here"}}, 127},
		{"no such path", Spec{Argv: []string{dir + "/nothing"}}, 127},
		{"the empty name", Spec{Argv: []string{""}}, 127},
		{"not executable", Spec{Argv: []string{plain}}, 126},
		{"not executable, in PATH", Spec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, 126},
		{"a folder", Spec{Argv: []string{dir}}, 126},
		{"a program for no machine", Spec{Argv: []string{foreign}}, 126},
		{"no program", Spec{}, 125},
		{"no such folder", Spec{Argv: []string{"true"}, Dir: dir + "/nowhere"}, 125},
		{"a NUL", Spec{Argv: []string{"true", "a\x00b"}}, 125},
		{"no guard", Spec{Argv: []string{"true"}, Guard: []string{dir + "/nothing"}}, 125},
		{"an invalid guard", Spec{Argv: []string{"true"}, Guard: []string{"/bin/true"}}, 125},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			before := d.attrs(t)
			term := d.terminal(t)
			_, err := Start(c.spec, term, &recorder{})
			var start *StartError
			if !errors.As(err, &start) || start.Code != c.code {
				t.Fatalf("got %v, want code %d", err, c.code)
			}
			if after := d.attrs(t); !sameTermios(&after, &before) {
				t.Errorf("the terminal was left changed")
			}
			// After the failed start, another child can run on the same terminal.
			exit, _ := run(t, Spec{Argv: []string{script}}, term)
			if exit.Code != 3 {
				t.Errorf("a script without an interpreter line: %+v", exit)
			}
			if got := d.text(); got != "" {
				t.Errorf("something was written: %q", got)
			}
		})
	}
}

func TestPathOfTheChildIsSearched(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hello"), []byte("#!/bin/sh\necho \"$0 $A $(pwd)\"\n"), 0o700))
	term, stdout, _ := onFiles(t, Never, nil)
	exit, _ := run(t, Spec{Argv: []string{"hello"}, Dir: dir, Env: []string{"PATH=.:/bin:/usr/bin", "A=b\xffc"}}, term)
	require.Equal(t, Exit{}, exit)
	if got, want := string(stdout()), "./hello b\xffc "+dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The harness ignores the signals that the wrapper ignored at its start, even if the
// wrapper calls signal.Notify for them right after OpenTerminal. With one processor no
// other goroutine runs between these two calls. The test program has no symbol table, so
// the wrapper cannot find the ignored signals after signal.Notify.
func TestNotifyAfterOpenTerminal(t *testing.T) {
	spec := as("notified")
	cmd := exec.Command("env", append([]string{"--ignore-signal=INT"}, spec.Argv...)...)
	cmd.Env = append(spec.Env, "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var ignored sigset
	_, err = fmt.Sscanf(string(out), "SigIgn: %x", &ignored)
	require.NoError(t, err, "%s", out)
	require.True(t, ignored.has(syscall.SIGINT), "%s", out)
}

// A background process that ignores signals and holds the terminal is killed. It
// neither delays the exit nor causes the loss of the last output.
func TestLingeringChild(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Always, Never} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			term, stdout, _ := onFiles(t, mode, nil)
			pidFile := filepath.Join(t.TempDir(), "pid")
			spec := sh(`(trap '' HUP TERM; echo $$ >/dev/null; exec sleep 300) & echo $! >` + pidFile + `; stty raw 2>/dev/null; head -c 1048576 /dev/zero; echo end`)
			c := begin(t, spec, term, &recorder{})
			// The harness exits first, before its background process ends.
			eventually(t, "the harness has ended", func() bool { return !living(c.PID()) })
			// The background process still ran when the exit was known.
			if exit := c.Wait(); exit != (Exit{Leftover: 1}) {
				t.Errorf("got %+v", exit)
			}
			if got := len(stdout()); got != 1048576+4 {
				t.Errorf("%d of %d bytes arrived", got, 1048576+4)
			}
			raw, err := os.ReadFile(pidFile)
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			require.NoError(t, err)
			select {
			case <-c.guardEmpty(t):
			case <-time.After(patience):
				t.Fatal("the tree does not end")
			}
			if living(pid) {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

// guardEmpty dismisses the guard, which ends when the tree has ended. The returned
// channel is closed when the guard has ended.
func (c *Child) guardEmpty(t *testing.T) <-chan struct{} {
	t.Helper()
	c.terminal.Close()
	return c.over
}

func TestABurstIsDrained(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Always, Never} {
		for range 10 {
			term, stdout, _ := onFiles(t, mode, nil)
			c := begin(t, sh(`stty raw 2>/dev/null; head -c 262144 /dev/zero`), term, &recorder{})
			c.Wait()
			if got := len(stdout()); got != 262144 {
				t.Fatalf("%s: %d of 262144 bytes", mode, got)
			}
			term.Close()
		}
	}
}

func TestOrphansInTheirOwnSessionEnd(t *testing.T) {
	t.Parallel()
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`(setsid sh -c 'echo $$; sleep 300 & exec sleep 300' &); sleep 0.2`), term, &recorder{})
	exit := c.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(string(stdout())))
	require.NoError(t, err)
	if exit.Leftover != 2 {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "the orphan has ended", func() bool { return !living(pid) })
}

// A command that runs clients without a harness ends the processes that its clients
// leave behind. The command does not end the children that it had at its start.
func TestAdoptedOrphansEnd(t *testing.T) {
	t.Parallel()
	spec := as("adopter")
	cmd := exec.Command("sh", "-c", `sleep 300 >/dev/null 2>&1 & exec "$0" $!`, spec.Argv[0])
	cmd.Env = spec.Env
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "orphan true before true\norphan false before true children 1\n", string(out))
}

// A child that a client starts as its sibling, with CLONE_PARENT, ends with the orphans. It
// belongs to the thread of the wrapper that started the client.
func TestSiblingsOfClientsEnd(t *testing.T) {
	t.Parallel()
	spec := as("sibling")
	cmd := exec.Command(spec.Argv[0])
	cmd.Env = spec.Env
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "sibling true\nsibling false\n", string(out))
}

func TestKillTree(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	// One process is in the harness's group, one in another session. The third one is
	// in another session too, and its parent has ended, so that nothing links it to
	// the harness any more.
	c := begin(t, sh(`trap '' TERM; setsid sh -c "trap '' TERM; sleep 300; true" & (setsid sh -c "trap '' TERM; echo \$\$; sleep 300; true" &) ; sleep 300; true`), term, &recorder{})
	eventually(t, "the orphan runs", func() bool { return bytes.HasSuffix(stdout(), []byte("\n")) })
	orphan, err := strconv.Atoi(strings.TrimSpace(string(stdout())))
	require.NoError(t, err)
	eventually(t, "three shells, each with its sleep, run", func() bool {
		sleeping := 0
		for _, pid := range treeOf(c.guard.pid) {
			if readName(pid) == "sleep" {
				sleeping++
			}
		}
		return sleeping == 3 && len(treeOf(c.guard.pid)) == 6
	})
	tree := treeOf(c.guard.pid)
	require.Contains(t, tree, orphan)
	require.NoError(t, c.KillTree())
	exit := c.Wait()
	if exit.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", exit)
	}
	<-c.Gone()
	for _, pid := range tree {
		if living(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	var named []int
	for _, p := range c.Killed().Processes {
		named = append(named, p.PID)
		require.Contains(t, []string{"sh", "dash", "bash", "sleep"}, p.Name)
	}
	require.ElementsMatch(t, tree, named)
	require.Zero(t, c.Killed().More)
	term.Close()
	<-c.over
}

// startWrapper starts a wrapper on a desk, in a session of its own.
func startWrapper(t *testing.T, d *desk, env []string, extra []*os.File, part string, args ...string) (cmd *exec.Cmd, reports func() map[string][]int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	spec := as(part, args...)
	cmd = exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env = append(append(spec.Env, "REPORT="+file), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.slave, d.slave, d.slave
	cmd.ExtraFiles = extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			killAll(descendants(allProcs(), cmd.Process.Pid, nil))
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd, func() map[string][]int {
		raw, _ := os.ReadFile(file)
		found := make(map[string][]int)
		for line := range strings.SplitSeq(string(raw), "\n") {
			var what string
			var n int
			if _, err := fmt.Sscan(line, &what, &n); err == nil {
				found[what] = append(found[what], n)
			}
		}
		return found
	}
}

// The wrapper is killed. No process of the harness may be left, and the
// terminal must be restored.
func TestTheWrapperIsKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.attrs(t)
	cmd, reports := startWrapper(t, d, []string{"OWN=yes"}, nil, "wrapper", "messy")
	eventually(t, "the mess is made", func() bool { return strings.Contains(d.text(), "mess") && len(reports()["own"]) == 1 })
	if now := d.attrs(t); now.Lflag&unix.ICANON != 0 {
		t.Errorf("the outer terminal is not raw: %+v", now)
	}
	var pids []int
	eventually(t, "the harness, its three children and an orphan run", func() bool {
		pids = treeOf(reports()["guard"][0])
		return len(pids) == 5
	})
	own := reports()["own"][0]
	pids = append(append(pids, reports()["guard"][0], own), treeOf(own)...)
	require.NoError(t, cmd.Process.Kill())
	killed := time.Now()
	cmd.Wait()
	d.shows(t, "\x1b[?2004l\x1b[?25h\x1b[<1u\x1b[?1049l\x1b]112\x1b\\\x1b[0m")
	t.Logf("modes undone after %v", time.Since(killed))
	eventually(t, "nothing is left", func() bool {
		for _, pid := range pids {
			if living(pid) {
				return false
			}
		}
		return true
	})
	t.Logf("all gone after %v", time.Since(killed))
	if after := d.attrs(t); !sameTermios(&after, &before) {
		t.Errorf("terminal attributes were %+v and are %+v", before, after)
	}
	if got := strings.Count(d.text(), "\x1b[?1049l"); got != 1 {
		t.Errorf("undone %d times: %q", got, d.text())
	}
}

// treeOf returns the living descendants of a process.
func treeOf(root int) []int {
	var pids []int
	for _, p := range alive(descendants(allProcs(), root, nil)) {
		pids = append(pids, p.pid)
	}
	return pids
}

func TestTheGuardIsKilled(t *testing.T) {
	d := newDesk(t)
	before := d.attrs(t)
	term := d.terminal(t)
	t.Setenv("REPORT", filepath.Join(t.TempDir(), "report"))
	c := begin(t, as("messy"), term, &recorder{})
	eventually(t, "the mess is made", func() bool { return strings.Contains(d.text(), "mess") })
	pids := treeOf(c.guard.pid)
	// Other children of the wrapper continue to run.
	other := exec.Command("sleep", "300")
	require.NoError(t, other.Start())
	group := exec.Command("sleep", "300")
	group.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, group.Start())
	term.Own(group.Process.Pid)
	defer func() {
		for _, cmd := range []*exec.Cmd{other, group} {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	require.NoError(t, unix.Kill(c.guard.pid, unix.SIGKILL))
	exit := c.Wait()
	if !exit.GuardLost || exit.Signal != syscall.SIGKILL || exit.Leftover == 0 {
		t.Errorf("got %+v", exit)
	}
	for _, pid := range pids {
		if _, err := readProc(pid); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	if !living(other.Process.Pid) || !living(group.Process.Pid) {
		t.Error("others were ended too")
	}
	term.Close()
	if after := d.attrs(t); !sameTermios(&after, &before) {
		t.Errorf("terminal attributes were %+v and are %+v", before, after)
	}
	d.shows(t, "\x1b[?2004l\x1b[?25h\x1b[<1u\x1b[?1049l\x1b]112\x1b\\\x1b[0m")
}

// Ctrl-Z in a harness, under a shell with job control: the wrapper stops with the
// terminal restored, and fg continues both.
func TestStopAndContinue(t *testing.T) {
	d := newDesk(t)
	before := d.attrs(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	cmd, reports := startWrapper(t, d, nil, []*os.File{r}, "shell", "stopper")
	r.Close()
	d.shows(t, "ready")
	for round := 1; round <= 2; round++ {
		d.key(t, "z")
		eventually(t, "the wrapper stopped", func() bool { return len(reports()["stopped"]) == round })
		// The harness has written everything, but the wrapper may not have read all
		// of it yet.
		eventually(t, "the modes are undone", func() bool {
			return strings.Count(d.text(), "going") == round && strings.HasSuffix(d.text(), "going\x1b[?2004l")
		})
		if now := d.attrs(t); !sameTermios(&now, &before) {
			t.Errorf("the shell found %+v, not %+v", now, before)
		}
		_, err = w.WriteString("fg\n")
		require.NoError(t, err)
		d.shows(t, "\x1b[?2004hback")
		if now := d.attrs(t); now.Lflag&unix.ICANON != 0 {
			t.Errorf("not raw again: %+v", now)
		}
	}
	d.key(t, "q")
	require.NoError(t, cmd.Wait())
	if got := reports()["exit"]; len(got) != 1 || got[0] != 5 {
		t.Errorf("exit %v", got)
	}
	if now := d.attrs(t); !sameTermios(&now, &before) {
		t.Errorf("left %+v, not %+v", now, before)
	}
}

// After a SIGTSTP and a SIGCONT, both harness and wrapper run, however short or long the
// time between the two signals is.
func TestContinuedWhileItStops(t *testing.T) {
	d := newDesk(t)
	cmd, reports := startWrapper(t, d, []string{"BLIND=yes"}, nil, "shell", "pulse")
	d.shows(t, ".")
	wrapper := reports()["job"][0]
	for round := 1; round <= 60; round++ {
		require.NoError(t, syscall.Kill(wrapper, syscall.SIGTSTP))
		time.Sleep(time.Duration(round%20) * time.Millisecond / 2)
		require.NoError(t, syscall.Kill(wrapper, syscall.SIGCONT))
		d.key(t, "\r")
		eventually(t, "the harness and the wrapper run", func() bool { return strings.Count(d.text(), ".") == round+1 })
	}
	d.key(t, "\x04")
	require.NoError(t, ends(t, cmd))
}

// ends waits for the end of a program, but not without limit.
func ends(t *testing.T, cmd *exec.Cmd) (err error) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	select {
	case <-ended:
		return err
	case <-time.After(patience):
		killAll(descendants(allProcs(), cmd.Process.Pid, nil))
		cmd.Process.Kill()
		<-ended
		t.Fatalf("the program did not end in %v", patience)
		return err
	}
}

// Without job control nothing else would continue a harness that a key has stopped, so
// the wrapper continues it.
func TestWithoutAShellTheHarnessIsContinued(t *testing.T) {
	d := newDesk(t)
	cmd, _ := startWrapper(t, d, nil, nil, "wrapper", "stopper")
	d.shows(t, "ready")
	d.key(t, "z")
	d.shows(t, "goingback")
	d.key(t, "q")
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("got %v", err)
	}
}

func TestAPauseIsNotAStop(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	e := &recorder{}
	c := begin(t, as("stopper"), term, e)
	d.shows(t, "ready")
	require.NoError(t, c.Signal(syscall.SIGSTOP))
	eventually(t, "the stop is reported", func() bool { return len(e.snapshot().stops) == 1 })
	require.NoError(t, c.Signal(syscall.SIGCONT))
	eventually(t, "the continuation is reported", func() bool { return e.snapshot().conts == 1 })
	d.key(t, "q")
	exit := c.Wait()
	if exit.Code != 5 {
		t.Errorf("got %+v", exit)
	}
	if got := e.snapshot().stops[0]; got != syscall.SIGSTOP {
		t.Errorf("stopped by %v", got)
	}
	if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestPipesAreIdentical(t *testing.T) {
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	in := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(in, want, 0o600))
	for name, open := range map[string]func() *os.File{
		"file": func() *os.File {
			f, err := os.Open(in)
			require.NoError(t, err)
			return f
		},
		"pipe": func() *os.File {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			go func() {
				io.Copy(w, bytes.NewReader(want))
				w.Close()
			}()
			r.Fd() // make the pipe blocking again, as a shell's pipe is
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdin := open()
			defer stdin.Close()
			term, stdout, _ := onFiles(t, Auto, stdin)
			exit, _ := run(t, sh("cat; exit 4"), term)
			if exit.Code != 4 {
				t.Errorf("got %+v", exit)
			}
			if !bytes.Equal(stdout(), want) {
				t.Errorf("%d bytes became %d", len(want), len(stdout()))
			}
		})
	}
}

// A stdin that is a pipe is given to the child itself, and the user can still type.
func TestKeysAndAPipe(t *testing.T) {
	d := newDesk(t)
	before := d.attrs(t)
	cmd, _ := startWrapper(t, d, nil, nil, "piped")
	d.shows(t, "ready\r\n")
	d.key(t, "two\r")
	err := cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	d.shows(t, "ready\r\ntwo\r\ngot one two\r\n")
	require.Equal(t, before, d.attrs(t))
}

// In a shared terminal, the keys that the wrapper read but the child did not read are put
// back, unless the terminal cannot hold them together with the keys that still wait in it.
// The next program reads the returned keys first, and then the keys that still wait. It
// reads all of them line by line, as they were typed.
func TestKeysAreReturnedInOrder(t *testing.T) {
	if value, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); err == nil && string(value) != "1\n" && !mayType(fdOf(newDesk(t).slave)) {
		t.Skip("this system lets no program without CAP_SYS_ADMIN put keys back into a terminal")
	}
	full := slices.Repeat([]string{strings.Repeat("x", 90) + "\n"}, 44)
	full = append(full, strings.Repeat("y", 88)+"\n") // with the child's line, 4097 bytes
	for name, c := range map[string]struct {
		waiting string   // waits in the terminal while the child does not read its first line
		next    string   // typed after the child's end
		lost    bool     // the child's first line is lost, because not all keys fit into the terminal
		want    []string // what the next program reads after the child's first line
	}{
		"many lines wait":  {waiting: strings.Join(full[:44], ""), want: full[:44]},
		"too many wait":    {waiting: strings.Join(full, ""), lost: true, want: full},
		"nothing waits":    {},
		"a line waits":     {waiting: "two\n", want: []string{"two\n"}},
		"two lines wait":   {waiting: "two\nthree\n", want: []string{"two\n", "three\n"}},
		"a line was begun": {waiting: "two\nthrex", next: "\x7fe\n", want: []string{"two\n", "three\n"}},
		"the file ends":    {waiting: "two\n\x04", next: "three\n", want: []string{"two\n", "", "three\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			before := d.attrs(t)
			cmd, reports := startWrapper(t, d, nil, nil, "ahead")
			d.key(t, "one\n")
			eventually(t, "the line waits for the child", func() bool { return len(reports()["harness"]) == 1 })
			d.key(t, c.waiting)
			shown := "one\r\n" + strings.ReplaceAll(strings.TrimSuffix(c.waiting, "\x04"), "\n", "\r\n")
			d.shows(t, shown)
			require.NoError(t, syscall.Kill(reports()["harness"][0], syscall.SIGKILL))
			require.Error(t, ends(t, cmd))
			require.Equal(t, before, d.attrs(t))
			require.Equal(t, shown, d.text())
			d.key(t, c.next)
			want, got := c.want, []string(nil)
			if !c.lost {
				want = append([]string{"one\n"}, want...)
			}
			for range want {
				got = append(got, d.line(t))
			}
			require.Equal(t, want, got)
		})
	}
}

// Input that the child does not read from stdin stays there for the next
// program.
func TestStdinIsNotReadAhead(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(in, []byte("one\ntwo\nthree\n"), 0o600))
	stdin, err := os.Open(in)
	require.NoError(t, err)
	defer stdin.Close()
	for _, want := range []string{"one\n", "two\n"} {
		term, stdout, _ := onFiles(t, Auto, stdin)
		run(t, sh("read -r line; echo $line"), term)
		if got := string(stdout()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A full disk is reported, because the child does not get the error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	term, err := OpenTerminal(null, full, null, Auto)
	require.NoError(t, err)
	defer term.Close()
	exit, _ := run(t, sh("echo hi"), term)
	require.ErrorIs(t, exit.OutputLost, unix.ENOSPC)
	require.Zero(t, exit.Code)
}

// If the disk is full while the pump drains the last output, the error ends the pump.
func TestLastOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	ours, theirs, err := os.Pipe()
	require.NoError(t, err)
	_, err = theirs.WriteString("hi")
	require.NoError(t, err)
	c := &Child{}
	c.addSource(ours, full, nil)
	s := c.sources[0]
	require.NoError(t, ours.SetReadDeadline(time.Unix(1, 0))) // a deadline in the past makes the pump drain the pipe, as after the child's end
	done := make(chan struct{})
	go func() { c.pump(s); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the pump does not end")
	}
	require.ErrorIs(t, *c.lost.Load(), unix.ENOSPC)
	_, err = theirs.WriteString("again")
	require.ErrorIs(t, err, unix.EPIPE, "the next write of the child fails")
	require.NoError(t, theirs.Close())
}

func TestOrderOfOneStream(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	term, err := OpenTerminal(null, file, file, Auto)
	require.NoError(t, err)
	run(t, sh(`for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done`), term)
	got, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	want := "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n6\n6\n7\n7\n8\n8\n9\n9\n"
	if string(got) != want {
		t.Errorf("got %q", got)
	}
}

func TestEachFileSeparately(t *testing.T) {
	for _, c := range []struct {
		name          string
		mode          Mode
		in, out, errs bool // which of the wrapper's own files are terminals
		want          string
		seen, file    string
	}{
		{"all", Auto, true, true, true, "true true true ", "out\r\nerr\r\n", ""},
		{"output to a file", Auto, true, false, true, "true false true ", "err\r\n", "out\n"},
		{"input from a file", Auto, false, true, true, "false true true ", "out\r\nerr\r\n", ""},
		{"errors to a file", Auto, true, true, false, "true true false ", "out\r\n", "err\n"},
		{"only input", Auto, true, false, false, "true false false ", "", "out\nerr\n"},
		{"only errors", Auto, false, false, true, "false false false ", "err\r\n", "out\n"},
		{"never", Never, true, true, true, "false false false ", "out\r\nerr\r\n", ""},
		{"always", Always, false, false, false, "true true true ", "", "out\r\nerr\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			dir := t.TempDir()
			file, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE, 0o600)
			require.NoError(t, err)
			defer file.Close()
			empty, err := os.Open(os.DevNull)
			require.NoError(t, err)
			defer empty.Close()
			pick := func(tty bool, otherwise *os.File) *os.File {
				if tty {
					return d.slave
				}
				return otherwise
			}
			term, err := OpenTerminal(pick(c.in, empty), pick(c.out, file), pick(c.errs, file), c.mode)
			require.NoError(t, err)
			if got := term.Pty(); got != (c.mode == Always || c.mode == Auto && (c.in || c.out)) {
				t.Errorf("pty: %v", got)
			}
			exit, _ := run(t, as("ttys", dir+"/ttys"), term)
			require.Equal(t, Exit{}, exit)
			term.Close()
			if got, _ := os.ReadFile(dir + "/ttys"); string(got) != c.want {
				t.Errorf("terminals: got %q, want %q", got, c.want)
			}
			eventually(t, "the terminal shows "+c.seen, func() bool {
				// The outputs of two streams to one terminal may come in either order.
				return len(d.text()) == len(c.seen)
			})
			if got, _ := os.ReadFile(file.Name()); string(got) != c.file {
				t.Errorf("file: got %q, want %q", got, c.file)
			}
		})
	}
}

func TestTheReaderHasClosed(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	term, err := OpenTerminal(null, w, null, Auto)
	require.NoError(t, err)
	r.Close()
	exit, _ := run(t, Spec{Argv: []string{"yes"}}, term)
	if exit.Signal != syscall.SIGPIPE {
		t.Errorf("got %+v", exit)
	}
}

// Keys that are typed while no child runs reach the next child.
func TestKeysBetweenChildren(t *testing.T) {
	d := newDesk(t)
	attrs := d.attrs(t)
	attrs.Lflag &^= unix.ECHO // disable echo, as in a child's new pty
	require.NoError(t, setTermios(d.slave, &attrs))
	term := d.terminal(t)
	for i := range 3 {
		c := begin(t, sh(`stty raw -echo; printf ready; head -c 1 >/dev/null; printf 'got%s' "$(head -c 2)"`), term, &recorder{})
		if i == 0 {
			d.key(t, "a")
		}
		d.key(t, fmt.Sprintf("b%d", i))
		d.shows(t, fmt.Sprintf("gotb%d", i))
		exit := c.Wait()
		if exit.Code != 0 {
			t.Errorf("got %+v", exit)
		}
		d.key(t, "n")
	}
	if got, want := d.text(), "readygotb0readygotb1readygotb2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyOneChildAtATime(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	c := begin(t, sh("sleep 300"), term, &recorder{})
	_, err := Start(sh("true"), term, &recorder{})
	var start *StartError
	if !errors.As(err, &start) || start.Code != 125 {
		t.Errorf("got %v", err)
	}
	require.NoError(t, c.Signal(syscall.SIGTERM))
	if exit := c.Wait(); exit.Signal != syscall.SIGTERM {
		t.Errorf("got %+v", exit)
	}
}

func TestCloseEndsAChild(t *testing.T) {
	term, _, _ := onFiles(t, Always, nil)
	c := begin(t, sh("trap '' HUP; sleep 300"), term, &recorder{})
	term.Close()
	exit := c.Wait()
	<-c.over
	if exit.Signal == 0 && exit.Code == 0 {
		t.Errorf("got %+v", exit)
	}
	if _, err := Start(sh("true"), term, &recorder{}); err == nil {
		t.Error("started on a closed terminal")
	}
}

func TestTextsReachTheSink(t *testing.T) {
	term, _, _ := onFiles(t, Always, nil)
	spec := sh(`printf 'a\033]7501;state=idle\007b\033]0;title\007'; printf '\033]7501;state=working\033\\'`)
	spec.OSC = []int{7501}
	_, e := run(t, spec, term)
	if got, want := strings.Join(e.snapshot().texts, " "), "7501:state=idle 7501:state=working"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A slow sink gets the newest texts: an outdated state may be lost, the current
// one may not.
func TestTheNewestTextsAreQueued(t *testing.T) {
	c := &Child{}
	for i := range 3 * maxTexts {
		c.queueTexts([]oscText{{0, strconv.Itoa(i)}})
	}
	if n := len(c.texts); n > maxTexts {
		t.Errorf("%d texts wait", n)
	}
	if got, want := c.texts[len(c.texts)-1].text, strconv.Itoa(3*maxTexts-1); got != want {
		t.Errorf("the last is %q, want %q", got, want)
	}
}

func TestTheFirstByteIsReportedAtOnce(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	e := &recorder{}
	began := time.Now()
	c := begin(t, as("pulse"), term, e)
	eventually(t, "the first byte is reported", func() bool { return len(e.snapshot().totals) == 1 })
	for range 50 {
		d.key(t, "x\n")
	}
	d.key(t, "\x04")
	c.Wait()
	if got, limit := len(e.snapshot().totals), 3+int(time.Since(began)/time.Second); got > limit {
		t.Errorf("Output was called %d times, want at most %d", got, limit)
	}
}

func TestPrepareStartsTheGuard(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	require.NoError(t, term.Prepare(nil))
	warm := term.warm
	c := begin(t, sh("exit 0"), term, &recorder{})
	if c.guard != warm {
		t.Error("the guard that waited was not taken")
	}
	c.Wait()
}

func TestStat(t *testing.T) {
	self, err := readProc(os.Getpid())
	require.NoError(t, err)
	if self.ppid != os.Getppid() || self.pgrp != unix.Getpgrp() || self.start == 0 {
		t.Errorf("got %+v", self)
	}
	got, err := parseStat(7, []byte("7 (a) b (c)) S 1 2 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 99 0"))
	require.NoError(t, err)
	if want := (proc{pid: 7, ppid: 1, pgrp: 2, session: 3, state: 'S', threads: 1, start: 99}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "7 (x", "7 (x) S 1", "7 (x) S a 2 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 99 0"} {
		if _, err := parseStat(7, []byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// A pid that now belongs to another process is not signalled.
func TestOwnedIsChecked(t *testing.T) {
	o := owned{pid: 10, pgrp: 10, session: 5, start: 100}
	member := proc{pid: 11, pgrp: 10, session: 5, start: 120}
	for _, c := range []struct {
		name  string
		procs []proc
		want  int
	}{
		{"leader and member", []proc{{pid: 10, pgrp: 10, session: 5, start: 100}, member}, 2},
		{"the leader has ended", []proc{member}, 1},
		{"the number is used again", []proc{member, {pid: 10, pgrp: 10, session: 5, start: 500}}, 0},
		{"another session", []proc{{pid: 11, pgrp: 10, session: 6, start: 120}}, 0},
		{"older than the group", []proc{{pid: 11, pgrp: 10, session: 5, start: 90}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := len(o.members(c.procs)); got != c.want {
				t.Errorf("%d processes, want %d", got, c.want)
			}
		})
	}
	alone := owned{pid: 10, pgrp: 3, session: 5, start: 100}
	if got := alone.members([]proc{{pid: 10, pgrp: 3, session: 5, start: 100}, {pid: 3, pgrp: 3, session: 5, start: 200}}); len(got) != 1 {
		t.Errorf("the wrapper's own group would be ended: %+v", got)
	}
}

func TestAReusedPidIsNotSignalled(t *testing.T) {
	self, err := readProc(os.Getpid())
	require.NoError(t, err)
	self.start++
	if err := self.kill(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("got %v", err)
	}
}

func TestPage(t *testing.T) {
	p, file, err := newPage()
	require.NoError(t, err)
	defer file.Close()
	other, err := mapPage(fdOf(file))
	require.NoError(t, err)
	if got := other.get(); got.guard != 0 || got.modes != "" || got.hasAttrs {
		t.Errorf("a new page contains %+v", got)
	}
	for i := range 5 {
		want := word{guard: uint32(i), modes: strings.Repeat("m", i), hasAttrs: i%2 == 1, saved: unix.Termios{Lflag: uint32(i)}, ours: unix.Termios{Iflag: uint32(i)}}
		p.put(want)
		if got := other.get(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	p.unmap()
	other.unmap()
}

func TestLaunchDescription(t *testing.T) {
	want := launch{path: "/bin/x", dir: "", argv: []string{"x", "", "a\xff\n"}, env: []string{"A=b", "C="}, terminalFD: -1, ignored: setOf(syscall.SIGHUP)}
	f, err := want.file()
	require.NoError(t, err)
	defer f.Close()
	got, err := readLaunch(f)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, bad := range []string{"", "x", "\x00", "p\x00d\x00-1\x001\x009\x00a\x00", "p\x00d\x00-1\x00maybe\x001\x00a\x00"} {
		if _, err := parseLaunch([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestRuns(t *testing.T) {
	me, err := readProc(os.Getpid())
	require.NoError(t, err)
	require.True(t, Runs(me.pid, me.start))
	require.True(t, Runs(me.pid, 0), "any of that number")
	require.False(t, Runs(me.pid, me.start+1), "another one had the number")
	child := exec.Command("true")
	require.NoError(t, child.Start())
	pid := child.Process.Pid
	for end := time.Now().Add(patience); Runs(pid, 0); time.Sleep(time.Millisecond) { // wait until the process has ended and waits to be reaped
		require.True(t, time.Now().Before(end))
	}
	require.NoError(t, child.Wait())
	require.False(t, Runs(pid, 0))
}

// A death by SIGINT is the user's choice if the interrupt key was typed shortly
// before, and the program's own otherwise.
func TestTheInterruptKeyIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		script, keys string
		want         bool
	}{
		"by the terminal":            {`printf ready; exec sleep 300`, "\x03", true},
		"by a program that reads it": {`stty raw; printf ready; head -c 1 >/dev/null; stty sane; kill -INT $$`, "\x03", true},
		"another interrupt key":      {`stty intr X; printf ready; exec sleep 300`, "X", true},
		"by itself":                  {`printf ready; read -r line; kill -INT $$`, "x\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			child := begin(t, sh(c.script), d.terminal(t), &recorder{})
			d.shows(t, "ready")
			d.key(t, c.keys)
			exit := child.Wait()
			require.Equal(t, syscall.SIGINT, exit.Signal)
			require.Equal(t, c.want, exit.Interrupted)
		})
	}
}

// The grace period of Stop is for the whole tree. A process that outlives the harness
// and cleans up within the grace period is not killed, and gets no second SIGTERM.
func TestGraceIsForTheWholeTree(t *testing.T) {
	for name, start := range map[string]string{"in the harness's group": "", "in a session of its own": "setsid "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			term, stdout, _ := onFiles(t, Never, nil)
			// What the process writes while it cleans up reaches the user.
			spec := sh(start + `sh -c 'trap "echo cleaning; sleep 1 && echo clean >clean; echo done; exit" TERM; echo >ready; while :; do sleep 0.05; done' 2>/dev/null & wait`)
			spec.Dir = dir
			c := begin(t, spec, term, &recorder{})
			there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
			eventually(t, "the other process is ready", func() bool { return there("ready") })
			require.NoError(t, c.Stop(unix.SIGTERM, time.Minute))
			require.Equal(t, unix.SIGTERM, c.Wait().Signal)
			<-c.Gone()
			require.True(t, there("clean"))
			require.Empty(t, c.Killed())
			require.Equal(t, "cleaning\ndone\n", string(stdout()))
		})
	}
}

// If the harness ignores SIGTERM, processes in other groups get it after half of the
// grace period, or at once if another signal came first. Each of these processes gets
// SIGTERM only once, even if the harness ends while the process cleans up.
func TestOtherGroupsGetTermBeforeKill(t *testing.T) {
	for name, first := range map[string]unix.Signal{"TERM": unix.SIGTERM, "INT, then TERM": unix.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			term, _, _ := onFiles(t, Never, nil)
			spec := sh(`setsid sh -c 'trap "echo >begun; sleep 1 && echo clean >clean; exit" TERM; echo >ready; while :; do sleep 0.05; done' 2>/dev/null &
				trap '' TERM INT; echo >ignoring; while [ ! -e begun ]; do sleep 0.05; done`)
			spec.Dir = dir
			c := begin(t, spec, term, &recorder{})
			there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
			eventually(t, "both are ready", func() bool { return there("ready") && there("ignoring") })
			since, grace := time.Now(), time.Minute
			if first == unix.SIGTERM {
				grace = 3 * time.Second
			}
			require.NoError(t, c.Stop(first, grace))
			if first != unix.SIGTERM {
				require.NoError(t, c.Stop(unix.SIGTERM, grace))
			}
			require.Zero(t, c.Wait().Code)
			if first == unix.SIGTERM {
				require.GreaterOrEqual(t, time.Since(since), grace/2)
			}
			<-c.Gone()
			require.True(t, there("clean"))
		})
	}
}

// If many processes outlive the harness and ignore SIGTERM, the first ones are named
// and the others are counted.
func TestKilledProcessesAreNamed(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34; do sleep 300 & done; echo ready`), term, &recorder{})
	require.Equal(t, 34, c.Wait().Leftover, "%s", stdout())
	<-c.Gone()
	killed := c.Killed()
	require.Len(t, killed.Processes, maxKilled)
	require.Equal(t, KilledProcess{PID: killed.Processes[0].PID, Name: "sleep"}, killed.Processes[0])
	require.Equal(t, 2, killed.More)
}

// A process chooses its own name, so unprintable characters are replaced.
func TestNamesOfProcesses(t *testing.T) {
	first, second := nameWords("fifteen letters")
	require.Equal(t, "fifteen letters", nameOf(first, second))
	dir := t.TempDir()
	odd := filepath.Join(dir, "a\x1b\nb")
	require.NoError(t, os.Symlink("/bin/sleep", odd))
	cmd := exec.Command(odd, "300")
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	require.Equal(t, "a??b", readName(cmd.Process.Pid))
}
