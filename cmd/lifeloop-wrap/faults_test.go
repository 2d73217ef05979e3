//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// Each row of the fault matrix is one session in a terminal, by default with hooks, two
// clients and three turns. One fault exists from the start, or is injected while a tool
// runs. After every fault, these promises hold: the exit code is a documented one, no
// process and no socket is left, the terminal has its modes, the ledger verifies, the
// session has one final state (recovered by `run --resume` if its wrapper died), each call
// has one receipt, and no file outside the state folder has changed.

var faults = flag.Bool("faults", false, "test all rows of the fault matrix (make chaos)")

// A fault is one row of the matrix.
type fault struct {
	what   string
	config string         // faultConfig if empty
	script []string       // the turns; faultScript if empty
	under  []string       // arguments of `limited`
	args   []string       // flags of run
	before func(*faulted) // called before the run; it prepares the folder
	inject func(*faulted) // called while the tool runs; nil if the fault exists from the start
	after  func(*faulted) // called when the wrapper has ended
	exits  func(*faulted) bool
	// noRecord says what the fault costs if there is no ledger to check.
	noRecord string
	refusal  bool          // the run may be refused before there is a session
	noThread bool          // Go's runtime may end the wrapper, and its guard too
	resumes  bool          // run --resume is given the command line, because the session has not stored it
	pipe     bool          // stdout is a pipe that is not read
	needs    func() string // returns why this machine cannot test the row, or ""; nil if every machine can
}

const faultConfig = `
clients:
  - {id: once, command: [fakeclient, --client-id, once, --log, asked-once, --delay, 100ms, --payload, "kind=note,placement=pre_prompt_frame,body=remember"], events: [frame.opening], timeout: 1s}
  - {id: stays, command: [fakeclient, --client-id, stays, --log, asked-stays, --persistent], mode: persistent, timeout: 1s}
client_drain: 1s
`

// The tool of the second turn reports that it runs, and waits for the fault.
const waitingTool = `touch ready; until test -e go; do sleep 0.02; done`

func turnStep(prompt, tool string) string {
	return fmt.Sprintf(`{"turn":{"prompt":%q,"answer":"a","used":1000,"tool":%q}}`, prompt, tool)
}

var faultScript = []string{turnStep("one", "true"), turnStep("two", waitingTool), turnStep("three", "true")}

// faulted is a session in which a fault is injected.
type faulted struct {
	*matrix
	fault
	cmd      *exec.Cmd
	terminal *outerTerminal
	home     map[string]string // the files outside the state folder, before the run
	code     int               // the exit code of the wrapper; 128+n after a signal
	peak     int64             // the most memory that the wrapper used, in KiB
	recovers int

	continued      []int    // processes that are continued when they have stopped
	reader, writer *os.File // writer is stdout, nil for the terminal; reader is the other end of a pipe
	runtime        string   // the folder for sockets
	user           int      // the user id that the wrapper runs as
}

// An outerTerminal is a terminal as its emulator sees it.
type outerTerminal struct {
	master, slave *os.File
	modes         unix.Termios
	mu            sync.Mutex // guards seen
	seen          bytes.Buffer
	over          chan struct{}
}

func newOuterTerminal(t *testing.T) *outerTerminal {
	blocking, slave, err := pty.Open()
	require.NoError(t, err)
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	blocking.Close()
	require.NoError(t, unix.SetNonblock(fd, true)) // so that Close ends a read
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	o := &outerTerminal{master: master, slave: slave, modes: *modes, over: make(chan struct{})}
	go func() {
		defer close(o.over)
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			o.mu.Lock()
			o.seen.Write(buf[:n])
			o.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(o.hangUp)
	return o
}

var privateMode = regexp.MustCompile(`\x1b\[\?([0-9]+)([hl])`)

// left returns the modes that the terminal did not have before.
func (o *outerTerminal) left() (changed []string) {
	now, err := unix.IoctlGetTermios(int(o.slave.Fd()), unix.TCGETS)
	if err != nil {
		return nil // the terminal is closed
	}
	if *now != o.modes {
		changed = append(changed, "attributes")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	last := map[string]string{}
	for _, m := range privateMode.FindAllSubmatch(o.seen.Bytes(), -1) {
		last[string(m[1])] = string(m[2])
	}
	for mode, set := range last {
		if (set == "h") != (mode == "25" || mode == "7") {
			changed = append(changed, "?"+mode+set)
		}
	}
	return changed
}

// hangUp closes the terminal, as its emulator does when its window is closed.
func (o *outerTerminal) hangUp() {
	o.slave.Close()
	o.master.Close()
	<-o.over
}

// start starts the session in a new terminal and returns at once.
func (f *faulted) start() {
	script := cmp.Or(strings.Join(f.script, ""), strings.Join(faultScript, ""))
	words := slices.Concat([]string{"lifeloop-wrap", "--config", "c.yaml", "run", "--session-id", matrixSession, "--abort-grace", "1s"}, f.args,
		[]string{"--", "claude", "--script-json", `{"start":{}}` + script + `{"end":"other"}`})
	if f.under != nil {
		words = slices.Concat([]string{"limited"}, f.under, []string{"--"}, words)
	}
	f.cmd = exec.Command(f.program(words[0]), words[1:]...)
	f.cmd.Args[0] = words[0]
	f.terminal = newOuterTerminal(f.t)
	f.cmd.Dir, f.cmd.Env = f.dir, f.env
	f.cmd.Stdin, f.cmd.Stdout, f.cmd.Stderr = f.terminal.slave, f.terminal.slave, f.terminal.slave
	if f.pipe {
		f.reader, f.writer, _ = os.Pipe()
		f.t.Cleanup(func() { f.reader.Close() })
	}
	if f.writer != nil {
		f.cmd.Stdout = f.writer
		defer f.writer.Close()
	}
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(f.t, f.cmd.Start())
}

// variable returns a variable of the session's environment.
func (f *faulted) variable(name string) (value string) {
	for _, kv := range f.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v // the last one counts
		}
	}
	return value
}

// program looks up a program in the PATH of the session.
func (f *faulted) program(name string) string {
	for _, dir := range filepath.SplitList(f.variable("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}

func (f *faulted) file(name string) string { return filepath.Join(f.dir, name) }

func (f *faulted) exists(name string) bool {
	_, err := os.Lstat(f.file(name))
	return err == nil
}

func (f *faulted) touch(name string) { require.NoError(f.t, os.WriteFile(f.file(name), nil, 0o666)) }

// session runs the session until its wrapper has ended.
func (f *faulted) session() {
	t := f.t
	f.start()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.cmd.Wait() }()
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	if f.inject != nil {
		require.True(t, eventually(func() bool { return f.exists("ready") || over() }), "the tool never ran: %s", f.screen())
		if over() {
			require.Fail(t, "it ended before the fault", "%s", f.screen())
		}
		f.inject(f)
	}
	f.touch("go")
	if !eventually(func() bool {
		f.shell()
		return over()
	}) {
		_ = f.cmd.Process.Signal(syscall.SIGQUIT)
		_ = f.cmd.Process.Kill()
		<-ended
		require.Fail(t, "the wrapper did not end", "%s\n%s", f.screen(), strings.Join(marked(f.mark), "\n"))
	}
	status := f.cmd.ProcessState.Sys().(syscall.WaitStatus)
	f.code = status.ExitStatus()
	if status.Signaled() {
		f.code = 128 + int(status.Signal())
	}
	f.peak = f.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// waiting returns how many bytes in the pipe of stdout were not read yet.
func (f *faulted) waiting() int {
	n, err := unix.IoctlGetInt(int(f.reader.Fd()), unix.TIOCINQ)
	require.NoError(f.t, err)
	return n
}

// drain reads the pipe of stdout to its end.
func (f *faulted) drain() { go func() { _, _ = io.Copy(io.Discard, f.reader) }() }

// shell continues the processes in continued, and the wrapper as `fg` does, if they are
// stopped.
func (f *faulted) shell() {
	for _, pid := range f.continued {
		if processState(pid) == "T" {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	if processState(f.cmd.Process.Pid) == "T" {
		_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGCONT)
	}
}

func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func (f *faulted) screen() string {
	f.terminal.mu.Lock()
	defer f.terminal.mu.Unlock()
	text := f.terminal.seen.Bytes()
	return strconv.QuoteToGraphic(string(text[max(0, len(text)-2000):]))
}

// words returns the output of the wrapper as one line.
func (f *faulted) words() string {
	f.terminal.mu.Lock()
	defer f.terminal.mu.Unlock()
	return strings.Join(strings.Fields(f.terminal.seen.String()), " ")
}

// pid finds a process of the session by words of its command line.
func (f *faulted) pid(words ...string) (pid int) {
	require.True(f.t, eventually(func() bool {
		for _, line := range marked(f.mark) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				pid, _ = strconv.Atoi(strings.Fields(line)[0])
				return true
			}
		}
		return false
	}), "no process %q: %s", words, strings.Join(marked(f.mark), "\n"))
	return pid
}

// harness is the process of the newest launch.
func (f *faulted) harness() (pid int) {
	for _, e := range f.entries() {
		if r, ok := e.Fact.(kernel.Running); ok {
			pid = r.PID
		}
	}
	require.NotZero(f.t, pid)
	return pid
}

// outside lists the files and folders in f.dir, except the state folder and those that
// the harness or the test writes.
func (f *faulted) outside() map[string]string {
	ours := map[string]string{}
	known := []string{"state", "home/.claude", "ready", "go", "answer", "asked-once", "asked-stays", "c.yaml"}
	_ = filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(f.dir, path)
		if slices.Contains(known, name) || err != nil {
			if err == nil && d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			ours[name] = fmt.Sprint(info.Mode(), info.Size())
		} else if err == nil {
			ours[name] = info.Mode().String()
		}
		return nil
	})
	return ours
}

// command runs a command of the program, as the user of the row.
func (f *faulted) command(args ...string) (string, error) {
	words := append([]string{"lifeloop-wrap", "--config", "c.yaml"}, args...)
	if f.user != 0 {
		words = append([]string{"limited", fmt.Sprint("uid=", f.user), "--"}, words...)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.program(words[0]), words[1:]...)
	cmd.Args[0], cmd.WaitDelay = words[0], time.Second
	cmd.Dir, cmd.Env = f.dir, f.env
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, ctx.Err(), "%v does not end: %s", args, out)
	return string(out), err
}

// recover runs `run --resume` until the session has a final state.
func (f *faulted) recover() {
	said := ""
	for f.recovers = 0; f.there() && !f.status().Ended(); f.recovers++ {
		require.Less(f.t, f.recovers, 3, "it cannot be recovered: %s", said)
		words := []string{"run", "--resume", matrixSession}
		if f.resumes {
			words = append(words, "--", "claude", "--script-json", `{"start":{}}{"end":"other"}`)
		}
		out, err := f.command(words...)
		said = out
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			require.NotEqual(f.t, 125, exit.ExitCode(), "%s", out)
		}
	}
}

// promises checks what must hold after every fault.
func (f *faulted) promises() {
	t := f.t
	t.Logf("exit %d", f.code)
	if !f.exits(f) {
		t.Errorf("exit code %d: %s", f.code, f.screen())
	}
	// The scripted harness may crash, for example at SIGQUIT. The wrapper must not.
	if text := f.screen(); f.code == 2 && !f.noThread && !(f.there() && asTheHarness(f)) && strings.Contains(text, "goroutine ") {
		t.Errorf("it crashed: %s", text)
	}
	var left []string // modes to restore; after a KILL of the wrapper, its guard restores them
	if !eventually(func() bool { left = f.terminal.left(); return len(left) == 0 || f.noThread && f.code == 2 }) {
		t.Errorf("the terminal has other modes: %v", left)
	}
	if f.peak > 512<<10 {
		t.Errorf("the wrapper used %d MiB", f.peak>>10)
	}
	if f.refusal && !f.there() {
		f.noRecord = fmt.Sprintf("the run: %.90s", f.words())
		if f.code == 125 {
			require.NoDirExists(t, f.sessionDir(), "a run that was refused")
		}
	}
	if f.noRecord == "" {
		f.recover()
		require.True(t, f.there(), "no session: %s", f.screen())
		f.holds()
	}
	require.Equal(t, f.home, f.outside(), "files outside the state folder")
}

// lost describes what the fault cost.
func (f *faulted) lost() string {
	if f.noRecord != "" {
		return f.noRecord
	}
	var out []string
	say := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	failed, frames, attempts, rejected, sources := map[string]int{}, 0, 0, 0, 0
	for _, e := range f.entries() {
		switch x := e.Fact.(type) {
		case kernel.ReceiptIssued:
			if x.Receipt.Status == lifeloop.Failed && x.Receipt.FailureClass != nil {
				failed[string(*x.Receipt.FailureClass)]++
			}
		case kernel.PayloadSettled:
			if x.Status != lifeloop.Delivered {
				rejected++
			}
		case kernel.Observed:
			if x.Record.Event == lifeloop.FrameEnded && strings.Contains(fmt.Sprint(x.Record.Data), "abandoned") {
				frames++
			}
		case kernel.AttemptEnded:
			attempts++
		case kernel.SourceTroubled:
			sources++
		}
	}
	for _, class := range slices.Sorted(maps.Keys(failed)) {
		say(failed[class], "failed receipts ("+class+")")
	}
	say(rejected, "payloads not delivered")
	say(frames, "turns without an end")
	say(attempts-1, "launches more")
	say(sources, "gaps reported in a source")
	if f.noThread && f.code == 2 {
		out = append(out, "the wrapper: Go's runtime ends a process that cannot start a thread")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// fewFaults are tested without -faults too.
var fewFaults = []string{"SIGHUP to the wrapper", "SIGKILL to the guard", "a client that answers half a document", "transcript: invalid UTF-8", "ledger: a byte changed"}

// A tried is one line of the table.
type tried struct{ what, exit, state, held, lost string }

// play plays one row.
func (row fault) play(t *testing.T, bin string) (line tried) {
	line = tried{what: row.what}
	if row.exits == nil {
		row.exits = exitsWith(0)
	}
	f := &faulted{matrix: newMatrix(t, bin, matrixPlot()), fault: row}
	f.runtime = f.variable("XDG_RUNTIME_DIR")
	if row.under != nil {
		f.giveAway()
	}
	require.NoError(t, os.WriteFile(f.file("c.yaml"), []byte(cmp.Or(row.config, faultConfig)), 0o644))
	if row.before != nil {
		row.before(f)
	}
	f.home = f.outside()
	f.session()
	if row.after != nil {
		row.after(f)
	}
	line.exit = strconv.Itoa(f.code)
	f.promises()
	line.state = "-"
	if f.noRecord == "" {
		line.state = f.status().State
		if f.recovers > 0 {
			line.state += ", recovered"
		}
	}
	line.lost = f.lost()
	return line
}

func exitsWith(codes ...int) func(*faulted) bool {
	return func(f *faulted) bool { return slices.Contains(codes, f.code) }
}

func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	bin := faultPrograms(t)
	rows := slices.Concat(signalFaults(), clientFaults(), fileFaults(), limitFaults(), doorFaults(), terminalFaults())
	if !*faults {
		rows = slices.DeleteFunc(rows, func(row fault) bool { return !slices.Contains(fewFaults, row.what) })
		require.Len(t, rows, len(fewFaults))
	}
	began, lines := time.Now(), make([]tried, len(rows))
	t.Run("rows", func(t *testing.T) {
		for i, row := range rows {
			t.Run(strings.NewReplacer(" ", "-", "/", "-").Replace(row.what), func(t *testing.T) {
				t.Parallel()
				if row.needs != nil {
					if why := row.needs(); why != "" {
						lines[i] = tried{what: row.what, held: "not tried: " + why}
						t.Skip(why)
					}
				}
				// Cleanups run in reverse order. This one runs last, after the cleanup that
				// fails the test if the session left a process.
				t.Cleanup(func() {
					if lines[i].held = "all"; t.Failed() {
						lines[i].held = "BROKEN"
					}
				})
				lines[i].what = row.what
				lines[i] = row.play(t, bin)
			})
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TRIED\tEXIT\tSESSION\tHELD\tLOST")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.what, l.exit, l.state, l.held, l.lost)
	}
	w.Flush()
	t.Logf("%d rows in %v\n%s", len(rows), time.Since(began).Round(time.Second), &table)
}

// faultPrograms returns a folder with the programs of a session. With -faults, the
// folder also has a built lifeloop-wrap. Otherwise the test binary takes its place.
func faultPrograms(t *testing.T) string {
	bin := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(bin), 0o755)) // rows that run as another user need this
	from := built(t, besides)
	for _, name := range []string{"lifeloop-hook", "fakeclient", "claude"} {
		require.NoError(t, os.Link(filepath.Join(from, name), filepath.Join(bin, name)))
	}
	if *faults {
		require.NoError(t, os.Link(built(t, product), filepath.Join(bin, "lifeloop-wrap")))
	}
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "limited"), self, 0o755))
	return bin
}
