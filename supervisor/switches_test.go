package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
)

// typing is a folder of chat files of Gemini CLI, beside the list of typed lines. Each
// step is a second later than the one before.
type typing struct {
	t    *testing.T
	dir  string
	now  time.Time
	list []map[string]any
	read *reader
	seen []string // the argument of the last sees

	minute string // in the names of the files
}

// launchedGemini follows the files of a launch without hooks whose session is S1.
func launchedGemini(t *testing.T) *typing {
	w := &typing{t: t, minute: "08-00", dir: filepath.Join(t.TempDir(), ".gemini/tmp/project/chats"), now: time.Now().Add(-time.Minute).Truncate(time.Millisecond)}
	home := filepath.Join(w.dir, "../../../..")
	w.typed("S1", "/clear") // the session was resumed, so these lines have the same one
	w.typed("S1", "a line of the launch before")
	p, ok := profiles.For("gemini")
	require.True(t, ok)
	launch, err := p.Prepare([]string{"gemini"}, profiles.Host{NewID: "S1", Terminal: true, Env: []string{"HOME=" + home}})
	require.NoError(t, err)
	since := w.now.Add(time.Millisecond)
	w.read = read(t, Files{Fixed: launch.Sources, Named: p.Transcript, Since: since,
		Sessions: &Switches{Typing: launch.Typing, First: launch.SessionID, Since: since}})
	w.read.f.Launched(os.Getpid())
	w.begins("S1")
	w.read.until("transcript S1 session_live")
	return w
}

func (w *typing) stamp() string {
	w.now = w.now.Add(time.Second)
	return w.now.UTC().Format("2006-01-02T15:04:05.000Z")
}

// typed appends a line to the list, in the name of the first session of a process.
func (w *typing) typed(first, text string) {
	w.t.Helper()
	w.lists(first, text)
	require.NoError(w.t, os.MkdirAll(w.dir, 0o700))
	require.NoError(w.t, os.WriteFile(w.path(), w.listed(), 0o600))
}

// lists adds a line to the list, without writing it.
func (w *typing) lists(first, text string) {
	w.list = append(w.list, map[string]any{"sessionId": first, "messageId": len(w.list), "type": "user", "message": text, "timestamp": w.stamp()})
}

func (w *typing) path() string { return filepath.Join(w.dir, "../logs.json") }

func (w *typing) listed() []byte {
	list, err := json.MarshalIndent(w.list, "", "  ")
	require.NoError(w.t, err)
	return list
}

func (w *typing) chat(session, record string) {
	w.t.Helper()
	write(w.t, filepath.Join(w.dir, "session-2026-11-21T"+w.minute+"-"+session+".jsonl"), record+"\n")
}

// begins writes the beginning of a session's file.
func (w *typing) begins(session string) {
	w.t.Helper()
	w.chat(session, fmt.Sprintf(`{"sessionId":%q,"projectHash":"h","startTime":%q,"kind":"main"}`, session, w.stamp()))
}

// asks writes the record of a prompt.
func (w *typing) asks(session, text string) {
	w.t.Helper()
	w.chat(session, fmt.Sprintf(`{"id":"%s-%d","timestamp":%q,"type":"user","content":[{"text":%q}]}`, session, w.now.UnixMilli(), w.stamp(), text))
}

// sees waits for what was posted since the start: "S2 prompt" is a prompt, and
// "S2 clear" a switch with its cause.
func (w *typing) sees(want ...string) {
	w.t.Helper()
	w.seen = want
	all := []string{"transcript S1 session_live"}
	for _, line := range want {
		session, what, _ := strings.Cut(line, " ")
		switch what {
		case "prompt":
			all = append(all, "transcript "+session+" prompt")
		case "further": // the header of a further file
			all = append(all, "transcript "+session+" session_live")
		case "resume": // the header of its file is read already, or older than the command
			all = append(all, "folder "+session+" session_live")
		default:
			all = append(all, "folder "+session+" session_live", "transcript "+session+" session_live")
		}
	}
	w.read.until(all...)
	w.read.mu.Lock()
	defer w.read.mu.Unlock()
	for _, in := range w.read.in {
		if in, ok := in.(input.SignalsSeen); ok && in.Signals[0].Source == kernel.FolderSource {
			live := in.Signals[0]
			i := slices.Index(want, live.Session+" "+live.Cause)
			require.GreaterOrEqual(w.t, i, 0, "%s %s", live.Session, live.Cause)
			want = want[i+1:]
		}
	}
}

// play plays stories, each with a launch of its own. What a story saw last must be all
// that is posted.
func play(t *testing.T, stories map[string]func(w *typing)) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := launchedGemini(t)
			story(w)
			require.NoError(t, w.read.stop())
			w.sees(w.seen...)
		})
	}
}

// TestSwitches: the process is followed to the session of a prompt that was typed in its
// terminal.
func TestSwitches(t *testing.T) {
	play(t, map[string]func(w *typing){
		"the context is cleared, twice": func(w *typing) {
			w.typed("S1", "one")
			w.asks("S1", "one")
			w.typed("S1", "/clear")
			w.begins("S2")
			w.typed("S1", "two")
			w.asks("S2", "two")
			w.sees("S1 prompt", "S2 clear", "S2 prompt")
			w.typed("S1", "three")
			w.asks("S2", "three")
			w.sees("S1 prompt", "S2 clear", "S2 prompt", "S2 prompt")
			w.typed("S1", "/new")
			w.begins("S3")
			w.typed("S1", "four")
			w.asks("S3", "four")
			w.sees("S1 prompt", "S2 clear", "S2 prompt", "S2 prompt", "S3 clear", "S3 prompt")
		},
		"the first session is resumed, in which another process had a turn": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.typed("S1", "two")
			w.asks("S2", "two")
			w.sees("S2 clear", "S2 prompt")
			w.asks("S1", "the other's")
			w.typed("S1", "/resume")
			w.typed("S1", "one")
			w.asks("S1", "one")
			w.sees("S2 clear", "S2 prompt", "S1 resume", "S1 prompt")
		},
		"an older session is resumed, in which another process had a turn": func(w *typing) {
			w.begins("S0")
			w.asks("S0", "the other's")
			w.typed("S1", "/resume")
			w.typed("S1", "one")
			w.asks("S0", "one")
			w.sees("S0 resume", "S0 prompt")
		},
		"the list is written after the prompt": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.asks("S2", "two")
			w.now = w.now.Add(-2 * time.Second)
			w.typed("S1", "two")
			w.sees("S2 clear", "S2 prompt")
		},
		"lines that became no prompt": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.typed("S1", "/resume") // closed without a choice
			w.typed("S1", "ls")      // to a shell
			w.typed("S1", "two")
			w.typed("S1", "/help")
			w.asks("S2", "two")
			w.sees("S2 clear", "S2 prompt")
		},
		"a prompt with a picture": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.typed("S1", "two")
			w.chat("S2", fmt.Sprintf(`{"id":"p","timestamp":%q,"type":"user","content":[{"text":"two"},{"inlineData":{"data":%q}}]}`, w.stamp(), strings.Repeat("x", 1<<20)))
			w.sees("S2 clear", "S2 prompt")
		},
		"the session continues in a further file": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.typed("S1", "two")
			w.asks("S2", "two")
			w.sees("S2 clear", "S2 prompt")
			w.minute = "08-01"
			w.begins("S2")
			w.asks("S2", "sent by itself")
			w.sees("S2 clear", "S2 prompt", "S2 further", "S2 prompt")
		},
	})
}

// alive shows that what was written before it was read.
func (w *typing) alive() {
	w.asks("S1", "sent by itself")
	w.sees("S1 prompt")
}

// TestNoSwitch: a prompt in another file is not followed, if it may come from another
// process.
func TestNoSwitch(t *testing.T) {
	play(t, map[string]func(w *typing){
		"no command": func(w *typing) {
			w.begins("other")
			w.typed("S1", "one")
			w.asks("other", "one")
			w.alive()
		},
		"a file that began before the context was cleared": func(w *typing) {
			w.begins("other")
			w.typed("S1", "/clear")
			w.typed("S1", "one")
			w.asks("other", "one")
			w.alive()
		},
		"a file that began after the choice of a session": func(w *typing) {
			w.typed("S1", "/resume")
			w.begins("other")
			w.typed("S1", "one")
			w.asks("other", "one")
			w.alive()
		},
		"a prompt of the present session after the command": func(w *typing) {
			w.typed("S1", "/clear") // to a shell
			w.begins("other")
			w.typed("S1", "one")
			w.asks("S1", "one")
			w.sees("S1 prompt")
			w.asks("other", "one")
			w.asks("S1", "sent by itself")
			w.sees("S1 prompt", "S1 prompt")
		},
		"a prompt older than the line": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("other")
			w.asks("other", "ls")
			w.typed("S1", "ls")
			w.alive()
		},
		"a line older than the command": func(w *typing) {
			w.typed("S1", "ls")
			w.typed("S1", "/clear")
			w.begins("other")
			w.asks("other", "ls")
			w.alive()
		},
		"lines of the launch before": func(w *typing) {
			w.begins("other")
			w.asks("other", "a line of the launch before")
			w.alive()
		},
	})
}

// TestNoSwitchOfTwo: a prompt that two processes may have sent is not followed, but the
// next one is.
func TestNoSwitchOfTwo(t *testing.T) {
	play(t, map[string]func(w *typing){
		"another terminal gets the same text": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("other")
			w.typed("S1", "ls")
			w.typed("other", "ls")
			w.asks("other", "ls")
			w.alive()
		},
		"a list that is being written": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("other")
			w.typed("S1", "ls")
			w.lists("other", "ls")
			list := w.listed()
			require.NoError(w.t, os.WriteFile(w.path(), list[:len(list)-20], 0o600)) // without the end of the last line
			w.asks("other", "ls")
			w.alive()
		},
		"two files have the prompt": func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("other")
			w.begins("S2")
			w.asks("other", "one")
			w.asks("S2", "one")
			w.now = w.now.Add(-3 * time.Second)
			w.typed("S1", "one")
			w.now = w.now.Add(3 * time.Second)
			w.alive()
			w.typed("S1", "two")
			w.asks("S2", "two")
			w.sees("S1 prompt", "S2 clear", "S2 prompt", "S2 prompt")
		},
	})
}
