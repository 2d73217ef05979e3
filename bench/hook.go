//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

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

	var answered, alone pairs
	rounds := b.rounds * 8
	for range rounds {
		empty, err := took(b.command(b.program("empty")))
		if err != nil {
			return nil, err
		}
		run := func(socket string) (pair pairs, err error) {
			cmd := b.command(b.wrap, "hook", "UserPromptSubmit")
			cmd.Env = append(cmd.Env, "LIFELOOP_SOCKET="+socket)
			cmd.Stdin = strings.NewReader(`{"hook_event_name":"UserPromptSubmit","prompt":"x"}`)
			d, err := took(cmd)
			pair.add(empty, d)
			return pair, err
		}
		p, err := run(door.Path())
		if err != nil {
			return nil, err
		}
		answered.add(p.floor[0], p.ours[0])
		if p, err = run(""); err != nil {
			return nil, err
		}
		alone.add(p.floor[0], p.ours[0])
	}
	if n := answers.count(); n != rounds {
		return nil, fmt.Errorf("%d of %d hooks were answered", n, rounds)
	}
	return []row{
		answered.ratioRow("hook, answered / an empty Go program").atMost(1.3, &answered),
		alone.ratioRow("hook, without a session / an empty Go program").atMost(1.3, &alone),
	}, nil
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
