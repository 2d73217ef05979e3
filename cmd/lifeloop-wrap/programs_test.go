//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// awaits waits until the screen has shown text. Meanwhile the string `again` is typed
// every 5 s, unless this string is empty.
func (s *screen) awaits(text string, keys io.StringWriter, again string) bool {
	tried := time.Now()
	return eventually(func() bool {
		if again != "" && time.Since(tried) > 5*time.Second {
			tried = time.Now()
			_, _ = keys.WriteString(again)
		}
		return s.shows(text)
	})
}

// exited checks how a program ended.
func exited(ts *testscript.TestScript, cmd *exec.Cmd, err error, want string, s *screen) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != want {
		ts.Fatalf("exit code %s, want %s; the screen shows %q", got, want, s.all())
	}
}

// terminal CODE DIALOGUE PROGRAM ARG… runs a program in a terminal of its own. The program
// must exit with CODE. Each line of the file DIALOGUE is one step: `< TEXT` waits until the
// screen has shown TEXT, and `> TEXT` types TEXT. TEXT is a Go string without the quotes.
// `~ TEXT` types TEXT too, and then every 5 s until the next expected text appears. Use `~`
// for keys that may come too early: the screen does not show when a shell has handed over
// the terminal. `size ROWS COLS` resizes. Afterwards the terminal must be in the modes it
// was in. The bytes of the screen are then in the file `screen`.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: terminal code dialogue program [args...]")
	}
	master, slave, err := pty.Open()
	ts.Check(err)
	defer master.Close()
	defer slave.Close()
	ts.Check(pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	ts.Check(err)

	path, err := lookIn(ts.Getenv("PATH"), args[2])
	ts.Check(err)
	cmd := exec.Command(path, args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Dir = ts.MkAbs(".")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	for _, name := range []string{"HOME", "PATH", "TERM", "XDG_RUNTIME_DIR", "LIFELOOP_STATE_DIR", "TMPDIR", "GORACE", "GOCOVERDIR", scriptMark} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := &screen{}
	go s.follow(master)

	again := "" // keys to type again if the next text does not appear
	for _, line := range strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n") {
		if line == "" {
			continue
		}
		verb, text, _ := strings.Cut(line, " ")
		text, err := strconv.Unquote(`"` + text + `"`)
		ts.Check(err)
		switch verb {
		case "<":
			if !s.awaits(text, master, again) {
				_ = cmd.Process.Kill()
				ts.Fatalf("the screen never showed %q; it showed %q", text, s.all())
			}
		case ">", "~":
			if again = ""; verb == "~" {
				again = text
			}
			_, err := master.WriteString(text)
			ts.Check(err)
		case "size":
			var size pty.Winsize
			_, err := fmt.Sscan(text, &size.Rows, &size.Cols)
			ts.Check(err)
			ts.Check(pty.Setsize(master, &size))
		default:
			ts.Fatalf("%s: no such thing to do as %q", args[1], line)
		}
	}
	select {
	case err = <-ended:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		ts.Fatalf("the program did not end; the screen shows %q", s.all())
	}
	exited(ts, cmd, err, args[0], s)
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	ts.Check(err)
	if *after != *before {
		ts.Fatalf("the terminal's modes were %+v, and are %+v", before, after)
	}
	// Everything that the program wrote is now in the pty. A mark written behind it
	// shows when all of it has been read.
	const mark = "\x00the end\x00"
	_, err = slave.WriteString(mark)
	ts.Check(err)
	if !eventually(func() bool { return strings.Contains(s.all(), mark) }) {
		ts.Fatalf("the terminal does not give back what is written to it")
	}
	ts.Check(os.WriteFile(ts.MkAbs("screen"), []byte(strings.TrimSuffix(s.all(), mark)), 0o600))
}

// A screen is what a terminal has shown, and how much of it was already searched.
type screen struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	seen int
}

func (s *screen) follow(master *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := bytes.Index(s.text.Bytes()[s.seen:], []byte(text))
	if at < 0 {
		return false
	}
	s.seen += at + len(text)
	return true
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// lookIn finds a program in a PATH that is not our own.
func lookIn(path, name string) (string, error) {
	for _, dir := range strings.Split(path, ":") {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no program %s in %s", name, path)
}
