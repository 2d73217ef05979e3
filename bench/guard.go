//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"lifeloop/gate/starter"
)

// guardedTool measures the hook before a tool call in a session under the policy of
// package starter. Package gate decides whether the call is allowed, and the decision is
// on the disk before the hook is answered. The floor is the same hook in a session without
// a policy, where the hook gets an empty answer at once.
func guardedTool(b *bench) []row {
	policy := filepath.Join(b.dir, "policy.yaml")
	must(os.WriteFile(policy, []byte(starter.Policy()), 0o600))
	free, endFree := b.hooked("33333333-3333-4333-8333-333333333333")
	defer endFree()
	under, endUnder := b.hooked("44444444-4444-4444-8444-444444444444", "--policy", policy)
	defer endUnder()

	small := filepath.Join(filepath.Dir(b.wrap), "lifeloop-hook")
	n := 0
	call := func(socket, key string, flags ...string) func(int) time.Duration {
		return func(int) time.Duration {
			n++
			cmd := b.command(append(append([]string{small, "--key=" + key}, flags...), "PreToolUse")...)
			cmd.Env = append(cmd.Env, "LIFELOOP_SOCKET="+socket)
			cmd.Stdin = bytes.NewBufferString(fmt.Sprintf(`{"session_id":"x","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"toolu_%d","tool_input":{"command":"go test ./... 2>&1 | tail -5"},"cwd":%q}`, n, b.dir))
			return took(cmd)
		}
	}
	unguarded := call(free.socket, free.key)
	t := inTurn(b.rounds*8, unguarded, unguarded, call(under.socket, under.key, "--guard=8000"))
	return []row{
		t.pairs(0, 1).ratioRow("time of the hook before a tool, without a policy, measured twice: the noise of these measurements"),
		t.pairs(0, 2).ratioRow("time of the hook before an allowed tool under a policy, compared with no policy").atMost(1.5),
	}
}

// A hookedSession is a session whose hooks this process may call.
type hookedSession struct{ socket, key string }

// hooked starts a session of a harness that only sleeps.
func (b *bench) hooked(id string, flags ...string) (s hookedSession, end func()) {
	harness, ready := filepath.Join(b.dir, id, "claude"), filepath.Join(b.dir, id, "socket")
	must(os.Mkdir(filepath.Dir(harness), 0o700))
	must(os.WriteFile(harness, []byte("#!/bin/sh\nprintf %s \"$LIFELOOP_SOCKET\" >"+ready+".new\nmv "+ready+".new "+ready+"\nexec sleep 600\n"), 0o700))
	cmd := b.command(append(append([]string{b.wrap, "run", "--session-id", id}, flags...), "--", harness, "-p", "x")...)
	cmd.Stderr = os.Stderr
	must(cmd.Start())
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		socket, err := os.ReadFile(ready)
		if err == nil {
			s.socket = string(socket)
			break
		}
		if time.Since(began) > patience {
			must(errors.Join(err, cmd.Process.Kill()))
		}
	}
	s.key = filepath.Join(b.dir, "state", "sessions", id, "hook-key-1")
	return s, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // not SIGINT, which is ignored if a shell runs this program in the background
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			must(err)
		}
	}
}
