//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"lifeloop/control"
)

// hook is what a harness waits for at every turn.
func hook(b *bench) (rows []row, err error) {
	door, err := control.Listen(filepath.Join(b.dir, "hook.sock"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	answers := &answering{}
	var serving sync.WaitGroup
	serving.Go(func() { _ = door.Serve(ctx, answers) })
	defer serving.Wait()
	defer cancel()

	input := filepath.Join(b.dir, "hook.json")
	if err := os.WriteFile(input, []byte(`{"hook_event_name":"UserPromptSubmit","prompt":"x"}`), 0o600); err != nil {
		return nil, err
	}
	programs := []struct {
		argv   []string
		socket string
	}{
		{[]string{b.program("empty")}, ""},
		{[]string{b.program("empty")}, ""},
		{[]string{b.wrap, "hook", "UserPromptSubmit"}, door.Path()},
		{[]string{b.wrap, "hook", "UserPromptSubmit"}, ""},
	}
	var self, answered, alone pairs
	rounds := b.rounds * 8
	for round := range rounds {
		var times [4]time.Duration
		for i := range programs {
			which := (i + round) % len(programs)
			cmd := b.command(programs[which].argv...)
			cmd.Env = append(cmd.Env, "LIFELOOP_SOCKET="+programs[which].socket)
			if times[which], err = tookWith(cmd, input); err != nil {
				return nil, err
			}
		}
		self.add(times[0], times[1])
		answered.add(times[0], times[2])
		alone.add(times[0], times[3])
	}
	if n := answers.count(); n != rounds {
		return nil, fmt.Errorf("%d of %d hooks were answered", n, rounds)
	}
	return []row{
		self.ratioRow("an empty Go program / itself"),
		answered.ratioRow("hook, answered / an empty Go program").atMost(1.3, &answered),
		alone.ratioRow("hook, without a session / an empty Go program").atMost(1.3, &alone),
	}, nil
}

// tookWith is took with a file for stdin.
func tookWith(cmd *exec.Cmd, input string) (time.Duration, error) {
	stdin, err := os.Open(input)
	if err != nil {
		return 0, err
	}
	defer stdin.Close()
	cmd.Stdin = stdin
	return took(cmd)
}

// answering gives every hook an answer of ordinary size.
type answering struct {
	mu sync.Mutex // guards n
	n  int
}

func (a *answering) Hook(_ context.Context, call *control.HookCall) {
	if call.Answer([]byte(`{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"note"}}`)) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.n++
	}
}

func (a *answering) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}
