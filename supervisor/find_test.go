package supervisor

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

// TestFind finds the sessions of a folder in the usual places of each harness. It
// leaves out sessions of other folders, and an empty place is not an error.
func TestFind(t *testing.T) {
	const here, elsewhere = "/home/dev/project", "/home/dev/other"
	hash := func(dir string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(dir))) }
	for _, c := range []struct {
		adapter string
		variant string
		env     string // one more environment variable; HOME is replaced by the home folder
		lay     func(t *testing.T, home string)
		want    []string // sessions, the newest first
	}{
		{adapter: "claude", lay: func(t *testing.T, home string) {
			for i, dir := range []string{here, elsewhere, here} {
				file(t, home, fmt.Sprintf(".claude/projects/p%d/s%d.jsonl", i, i), i, `{"type":"mode","sessionId":"s%d"}`+"\n"+`{"type":"user","cwd":%q,"sessionId":"s%d"}`, i, dir, i)
			}
			require.NoError(t, syscall.Mkfifo(filepath.Join(home, ".claude/projects/p0/fifo.jsonl"), 0o600)) // Find must not block on it
			file(t, home, ".claude/projects/p0/s0/subagents/agent-a.jsonl", 9, `{"cwd":%q,"sessionId":"a"}`, here)
		}, want: []string{"s2", "s0"}},
		{adapter: "claude", variant: "elsewhere", env: "CLAUDE_CONFIG_DIR=HOME/config", lay: func(t *testing.T, home string) {
			file(t, home, "config/projects/p/s.jsonl", 1, `{"type":"user","cwd":%q,"sessionId":"s"}`, here)
			file(t, home, ".claude/projects/p/old.jsonl", 2, `{"type":"user","cwd":%q,"sessionId":"old"}`, here)
		}, want: []string{"s"}},
		{adapter: "claude", variant: " with an image in the first prompt", lay: func(t *testing.T, home string) {
			file(t, home, ".claude/projects/p/s0.jsonl", 0, "%s", largeFirstPrompt(0, here))
			file(t, home, ".claude/projects/p/s1.jsonl", 1, "%s", largeFirstPrompt(1, elsewhere))
		}, want: []string{"s0"}},
		{adapter: "codex", lay: func(t *testing.T, home string) {
			for i, dir := range []string{here, here, elsewhere} {
				file(t, home, fmt.Sprintf(".codex/sessions/2026/01/0%d/rollout-%d.jsonl", i+1, i), i,
					`{"type":"session_meta","payload":{"id":"s%d","cwd":%q}}`, i, dir)
			}
			file(t, home, ".codex/sessions/2026/01/02/rollout-child.jsonl", 8, `{"type":"session_meta","payload":{"id":"child","cwd":%q,"thread_source":"subagent"}}`, here)
			file(t, home, ".codex/sessions/2026/01/02/rollout-review.jsonl", 9, `{"type":"session_meta","payload":{"id":"review","source":{"subagent":"review"},"cwd":%q}}`, here)
			file(t, home, ".codex/sessions/2026/01/01/rollout-x.jsonl", 7, `{"type":"event_msg","payload":{"id":"x","cwd":%q}}`, here)
		}, want: []string{"s1", "s0"}},
		{adapter: "gemini", lay: func(t *testing.T, home string) {
			file(t, home, ".gemini/tmp/project/chats/session-1.jsonl", 1, `{"sessionId":"s1","projectHash":%q,"kind":"main"}`, hash(here))
			file(t, home, ".gemini/tmp/project/chats/session-2.jsonl", 2, `{"sessionId":"s2","projectHash":%q,"kind":"subagent"}`, hash(here))
			file(t, home, ".gemini/tmp/other/chats/session-3.jsonl", 3, `{"sessionId":"s3","projectHash":%q,"kind":"main"}`, hash(elsewhere))
		}, want: []string{"s1"}},
		{adapter: "opencode", lay: func(t *testing.T, home string) {
			w := writeTo(t, folder(t, home, ".local/share/opencode/opencode.db"))
			w.do(`CREATE TABLE session (id text, directory text, parent_id text, time_updated integer)`)
			w.do(`INSERT INTO session VALUES ('s1', ?, NULL, 1000), ('s2', ?, NULL, 2000), ('s3', ?, 's1', 3000), ('s4', ?, NULL, 4000)`, here, here, here, elsewhere)
		}, want: []string{"s2", "s1"}},
		{adapter: "openclaw", lay: func(t *testing.T, home string) {
			w := writeTo(t, folder(t, home, ".openclaw/agents/main/agent/openclaw-agent.sqlite"))
			w.do(`CREATE TABLE session_nodes (session_key text, current_session_id text, updated_at integer)`)
			w.do(`CREATE TABLE transcript_events (session_id text, seq integer, event_json text)`)
			w.do(`INSERT INTO session_nodes VALUES ('a', 's1', 1000), ('b', 's2', 2000)`)
			w.do(`INSERT INTO transcript_events VALUES ('s1', 1, json_object('type', 'session', 'cwd', ?)), ('s2', 1, json_object('type', 'session', 'cwd', ?))`, here, elsewhere)
		}, want: []string{"s1"}},
		{adapter: "hermes", lay: func(t *testing.T, home string) {
			w := writeTo(t, folder(t, home, ".hermes/state.db"))
			w.do(`CREATE TABLE sessions (id text, cwd text, started_at real, last_activity_at real, ended_at real)`)
			w.do(`INSERT INTO sessions VALUES ('s1', ?, 1.5, NULL, NULL), ('s2', ?, 1.0, 2.5, NULL), ('s3', ?, 9.0, NULL, NULL)`, here, here, elsewhere)
		}, want: []string{"s2", "s1"}},
		{adapter: "generic", lay: func(*testing.T, string) {}},
	} {
		t.Run(c.adapter+c.variant, func(t *testing.T) {
			home := t.TempDir()
			profile, ok := profiles.For(c.adapter)
			require.True(t, ok)
			env := []string{"HOME=" + home, strings.Replace(c.env, "HOME", home, 1)}
			find := func() (ids []string) {
				found, err := Find(profile.Places(profiles.Host{Env: env, Dir: here}), here)
				require.NoError(t, err)
				for _, f := range found {
					require.FileExists(t, f.Source.Path)
					require.Equal(t, profile.Transcript.Decoder(), f.Source.Decoder())
					ids = append(ids, f.Session)
				}
				return ids
			}
			require.Empty(t, find(), "no files exist yet")
			c.lay(t, home)
			require.Equal(t, c.want, find())
		})
	}
}

// largeFirstPrompt is the beginning of a session whose first record with a working folder
// is longer than headSize, as Claude Code 2.1.330 writes it: the folder follows the prompt.
func largeFirstPrompt(i int, dir string) string {
	return fmt.Sprintf(`{"type":"mode","sessionId":"s%d"}`+"\n"+`{"type":"user","message":{"content":%q},"cwd":%q,"sessionId":"s%d"}`,
		i, strings.Repeat("iVBORw0KGgo", headSize/4), dir, i)
}

// TestUnfinishedPrompt: while the first prompt is being written, examine does not decide
// whether the session belongs to the folder.
func TestUnfinishedPrompt(t *testing.T) {
	profile, _ := profiles.For("claude")
	home := t.TempDir()
	place := profile.Places(profiles.Host{Env: []string{"HOME=" + home}})[0]
	path := folder(t, home, ".claude/projects/p/s0.jsonl")
	for dir, want := range map[string]int{"/home/dev/project": 1, "/home/dev/other": 0} {
		text := largeFirstPrompt(0, dir)
		require.NoError(t, os.WriteFile(path, []byte(text[:2*headSize]), 0o600))
		found, final := examine(place, path, "/home/dev/project")
		require.Empty(t, found)
		require.False(t, final)
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		found, final = examine(place, path, "/home/dev/project")
		require.Len(t, found, want)
		require.True(t, final)
	}
}

// folder creates the folders of a path below home.
func folder(t *testing.T, home, path string) string {
	path = filepath.Join(home, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

// file writes lines to a file and sets its time to a minute of the day.
func file(t *testing.T, home, path string, minute int, format string, args ...any) {
	t.Helper()
	path = folder(t, home, path)
	write(t, path, fmt.Sprintf(format, args...)+"\n")
	at := day.Add(time.Duration(minute) * time.Minute)
	require.NoError(t, os.Chtimes(path, at, at))
}

// TestAmbiguous: the choice is ambiguous if the newest session changed less than Recent
// ago, and the next one less than Recent before the newest.
func TestAmbiguous(t *testing.T) {
	sessions := func(ages ...time.Duration) (found []Found) {
		for _, age := range ages {
			found = append(found, Found{At: day.Add(-age)})
		}
		return found
	}
	for _, c := range []struct {
		found []Found
		want  bool
	}{
		{sessions(), false},
		{sessions(0), false},
		{sessions(time.Minute, 3*time.Minute-time.Second), true},
		{sessions(time.Minute, 3*time.Minute), false},
		{sessions(2*time.Minute, 2*time.Minute), false},
		{sessions(2*time.Minute-time.Second, 2*time.Minute, time.Hour), true},
	} {
		require.Equal(t, c.want, Ambiguous(c.found, day), "%v", c.found)
	}
}
