//go:build linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"lifeloop/control"
)

// hook measures the process that a harness waits for at every turn: the small
// program, and the large one that replaces it where it is missing.
func hook(b *bench) (rows []row, err error) {
	door, err := control.Listen(filepath.Join(b.dir, "hook.sock"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(answering, 1)
	var serving sync.WaitGroup
	serving.Go(func() { _ = door.Serve(ctx, answers) })
	defer serving.Wait()
	defer cancel()

	input := filepath.Join(b.dir, "hook.json")
	if err := os.WriteFile(input, []byte(`{"hook_event_name":"UserPromptSubmit","prompt":"x"}`), 0o600); err != nil {
		return nil, err
	}
	const event = "UserPromptSubmit"
	empty, small := b.program("empty"), filepath.Join(filepath.Dir(b.wrap), "lifeloop-hook")
	programs := []struct {
		argv   []string
		socket string
	}{
		{[]string{empty}, ""},
		{[]string{empty}, ""},
		{[]string{small, event}, door.Path()},
		{[]string{small, event}, ""},
		{[]string{b.wrap, "hook", event}, door.Path()},
		{[]string{b.wrap, "hook", event}, ""},
	}
	against := make([]pairs, len(programs)) // the first program is the floor
	for range b.rounds * 8 {
		times := make([]time.Duration, len(programs))
		// The order is random: a program leaves traces in the processor's caches,
		// so a fixed order would favour one of them.
		for _, which := range rand.Perm(len(programs)) {
			cmd := b.command(programs[which].argv...)
			cmd.Env = append(cmd.Env, "LIFELOOP_SOCKET="+programs[which].socket)
			if times[which], err = tookWith(cmd, input); err != nil {
				return nil, err
			}
			if programs[which].socket == "" {
				continue
			}
			// The hook exits before the server reads its last message. Waiting here
			// keeps that out of the next program's time.
			select {
			case delivered := <-answers:
				if !delivered {
					return nil, errors.New("a hook did not read its answer")
				}
			case <-time.After(patience):
				return nil, errors.New("a hook did not call")
			}
		}
		for i := range programs {
			against[i].add(times[0], times[i])
		}
	}
	return []row{
		against[1].ratioRow("an empty Go program / itself"),
		against[3].ratioRow("hook, without a session / an empty Go program").atMost(1.3, &against[3]),
		// No target: here two processes wake each other, which takes time whatever
		// the program does.
		against[2].ratioRow("hook, answered / an empty Go program"),
		against[5].ratioRow("lifeloop-wrap hook, without a session / an empty Go program"),
		against[4].ratioRow("lifeloop-wrap hook, answered / an empty Go program"),
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

// answering answers every hook with a payload of ordinary size, and reports whether
// it was delivered.
type answering chan bool

func (a answering) Hook(_ context.Context, call *control.HookCall) {
	a <- call.Answer([]byte(`{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"note"}}`))
}
