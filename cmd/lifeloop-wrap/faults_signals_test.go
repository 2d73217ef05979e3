//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lifeloop/harness"
	"lifeloop/kernel"
)

// signalFaults sends each signal to each process of a session.
func signalFaults() (rows []fault) {
	signals := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE,
		syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGKILL}
	for _, victim := range []string{"wrapper", "guard", "harness", "client", "hook"} {
		for _, sig := range signals {
			row := fault{what: unix.SignalName(sig) + " to the " + victim, inject: func(f *faulted) { f.signal(victim, sig) }}
			switch victim {
			case "wrapper":
				row.exits = afterSignal(sig)
			case "guard":
				row.exits = exitsWith(0, 125)
			case "harness":
				row.exits = asTheHarness
			case "hook": // the hook waits for the client
				row.config = slowHook
			}
			rows = append(rows, row)
		}
	}
	rows = append(rows,
		fault{what: "a stopped guard, then TERM to the wrapper", exits: afterSignal(syscall.SIGTERM), inject: func(f *faulted) {
			f.stop(f.cmd.Process.Pid)
			f.stop(f.guard())
			require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGCONT))
		}},
		fault{what: "a stopped guard, then KILL to the wrapper", exits: exitsWith(137), inject: func(f *faulted) {
			f.stop(f.cmd.Process.Pid)
			f.stop(f.guard())
			require.NoError(f.t, f.cmd.Process.Kill())
		}},
		fault{what: "TERM twice to the wrapper, the harness ignores it", exits: afterSignal(syscall.SIGTERM), script: []string{`{"ignore":["TERM","INT"]}`,
			turnStep("two", waitingTool)}, inject: func(f *faulted) {
			require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGTERM))
		}},
		fault{what: "KILL to wrapper and harness", exits: exitsWith(137), inject: func(f *faulted) {
			pid := f.harness()
			require.NoError(f.t, f.cmd.Process.Kill())
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}},
		fault{what: "KILL to guard and harness", exits: exitsWith(125, 137), inject: func(f *faulted) {
			pid := f.harness()
			require.NoError(f.t, syscall.Kill(f.guard(), syscall.SIGKILL))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}})
	return rows
}

// With slowHook, the hook of the third prompt waits for a client, and the client waits
// for the fault. hook_patience is long, because on a busy machine the client may still
// work on an earlier event.
const slowHook = `
hook_patience: 30s
clients: [{id: once, command: [sh, -c, "while test -e go && ! test -e answer; do sleep 0.02; done; exec fakeclient --client-id once --log asked-once"], events: [frame.opening], timeout: 30s}]
`

// signal sends a signal to a process of the session. A process that stops is continued
// at once. Only a client stays stopped, and its call times out.
func (f *faulted) signal(victim string, sig syscall.Signal) {
	pid := 0
	switch victim {
	case "wrapper":
		pid = f.cmd.Process.Pid
	case "guard":
		pid = f.guard()
		f.continued = append(f.continued, pid)
	case "harness":
		pid = f.harness()
		f.continued = append(f.continued, pid) // the wrapper does not continue a harness that got SIGSTOP: the user (this test) must
	case "client":
		pid = f.pid("--client-id stays")
	case "hook":
		// A hook waits for the earlier calls of a client only until its own time limit.
		require.True(f.t, eventually(f.answered), "the earlier calls have receipts")
		f.touch("go")
		pid = f.hook("UserPromptSubmit")
		f.continued = append(f.continued, pid)
	}
	require.NoError(f.t, syscall.Kill(pid, sig))
	f.touch("answer")
}

// hook finds the hook that the harness has started for an event. It looks only at the
// descendants of the harness: a hook lives 10 s at most, and on a busy machine a search
// of all processes may take longer.
func (f *faulted) hook(event string) (pid int) {
	of := f.harness()
	require.True(f.t, eventually(func() bool {
		for next := []int{of}; len(next) > 0 && pid == 0; next = next[1:] {
			lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
			for _, list := range lists {
				text, _ := os.ReadFile(list)
				for _, child := range strings.Fields(string(text)) {
					id, _ := strconv.Atoi(child)
					next = append(next, id)
					words, _ := os.ReadFile("/proc/" + child + "/cmdline")
					if bytes.Contains(words, []byte("lifeloop-hook")) && bytes.Contains(words, []byte(event)) {
						pid = id
					}
				}
			}
		}
		return pid != 0
	}), "the harness has no hook: %s", f.screen())
	return pid
}

// answered reports whether each call so far has its receipt.
func (f *faulted) answered() bool {
	open := map[string]bool{}
	for _, e := range f.entries() {
		switch x := e.Fact.(type) {
		case kernel.Observed:
			for _, c := range x.Calls {
				open[c.Call] = true
			}
		case kernel.ReceiptIssued:
			delete(open, x.Call)
		}
	}
	return len(open) == 0
}

// guard is the process that ends the harness if the wrapper dies.
func (f *faulted) guard() int {
	text, err := os.ReadFile(filepath.Join(f.sessionDir(), "guards.json"))
	require.NoError(f.t, err)
	var guards []harness.Process
	require.NoError(f.t, json.Unmarshal(text, &guards))
	require.NotEmpty(f.t, guards)
	return guards[0].PID
}

// stop stops a process and waits until it has stopped. Stop the wrapper before its guard,
// because a running wrapper continues a stopped guard at once.
func (f *faulted) stop(pid int) {
	require.NoError(f.t, syscall.Kill(pid, syscall.SIGSTOP))
	require.True(f.t, eventually(func() bool { return processState(pid) == "T" }))
}

// asTheHarness reports whether the exit code is that of the last launch.
func asTheHarness(f *faulted) bool {
	want := 0
	for _, e := range f.entries() {
		if x, ok := e.Fact.(kernel.Exited); ok {
			want = x.Code
			if x.Signal != 0 {
				want = 128 + x.Signal
			}
		}
	}
	return f.code == want
}

// afterSignal returns the check of the exit code after a signal to the wrapper. After
// most signals, the exit code is that of the signal or that of the harness. Some signals
// change nothing.
func afterSignal(sig syscall.Signal) func(*faulted) bool {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGSTOP:
		return exitsWith(0)
	case syscall.SIGKILL:
		return exitsWith(137)
	}
	return func(f *faulted) bool { return f.code == 128+int(sig) || f.code != 0 && asTheHarness(f) }
}

// terminalFaults take away the terminal, stdout or the socket of the session.
func terminalFaults() []fault {
	long := fmt.Sprintf(`{"raw":%q}`, string(make120k()))
	gone := func(f *faulted) bool { return f.code == 129 || asTheHarness(f) }
	return []fault{
		{what: "the terminal is closed", exits: gone, inject: func(f *faulted) { f.terminal.hangUp() }},
		{what: "HUP to the whole session, the terminal is closed", exits: gone, inject: func(f *faulted) {
			_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGHUP)
			f.terminal.hangUp()
		}},
		{what: "a full pipe as stdout, then TERM", exits: afterSignal(syscall.SIGTERM), pipe: true, script: []string{turnStep("two", waitingTool), long}, inject: func(f *faulted) {
			f.touch("go")
			require.True(f.t, eventually(func() bool { return f.waiting() > 60<<10 }), "the pipe is full")
			require.NoError(f.t, f.cmd.Process.Signal(syscall.SIGTERM))
		}},
		{what: "a full pipe as stdout, read later", pipe: true, script: []string{turnStep("two", waitingTool), long}, inject: func(f *faulted) {
			f.touch("go")
			require.True(f.t, eventually(func() bool { return f.waiting() > 60<<10 }), "the pipe is full")
			f.drain()
		}},
		{what: "the reader of stdout is gone", pipe: true, exits: anyCode, script: []string{turnStep("two", waitingTool), long}, inject: func(f *faulted) {
			f.reader.Close()
		}},
		{what: "stdout is /dev/full", exits: anyCode, before: func(f *faulted) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(f.t, err)
			f.writer = full
		}},
		{what: "the socket is removed", inject: func(f *faulted) {
			sockets, _ := filepath.Glob(filepath.Join(f.runtime, "lifeloop", "*"))
			for _, path := range sockets {
				require.NoError(f.t, os.RemoveAll(path))
			}
		}},
	}
}

func make120k() []byte {
	text := make([]byte, 120<<10)
	for i := range text {
		text[i] = 'x'
	}
	return text
}

// anyCode accepts every exit code: the program under the wrapper decides the code.
func anyCode(*faulted) bool { return true }
