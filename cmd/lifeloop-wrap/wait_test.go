//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/view"

	hcp "lifeloop/session"
)

// A fakeSession is a ledger that the test writes as a wrapper would.
type fakeSession struct {
	t   *testing.T
	id  string
	dir string // the state directory
	log *ledger.Log
}

func newFakeSession(t *testing.T) *fakeSession {
	s := &fakeSession{t: t, id: "11111111-1111-4111-8111-111111111111", dir: t.TempDir()}
	var err error
	s.log, err = ledger.Create(string(store.Open(s.dir).Folder(s.id)), ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.log.Close() })
	s.record(kernel.Began{SessionID: s.id, AdapterID: "generic", Program: "true"},
		kernel.SessionMoved{From: hcp.None, To: hcp.Pending, Reason: "start"}, kernel.SessionMoved{From: hcp.Pending, To: hcp.Running, Reason: "approved"})
	return s
}

func (s *fakeSession) record(facts ...kernel.Fact) {
	var records []ledger.Record
	for _, f := range facts {
		kind, body, err := kernel.Encode(f)
		require.NoError(s.t, err)
		records = append(records, ledger.Record{Kind: kind, At: time.Now(), Body: body})
	}
	_, err := s.log.Append(records, false)
	require.NoError(s.t, err)
}

// wait starts the command `wait` and returns when the command watches the ledger. line
// returns the first line that the command prints.
func (s *fakeSession) wait(word string) (line func() string) {
	cmd := exec.Command("lifeloop-wrap", "wait", s.id, "--for", word, "--json")
	cmd.Env = append(os.Environ(), "LIFELOOP_STATE_DIR="+s.dir, "XDG_CONFIG_HOME="+s.dir, "GORACE=atexit_sleep_ms=0")
	cmd.Dir, cmd.Stderr = s.dir, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	if !eventually(func() bool { return watches(cmd.Process.Pid) }) {
		_ = cmd.Process.Kill()
		s.t.Fatal("wait watches no file")
	}
	return func() string {
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = cmd.Wait() })
		return line
	}
}

// watches reports whether a process has an inotify watch.
func watches(pid int) bool {
	infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	return slices.ContainsFunc(infos, func(path string) bool {
		info, _ := os.ReadFile(path)
		return bytes.Contains(info, []byte("inotify wd:"))
	})
}

// The awaited fact is recorded after wait starts. The command prints this fact, with
// "already": false. The test logs the times from a fact to its line, which depend on the
// load of the machine.
func TestWaitReturnsWithTheFact(t *testing.T) {
	s := newFakeSession(t)
	var took []time.Duration
	for range 9 {
		s.record(kernel.ActivityMoved{To: "working", Source: "hook"})
		line := s.wait("needs_input")
		began := time.Now()
		s.record(kernel.ActivityMoved{To: "needs_input", Source: "hook", Detail: "Notification"})
		text := line()
		took = append(took, time.Since(began))
		require.Contains(t, text, `"fact":{"to":"needs_input","source":"hook","detail":"Notification"}`)
		require.Contains(t, text, `"already":false`)
	}
	slices.Sort(took)
	t.Logf("from the fact to the line: %s", took)
}

// A state that lasts only a moment also ends the wait.
func TestWaitMissesNothing(t *testing.T) {
	s := newFakeSession(t)
	line := s.wait("PAUSED")
	for range 200 {
		s.record(kernel.ActivitySeen{Output: 1})
	}
	s.record(kernel.SessionMoved{From: hcp.Running, To: hcp.Paused, Reason: "paused"}, kernel.SessionMoved{From: hcp.Paused, To: hcp.Running, Reason: "resumed"})
	require.Contains(t, line(), `"reason":"paused"`)
}

// Every value of --for is in the help and has its meaning.
func TestWaitValuesAreDocumented(t *testing.T) {
	words := awaitedWords()
	for _, word := range words {
		a, err := awaitedBy(strings.ToUpper(word))
		require.NoError(t, err)
		require.Equal(t, word, a.word)
		status := view.Status{State: word, Activity: word}
		switch {
		case lifeloop.Event(word).Valid():
			require.Nil(t, a.holds)
			require.Equal(t, word, string(a.event))
		case word != forEnded:
			require.True(t, a.holds(&status))
			require.False(t, a.holds(&view.Status{}))
		}
	}
	require.Len(t, words, 1+len(hcp.States())+len(kernel.Activities())+len(lifeloop.Events()))
	seen := map[string]bool{}
	for _, w := range words {
		require.False(t, seen[strings.ToLower(w)], "%s is ambiguous", w)
		seen[strings.ToLower(w)] = true
	}
	help := waitCmd(&globals{}).Long
	for _, w := range append(kernel.Activities(), "PENDING REJECTED RUNNING PAUSED ABORTING ABORTED COMPLETED FAILED", forEnded) {
		require.Contains(t, help, w)
	}
	for _, s := range hcp.States() {
		require.Contains(t, help, string(s))
	}
	_, err := awaitedBy("")
	require.ErrorContains(t, err, "no such state")
	line, err := json.Marshal(outcome{SessionID: "s", For: "stopped"})
	require.NoError(t, err)
	require.JSONEq(t, `{"session_id":"s","for":"stopped","already":false,"seq":null,"at":null,"kind":null,"fact":null}`, string(line))
}
