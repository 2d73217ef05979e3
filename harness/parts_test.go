//go:build linux

package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	parts["paint"] = paint
	parts["ttys"] = ttys
	parts["size"] = size
	parts["wrapper"] = wrapper
	parts["piped"] = piped
	parts["ahead"] = ahead
	parts["messy"] = messy
	parts["starter"] = starter
	parts["stopper"] = stopper
	parts["shell"] = shell
	parts["pulse"] = pulse
	parts["die"] = die
	parts["headless"] = headless
	parts["starved"] = starved
	parts["adopter"] = adopter
	parts["sibling"] = sibling
	parts["notified"] = notified
	if os.Getenv("HARNESS_TEST_PART") == "headless" {
		runtime.LockOSThread() // bind the main goroutine to the first thread
	}
}

// screenful is n bytes that look like a full-screen program's output.
func screenful(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[38;5;%dmω %d\x1b[0m\x1b[K", i%50+1, i%120+1, i%256, i*7919)
		switch i % 97 {
		case 0:
			b.WriteString("\x1b[?2026h\x1b[?25l")
		case 50:
			b.WriteString("\x1b[?25h\x1b[?2026l")
		case 70:
			b.WriteString("\x1b]0;title\x07\r\n")
		}
	}
	return b.Bytes()[:n]
}

// paint writes a screenful to a raw terminal: paint SIZE.
func paint() int {
	n, _ := strconv.Atoi(os.Args[1])
	if attrs, err := unix.IoctlGetTermios(1, unix.TCGETS); err == nil {
		makeRaw(attrs)
		unix.IoctlSetTermios(1, unix.TCSETS, attrs)
	}
	if _, err := os.Stdout.Write(screenful(n)); err != nil {
		return 1
	}
	return 0
}

// ttys FILE writes to FILE which of its stdin, stdout and stderr are terminals.
func ttys() int {
	var b strings.Builder
	for fd := range 3 {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		fmt.Fprintf(&b, "%v ", err == nil)
	}
	os.Stdout.WriteString("out\n")
	os.Stderr.WriteString("err\n")
	if os.WriteFile(os.Args[1], []byte(b.String()), 0o600) != nil {
		return 1
	}
	return 0
}

// size answers each line with its window size, until the end of input.
func size() int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil || lines.Text() == "end" {
			return 0
		}
		fmt.Printf("size %d %d\n", ws.Row, ws.Col)
	}
	return 0
}

// wrapper wraps another part: wrapper PART ARGS... It writes its reports to the
// file in REPORT.
func wrapper() int {
	term, err := OpenTerminal(os.Stdin, os.Stdout, os.Stderr, Auto)
	if err != nil {
		return 125
	}
	spec := as(os.Args[1], os.Args[2:]...)
	c, err := Start(spec, term, &recorder{})
	if err != nil {
		return 125
	}
	report("guard", c.guard.pid)
	report("harness", c.PID())
	if own := os.Getenv("OWN"); own != "" {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 300 & wait"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		if err != nil {
			return 125
		}
		term.Own(p.Pid)
		report("own", p.Pid)
	}
	if os.Getenv("HOLD") != "" {
		holds(c)
	}
	exit := c.Wait()
	term.Close()
	return exit.Code
}

// holds calls Hold and Free when the test sends signals.
func holds(c *Child) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for sig := range signals {
			if sig == syscall.SIGUSR1 && c.Hold() == nil {
				report("held", 1)
			}
			if sig == syscall.SIGUSR2 && c.Free() == nil {
				report("freed", 1)
			}
		}
	}()
	report("wrapper", os.Getpid())
}

// piped wraps a program that reads a pipe as its stdin, and keys from the terminal, as
// in `echo one | wrapper less`.
func piped() int {
	r, w, err := os.Pipe()
	if err != nil {
		return 125
	}
	r.Fd() // make the pipe blocking, as a shell's pipe is
	w.WriteString("one\n")
	w.Close()
	term, err := OpenTerminal(r, os.Stdout, os.Stderr, Auto)
	if err != nil {
		return 125
	}
	c, err := Start(sh(`read -r a; echo ready; read -r k </dev/tty; echo "got $a $k"; exit 7`), term, &recorder{})
	if err != nil {
		return 125
	}
	exit := c.Wait()
	term.Close()
	return exit.Code
}

// ahead wraps a program that reads no key and whose stdout is a file, as in `wrapper
// sleep 300 >FILE`. When keys wait for the program, ahead reports the program's process
// id, and then waits until the program is killed.
func ahead() int {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 125
	}
	term, err := OpenTerminal(os.Stdin, null, os.Stderr, Auto)
	if err != nil {
		return 125
	}
	c, err := Start(sh("exec sleep 300"), term, &recorder{})
	if err != nil {
		return 125
	}
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		if n, err = unix.IoctlGetInt(fdOf(c.slave), unix.TIOCINQ); err != nil {
			return 125
		}
	}
	report("harness", c.PID())
	exit := c.Wait()
	term.Close()
	return exit.Code
}

// report adds a line to the file in REPORT.
func report(what string, n int) {
	f, err := os.OpenFile(os.Getenv("REPORT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %d\n", what, n)
}

// messy sets modes, changes its terminal, and ignores SIGTERM, SIGHUP and SIGINT. It
// starts a child, a child that ignores signals, and a child and a grandchild that have
// sessions of their own. It prints mess and does not exit.
func messy() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	attrs, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	makeRaw(attrs)
	unix.IoctlSetTermios(0, unix.TCSETS, attrs)
	for _, script := range []string{"exec sleep 300", "trap '' TERM HUP; exec sleep 300", "(setsid sh -c 'trap \"\" TERM; exec sleep 300' &) ; exec setsid sleep 300"} {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{})
		if err != nil {
			return 1
		}
		report("child", p.Pid)
	}
	os.Stdout.WriteString("\x1b[?1049h\x1b[>7u\x1b[?2004h\x1b[?25l\x1b]12;red\x07\x1b[31mmess")
	for {
		time.Sleep(time.Hour)
	}
}

// starter prints ready and starts processes from several threads until it is killed.
func starter() int {
	for range 4 {
		go func() {
			runtime.LockOSThread()
			for {
				if p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 0.001"}, &os.ProcAttr{}); err == nil {
					p.Wait()
				}
			}
		}()
	}
	os.Stdout.WriteString("ready")
	select {}
}

// stopper stops its process group with the signal of Ctrl-Z when it reads z, and ends
// when it reads q.
func stopper() int {
	attrs, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	makeRaw(attrs)
	unix.IoctlSetTermios(0, unix.TCSETS, attrs)
	os.Stdout.WriteString("\x1b[?2004hready")
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	var b [1]byte
	for {
		if _, err := os.Stdin.Read(b[:]); err != nil {
			return 1
		}
		switch b[0] {
		case 'z':
			select {
			case <-cont: // from an earlier stop by another program
			default:
			}
			os.Stdout.WriteString("going")
			syscall.Kill(0, syscall.SIGTSTP)
			<-cont
			os.Stdout.WriteString("back")
		case 'q':
			os.Stdout.WriteString("\x1b[?2004lbye")
			return 5
		}
	}
}

// shell is the part of a shell that matters for job control: shell PART ARGS... It runs
// a wrapper in a foreground group, and takes the terminal when the wrapper stops. When a
// line arrives on descriptor 3, shell continues the wrapper. If BLIND is set, shell does
// not notice that the wrapper stops, like a shell that runs a script.
func shell() int {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN, syscall.SIGTSTP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP) // otherwise the job would inherit that SIGTSTP is ignored
	exe, _ := os.Executable()
	env := append([]string{"HARNESS_TEST_PART=wrapper"}, os.Environ()...)
	job, err := os.StartProcess(exe, append([]string{exe}, os.Args[1:]...), &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0},
	})
	if err != nil {
		return 125
	}
	orders, options := bufio.NewReader(os.NewFile(3, "orders")), unix.WUNTRACED
	if os.Getenv("BLIND") != "" {
		options = 0
	}
	report("job", job.Pid)
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(job.Pid, &status, options, nil); err != nil {
			if err == unix.EINTR {
				continue
			}
			return 125
		}
		if !status.Stopped() {
			report("exit", status.ExitStatus())
			return 0
		}
		unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
		report("stopped", int(status.StopSignal()))
		if _, err := orders.ReadString('\n'); err != nil {
			return 125
		}
		unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, job.Pid)
		unix.Kill(-job.Pid, unix.SIGCONT)
	}
}

// pulse writes a byte and waits for a byte, again and again.
func pulse() int {
	var b [1]byte
	for {
		os.Stdout.WriteString(".")
		if _, err := io.ReadFull(os.Stdin, b[:]); err != nil {
			return 0
		}
	}
}

// headless ends its first thread and continues to run in another one. It then
// prints its process id.
func headless() int {
	signal.Ignore(syscall.SIGTERM)
	go func() {
		for p, err := readProc(os.Getpid()); err != nil || p.state != 'Z'; p, err = readProc(os.Getpid()) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	}()
	syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
	return 1
}

// adopter is a command that runs a client without a harness: adopter PID. PID is a child
// that the command had at its start. The command prints twice whether this child and a
// process that the client left behind run: after Reap and after End.
func adopter() int {
	o, err := Adopt()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	out, err := exec.Command("sh", "-c", `setsid sh -c 'trap "" TERM; sleep 300; true' >/dev/null 2>&1 & echo $!`).Output()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	orphan, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	before, _ := strconv.Atoi(os.Args[1])
	o.Reap()
	fmt.Println("orphan", Runs(orphan, 0), "before", Runs(before, 0))
	o.End()
	fmt.Println("orphan", Runs(orphan, 0), "before", Runs(before, 0), "children", len(children("*")))
	unix.Kill(before, unix.SIGKILL)
	return 0
}

// sibling is a wrapper whose client, started by another thread than the first, starts a
// child of the wrapper (CLONE_PARENT) and ends. It prints whether this child runs, before and
// after EndOrphans.
func sibling() int {
	if len(os.Args) > 1 { // the client
		sleep := exec.Command("sleep", "300")
		sleep.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_PARENT}
		if err := sleep.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(sleep.Process.Pid)
		return 0
	}
	term, err := OpenTerminal(os.Stdin, os.Stdout, os.Stderr, Never)
	if err == nil {
		err = term.Adopt()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer term.Close()
	started := make(chan int)
	offFirstThread(func() {
		client := exec.Command("/proc/self/exe", "client")
		client.Env = as("sibling").Env
		out, err := client.Output()
		if err != nil {
			fmt.Println(err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		started <- pid
	})
	pid := <-started
	fmt.Println("sibling", Runs(pid, 0))
	term.EndOrphans()
	fmt.Println("sibling", Runs(pid, 0))
	return 0
}

// offFirstThread calls f on a thread that is not the first of the process, and keeps this
// thread until the process ends.
func offFirstThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			offFirstThread(f)
		} else {
			f()
		}
		select {}
	}()
}

// starved tries to wrap a program while its guard may not start any process, and
// prints the error.
func starved() int {
	term, err := OpenTerminal(os.Stdin, os.Stdout, os.Stderr, Never)
	if err == nil {
		err = term.Prepare(nil)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer term.Close()
	for g := range term.guards {
		g.send(msgDisown, 0)
		for unread := 1; unread > 0 && err == nil; time.Sleep(time.Millisecond) { // wait until the guard has read everything and waits for a launch
			unread, err = unix.IoctlGetInt(fdOf(g.socket), unix.SIOCOUTQ)
		}
		err = unix.Prlimit(g.pid, unix.RLIMIT_NPROC, &unix.Rlimit{}, nil)
	}
	if err == nil {
		_, err = Start(sh("exit 0"), term, &recorder{})
	}
	fmt.Println(err)
	if refused, ok := errors.AsType[*StartError](err); ok {
		return refused.Code
	}
	return 1
}

// notified calls signal.Notify right after OpenTerminal, and wraps a program that prints
// the signals that it ignores.
func notified() int {
	term, err := OpenTerminal(os.Stdin, os.Stdout, os.Stderr, Never)
	if err != nil {
		return 125
	}
	defer term.Close()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	c, err := Start(sh("exec grep SigIgn /proc/self/status"), term, &recorder{})
	if err != nil {
		return 125
	}
	return c.Wait().Code
}

// die ends by the signal with this number: die N. It allows a core file.
func die() int {
	n, _ := strconv.Atoi(os.Args[1])
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: limit.Max, Max: limit.Max})
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	Die(syscall.Signal(n), false)
	return 1
}
