//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/control"
	"lifeloop/internal/hook"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	hcp "lifeloop/session"
	"lifeloop/supervisor"
	"lifeloop/view"
)

// A crowd is what many clients of one session have counted.
type crowd struct {
	t      *testing.T
	folder store.Folder
	socket string

	mu      sync.Mutex     // guards what follows
	answers map[string]int // by command and answer
	slowest time.Duration  // of the hooks
}

// do gives the session a command. Whatever it says, it must say something.
func (c *crowd) do(name string, what any) string {
	input, err := json.Marshal(what)
	if err != nil {
		c.t.Error(err)
		return ""
	}
	out, err := control.Do(c.socket, name, input, time.Now().Add(patience))
	var a supervisor.CommandAnswer
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		c.t.Errorf("%s is not answered: %v", name, err)
		return ""
	}
	said := "done"
	if a.FailureClass != "" {
		said = string(a.FailureClass) + ": " + a.Error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[name+" "+said]++
	return said
}

// hook calls a hook as the harness would.
func (c *crowd) hook(harness string, n int) {
	input := fmt.Sprintf(`{"hook_event_name":"PostToolUse","session_id":%q,"tool_name":"Bash","tool_use_id":"crowd_%d"}`, harness, n)
	began := time.Now()
	if err := hook.Ask(c.socket, "PostToolUse", []byte(input), &bytes.Buffer{}, began.Add(patience)); err != nil {
		c.t.Errorf("a hook is not answered: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, time.Since(began))
}

// follow reads along until ctx ends or the session does, and counts what was told.
func (c *crowd) follow(ctx context.Context) (facts int) {
	for _, err := range c.folder.Follow(ctx, 1) {
		if err != nil {
			c.t.Errorf("follow: %v", err)
			break
		}
		facts++
	}
	return facts
}

// TestAHundredClientsOfOneDoor has a hundred clients at one session's door at
// once, each with a wish of its own, while the harness calls its hooks. Every
// one is answered; what the session then says of itself is consistent, and is
// what the clients were told.
func TestAHundredClientsOfOneDoor(t *testing.T) {
	const (
		id      = "11111111-1111-4111-8111-111111111111"
		clients = 100
		turns   = 20
	)
	home := t.TempDir()
	runtime, err := os.MkdirTemp("", "ll") // a short name: sockets have little room
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(runtime) })
	env := append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+runtime, "XDG_CONFIG_HOME="+home, "LIFELOOP_STATE_DIR="+filepath.Join(home, "state"),
		"GORACE=atexit_sleep_ms=0")
	var script strings.Builder
	fmt.Fprintln(&script, `{"start":{}}`)
	fmt.Fprintln(&script, `{"turn":{"prompt":"p","answer":"a","used":1000,"tool":"until test -e crowd; do sleep 0.02; done"}}`)
	for range turns {
		fmt.Fprintln(&script, `{"turn":{"prompt":"p","answer":"a","used":1000,"tool":"true"}}`)
	}
	fmt.Fprintln(&script, `{"turn":{"prompt":"p","answer":"a","used":1000,"tool":"until test -e over; do sleep 0.02; done"}}`)
	fmt.Fprintln(&script, `{"end":"other"}`)
	require.NoError(t, os.WriteFile(filepath.Join(home, "script"), []byte(script.String()), 0o600))
	touch := func(name string) { require.NoError(t, os.WriteFile(filepath.Join(home, name), nil, 0o600)) }

	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command("lifeloop-wrap", args...)
		cmd.Env, cmd.Dir = env, home
		return cmd
	}
	wrapper := program("run", "--session-id", id, "--", "claude", "-p", "--script", "script")
	var printed bytes.Buffer
	wrapper.Stdout, wrapper.Stderr = &printed, &printed
	require.NoError(t, wrapper.Start())
	ended := make(chan error, 1)
	go func() { ended <- wrapper.Wait() }()
	t.Cleanup(func() { _ = wrapper.Process.Kill() })

	st := store.Open(filepath.Join(home, "state"))
	c := &crowd{t: t, folder: st.Folder(id), answers: map[string]int{}}
	var live store.Session
	if !eventually(func() bool { live = st.Read(id); return live.Turns == 1 && live.HarnessSessionID != nil }) {
		t.Fatalf("the session does not begin: %s", printed.String())
	}
	c.socket, err = c.folder.Socket()
	require.NoError(t, err)
	sockets := func() (n int) {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", wrapper.Process.Pid))
		require.NoError(t, err)
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()

	reading, stop := context.WithCancel(context.Background())
	defer stop()
	var readers, all sync.WaitGroup
	read := make([]int, clients)
	start := make(chan struct{})
	for n := range clients {
		client := func(work func()) {
			all.Go(func() {
				<-start
				work()
			})
		}
		switch n % 5 {
		case 0: // frames of its own, one in the other
			client(func() {
				for i := range 3 {
					outer, inner := fmt.Sprintf("f%d_%d", n, i), fmt.Sprintf("f%d_%d_in", n, i)
					for _, f := range []supervisor.FrameCommand{{Do: "open", FrameID: outer}, {Do: "open", FrameID: inner, Parent: outer}, {Do: "close", FrameID: outer}} {
						if said := c.do(supervisor.CommandFrame, f); said != "done" {
							t.Errorf("frame %+v: %s", f, said)
						}
					}
				}
			})
		case 1: // one stops it, the other lets it go on
			client(func() {
				for range 3 {
					c.do(supervisor.CommandPause, supervisor.SessionCommand{Reason: fmt.Sprint("client ", n)})
					c.do(supervisor.CommandResume, supervisor.SessionCommand{})
				}
			})
		case 2:
			client(func() {
				for i := range 5 {
					c.hook(*live.HarnessSessionID, n*10+i)
				}
			})
		case 3:
			readers.Go(func() { read[n] = c.follow(reading) })
		case 4: // whoever wishes what cannot be, and a person at another terminal now and then
			client(func() {
				c.do(supervisor.CommandRenew, supervisor.SessionCommand{})
				c.do("dance", supervisor.SessionCommand{})
				if n%20 != 4 {
					return
				}
				if out, err := program("status", "--json", id).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"liveness":"live"`)) {
					t.Errorf("status: %v: %s", err, out)
				}
				if out, err := program("wait", id, "--for", "frame.ended", "--timeout", patience.String()).CombinedOutput(); err != nil {
					t.Errorf("wait: %v: %s", err, out)
				}
			})
		}
	}
	close(start)
	touch("crowd")
	all.Wait()
	for c.do(supervisor.CommandResume, supervisor.SessionCommand{}) == "done" { // whoever paused it last may have come last
	}
	if !eventually(func() bool { return sockets() <= before }) {
		t.Errorf("the wrapper had %d sockets open before, and has %d", before, sockets())
	}
	touch("over")
	select {
	case err := <-ended:
		require.NoError(t, err, "%s", printed.String())
	case <-time.After(patience):
		t.Fatal("the session does not end")
	}
	late := time.AfterFunc(patience, stop)
	readers.Wait()
	late.Stop()

	report, err := ledger.Verify(string(c.folder))
	require.NoError(t, err)
	for n, facts := range read {
		if n%5 == 3 {
			require.Equal(t, int(report.Entries), facts, "every reader has seen every fact")
		}
	}
	if c.slowest > 4500*time.Millisecond {
		t.Errorf("a hook was answered after %s", c.slowest)
	}
	t.Logf("%d facts; slowest hook %s; %v", report.Entries, c.slowest, c.answers)
	c.consistent(turns + 2)
}

// consistent holds what the session says of itself against what its clients
// were told.
func (c *crowd) consistent(turns int) {
	t := c.t
	var status view.Status
	var envelopes view.HCP
	state, held := hcp.None, false
	frames, hooks := map[string]string{}, 0
	counted := map[string]int{}
	sequence := uint64(0)
	for e, err := range c.folder.Facts(0) {
		require.NoError(t, err)
		status.Apply(e)
		for _, m := range envelopes.Apply(e) {
			sequence++
			require.Equal(t, sequence, m.Payload.Sequence, "dense")
		}
		switch f := e.Fact.(type) {
		case kernel.SessionMoved:
			require.Equal(t, state, f.From)
			require.NoError(t, hcp.Check(f.From, f.To))
			state = f.To
		case kernel.PauseRequested:
			require.False(t, held, "paused twice")
			held = true
			counted["pause done"]++
		case kernel.ResumeRequested:
			require.True(t, held, "let go on twice")
			held = false
			counted["resume done"]++
		case kernel.CommandReceived:
			if f.Failure != "" {
				counted[f.What+" "+string(f.Failure)]++
			} else {
				counted["frame done"]++
			}
		case kernel.HookAnswered:
			if f.Event == "PostToolUse" {
				hooks++
			}
		case kernel.Observed:
			if f.Record.FrameContext != nil && f.Record.Event.Frame() {
				frames[f.Record.FrameContext.FrameID] += string(f.Record.Event) + " "
			}
		}
	}
	require.Equal(t, hcp.Completed, state)
	require.Equal(t, turns, status.Turns)
	for id, told := range frames {
		require.Equal(t, "frame.opening frame.opened frame.ending frame.ended ", told, "frame %s", id)
	}
	require.Len(t, frames, turns+20*3*2)
	require.Equal(t, 20*5+turns, hooks, "every call of a hook, and those of the harness's own")
	said := func(command, class string) (n int) {
		for answer, times := range c.answers {
			if strings.HasPrefix(answer, command+" "+class) {
				n += times
			}
		}
		return n
	}
	for _, what := range []string{"pause done", "resume done", "pause state_conflict", "resume state_conflict", "renew capability_unsupported", "frame done"} {
		command, class, _ := strings.Cut(what, " ")
		require.Equal(t, counted[what], said(command, class), "%s", what)
	}
	require.Equal(t, 20, said("dance", string(lifeloop.InvalidRequest)))
	require.Equal(t, 60, said("pause", "done")+said("pause", "state_conflict"))
	if _, err := os.Stat(c.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the door is still there: %v", err)
	}
}
