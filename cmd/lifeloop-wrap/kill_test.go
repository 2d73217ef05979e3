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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/testdata/fakeclient/fakeclienttest"
	"lifeloop/view"
)

// The kill matrix: one session, of three launches, hooks, two clients and a
// fallback, in which somebody is killed with SIGKILL at one of its appends:
// before the append, behind it and before anything is done about it, or in the
// midst of its writing; or the disk is full there. Whoever is killed, and wherever, the session comes to
// one terminal state (taken up by `run --resume` where the wrapper was killed),
// leaves no process and no socket, and what it told has no hole and no double.

var kills = flag.Int("kills", 10, "how many points of the kill matrix are tried, evenly; 0 is all (make chaos)")

// killAt in the environment says who is killed, how, and at which append.
const killAt = "LIFELOOP_TEST_KILL"

// A killer is a ledger at one of whose appends somebody dies.
type killer struct {
	supervisor.Ledger
	dir         string
	who, how    string
	at, appends int
	harness     int // the newest harness
}

// newKiller reads what the environment says; nil where it says nothing.
func newKiller() func(dir string, l supervisor.Ledger) supervisor.Ledger {
	words := strings.Fields(os.Getenv(killAt))
	if len(words) != 3 {
		return nil
	}
	os.Unsetenv(killAt) // the harness and the hooks are not to do it too
	at, _ := strconv.Atoi(words[2])
	return func(dir string, l supervisor.Ledger) supervisor.Ledger {
		return &killer{Ledger: l, dir: dir, who: words[0], how: words[1], at: at}
	}
}

func (k *killer) Append(records []ledger.Record, sync bool) ([]ledger.Entry, error) {
	k.appends++
	if k.appends == k.at && k.how == "before" {
		k.kill()
	}
	if k.appends == k.at && k.how == "torn" {
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
		if r.Kind == f.Kind() && json.Unmarshal(r.Body, &f) == nil {
			k.harness = f.PID
		}
	}
	if k.appends == k.at && k.how == "after" {
		k.kill()
	}
	return entries, err
}

// kill kills whoever it is to be, if it runs.
func (k *killer) kill() {
	switch k.who {
	case "wrapper":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it comes at once
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

// note says that somebody really died.
func (k *killer) note(died bool) {
	if died {
		_ = os.WriteFile(filepath.Join(k.dir, "killed"), nil, 0o600)
	}
}

// tear writes the first bytes of a line, and no more.
func (k *killer) tear() {
	f, err := os.OpenFile(filepath.Join(k.dir, "ledger-000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, _ = f.WriteString(`{"at":"2026-`)
		_ = f.Close()
	}
}

// killMarked kills the programs of a name that have a word in their
// environment and were started for this script.
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

// matrixConfig is what the session of the matrix is configured with.
const matrixConfig = `
clients:
  - {id: once, command: [fakeclient, --client-id, once, --log, asked-once, --on, frame.opening, --payload, "kind=note,placement=pre_prompt_frame,body=remember"]}
  - {id: stays, command: [fakeclient, --client-id, stays, --log, asked-stays, --persistent], mode: persistent}
attempts: {retry: {attempts: 1, backoff: {base_ms: 10}}, crash_loop: {launches: 0}}
client_drain: 3s
`

// The primary's two launches crash in the midst of a turn and behind one; the
// fallback does the work.
var matrixCommand = []string{"claude", "-p", "--launches", "count",
	"--script-json", `{"start":{}}{"hook":"UserPromptSubmit"}{"exit":3}`,
	"--script-json", `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":6000}}{"exit":4}`}

const matrixFallback = `claude -p --script-json '{"start":{}}{"turn":{"prompt":"q","answer":"b","used":7000,"tool":"true"}}{"end":"other"}'`

// A matrix is a place to run the session in.
type matrix struct {
	t          *testing.T
	dir, state string
	env        []string
	mark       string
}

func newMatrix(t *testing.T, bin string) *matrix {
	runtime, err := os.MkdirTemp("", "ll") // a short name: sockets have little room
	require.NoError(t, err)
	m := &matrix{t: t, dir: t.TempDir(), mark: filepath.Base(runtime)}
	m.state = filepath.Join(m.dir, "state")
	require.NoError(t, os.MkdirAll(filepath.Join(m.dir, "home"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "c.yaml"), []byte(matrixConfig), 0o600))
	m.env = append(os.Environ(), "HOME="+filepath.Join(m.dir, "home"), "XDG_RUNTIME_DIR="+runtime, "LIFELOOP_STATE_DIR="+m.state,
		scriptMark+"="+m.mark, "PATH="+bin+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	t.Cleanup(func() { leavesNothing(t, m.mark, runtime) })
	return m
}

const matrixSession = "77777777-7777-4777-8777-777777777777"

func (m *matrix) folder() store.Folder { return store.Open(m.state).Folder(matrixSession) }

func (m *matrix) sessionDir() string { return string(m.folder()) }

// run runs the product and says what came of it.
func (m *matrix) run(kill string, args ...string) (out string, err error) {
	cmd := exec.Command("lifeloop-wrap", append([]string{"--config", "c.yaml"}, args...)...)
	cmd.Dir, cmd.Env = m.dir, m.env
	if kill != "" {
		cmd.Env = append(slices.Clone(m.env), killAt+"="+kill)
	}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// live runs the whole session, taking it up as often as its wrapper died.
func (m *matrix) live(kill string) (wrappers int) {
	args := append([]string{"run", "--session-id", matrixSession, "--fallback", matrixFallback, "--"}, matrixCommand...)
	out, _ := m.run(kill, args...)
	for wrappers = 1; ; wrappers++ {
		if !m.there() {
			return wrappers // it died before there was a session, and left nothing
		}
		if m.status().Ended() {
			return wrappers
		}
		require.Less(m.t, wrappers, 4, "it does not end: %s", out)
		out, _ = m.run("", append([]string{"run", "--resume", matrixSession, "--"}, matrixCommand...)...)
	}
}

// there says whether the session has come to be.
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

// holds holds the whole session against what is promised of it.
func (m *matrix) holds() {
	t := m.t
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
	launches, ended := map[string]int{}, map[string]int{}
	for _, e := range entries {
		require.Zero(t, ends, "something behind the end: %s", e.Fact.Kind())
		for _, msg := range hcp.Apply(e) {
			require.Equal(t, lastHCP+1, msg.Payload.Sequence, "HCP has a hole, or a double")
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
			require.Equal(t, sequence[n], *f.Receipt.Sequence, "receipts of a harness session have a hole, or a double")
		case kernel.HarnessSessionOpened:
			numbers[f.Scope] = f.Scope
			if f.Scope > 1 && id == "" {
				numbers[f.Scope] = numbers[f.Scope-1] // what never learned an id is one
			}
			id = f.ID
		case kernel.Bound:
			id = f.ID
		case kernel.Launching:
			launches[f.Run]++
		case kernel.AttemptEnded:
			if f.Run != "" {
				ended[f.Run]++
			}
		}
	}
	require.Equal(t, []int{1, 1, 1}, []int{ends, closed, starts}, "one end, told once; one beginning")
	for name, event := range events {
		if event != lifeloop.ReceiptEmitted {
			require.Equal(t, 1, receipts[name], "receipts of %s for %s", name, event)
		}
	}
	require.Equal(t, launches, ended, "each launch is one attempt, which has one end")
	m.asked()
}

// asked holds what the clients were asked against what is promised to them: no
// call comes twice.
func (m *matrix) asked() {
	for _, name := range []string{"asked-once", "asked-stays"} {
		text, _ := os.ReadFile(filepath.Join(m.dir, name)) // none where nobody was asked
		seen := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var envelope struct {
				Request struct {
					Key string `json:"idempotency_key"`
				} `json:"request"`
			}
			if json.Unmarshal([]byte(line), &envelope) != nil {
				continue // it was killed while it wrote this down
			}
			require.False(m.t, seen[envelope.Request.Key], "%s was asked twice with %s", name, envelope.Request.Key)
			seen[envelope.Request.Key] = true
		}
	}
}

func TestKillMatrix(t *testing.T) {
	bin := t.TempDir()
	_, err := fakeclienttest.Build(bin)
	require.NoError(t, err)

	// Undisturbed, it is what it is meant to be: that is how many appends there
	// are to die at.
	calm := newMatrix(t, bin)
	require.Equal(t, 1, calm.live("nobody before 0"))
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

	var points []string
	for at := 1; at <= len(batches); at++ {
		for _, how := range []string{"before", "after", "torn"} {
			points = append(points, fmt.Sprintf("wrapper %s %d", how, at))
		}
		points = append(points, fmt.Sprintf("disk full %d", at))
		for _, who := range []string{"harness", "client", "hook"} {
			points = append(points, fmt.Sprintf("%s after %d", who, at))
		}
	}
	all := len(points)
	if n := *kills; n > 0 && n < all {
		var some []string
		for i := range n {
			some = append(some, points[i*all/n+i%7*all/n/7])
		}
		points = some
	}
	began, died := time.Now(), 0
	for _, point := range points {
		t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
			m := newMatrix(t, bin)
			m.live(point)
			if m.there() {
				m.holds()
			}
			if _, err := os.Stat(filepath.Join(m.sessionDir(), "killed")); err == nil || strings.HasPrefix(point, "wrapper") {
				died++
			}
		})
	}
	t.Logf("%d of %d points of the kill matrix in %v; at %d of them somebody died", len(points), all, time.Since(began).Round(time.Second), died)
	require.Positive(t, died)
}
