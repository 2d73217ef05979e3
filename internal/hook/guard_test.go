package hook_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/control"
	"lifeloop/internal/hook"
)

// TestGuardFailsClosed checks a hook that asks whether a tool may run. The hook allows
// the tool only if the answer is exactly Pass. A killed wrapper closes the connection; a
// stopped wrapper does not answer.
func TestGuardFailsClosed(t *testing.T) {
	pass := serve(t, func(call *control.HookCall) { call.Answer([]byte(hook.Pass)) })
	deny := serve(t, func(call *control.HookCall) { call.Answer([]byte(`{"deny":"it"}`)) })
	empty := serve(t, func(call *control.HookCall) { call.Answer(nil) })
	for _, c := range []struct {
		name, socket string
		stdin        io.Reader
		stdout       io.Writer
		code         int
		out          string
	}{
		{name: "allowed", socket: pass},
		{name: "refused by the session", socket: deny, out: `{"deny":"it"}`},
		{name: "an empty answer", socket: empty, code: 2},
		{name: "no session", code: 2},
		{name: "no socket", socket: filepath.Join(shortDir(t), "none.sock"), code: 2},
		{name: "the socket of a killed wrapper", socket: staleSocket(t), code: 2},
		{name: "a wrapper that does not answer", socket: idleSocket(t), code: 2},
		{name: "a wrapper that is killed during the call", socket: rawSocket(t, ""), code: 2},
		{name: "a wrapper that is killed within its answer", socket: rawSocket(t, "{\"bytes\":5}\npas"), code: 2},
		{name: "a wrapper that refuses", socket: rawSocket(t, "{\"error\":\"no\"}\n"), code: 2},
		{name: "input too large", socket: pass, stdin: bytes.NewReader(make([]byte, control.MaxBody+1)), code: 2},
		{name: "input without end", socket: pass, stdin: endless(t, "{}"), code: 2},
		{name: "a refusal that cannot be printed", socket: deny, stdout: closedPipe(t), code: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.stdin == nil {
				c.stdin = strings.NewReader("{}")
			}
			var out, errs bytes.Buffer
			if c.stdout == nil {
				c.stdout = &out
			}
			limit := "--guard=60000"
			if strings.Contains(c.name, "does not answer") || strings.Contains(c.name, "without end") {
				limit = "--guard=300" // only these cases reach the limit
			}
			cmd := process(t, c.socket, limit, "PreToolUse")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, &errs
			err := cmd.Run()
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.code, code)
			require.Equal(t, c.out, out.String())
			if code == 2 && c.stdout == &out {
				require.Contains(t, errs.String(), "this tool call is denied")
			}
		})
	}
}
