package hook

import (
	"bytes"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pass is the answer that lets a tool run. An empty answer refuses the tool, because
// failures give an empty answer too.
const Pass = "pass\n"

const denied = 2 // the exit code that makes a harness refuse the tool

// guard asks the session whether a tool may run. It prints the session's refusal, or
// nothing if the tool may run, and returns 0. If it gets no answer, it returns denied.
func guard(call command, socket string) int {
	deadline := time.Now().Add(call.guard)
	stdin := stream{unix.Stdin, deadline}
	input, err := io.ReadAll(io.LimitReader(stdin, MaxBody+1))
	if err == nil && len(input) > MaxBody {
		_, _ = io.Copy(io.Discard, stdin)
	}
	var answer bytes.Buffer
	if err == nil && socket != "" {
		err = Call(socket, readKey(call.keyFile), call.event, input, &answer, deadline)
	}
	switch {
	case err != nil || answer.Len() == 0:
		_, _ = os.Stderr.WriteString("lifeloop-wrap: the gate did not answer, so this tool call is denied\n")
		return denied
	case answer.String() == Pass:
		return 0
	}
	if _, err := (stream{unix.Stdout, deadline}).Write(answer.Bytes()); err != nil {
		return denied
	}
	return 0
}
