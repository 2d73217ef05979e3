//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tree describes a home: the mode of every file, and the content of configuration
// files. Values that differ between runs (ids, times, measurements) are blanked.
type tree map[string]string

func homeTree(t *testing.T) tree {
	t.Helper()
	out := tree{}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := blank(strings.TrimPrefix(path, home))
		out[name] = info.Mode().String()
		if d.Type().IsRegular() && isConfiguration(name) {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[name] += "\n" + blankContent(name, data)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

// isConfiguration reports whether a file may configure a harness: its settings, and
// every file of the project.
func isConfiguration(name string) bool {
	base := filepath.Base(name)
	return name == "/.claude.json" || strings.HasPrefix(name, "/project/") || strings.HasPrefix(name, "/.config/") || strings.HasPrefix(base, "settings") ||
		strings.HasPrefix(base, "hooks") || strings.HasSuffix(base, ".toml")
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	records = regexp.MustCompile(`\bses_\w{26}\b`) // ids of OpenCode's sessions
	stamps  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d([._-]\d+Z)?`)
	numbers = regexp.MustCompile(`\d{9,}`)
	digests = regexp.MustCompile(`[0-9a-f]{64}`)
	days    = regexp.MustCompile(`/\d{4}/\d\d/\d\d/`)
	process = regexp.MustCompile(`/sessions/\d+\.`)
	chats   = regexp.MustCompile(`/session-\d{4}-\d\d-\d\dT\d\d-\d\d-[0-9a-f]{8}\.jsonl`)
	random  = regexp.MustCompile(`(/codex-arg0|/snapshot-bash-\d+-|/plugins-clone-)\w{6}`)
)

func blank(s string) string {
	s = chats.ReplaceAllString(s, "/session-TIME-ID.jsonl")
	s = random.ReplaceAllString(s, "${1}RANDOM")
	s = uuids.ReplaceAllString(s, "ID")
	s = records.ReplaceAllString(s, "ID")
	s = stamps.ReplaceAllString(s, "TIME")
	s = days.ReplaceAllString(s, "/DAY/")
	s = process.ReplaceAllString(s, "/sessions/PID.")
	s = digests.ReplaceAllString(s, "DIGEST")
	return numbers.ReplaceAllString(s, "N")
}

// blankContent blanks values of a JSON document by key, and other text by pattern.
func blankContent(name string, data []byte) string {
	var v any
	if strings.HasSuffix(name, ".json") && json.Unmarshal(data, &v) == nil {
		measured(v)
		data, _ = json.MarshalIndent(v, "", " ")
	}
	return blank(string(data))
}

// measured blanks the measurements that a harness stores about its last session.
func measured(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			if _, err := strconv.Atoi(key); err == nil { // the key is a process id
				v["NUMBER"] = v[key]
				delete(v, key)
			}
		}
		for key, value := range v {
			switch key {
			case "lastSessionMetrics": // durations of hooks, and of the drawing of the screen
				v[key] = "measured"
				continue
			case "tipsHistory", "tipLifetimeShownCounts": // tips are shown only in idle moments, which differ between runs
				delete(v, key)
				continue
			}
			if _, isNumber := value.(float64); isNumber && measurement.MatchString(key) {
				v[key] = "measured"
			} else {
				measured(value)
			}
		}
	case []any:
		for _, value := range v {
			measured(value)
		}
	}
}

var measurement = regexp.MustCompile(`^lastFps|Duration|_ms_|(Time|Timestamp|At|Cost|USD)$`)

// eitherWay are files that a harness may or may not write.
var eitherWay = regexp.MustCompile(strings.Join([]string{
	// Claude Code creates these for programs that may set variables: its tools and
	// every SessionStart hook, including ours. They stay empty.
	`^/\.claude/session-env(/ID)?$`,
	// Claude Code sometimes creates the transcript of a session without prompts.
	`^/\.claude/projects(/-home-dev-project(/ID\.jsonl)?)?$`,
	// Codex also sometimes creates the transcript of a session without prompts,
	// and it probes its environment at its start.
	`^/\.codex/(\.tmp/.*|shell_snapshots(/ID\.[\w.-]+)?|sessions(/\d+)*(/DAY/rollout-TIME-ID\.jsonl)?|thread_history_\d+\.sqlite)$`,
	// SQLite removes these files if Codex closes its databases before it ends.
	`^/\.codex/\w+\.sqlite-(shm|wal)$`,
	// Gemini CLI holds this lock while it writes, and leaves it behind when it is
	// killed.
	`^/\.gemini/projects\.json\.lock$`,
	// The lock of a Codex thread, such as the thread for a title. A session that ends at
	// once may have none.
	`^/\.codex/thread-writer-locks(/ID\.lock|/\.coordination\.lock)?$`,
	// Codex writes this some time after its start.
	`^/\.codex/\.sandbox_migration$`,
	// Claude Code writes this some seconds after its start, when it has removed old files.
	`^/\.claude/\.last-cleanup$`,
	// Claude Code writes these some time after its first start, to register itself as the
	// program for claude-cli:// links.
	`^/\.local`, `^/\.config(/mimeapps\.list(\.new)?)?$`,
	// Codex asks the model for a title during the turn, and stores it if the answer
	// comes before Codex exits.
	`^/\.codex/session_index\.jsonl`,
	`^/\.codex/tui-thread-reference-capabilities`,
	// OpenClaw creates the folder if it loads a plugin, such as ours. The lock is for the
	// path of the user's configuration; a run with our plugin has another configuration.
	`^/\.openclaw/tmp/(plugin-captures|openclaw-0/gateway\.[0-9a-f]{8}\.lock\.sqlite)$`,
	// OpenClaw's gateway copies a configuration that works, unless the configuration
	// includes another file, as ours does.
	`^/\.openclaw/openclaw\.json\.last-good$`,
	// Locks of OpenClaw's database, and an index of its memory that was not finished
	// when OpenClaw ended.
	`^/\.openclaw/agents/main/agent/openclaw-agent\.sqlite\.(reindex-lock|generation-lock|generation-writer|memory-reindex-ID)[\w.-]*$`,
}, "|"))

// compareHomes reports the differences between the homes of a bare and a wrapped
// run.
func compareHomes(t *testing.T, bare, wrapped tree) {
	t.Helper()
	names := maps.Clone(bare)
	maps.Copy(names, wrapped)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, w := bare[name], wrapped[name]
		switch {
		case b == w || (b == "" || w == "") && eitherWay.MatchString(name):
		case b == "":
			t.Errorf("home: only the wrapped run has %s (%s)", name, w)
		case w == "":
			t.Errorf("home: only the bare run has %s (%s)", name, b)
		default:
			t.Errorf("home: %s is different\nonly bare:\n%s\nonly wrapped:\n%s", name, without(b, w), without(w, b))
		}
	}
}

// without are the lines of a that b does not have.
func without(a, b string) string {
	has := map[string]bool{}
	for line := range strings.Lines(b + "\n") {
		has[strings.TrimSpace(line)] = true
	}
	var out strings.Builder
	for line := range strings.Lines(a + "\n") {
		if !has[strings.TrimSpace(line)] {
			out.WriteString(line)
		}
	}
	return out.String()
}
