//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// clientFaults are clients that give no valid answer, or that misbehave in another way.
// Each call must have its receipt, and the run must end as it does without these clients.
func clientFaults() (rows []fault) {
	one := func(what string, command ...string) {
		rows = append(rows, fault{what: "a client " + what, config: clientConfig("oneshot", command)})
	}
	each := func(what string, command ...string) {
		rows = append(rows, fault{what: "a persistent client " + what, config: clientConfig("persistent", command)})
	}
	shell := func(text string) []string { return []string{"sh", "-c", text} }
	one("whose answer has 2 MiB", "fakeclient", "--oversize", "2097152")
	one("that prints without end", "fakeclient", "--babble")
	one("that prints a byte now and then", shell(`cat >/dev/null; while printf '{'; do sleep 0.05; done`)...)
	one("that answers half a document", "fakeclient", "--bad-json")
	one("with members of other types", "fakeclient", "--answer", `{"status":7,"client_payloads":"x","warnings":{"a":1}}`)
	one("with a million brackets", shell(`cat >/dev/null; head -c 1000000 /dev/zero | tr '\0' '['`)...)
	one("that prints NUL bytes", shell(`cat >/dev/null; head -c 4096 /dev/zero`)...)
	one("with invalid UTF-8 in a warning", shell(`cat >/dev/null; printf '{"status":"observed","warnings":["\377\376\033[2J"]}'`)...)
	one("with a status twice", "fakeclient", "--answer", `{"status":"observed","status":"failed"}`)
	one("that writes 8 MiB on stderr", "fakeclient", "--stderr-size", "8388608")
	one("that does not read", "fakeclient", "--ignore-stdin")
	one("that leaves a process behind", "fakeclient", "--fork-linger", "1h")
	one("that leaves a process in its own session", shell(`cat >/dev/null; setsid sleep 3600 >/dev/null 2>&1 & printf '{"status":"observed"}'`)...)
	one("that does not exit", "fakeclient", "--stay")
	one("that dies", "fakeclient", "--crash")
	one("that does not exist", "no-such-client")
	one("that is a folder", "/tmp")
	each("without a newline", shell(`while read -r line; do printf '{"status":"observed"}'; done`)...)
	each("that answers twice", "fakeclient", "--persistent", "--twice")
	each("that prints without end", "fakeclient", "--persistent", "--babble")
	each("that dies at the fourth call", "fakeclient", "--persistent", "--after", "3", "--crash")
	each("that stays at the end", "fakeclient", "--persistent", "--stay")
	return rows
}

func clientConfig(mode string, command []string) string {
	var words []string
	for _, w := range command {
		words = append(words, fmt.Sprintf("'%s'", strings.ReplaceAll(w, "'", "''")))
	}
	return fmt.Sprintf("clients: [{id: once, command: [%s], mode: %s, timeout: 300ms}]\nclient_drain: 1s\n", strings.Join(words, ", "), mode)
}

// doorFaults are connections to the session's socket that do not come from a hook.
// The session serves its own hooks as before.
func doorFaults() []fault {
	call := func(what string, data []byte, calls int, wait bool) fault {
		return fault{what: what + " at the door", inject: func(f *faulted) {
			for range calls {
				f.knock(data, wait)
			}
		}}
	}
	deep := append([]byte(`{"v":1,"hook":`), bytes.Repeat([]byte("["), 1<<20)...)
	return []fault{
		call("200 connections that say nothing", nil, 200, false),
		call("20 connections that close at once", nil, 20, true),
		call("NUL bytes", make([]byte, 64<<10), 1, true),
		call("no JSON", []byte("GET / HTTP/1.1\r\n\r\n"), 5, true),
		call("half a call", []byte(`{"v":1,"event":"UserPrompt`), 5, false),
		call("48 MiB without a newline", bytes.Repeat([]byte("x"), 48<<20), 1, false),
		call("a million brackets", deep, 1, true),
		call("another protocol version", []byte(`{"v":99,"op":"abort"}`+"\n"), 1, true),
		call("an unknown operation", []byte(`{"op":"shutdown","session":"x"}`+"\n"), 1, true),
	}
}

// knock connects to the session's socket and writes the data. With wait it closes
// its side and reads the answer to its end; otherwise the connection stays open
// until the test ends.
func (f *faulted) knock(data []byte, wait bool) {
	paths, err := filepath.Glob(filepath.Join(f.runtime, "lifeloop", "*"))
	require.NoError(f.t, err)
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
			continue
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			return // a refused connection is an answer too
		}
		if !wait {
			f.t.Cleanup(func() { c.Close() })
			go func() { _, _ = c.Write(data) }()
			continue
		}
		_, _ = c.Write(data) // the connection may have been closed meanwhile
		_ = c.(*net.UnixConn).CloseWrite()
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		c.Close()
	}
}
