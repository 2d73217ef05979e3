//go:build linux

package harness

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// These tests run one child after another in one terminal, like a wrapper that retries.

func init() { parts["between"] = between }

// between is a wrapper whose first child has ended and whose second one was not
// started yet; its arguments are: between WHAT. It reports that it is ready and
// waits to be killed.
func between() int {
	term, err := OpenTerminal(os.Stdin, os.Stdout, os.Stderr, Auto)
	if err != nil {
		return 125
	}
	c, err := Start(sh(`printf '\033[?1049hmess'; exit 3`), term, &recorder{})
	if err != nil {
		return 125
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 300 & wait"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return 125
	}
	term.Own(p.Pid)
	report("own", p.Pid)
	c.Wait()
	switch os.Args[1] {
	case "its terminal is given back":
		term.Restore()
	case "the next one cannot be started":
		term.Restore()
		if _, err := Start(Spec{Argv: []string{"/dev/null"}}, term, &recorder{}); err == nil {
			return 125
		}
	}
	report("ready", 1)
	for {
		time.Sleep(time.Hour)
	}
}

// The wrapper is killed while no child runs: the terminal is restored, and the
// processes that the wrapper had started for itself end.
func TestTheWrapperIsKilledBetweenChildren(t *testing.T) {
	for _, what := range []string{"its terminal is not given back yet", "its terminal is given back", "the next one cannot be started"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			before := d.attrs(t)
			cmd, reports := startWrapper(t, d, nil, nil, "between", what)
			eventually(t, "the first child has ended", func() bool { return len(reports()["ready"]) == 1 })
			own := reports()["own"][0]
			if !living(own) {
				t.Errorf("what the wrapper had started was ended before it")
			}
			pids := append(treeOf(cmd.Process.Pid), own)
			require.NoError(t, cmd.Process.Kill())
			cmd.Wait()
			eventually(t, "nothing is left", func() bool {
				for _, pid := range pids {
					if living(pid) {
						return false
					}
				}
				return true
			})
			if after := d.attrs(t); !sameTermios(&after, &before) {
				t.Errorf("terminal attributes were %+v and are %+v", before, after)
			}
			d.shows(t, "\x1b[?1049hmess\x1b[?1049l")
		})
	}
}

// Changes of a child to the terminal are undone before the next child starts, and the
// changes of the next child are undone too.
func TestEachChildFindsTheTerminalAsTheFirst(t *testing.T) {
	d := newDesk(t)
	before := d.attrs(t)
	term := d.terminal(t)
	want := ""
	for range 2 {
		c := begin(t, sh(`stty raw -echo; printf '\033[?1049h\033[?25lon'; read -r forever`), term, &recorder{})
		want += "\x1b[?1049h\x1b[?25lon"
		d.shows(t, want)
		if now := d.attrs(t); now.Lflag&unix.ICANON != 0 {
			t.Errorf("the outer terminal is not raw: %+v", now)
		}
		require.NoError(t, c.KillTree())
		c.Wait()
		term.Restore()
		want += "\x1b[?25h\x1b[?1049l"
		d.shows(t, want)
		if now := d.attrs(t); !sameTermios(&now, &before) {
			t.Errorf("between two children the attributes are %+v, not %+v", now, before)
		}
	}
	if got := d.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// No key is lost and none is read twice: neither a key that the last child had
// not read, nor a key that came between two children.
func TestUnreadKeysReachTheNextChild(t *testing.T) {
	for name, modes := range map[string]string{"keys": "stty raw -echo", "lines": "stty -echo"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			attrs := d.attrs(t)
			attrs.Lflag &^= unix.ECHO
			require.NoError(t, setTermios(d.slave, &attrs))
			term := d.terminal(t)
			first := begin(t, sh(modes+`; printf ready; head -c 1 >/dev/null; printf got; exec sleep 300`), term, &recorder{})
			d.shows(t, "ready")
			if name == "lines" {
				d.key(t, "\r") // the program head gets no key before the end of a line
			} else {
				d.key(t, "1")
			}
			d.shows(t, "got")
			d.key(t, "23\r")
			eventually(t, "the keys wait for the first child", func() bool {
				n, err := unix.IoctlGetInt(fdOf(first.slave), unix.TIOCINQ)
				return err == nil && n == 3
			})
			require.NoError(t, first.KillTree())
			first.Wait()
			term.Restore()
			d.key(t, "4\r")
			second := begin(t, sh(`stty raw -echo; printf go; head -c 5 | tr '\r\n' .`), term, &recorder{})
			d.key(t, "5")
			d.shows(t, "go23.4.")
			second.Wait()
			begin(t, sh(`stty raw -echo; printf last; head -c 1`), term, &recorder{})
			d.shows(t, "last5")
		})
	}
}

func TestTheSecondChildHasTheCurrentSize(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	run(t, sh("exit 3"), term)
	term.Restore()
	require.NoError(t, pty.Setsize(d.master, &pty.Winsize{Rows: 20, Cols: 40}))
	c := begin(t, as("size"), term, &recorder{})
	d.key(t, "?\r")
	eventually(t, "it has the size that changed between the children", func() bool { return strings.Contains(d.text(), "size 20 40") })
	require.NoError(t, pty.Setsize(d.master, &pty.Winsize{Rows: 21, Cols: 41}))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	eventually(t, "the pty has the new size", func() bool {
		ws, err := unix.IoctlGetWinsize(fdOf(c.ptmx), unix.TIOCGWINSZ)
		return err == nil && ws.Row == 21 && ws.Col == 41
	})
	d.key(t, "?\rend\r")
	require.Equal(t, Exit{}, c.Wait())
	eventually(t, "it has the size that changed under it", func() bool { return strings.Contains(d.text(), "size 21 41") })
}

// Gone is closed after the end of the last orphan, before the guard is dismissed.
func TestGoneCoversTheWholeTree(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`p=$( (setsid sh -c 'trap "" TERM; echo $$; exec sleep 300 >/dev/null' &) ); echo $p`), term, &recorder{})
	exit := c.Wait()
	require.Equal(t, 1, exit.Leftover)
	select {
	case <-c.Gone():
		t.Fatal("it is not gone: it does not listen to TERM")
	default:
	}
	<-c.Gone()
	var pid int
	for _, b := range strings.TrimSpace(string(stdout())) {
		pid = 10*pid + int(b-'0')
	}
	require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
	run(t, sh("exit 0"), term)
}

// Abandoning the reader of one child does not abandon the reader of the next child.
func TestAbandonAffectsOneChild(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	term, err := OpenTerminal(null, w, null, Never)
	require.NoError(t, err)
	first := begin(t, sh("exit 3"), term, &recorder{})
	first.Wait()
	first.Abandon()
	second := begin(t, sh("head -c 120000 /dev/zero"), term, &recorder{})
	<-second.endCh
	total := 0
	for buf := make([]byte, 64<<10); total < 120000; {
		n, err := r.Read(buf)
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if total += n; total > 100000 {
			continue
		}
		time.Sleep(20 * time.Millisecond) // a slow reader
	}
	require.Equal(t, Exit{}, second.Wait())
}

// Processes that the wrapper has started for itself outlive the children and their
// guards, as long as the wrapper lives.
func TestOwnedProcessesOutliveAGuard(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	own := exec.Command("sleep", "300")
	own.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	own.Env = append(os.Environ(), term.Mark())
	require.NoError(t, own.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		own.Wait()
	}()
	term.Own(own.Process.Pid)
	first := begin(t, sh("exit 3"), term, &recorder{})
	first.Wait()
	_, err := Start(Spec{Argv: []string{"/dev/null"}}, term, &recorder{})
	require.Error(t, err)
	<-first.over // the first child's guard was dismissed and has ended
	run(t, sh("exit 0"), term)
	select {
	case <-ended:
		t.Error("it was ended with a guard that was dismissed")
	default:
	}
	term.Close()
	<-ended
}

// After the terminal hangs up, the next child runs on a new pty as the first did.
func TestTheTerminalHangsUpBetweenChildren(t *testing.T) {
	d := newDesk(t)
	term := d.terminal(t)
	first, _ := run(t, sh("exit 3"), term)
	require.Equal(t, 3, first.Code)
	term.Restore()
	require.NoError(t, d.master.Close())
	_, err := getTermios(d.slave)
	require.ErrorIs(t, err, unix.EIO)
	second, e := run(t, sh("test -t 0 && test -t 1 && echo nothing shows this; exit 7"), term)
	require.Equal(t, 7, second.Code)
	require.Contains(t, e.snapshot().totals, int64(len("nothing shows this\r\n")))
	term.Restore()
}
