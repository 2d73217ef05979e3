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

// A crowd is one session with many clients, and the counts of the answers to these clients.
type crowd struct {
	t       *testing.T
	home    string
	env     []string
	wrapper *exec.Cmd
	printed bytes.Buffer // the output of the wrapper
	ended   chan error
	folder  store.Folder
	socket  string
	key     string // the key of the launch's hooks
	harness string // id of the harness session

	mu      sync.Mutex     // guards what follows
	answers map[string]int // number of answers, by command and answer
	slowest time.Duration  // the longest duration of a hook call
}

const (
	crowdSession = "11111111-1111-4111-8111-111111111111"
	crowdClients = 100
	crowdTurns   = 20
)

// newCrowd starts the session. Its harness waits in its first turn for the file
// crowd, and in its last for the file over.
func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, home: t.TempDir(), ended: make(chan error, 1), answers: map[string]int{}}
	runtime, err := os.MkdirTemp("", "ll") // a short name, because the length of a socket's path is limited
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(runtime) })
	c.env = append(os.Environ(), "HOME="+c.home, "XDG_RUNTIME_DIR="+runtime, "XDG_CONFIG_HOME="+c.home, "LIFELOOP_STATE_DIR="+filepath.Join(c.home, "state"),
		"GORACE=atexit_sleep_ms=0")
	turn := func(tool string) string {
		return fmt.Sprintf(`{"turn":{"prompt":"p","answer":"a","used":1000,"tool":%q}}`+"\n", tool)
	}
	script := `{"start":{}}` + turn("until test -e crowd; do sleep 0.02; done") + strings.Repeat(turn("true"), crowdTurns) +
		turn("until test -e over; do sleep 0.02; done") + `{"end":"other"}`
	require.NoError(t, os.WriteFile(filepath.Join(c.home, "script"), []byte(script), 0o600))

	c.wrapper = c.program("run", "--session-id", crowdSession, "--", "claude", "-p", "--script", "script")
	c.wrapper.Stdout, c.wrapper.Stderr = &c.printed, &c.printed
	require.NoError(t, c.wrapper.Start())
	go func() { c.ended <- c.wrapper.Wait() }()
	t.Cleanup(func() { _ = c.wrapper.Process.Kill() })

	st := store.Open(filepath.Join(c.home, "state"))
	c.folder = st.Folder(crowdSession)
	var live store.Session
	if !eventually(func() bool { live = st.Read(crowdSession); return live.Turns == 1 && live.HarnessSessionID != nil }) {
		t.Fatalf("the session does not start: %s", c.printed.String())
	}
	c.harness = *live.HarnessSessionID
	c.socket, err = c.folder.Socket()
	require.NoError(t, err)
	key, err := os.ReadFile(filepath.Join(string(c.folder), "hook-key-1"))
	require.NoError(t, err)
	c.key = string(key)
	return c
}

func (c *crowd) program(args ...string) *exec.Cmd {
	cmd := exec.Command("lifeloop-wrap", args...)
	cmd.Env, cmd.Dir = c.env, c.home
	return cmd
}

func (c *crowd) touch(name string) {
	require.NoError(c.t, os.WriteFile(filepath.Join(c.home, name), nil, 0o600))
}

// sockets counts the open sockets of the wrapper.
func (c *crowd) sockets() (n int) {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.wrapper.Process.Pid))
	require.NoError(c.t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// do sends the session a command. It returns "done", or the failure class and the
// text of a refusal. A command without an answer fails the test.
func (c *crowd) do(name string, what any) string {
	input, err := json.Marshal(what)
	if err != nil {
		c.t.Error(err)
		return ""
	}
	out, err := control.Do(c.socket, control.Command{Name: name, Input: input}, time.Now().Add(patience))
	var a supervisor.CommandAnswer
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		c.t.Errorf("%s is not answered: %v", name, err)
		return ""
	}
	answer := "done"
	if a.FailureClass != "" {
		answer = string(a.FailureClass) + ": " + a.Error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[name+" "+answer]++
	return answer
}

// hook calls a hook as the harness would.
func (c *crowd) hook(n int) {
	input := fmt.Sprintf(`{"hook_event_name":"PostToolUse","session_id":%q,"tool_name":"Bash","tool_use_id":"crowd_%d"}`, c.harness, n)
	began := time.Now()
	if err := hook.Call(c.socket, c.key, "PostToolUse", []byte(input), &bytes.Buffer{}, began.Add(patience)); err != nil {
		c.t.Errorf("a hook is not answered: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, time.Since(began))
}

// follow counts the facts until ctx or the session ends.
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

// client does the work of client n. The method is not called if n%5 == 3, because such a
// client only follows the ledger.
func (c *crowd) client(n int) {
	switch n % 5 {
	case 0: // frames of its own, one nested in the other
		for i := range 3 {
			outer, inner := fmt.Sprintf("f%d_%d", n, i), fmt.Sprintf("f%d_%d_in", n, i)
			for _, f := range []supervisor.FrameCommand{{Do: "open", FrameID: outer}, {Do: "open", FrameID: inner, Parent: outer}, {Do: "close", FrameID: outer}} {
				if answer := c.do(supervisor.CommandFrame, f); answer != "done" {
					c.t.Errorf("frame %+v: %s", f, answer)
				}
			}
		}
	case 1: // pauses that race with resumes
		for range 3 {
			c.do(supervisor.CommandPause, supervisor.SessionCommand{Reason: fmt.Sprint("client ", n)})
			c.do(supervisor.CommandResume, supervisor.SessionCommand{})
		}
	case 2:
		for i := range 5 {
			c.hook(n*10 + i)
		}
	case 4: // commands that are refused; some clients also run the program itself
		c.do(supervisor.CommandRenew, supervisor.SessionCommand{})
		c.do("dance", supervisor.SessionCommand{})
		if n%20 != 4 {
			return
		}
		if out, err := c.program("status", "--json", crowdSession).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"liveness":"live"`)) {
			c.t.Errorf("status: %v: %s", err, out)
		}
		if out, err := c.program("wait", crowdSession, "--for", "frame.ended", "--timeout", patience.String()).CombinedOutput(); err != nil {
			c.t.Errorf("wait: %v: %s", err, out)
		}
	}
}

// TestAHundredClientsOfOneSession runs a hundred clients of one session at once
// while the harness calls its hooks. Every call is answered, and the ledger
// agrees with the answers.
func TestAHundredClientsOfOneSession(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	before := c.sockets()
	reading, stop := context.WithCancel(context.Background())
	defer stop()
	var readers, clients sync.WaitGroup
	read := map[int]*int{} // entries by reader
	start := make(chan struct{})
	for n := range crowdClients {
		if n%5 == 3 {
			entries := new(int)
			read[n] = entries
			readers.Go(func() { *entries = c.follow(reading) })
			continue
		}
		clients.Go(func() {
			<-start
			c.client(n)
		})
	}
	close(start)
	c.touch("crowd")
	clients.Wait()
	for c.do(supervisor.CommandResume, supervisor.SessionCommand{}) == "done" { // the last pause may have come after the last resume
	}
	if !eventually(func() bool { return c.sockets() <= before }) {
		t.Errorf("the wrapper had %d sockets open before, and has %d", before, c.sockets())
	}
	c.touch("over")
	select {
	case err := <-c.ended:
		require.NoError(t, err, "%s", c.printed.String())
	case <-time.After(patience):
		t.Fatal("the session does not end")
	}
	late := time.AfterFunc(patience, stop)
	readers.Wait()
	late.Stop()

	report, err := ledger.Verify(string(c.folder))
	require.NoError(t, err)
	for _, entries := range read {
		require.Equal(t, int(report.Entries), *entries, "every reader reads every fact")
	}
	t.Logf("%d facts; slowest hook %s; %v", report.Entries, c.slowest, c.answers)
	c.consistent(crowdTurns + 2)
}

// consistent compares the ledger with the answers that the clients received.
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
			require.True(t, held, "resumed twice")
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
	for id, events := range frames {
		require.Equal(t, "frame.opening frame.opened frame.ending frame.ended ", events, "frame %s", id)
	}
	require.Len(t, frames, turns+20*3*2)
	require.Equal(t, 20*5+turns, hooks, "the clients' hook calls and the harness's own")
	answered := func(command, class string) (n int) {
		for answer, times := range c.answers {
			if strings.HasPrefix(answer, command+" "+class) {
				n += times
			}
		}
		return n
	}
	for _, what := range []string{"pause done", "resume done", "pause state_conflict", "resume state_conflict", "renew capability_unsupported", "frame done"} {
		command, class, _ := strings.Cut(what, " ")
		require.Equal(t, counted[what], answered(command, class), "%s", what)
	}
	require.Equal(t, 20, answered("dance", string(lifeloop.InvalidRequest)))
	require.Equal(t, 60, answered("pause", "done")+answered("pause", "state_conflict"))
	if _, err := os.Stat(c.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}
