//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lifeloop/control"
)

// hook measures the process that a harness waits for at every turn. This process is
// lifeloop-hook or, where lifeloop-hook is missing, `lifeloop-wrap hook`.
func hook(b *bench) []row {
	door := got(control.Listen(filepath.Join(b.dir, "hook.sock")))
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(answering, 1)
	var serving sync.WaitGroup
	serving.Go(func() { _ = door.Serve(ctx, answers) })
	defer serving.Wait()
	defer cancel()

	input := filepath.Join(b.dir, "hook.json")
	must(os.WriteFile(input, []byte(`{"hook_event_name":"UserPromptSubmit","prompt":"x"}`), 0o600))
	keyFile := filepath.Join(b.dir, "hook.key")
	must(os.WriteFile(keyFile, []byte("4D7G2Q6XK3ZB5M7TNVWYPCJHRA"), 0o600))
	key := "--key=" + keyFile
	const event = "UserPromptSubmit"
	empty, small := b.program("empty"), filepath.Join(filepath.Dir(b.wrap), "lifeloop-hook")
	call := func(socket string, argv ...string) func(int) time.Duration {
		return func(int) time.Duration {
			cmd := b.command(argv...)
			cmd.Env = append(cmd.Env, "LIFELOOP_SOCKET="+socket)
			stdin := got(os.Open(input))
			defer stdin.Close()
			cmd.Stdin = stdin
			spent := took(cmd)
			if socket == "" {
				return spent
			}
			// The hook exits before the server has read the hook's last message. Wait
			// for the server, so that its work does not slow the next program.
			select {
			case delivered := <-answers:
				if !delivered {
					must(errors.New("a hook did not read its answer"))
				}
			case <-time.After(patience):
				must(errors.New("the server received no call from the hook"))
			}
			return spent
		}
	}
	t := inTurn(b.rounds*8, call("", empty), call("", empty), call(door.Path(), small, key, event), call("", small, key, event),
		call(door.Path(), b.wrap, "hook", key, event), call("", b.wrap, "hook", key, event))
	return []row{
		t.pairs(0, 1).ratioRow("time of an empty Go program, measured twice: the noise of these measurements"),
		t.pairs(0, 3).ratioRow("time of lifeloop-hook without a session, compared with an empty Go program").atMost(1.3),
		// This row has no target. Here two processes wake each other, which takes
		// time whatever the program does.
		t.pairs(0, 2).ratioRow("time of lifeloop-hook with an answer, compared with an empty Go program"),
		t.pairs(0, 5).ratioRow("time of \"lifeloop-wrap hook\" without a session, compared with an empty Go program"),
		t.pairs(0, 4).ratioRow("time of \"lifeloop-wrap hook\" with an answer, compared with an empty Go program"),
	}
}

// answering answers every hook with a payload of ordinary size, and reports whether
// it was delivered.
type answering chan bool

func (a answering) Hook(_ context.Context, call *control.HookCall) {
	a <- call.Answer([]byte(`{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"note"}}`))
}
