//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/view"
)

// The kill matrix is one session of three launches, with hooks, two clients and a
// fallback. At one append to the ledger the disk is full, or a process is killed with
// SIGKILL: before the append, during the append, or between the append and its effects.
// In every case the session reaches one final state (recovered by `run --resume` if the
// wrapper was killed), leaves no process and no socket, and its events have no gap and no
// duplicate.

var kills = flag.Int("kills", 10, "number of points of the kill matrix to test, spread evenly; 0 for all (make chaos)")

// killAt is the name of an environment variable with three words: the process to kill,
// how, and the append at which to kill it. The append is a number, or "last" for the
// append that ends the session. With "torn3" as the second word, three whole facts of
// the append are written, and a part of the fourth.
const killAt = "LIFELOOP_TEST_KILL"

// A killer is a ledger that kills a process at one of its appends.
type killer struct {
	supervisor.Ledger
	dir         string
	who, how    string
	at, appends int
	last        bool // at is the append that ends the session
	harness     int  // pid of the newest harness; 0 before the first one
}

// newKiller reads killAt; it returns nil if that is not set.
func newKiller() func(dir string, l supervisor.Ledger) supervisor.Ledger {
	words := strings.Fields(os.Getenv(killAt))
	if len(words) != 3 {
		return nil
	}
	os.Unsetenv(killAt) // the harness and the hooks must not inherit it
	at, _ := strconv.Atoi(words[2])
	return func(dir string, l supervisor.Ledger) supervisor.Ledger {
		return &killer{Ledger: l, dir: dir, who: words[0], how: words[1], at: at, last: words[2] == "last"}
	}
}

func (k *killer) Append(records []ledger.Record, sync bool) ([]ledger.Entry, error) {
	k.appends++
	if k.last && slices.ContainsFunc(records, isFinal) {
		k.at = k.appends
	}
	if k.appends == k.at && k.how == "before" {
		k.kill()
	}
	if whole, torn := strings.CutPrefix(k.how, "torn"); torn && k.appends == k.at {
		if n, _ := strconv.Atoi(whole); n > 0 && len(records) > 1 {
			_, _ = k.Ledger.Append(records[:min(n, len(records)-1)], true)
		}
		k.tear()
		k.kill()
	}
	if k.at > 0 && k.appends >= k.at && k.how == "full" {
		if k.appends == k.at {
			k.tear()
			k.note(true)
		}
		return nil, syscall.ENOSPC
	}
	entries, err := k.Ledger.Append(records, sync)
	for _, r := range records {
		var f kernel.Running
		if r.Kind == kernel.Kind(f) && json.Unmarshal(r.Body, &f) == nil {
			k.harness = f.PID
		}
	}
	if k.appends == k.at && k.how == "after" {
		k.kill()
	}
	return entries, err
}

// isFinal reports whether a record is the last of its session.
func isFinal(r ledger.Record) bool {
	var f kernel.SessionMoved
	return r.Kind == kernel.Kind(f) && json.Unmarshal(r.Body, &f) == nil && f.To.Terminal()
}

// kill kills the chosen process, if it runs.
func (k *killer) kill() {
	switch k.who {
	case "wrapper":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // SIGKILL arrives at once
	case "harness":
		if k.harness > 0 {
			k.note(syscall.Kill(k.harness, syscall.SIGKILL) == nil)
		}
	case "client":
		k.note(killMarked("LIFELOOP_CLIENT_ID=", "fakeclient"))
	case "hook":
		k.note(killMarked("LIFELOOP_SESSION_ID=", "lifeloop-hook"))
	}
}

// note records that a process was killed.
func (k *killer) note(died bool) {
	if died {
		_ = os.WriteFile(filepath.Join(k.dir, "killed"), nil, 0o600)
	}
}

// tear writes only the first bytes of a line.
func (k *killer) tear() {
	f, err := os.OpenFile(filepath.Join(k.dir, "ledger-000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, _ = f.WriteString(`{"at":"2026-`)
		_ = f.Close()
	}
}

// killMarked kills each process of this script whose command line contains program
// and whose environment contains word.
func killMarked(word, program string) (died bool) {
	mark := os.Getenv(scriptMark)
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		env, err := os.ReadFile(path)
		words, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !bytes.Contains(env, []byte(word)) || !bytes.Contains(env, []byte(scriptMark+"="+mark+"\x00")) ||
			!bytes.Contains(words, []byte(program)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		died = syscall.Kill(pid, syscall.SIGKILL) == nil || died
	}
	return died
}

// matrixConfig is the configuration of the session.
const matrixConfig = `
clients:
  - {id: once, command: [fakeclient, --client-id, once, --log, asked-once, --on, frame.opening, --payload, "kind=note,placement=pre_prompt_frame,body=remember"]}
  - {id: stays, command: [fakeclient, --client-id, stays, --log, asked-stays, --persistent], mode: persistent}
attempts: {retry: {attempts: 1, backoff: {base_ms: 10}}, crash_loop: {launches: 0}}
client_drain: 3s
`

// The first profile crashes twice: in its first launch during a turn, in its second
// launch after a turn. Then the fallback runs.
var matrixCommand = []string{"claude", "-p", "--launches", "count",
	"--script-json", `{"start":{}}{"hook":"UserPromptSubmit"}{"exit":3}`,
	"--script-json", `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":6000}}{"exit":4}`}

const matrixFallback = `claude -p --script-json '{"start":{}}{"turn":{"prompt":"q","answer":"b","used":7000,"tool":"true"}}{"end":"other"}'`

// A plot describes the session of a kill matrix.
type plot struct {
	config string
	flags  []string // flags of run, besides --session-id
	argv   []string
	env    []string
	files  map[string]string
	// open keeps stdin open. At the end of stdin, the wrapper types the end-of-file key
	// if the terminal is in line mode. A harness that starts slowly may read this key.
	open bool
}

// matrixPlot is the session of [TestKillMatrix].
func matrixPlot() plot {
	return plot{config: matrixConfig, flags: []string{"--fallback", matrixFallback}, argv: matrixCommand}
}

// A matrix is one session of a test, which runs in a folder of its own.
type matrix struct {
	t          *testing.T
	plot       plot
	dir, state string
	env        []string
	mark       string
	printed    string // the output of all wrappers of the session
}

func newMatrix(t *testing.T, bin string, p plot) *matrix {
	runtime, err := os.MkdirTemp("", "ll") // a short name, because the length of a socket's path is limited
	require.NoError(t, err)
	m := &matrix{t: t, plot: p, dir: t.TempDir(), mark: filepath.Base(runtime)}
	m.state = filepath.Join(m.dir, "state")
	require.NoError(t, os.MkdirAll(filepath.Join(m.dir, "home"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "c.yaml"), []byte(p.config), 0o600))
	m.env = append(os.Environ(), "HOME="+filepath.Join(m.dir, "home"), "XDG_RUNTIME_DIR="+runtime, "LIFELOOP_STATE_DIR="+m.state,
		scriptMark+"="+m.mark, "PATH="+bin+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	m.env = append(m.env, p.env...)
	for name, text := range p.files {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
	t.Cleanup(func() { leavesNothing(t, m.mark, runtime) })
	return m
}

const matrixSession = "77777777-7777-4777-8777-777777777777"

func (m *matrix) folder() store.Folder { return store.Open(m.state).Folder(matrixSession) }

func (m *matrix) sessionDir() string { return string(m.folder()) }

// openFor is the time after which the user leaves the harness, if the plot has open set.
const openFor = time.Minute

// run runs lifeloop-wrap and returns its output.
func (m *matrix) run(kill string, args ...string) (out string, err error) {
	cmd := exec.Command("lifeloop-wrap", append([]string{"--config", "c.yaml"}, args...)...)
	if m.plot.open {
		read, write, err := os.Pipe()
		require.NoError(m.t, err)
		defer read.Close()
		// Without the renewal, for example because a killed hook made it impossible, the
		// harness would wait for keys for ever.
		leave := time.AfterFunc(openFor, func() { _, _ = write.WriteString("/exit\r") })
		defer func() {
			leave.Stop()
			write.Close()
		}()
		cmd.Stdin = read
	}
	cmd.Dir, cmd.Env = m.dir, m.env
	if kill != "" {
		cmd.Env = append(slices.Clone(m.env), killAt+"="+kill)
	}
	text, err := cmd.CombinedOutput()
	m.printed += string(text)
	return string(text), err
}

// live runs the whole session and recovers it after each death of its wrapper.
func (m *matrix) live(kill string) (wrappers int) {
	out, _ := m.run(kill, slices.Concat([]string{"run", "--session-id", matrixSession}, m.plot.flags, []string{"--"}, m.plot.argv)...)
	for wrappers = 1; ; wrappers++ {
		if !m.there() {
			return wrappers // the wrapper died before it created a session
		}
		if m.status().Ended() {
			return wrappers
		}
		require.Less(m.t, wrappers, 4, "it does not end: %s", out)
		out, _ = m.run("", append([]string{"run", "--resume", matrixSession, "--"}, m.plot.argv...)...)
	}
}

// there reports whether the session was created.
func (m *matrix) there() bool {
	_, err := os.Stat(filepath.Join(m.sessionDir(), "ledger-000001.jsonl"))
	return err == nil
}

func (m *matrix) status() *store.Session {
	k := store.Open(m.state).Read(matrixSession)
	require.NoError(m.t, k.Damage)
	return &k
}

// entries are the facts of the session.
func (m *matrix) entries() (all []kernel.Entry) {
	for e, err := range m.folder().Facts(0) {
		require.NoError(m.t, err)
		all = append(all, e)
	}
	return all
}

// holds checks the promises about a whole session.
func (m *matrix) holds() {
	t := m.t
	summariesAgree(m.t, m.state)
	report, err := ledger.Verify(m.sessionDir())
	require.NoError(t, err)
	entries := m.entries()
	require.Equal(t, uint64(len(entries)), report.Entries)

	var hcp view.HCP
	var l0 view.L0
	var lastHCP, lastL0 uint64
	ends, starts, closed := 0, 0, 0
	receipts, events := map[string]int{}, map[string]lifeloop.Event{}
	sequence, numbers, id := map[int]int64{}, map[int]int{}, ""
	tries := attempts{launches: map[string]int{}, ended: map[string]int{}}
	first := map[string]int{} // harness session id → its key in the map sequence
	named := func(scope int, id string) {
		if n, known := first[id]; known && id != "" {
			numbers[scope] = n
		}
		first[id] = numbers[scope]
	}
	for _, e := range entries {
		require.Zero(t, ends, "a fact after the end: %s", kernel.Kind(e.Fact))
		for _, msg := range hcp.Apply(e) {
			require.Equal(t, lastHCP+1, msg.Payload.Sequence, "HCP has a gap or a duplicate")
			lastHCP = msg.Payload.Sequence
			if msg.Payload.Type == "session_closed" {
				closed++
			}
		}
		for _, ev := range l0.Apply(e) {
			require.Equal(t, lastL0+1, ev.Seq)
			lastL0 = ev.Seq
			if ev.Type == "SESSION_START" {
				starts++
			}
		}
		switch f := e.Fact.(type) {
		case kernel.SessionMoved:
			if f.To.Terminal() {
				ends++
			}
		case kernel.Observed:
			for _, c := range f.Calls {
				events[c.Client+" "+f.Record.EventID] = f.Record.Event
			}
		case kernel.ReceiptIssued:
			receipts[f.Receipt.ClientID+" "+f.Receipt.EventID]++
			n := numbers[f.Scope]
			sequence[n]++
			require.Equal(t, sequence[n], *f.Receipt.Sequence, "receipts of a harness session have a gap or a duplicate")
		case kernel.HarnessSessionOpened:
			numbers[f.Scope] = f.Scope
			if f.Scope > 1 && id == "" {
				numbers[f.Scope] = numbers[f.Scope-1] // consecutive scopes without an id share one sequence
			}
			id = f.ID
			named(f.Scope, f.ID)
		case kernel.Bound:
			id = f.ID
			named(f.Scope, f.ID)
		}
		tries.apply(e.Fact)
	}
	require.Equal(t, []int{1, 1, 1}, []int{ends, closed, starts}, "one end, reported once; one start")
	for name, event := range events {
		if event != lifeloop.ReceiptEmitted {
			require.Equal(t, 1, receipts[name], "receipts of %s for %s", name, event)
		}
	}
	require.Equal(t, tries.launches, tries.ended, "each launch is one attempt with one end")
	m.asked()
}

// attempts counts, for each run id of a launch, the facts that record the launch and those
// that record the end of its attempt. A launch by a renewal continues the attempt of the
// previous launch, so the previous launch is then removed from launches.
type attempts struct {
	launches, ended map[string]int
	run             string // the newest launch
}

func (a *attempts) apply(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.Launching:
		if f.Cause == "renewal" { // the launch continues the attempt of the previous launch
			delete(a.launches, a.run)
		}
		a.run = f.Run
		a.launches[a.run]++
	case kernel.AttemptEnded:
		if f.Run != "" {
			a.ended[f.Run]++
		}
	}
}

// asked checks that no client was called twice for the same event.
func (m *matrix) asked() {
	for _, name := range []string{"asked-once", "asked-stays"} {
		text, _ := os.ReadFile(filepath.Join(m.dir, name)) // missing if the client was never called
		seen := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var envelope struct {
				Request struct {
					Key string `json:"idempotency_key"`
				} `json:"request"`
			}
			if json.Unmarshal([]byte(line), &envelope) != nil {
				continue // the client was killed while it wrote this line
			}
			require.False(m.t, seen[envelope.Request.Key], "%s was asked twice with %s", name, envelope.Request.Key)
			seen[envelope.Request.Key] = true
		}
	}
}

// pointsOf returns the points to test in a session with this number of
// appends, and how many points there are in all.
func pointsOf(appends int) (points []string, all int) {
	for at := 1; at <= appends; at++ {
		for _, how := range []string{"before", "after", "torn"} {
			points = append(points, fmt.Sprintf("wrapper %s %d", how, at))
		}
		points = append(points, fmt.Sprintf("disk full %d", at))
		for _, who := range []string{"harness", "client", "hook"} {
			points = append(points, fmt.Sprintf("%s after %d", who, at))
		}
	}
	all = len(points)
	if n := *kills; n > 0 && n < all {
		var some []string
		for i := range n {
			some = append(some, points[i*all/n+i%7*all/n/7])
		}
		points = some
	}
	return points, all
}

func TestKillMatrix(t *testing.T) {
	t.Parallel()
	bin := built(t, besides)

	// A run without a kill shows how many appends there are.
	calm := newMatrix(t, bin, matrixPlot())
	require.Equal(t, 1, calm.live("none before 0"))
	calm.holds()
	status := calm.status()
	require.Equal(t, "COMPLETED", status.State)
	launched, batches := 0, map[time.Time]bool{}
	for _, e := range calm.entries() {
		batches[e.At] = true
		if _, ok := e.Fact.(kernel.Launching); ok {
			launched++
		}
	}
	require.Equal(t, 3, launched)

	last := []string{"wrapper before last", "wrapper after last", "wrapper torn last", "disk full last"}
	points, all := pointsOf(len(batches))
	points, all = append(last, points...), all+len(last)
	began := time.Now()
	var died atomic.Int64
	t.Run("points", func(t *testing.T) {
		for _, point := range points {
			t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
				t.Parallel()
				m := newMatrix(t, bin, matrixPlot())
				m.live(point)
				if m.there() {
					m.holds()
				}
				if _, err := os.Stat(filepath.Join(m.sessionDir(), "killed")); err == nil || strings.HasPrefix(point, "wrapper") {
					died.Add(1)
				}
			})
		}
	})
	t.Logf("%d of %d points of the kill matrix in %v; at %d of them a process was killed", len(points), all, time.Since(began).Round(time.Second), died.Load())
	require.Positive(t, died.Load())
}
