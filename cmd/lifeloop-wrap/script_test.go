//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"lifeloop/harness"
	"lifeloop/internal/fakeharness"
	"lifeloop/internal/hook"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop/lifelooptest"
)

// The scripts in testdata/script run this test binary in the place of lifeloop-wrap. The
// hook, the scripted client and the scripted harness are built. The scripted harness also
// has the names of real ones. The demo starts this binary as a harness.
func TestMain(m *testing.M) {
	standIn := func() {
		if fakeharness.IsStandIn(os.Args[0], os.Environ()) {
			main() // the demo starts this program under the name of a harness
		}
		os.Exit(fakeharness.Run(os.Args, os.Environ(), os.Stdin, os.Stdout))
	}
	testscript.Main(tests{m}, map[string]func(){
		"lifeloop-wrap": func() {
			testOnlyLedger = newKiller()
			main()
		},
		"lifeloop-hook": func() { os.Exit(hook.Main(os.Args[1:])) }, // the main function of lifeloop-hook does the same
		"limited":       limitedMain,
		"asks":          asksMain,
		"fakeharness":   standIn,
		"claude":        standIn,
		"codex":         standIn,
	})
}

// tests runs the tests; the commands of the scripts do not call its Run.
type tests struct{ m *testing.M }

// Run makes this process receive SIGHUP, which it ignores under nohup: some tests send it
// to a wrapper, and a shell cannot trap a signal that was ignored when it started.
func (t tests) Run() int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return t.m.Run()
}

// patience bounds every wait for something that must happen. Only a failing test
// waits that long.
const patience = time.Minute

// scriptMark in the environment is inherited by every process of a script.
const scriptMark = "LIFELOOP_TEST_SCRIPT"

func TestScripts(t *testing.T) {
	t.Parallel()
	built(t, besides)
	contract, err := filepath.Abs("../../lifeloop/testdata/contract") // the contract's own examples
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"until":    until,
			"signal":   signalBackground,
			"gone":     gone,
			"fact":     fact,
			"nowhere":  nowhere,
			"terminal": terminal,
			"plain":    plain,
		},
		Condition: func(word string) (bool, error) {
			if word == "tiocsti" {
				value, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti") // missing in old systems, which allow TIOCSTI
				return os.Getuid() == 0 || err != nil || string(value) == "1\n", nil
			}
			_, err := harness.Containable()
			return err == nil, nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			runtime, err := os.MkdirTemp("", "ll") // a short name, because the length of a socket's path is limited
			if err != nil {
				return err
			}
			home := filepath.Join(env.WorkDir, "home")
			mark := filepath.Base(runtime)
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			for name, value := range map[string]string{
				"HOME": home, "XDG_RUNTIME_DIR": runtime, "LIFELOOP_STATE_DIR": filepath.Join(env.WorkDir, "state"),
				"STATE": filepath.Join(env.WorkDir, "state", "sessions"), scriptMark: mark, "TERM": "xterm-256color",
				"CONTRACT": contract, "EVIDENCE": filepath.Join(contract, "../../../evidence/testdata"),
				"OLDER":  filepath.Join(contract, "../../../cmd/lifeloop-wrap/testdata/older"), // a ledger of an early version
				"S":      "11111111-1111-4111-8111-111111111111",
				"GORACE": "atexit_sleep_ms=0", // a race-built program sleeps a second before it exits, unless this is set
			} {
				env.Setenv(name, value)
			}
			env.Defer(func() {
				leavesNothing(env.T().(testing.TB), mark, runtime)
				documentsAreValid(env.T().(testing.TB), env.WorkDir)
				summariesAgree(env.T().(testing.TB), filepath.Join(env.WorkDir, "state"))
			})
			return nil
		},
	})
}

// leavesNothing checks that a script left no process and no socket.
func leavesNothing(t testing.TB, mark, runtime string) {
	t.Helper()
	var left []string
	if !eventually(func() bool { left = marked(mark); return len(left) == 0 }) {
		t.Errorf("still running: %s", strings.Join(left, "; "))
		for _, process := range left { // so that they do not slow down the tests after this one
			if pid, err := strconv.Atoi(strings.Fields(process)[0]); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	sockets, err := filepath.Glob(filepath.Join(runtime, "lifeloop", "*"))
	if err != nil || len(sockets) > 0 {
		t.Errorf("left in the socket folder: %v (%v)", sockets, err)
	}
	if err := os.RemoveAll(runtime); err != nil {
		t.Error(err)
	}
}

// documentsAreValid checks each event, receipt and request that a script left in a
// ledger or in the log of a client.
func documentsAreValid(t testing.TB, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".jsonl" {
			return nil // a script may have removed it, or made it unreadable
		}
		text, _ := os.ReadFile(path)
		for line := range bytes.Lines(text) {
			if err := lifelooptest.Line(line); err != nil {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
		return nil
	})
}

// summariesAgree checks that the summary of each session agrees with its
// ledger.
func summariesAgree(t testing.TB, dir string) {
	t.Helper()
	st := store.Open(dir)
	known, _, err := st.List(func(store.Brief) bool { return true })
	if err != nil {
		return // a script may have put something else there
	}
	for _, k := range known {
		read := st.Read(k.SessionID)
		for i, member := range []any{k.Status, k.Claims} {
			got, _ := json.Marshal(member)
			want, _ := json.Marshal([]any{read.Status, read.Claims}[i])
			if !bytes.Equal(got, want) {
				t.Errorf("the summary of session %s says\n%s\nand its ledger\n%s", k.SessionID, got, want)
			}
		}
	}
}

// marked lists the processes that a script started.
func marked(mark string) (list []string) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1)
	for _, pid := range entries {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		env, err := os.ReadFile("/proc/" + pid + "/environ") // fails for processes of other users and ended ones
		if err == nil && bytes.Contains(env, []byte(scriptMark+"="+mark+"\x00")) {
			words, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			list = append(list, pid+" "+string(bytes.ReplaceAll(words, []byte{0}, []byte{' '})))
		}
	}
	return list
}

func eventually(ok func() bool) bool {
	deadline := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) { // the pause grows, because ok may start a program or read all of /proc
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// exits CODE PROGRAM ARG… runs a program that must exit with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			got = 128 + int(status.Signal()) // as a shell reports it
		}
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// until PATTERN PROGRAM ARG… runs a program again and again until its stdout
// matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern program [args...]")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if !eventually(func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && re.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("never matched %q", args[0])
	}
}

// signal NAME sends a signal to the background command.
func signalBackground(ts *testscript.TestScript, neg bool, args []string) {
	cmds := ts.BackgroundCmds()
	if neg || len(args) != 1 || len(cmds) != 1 {
		ts.Fatalf("usage: signal NAME, with one command in the background")
	}
	sig := unix.SignalNum(args[0])
	if sig == 0 {
		ts.Fatalf("no signal is called %s", args[0])
	}
	ts.Check(cmds[0].Process.Signal(sig))
}

// gone FILE… waits until the processes whose ids are in the files have ended. The files
// must exist.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: gone pidfile...")
	}
	for _, file := range args {
		pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
		ts.Check(err)
		if !eventually(func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }) {
			ts.Fatalf("process %d of %s is still there", pid, file)
		}
	}
}

// fact SELECTOR VALUE asserts a member of the JSON that was printed last:
// `fact .liveness '"live"'` of the last line, `fact 1.event …` of the second.
// With =NAME instead of VALUE, the member is stored in the environment variable NAME:
// `fact .pid =PID`.
func fact(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fact selector value|=NAME")
	}
	line, path, _ := strings.Cut(args[0], ".")
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	n := len(lines) - 1
	if line != "" {
		var err error
		n, err = strconv.Atoi(line)
		ts.Check(err)
	}
	if n >= len(lines) {
		ts.Fatalf("%d lines were printed", len(lines))
	}
	var v any
	ts.Check(json.Unmarshal([]byte(lines[n]), &v))
	for _, name := range strings.Split(path, "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			ts.Check(err)
			v = in[i]
		default:
			ts.Fatalf("%s: nothing has a member %q", args[0], name)
		}
	}
	got, err := json.Marshal(v)
	ts.Check(err)
	if name, ok := strings.CutPrefix(args[1], "="); ok {
		ts.Setenv(name, strings.Trim(string(got), `"`))
		return
	}
	if (string(got) == args[1]) == neg {
		ts.Fatalf("%s is %s, want (%t) %s", args[0], got, !neg, args[1])
	}
}

// plain asserts that the last output is not empty and that a terminal acts on
// nothing in it except line ends and tabs.
func plain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: plain")
	}
	printed := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	if printed == "" {
		ts.Fatalf("nothing was printed")
	}
	for line := range strings.Lines(printed) {
		text := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", " ")
		if text != vt.Plain(text) {
			ts.Fatalf("a terminal acts on %q", line)
		}
	}
}

// nowhere TEXT PATH… asserts that no file below the paths holds TEXT, and that
// there are files.
func nowhere(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: nowhere text path...")
	}
	for _, root := range args[1:] {
		files := 0
		ts.Check(filepath.WalkDir(ts.MkAbs(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(path)
			if err == nil && (bytes.Contains(data, []byte(args[0])) || strings.Contains(path, args[0])) {
				return fmt.Errorf("%s holds %q", path, args[0])
			}
			return err
		}))
		if files == 0 {
			ts.Fatalf("there are no files below %s", root)
		}
	}
}
