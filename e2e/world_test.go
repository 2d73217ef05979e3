//go:build e2e && linux

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lifeloop/internal/mock"
	"lifeloop/watchers/sqlite"
)

const (
	home    = "/home/dev"
	project = "/home/dev/project"
)

// patience bounds the wait for something that must happen, on a busy machine too.
const patience = 4 * time.Minute

// A world is a fresh home with a model server. The wrapper's state and the records
// of the test are outside the home.
type world struct {
	t       *testing.T
	harness kind
	dir     string // outside the home
	model   *mock.Server
	env     []string // the environment of all programs in this world
	earlier string   // the id of the earlier session
	user    uint32   // the user of all programs; 0 for root
}

// newWorld empties the home, creates the files of a user's home, and starts a model
// server with the replies of the story.
func newWorld(t *testing.T, s story) *world {
	t.Helper()
	h := s.harness
	endEverything(t)
	emptyFolder(t, home)
	require.NoError(t, os.Mkdir(project, 0o755))
	h.seed(t)
	for name, text := range s.files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}

	w := &world{t: t, harness: h, dir: t.TempDir(), model: mock.New(s.replies...), user: s.user}
	w.serve()
	state := cmp.Or(s.state, w.path("state"))
	if root, err := os.Stat("/"); err != nil || s.state != "" && root.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Skip("no folder of the isolation is root's alone: run the stories as root")
	}
	require.NoError(t, os.RemoveAll(state))
	for _, dir := range []string{state, w.path("run")} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	w.env = append(os.Environ(), "LIFELOOP_STATE_DIR="+state, "XDG_RUNTIME_DIR="+w.path("run"))
	w.env = slices.Concat(w.env, h.env, s.env)
	w.own()

	for _, argv := range s.earlier {
		before := exec.Command(argv[0], argv[1:]...)
		before.Dir, before.Env, before.SysProcAttr = project, w.env, w.identity()
		out, err := before.CombinedOutput()
		require.NoError(t, err, string(out))
		w.earlier = w.sessions()[0]
	}
	if s.beside != nil {
		s.beside(w)
	}
	return w
}

// own gives the home and the files of this world to the user of its programs.
func (w *world) own() {
	w.t.Helper()
	if w.user == 0 {
		return
	}
	if os.Lchown(w.dir, int(w.user), int(w.user)) != nil {
		w.t.Skipf("the isolation has no user %d: run the stories as root", w.user)
	}
	require.NoError(w.t, os.Chmod(filepath.Dir(w.dir), 0o755)) // the folder of the test's temporary folders
	for _, dir := range []string{home, w.dir} {
		require.NoError(w.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return cmp.Or(err, os.Lchown(path, int(w.user), int(w.user)))
		}))
	}
}

// identity makes a program run as the user of this world.
func (w *world) identity() *syscall.SysProcAttr {
	if w.user == 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: w.user, Gid: w.user}}
}

// modelAddress is the address of the model server in every world.
const modelAddress = "127.0.0.1:8787"

// served is the model server of the current world; earlier ones are closed.
var served *http.Server

func (w *world) serve() {
	w.t.Helper()
	if served != nil {
		_ = served.Close()
	}
	l, err := net.Listen("tcp", modelAddress)
	require.NoError(w.t, err)
	served = &http.Server{Handler: w.model, ReadHeaderTimeout: patience}
	go func(s *http.Server) { _ = s.Serve(l) }(served) // returns when the server is closed
}

// earlierID is replaced in a command line by the id of the earlier session.
const earlierID = "<earlier>"

// sessions are the ids of the recorded sessions in the home, ordered by the last
// write, newest first.
func (w *world) sessions() []string {
	files, err := filepath.Glob(filepath.Join(home, w.harness.records))
	require.NoError(w.t, err)
	written := func(path string) time.Time {
		info, err := os.Stat(path)
		require.NoError(w.t, err)
		return info.ModTime()
	}
	slices.SortFunc(files, func(a, b string) int { return written(b).Compare(written(a)) })
	ids := make([]string, len(files))
	for i, f := range files {
		switch w.harness.records {
		case opencode.records:
			ids[i] = w.stored(f)
		case gemini.records: // the name has a part of the id
			data, err := os.ReadFile(f)
			require.NoError(w.t, err)
			ids[i] = uuids.FindString(string(data))
		default:
			ids[i] = uuids.FindString(filepath.Base(f))
		}
	}
	return ids
}

// stored is the id of the only session in OpenCode's database.
func (w *world) stored(path string) (id string) {
	tail, err := sqlite.Open(path, `SELECT rowid, id FROM session WHERE rowid > ?1 ORDER BY rowid`)
	require.NoError(w.t, err)
	_, err = tail.Next(sqlite.Cursor{}, func(_ sqlite.Cursor, record []byte) { id = string(record) })
	require.NoError(w.t, err)
	return id
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// endEverything kills the processes of an earlier part of this test. The signal goes to
// every process of the namespace except this one, which is its first process.
func endEverything(t *testing.T) {
	t.Helper()
	if os.Getpid() != 1 {
		t.Fatal("this part of the test must be process 1 of its world")
	}
	_ = syscall.Kill(-1, syscall.SIGKILL)
	deadline := time.Now().Add(patience)
	for len(others()) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("processes that cannot be ended: %v", others())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// others are the living processes of this world, as "pid command line".
func others() []string {
	var out []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // the process has just ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X") {
			continue // a zombie
		}
		cmd, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		out = append(out, e.Name()+" "+strings.TrimSpace(strings.ReplaceAll(string(cmd), "\x00", " ")))
	}
	return out
}

func emptyFolder(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// await calls is() until the result is true, and fails after patience.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	if !poll(patience, is) {
		w.t.Fatalf("waited %v for %s", patience, what)
	}
}

// poll calls is() until the result is true, and returns false if the limit passes first.
func poll(limit time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// A run is one started command line of a story, with or without the wrapper.
type run struct {
	*world
	wrapped bool
	cmd     *exec.Cmd
	ended   chan struct{}

	// These are set for a run with a terminal. The kernel hangs up a terminal when its
	// first process ends, so that process is a shell that outlives the harness.
	tty           *os.File      // the user's side
	before, after *unix.Termios // the terminal's attributes, at the start and after the harness has ended

	mu     sync.Mutex
	screen []byte // all output to the terminal (standard output with pipes)
	stderr bytes.Buffer
}

const width, height = 100, 30

// shell runs its arguments and waits for a key before it ends.
const shell = `"$@"; code=$?; echo "<the shell: $code>"; read -r key; exit $code`

var shellsWord = regexp.MustCompile(`<the shell: \d+>`)

// start starts a story's command line, bare or wrapped.
func (w *world) start(s story, wrapped bool) *run {
	w.t.Helper()
	return w.launch(s, wrapped, w.command(s, wrapped))
}

// launch starts argv in the world of a story.
func (w *world) launch(s story, wrapped bool, argv []string) *run {
	w.t.Helper()
	switch {
	case s.piped != "":
		argv = append([]string{"/bin/sh", "-c", `printf %s "$0" | ` + shell, s.piped}, argv...)
	case s.tty:
		argv = append([]string{"/bin/sh", "-c", shell, "sh"}, argv...)
	}
	r := &run{world: w, wrapped: wrapped, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env, r.cmd.SysProcAttr = project, w.env, w.identity()
	r.cmd.WaitDelay = time.Second // a tool that outlives its harness may keep a pipe open
	var readers sync.WaitGroup
	if s.tty {
		tty, theirs, err := pty.Open()
		require.NoError(w.t, err)
		require.NoError(w.t, pty.Setsize(tty, &pty.Winsize{Cols: width, Rows: height}))
		r.tty, r.before = tty, attributes(w.t, tty) // before any program uses it
		r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = theirs, theirs, theirs
		r.cmd.SysProcAttr.Setsid, r.cmd.SysProcAttr.Setctty = true, true
		if w.user != 0 { // a login also gives the terminal to the user
			require.NoError(w.t, theirs.Chown(int(w.user), -1))
		}
		err = r.cmd.Start()
		theirs.Close()
		require.NoError(w.t, err)
		readers.Go(func() { _, _ = io.Copy(shownTo{r}, tty) }) // ends with an error when no program has the terminal open
	} else {
		r.cmd.Stdout, r.cmd.Stderr = shownTo{r}, &r.stderr
		require.NoError(w.t, r.cmd.Start())
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	w.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
		if r.tty != nil {
			r.tty.Close()
		}
		readers.Wait()
	})
	return r
}

// command is the command line of a story, bare or wrapped.
func (w *world) command(s story, wrapped bool) []string {
	argv := slices.Clone(s.argv)
	for i, arg := range argv {
		if arg == earlierID {
			argv[i] = w.earlier
		}
	}
	if !wrapped {
		return argv
	}
	return slices.Concat([]string{filepath.Join(programs, "lifeloop-wrap"), "--config", w.config(s), "run",
		"--events", w.path("events.jsonl")}, s.flags, []string{"--"}, argv)
}

// attributes are the terminal's attributes; both ends of a pty report them.
func attributes(t *testing.T, tty *os.File) *unix.Termios {
	t.Helper()
	attrs, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return attrs
}

// shownTo collects the output of a run.
type shownTo struct{ *run }

func (s shownTo) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.screen = append(s.screen, b...)
	return len(b), nil
}

// types presses keys.
func (r *run) types(keys string) {
	r.t.Helper()
	_, err := r.tty.WriteString(keys)
	require.NoError(r.t, err, "type %q", keys)
}

// The target of a signal.
type target string

const (
	whatWasStarted target = "what was started" // the harness of a bare run, the wrapper of a wrapped run
	theHarness     target = "the harness"
)

// signals sends a signal.
func (r *run) signals(to target, s syscall.Signal) {
	r.t.Helper()
	pid := r.started()
	if to == theHarness {
		pid = harnessPID()
	}
	send(r.t, pid, s)
}

// send sends a signal to one process. A pid of 0 or less would mean a group of
// processes, even one outside this world.
func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	require.Greater(t, pid, 1, "there is no such process")
	require.NoError(t, syscall.Kill(pid, s))
}

// harnessPID returns the id of the harness's own process, in a bare or a wrapped run. It
// returns 0 if there is none.
func harnessPID() int {
	for _, p := range others() {
		pid, _, _ := strings.Cut(p, " ")
		exe, _ := os.Readlink("/proc/" + pid + "/exe")
		if strings.Contains(exe, "/node_modules/@anthropic-ai/") || strings.Contains(exe, "/node_modules/@openai/") ||
			strings.Contains(exe, "/node_modules/opencode-ai/") || filepath.Base(exe) == "node" && strings.Contains(p, "/.bin/"+gemini.name+" ") {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	return 0
}

// shown is all output so far.
func (r *run) shown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.screen)
}

// await calls is() until the result is true. It fails with a description of the scene
// after patience, or if the harness ends first.
func (r *run) await(what string, is func() bool) {
	r.t.Helper()
	seen := false // kept, because a second call of is() may return false: a process that execs has no command line for a moment
	ok := poll(patience, func() bool {
		over := r.over()
		seen = is()
		return seen || over
	})
	switch {
	case seen:
	case ok:
		r.t.Fatalf("the harness ended before %s\n%s", what, r.scene())
	default:
		r.t.Fatalf("waited %v for %s\n%s", patience, what, r.scene())
	}
}

// over reports whether what was started has ended.
func (r *run) over() bool {
	if r.tty != nil {
		return shellsWord.MatchString(r.shown())
	}
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// leaves waits until the run has ended, and returns the exit code as a shell would.
func (r *run) leaves() int {
	r.t.Helper()
	if !poll(patience, r.over) {
		scene := r.scene()
		if r.wrapped { // on SIGABRT a Go program prints its goroutines
			send(r.t, r.started(), syscall.SIGABRT)
			poll(time.Second, r.over)
			scene += r.shown() + r.stderr.String()
		}
		r.t.Fatalf("the run does not end\n%s", scene)
	}
	if r.tty != nil {
		r.after = attributes(r.t, r.tty)
		r.types("\n")
	}
	<-r.ended
	status := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// leavesWith waits until the run has ended, and checks the exit code.
func (r *run) leavesWith(want int) {
	r.t.Helper()
	if code := r.leaves(); code != want {
		r.t.Errorf("exit code %d, want %d", code, want)
	}
}

// started returns the id of the program that was started. In a run with a terminal, the
// program is the shell's only child.
func (r *run) started() int {
	if r.tty == nil {
		return r.cmd.Process.Pid
	}
	return childOf(r.cmd.Process.Pid)
}

// childOf returns the only child of a shell.
func childOf(shell int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", shell))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(children)))
	return pid
}

// scene describes the run for the report of a failure.
func (r *run) scene() string {
	var b strings.Builder
	shown := r.shown()
	fmt.Fprintf(&b, "wrapped: %v\nlast bytes shown: %q\nprocesses: %s\n", r.wrapped, shown[max(0, len(shown)-1500):], strings.Join(others(), "\n  "))
	if r.stderr.Len() > 0 {
		fmt.Fprintf(&b, "stderr: %s\n", r.stderr.String())
	}
	for _, c := range r.model.Calls() {
		fmt.Fprintf(&b, "model call %d: %s %s, status %d, whole %v, tool %v, gone %v, over %v, %+v\n", c.N, c.Kind, c.Prompt, c.Status, c.Whole, c.Tool, c.Gone, c.Over, c.Given)
	}
	if text, err := os.ReadFile(r.path("events.jsonl")); err == nil {
		var events []event
		for line := range strings.Lines(string(text)) {
			var e event
			if !strings.Contains(line, `"receipt_id"`) && json.Unmarshal([]byte(line), &e) == nil {
				events = append(events, e)
			}
		}
		for i, row := range rows(events) {
			fmt.Fprintf(&b, "%s  %-50s %v\n", events[i].At, row, events[i].Evidence)
		}
	}
	return b.String()
}
