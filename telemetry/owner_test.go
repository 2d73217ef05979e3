package telemetry_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/telemetry/gemini"
)

// owners lists the functions that return the session of a file, and whether the session
// runs in the folder dir.
var owners = map[string]func(head []byte, dir string) (session string, here bool){
	"claude-transcript": claude.Owner,
	"codex-rollout":     codex.Owner,
	"gemini-chat":       gemini.Owner,
}

// For each profile that finds the owners of files, the list above has a function.
func TestEveryOwnerIsListed(t *testing.T) {
	for _, adapter := range profiles.Adapters() {
		p, _ := profiles.For(adapter)
		for _, place := range p.Places(profiles.Host{Env: []string{"HOME=/h"}, Dir: "/d"}) {
			if place.Whose != nil {
				i := slices.IndexFunc(sources, func(s source) bool { return fmt.Sprintf("%T", s.new()) == fmt.Sprintf("%T", place.Source.Decoder()) })
				require.NotEqual(t, -1, i, adapter)
				require.Contains(t, owners, sources[i].name, adapter)
			}
		}
	}
}

// TestOwnersOfRecordings checks that the owner of each recorded file is the session or the
// sub-agent of the first signal that the decoder gives for the file.
func TestOwnersOfRecordings(t *testing.T) {
	for _, c := range sources {
		owner := owners[c.name]
		if owner == nil {
			continue
		}
		for _, file := range c.files(t) {
			t.Run(c.name+"/"+filepath.Base(file), func(t *testing.T) {
				data := read(t, file)
				var first telemetry.Signal
				d := c.new()
				for _, record := range c.split(t, file) {
					if signals := d.Decode(record); len(signals) > 0 {
						first = signals[0]
						break
					}
				}
				want := first.Session
				if c.name != "claude-transcript" {
					want = cmp.Or(first.Agent, first.Session)
				}
				session, here := owner(data, "/no such folder")
				require.Equal(t, want, session)
				require.False(t, here)
			})
		}
	}
}

// TestOwners checks which session the beginning of a file names, if any, and whether the
// file is of a main session in the folder dir.
func TestOwners(t *testing.T) {
	const dir = "/home/dev/caf\u00e9\u00a0\u2060\"x\"" // not all of it is printable
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))
	quoted := `"/home/dev/caf\u00e9` + "\u00a0" + `\u2060\"x\""`
	for _, c := range []struct {
		name, head, session string
		here                bool
	}{
		{"claude-transcript", `{"type":"mode","sessionId":"s"}` + "\n" + `{"sessionId":"s","cwd":` + quoted + `}` + "\n", "s", true},
		{"claude-transcript", `broken` + "\n" + `{"sessionId":"s","cwd":"/home/dev"}` + "\n", "s", false},
		{"claude-transcript", `{"sessionId":"s","cwd":""}` + "\n" + `{"cwd":"/x"}` + "\n" + `{"sessionId":"s","cwd":7}` + "\n", "", false},
		{"claude-transcript", `{"sessionId":"s","cwd":` + quoted + `}`, "", false},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s","cwd":` + quoted + `}}` + "\n", "s", true},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s","cwd":"/home/dev"}}` + "\n", "s", false},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s","thread_source":"subagent","cwd":` + quoted + `}}` + "\n", "s", false},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s","source":{"subagent":"review"},"cwd":` + quoted + `}}` + "\n", "s", false},
		{"codex-rollout", `{"type":"event_msg","payload":{"id":"x","cwd":` + quoted + `}}` + "\n", "", false},
		{"codex-rollout", `{}` + "\n" + `{"type":"session_meta","payload":{"id":"s","cwd":` + quoted + `}}` + "\n", "", false},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s","cwd":` + quoted + `}}`, "", false},
		{"codex-rollout", `{"type":"session_meta","payload":{"id":"s"}` + "\n", "", false},
		{"gemini-chat", `{"sessionId":"s","projectHash":"` + hash + `","kind":"main"}` + "\n", "s", true},
		{"gemini-chat", `{"sessionId":"s","projectHash":"` + strings.ToUpper(hash) + `","kind":"main"}` + "\n", "s", false},
		{"gemini-chat", `{"sessionId":"s","projectHash":"` + hash + `","kind":"subagent"}` + "\n", "s", false},
		{"gemini-chat", `{"sessionId":"s","projectHash":"` + hash + `","kind":"main"}`, "", false},
	} {
		session, here := owners[c.name]([]byte(c.head), dir)
		require.Equal(t, c.session, session, c.head)
		require.Equal(t, c.here, here, c.head)
	}
}
