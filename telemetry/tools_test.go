package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
)

// TestToolsAreNamed lists every call of a tool that the recordings tell: which
// tool it was, how much went in and came out, and whether it failed. Write the
// list anew with go test ./telemetry -run ToolsAreNamed -update.
func TestToolsAreNamed(t *testing.T) {
	var b strings.Builder
	tell := func(s Signal) {
		if s.Kind != ToolStart && s.Kind != ToolEnd {
			return
		}
		fmt.Fprintf(&b, "  %s %s", s.Kind, s.Tool)
		if s.ToolName != "" {
			b.WriteString(" " + s.ToolName)
		}
		if s.Args != nil {
			fmt.Fprintf(&b, " args=%d", s.Args.Size)
		}
		if s.Result != nil {
			fmt.Fprintf(&b, " result=%d", s.Result.Size)
		}
		if s.ToolError != "" {
			b.WriteString(" " + s.ToolError)
		}
		b.WriteString("\n")
	}
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-transcript", "claude/transcripts/*.jsonl"}, {"claude-stream", "claude/stream/*"},
		{"codex-rollout", "codex/rollouts/*.jsonl"}, {"codex-exec", "codex/exec-json/*.jsonl"}, {"codex-app-server", "codex/app-server/*.jsonl"},
		{"gemini-chat", "gemini/chats/*.jsonl"}, {"gemini-stream", "gemini/stream/*"},
		{"opencode-bus", "opencode/bus/*.jsonl"},
	} {
		for _, file := range recordings(t, c.pattern) {
			if strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			d, err := NewDecoder(c.decoder)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s %s\n", c.decoder, filepath.Base(file))
			for _, record := range records(t, file) {
				for _, s := range d.Decode(record) {
					tell(s)
				}
			}
		}
	}
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/hooks/*Tool*.json"}, {"codex-hook", "codex/hooks/*Tool*.json"}, {"gemini-hook", "gemini/hooks/*Tool*.json"},
	} {
		for _, file := range recordings(t, c.pattern) {
			stdin, err := os.ReadFile(file)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s %s\n", c.decoder, filepath.Base(file))
			for _, s := range decodeRecordedHook(t, c.decoder, stdin).Signals {
				tell(s)
			}
		}
	}
	golden(t, "tools", b.String())
}

// TestSized: the digest is that of the bytes, as their source spelled them.
func TestSized(t *testing.T) {
	require.Nil(t, sized(nil))
	require.Nil(t, sized([]byte("null")))
	require.Equal(t, &Sized{Digest: string(canon.Sum([]byte(`{"q":1}`))), Size: 7}, sized([]byte(`{"q":1}`)))
}
