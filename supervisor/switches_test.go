package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
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
	"lifeloop/telemetry"
)

// typing writes files as Gemini CLI does: the chat files of sessions, in the folder dir,
// and the list of the lines that the user typed, in logs.json in the parent folder. Each
// line or record moves the clock in now forward by one second.
type typing struct {
	t    *testing.T
	dir  string
	now  time.Time
	list []map[string]any
	read *reader
	seen []string // the arguments of the last call of sees

	minute  string // the hour and minute in the names of the session files
	project string // the digest of the working directory
}

// launchedGemini follows the files of a launch without hooks whose session is S1.
func launchedGemini(t *testing.T) *typing {
	w := &typing{t: t, minute: "08-00", dir: filepath.Join(t.TempDir(), ".gemini/tmp/project/chats"), now: time.Now().Add(-time.Minute).Truncate(time.Millisecond)}
	home := filepath.Join(w.dir, "../../../..")
	w.typed("S1", "/clear") // S1 is resumed, so lines of its earlier process also have S1
	w.typed("S1", "a line of the launch before")
	p, ok := profiles.For("gemini")
	require.True(t, ok)
	launch, err := p.Prepare([]string{"gemini", "--session-id", "S1"}, profiles.Host{Terminal: true, Env: []string{"HOME=" + home}})
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

// typed appends a line to the list and writes the list. first is the first session of the
// process in which the line was typed.
func (w *typing) typed(first, text string) {
	w.t.Helper()
	w.lists(first, text)
	require.NoError(w.t, os.MkdirAll(w.dir, 0o700))
	require.NoError(w.t, os.WriteFile(w.path(), w.listed(), 0o600))
}

// lists adds a line to w.list, but does not write the list to its file.
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
	write(w.t, w.chatPath(session), record+"\n")
}

func (w *typing) chatPath(session string) string {
	return filepath.Join(w.dir, "session-2026-11-21T"+w.minute+"-"+session+".jsonl")
}

// tears writes the list without the end of its last line, as if Gemini CLI were still
// writing the list.
func (w *typing) tears() {
	w.t.Helper()
	list := w.listed()
	require.NoError(w.t, os.WriteFile(w.path(), list[:len(list)-20], 0o600))
}

// worksAfterDeletion deletes the file of a session while the terminal is idle. Then
// another session begins with a prompt, and the title shows work.
func (w *typing) worksAfterDeletion(deleted, session, text string) {
	w.shows(telemetry.Idle)
	w.read.until("terminal  idle")
	w.deletes(deleted)
	w.begins(session)
	w.prompts(session, text)
	w.shows(telemetry.Idle)
	w.read.until("terminal  idle", "terminal  idle")
	w.shows(telemetry.Working)
}

// deletes deletes a session's file.
func (w *typing) deletes(session string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(w.chatPath(session)))
}

// begins writes the beginning of a session's file.
func (w *typing) begins(session string) {
	w.t.Helper()
	w.chat(session, fmt.Sprintf(`{"sessionId":%q,"projectHash":%q,"startTime":%q,"kind":"main"}`, session, w.project, w.stamp()))
}

// asks writes the record of a prompt.
func (w *typing) asks(session, text string) {
	w.t.Helper()
	w.chat(session, fmt.Sprintf(`{"id":"%s-%d","timestamp":%q,"type":"user","content":[{"text":%q}]}`, session, w.now.UnixMilli(), w.stamp(), text))
}

// sees waits until exactly the lines in want were posted since the start. "S2 prompt" is a
// prompt in S2, and "S2 clear" a move to S2 with the cause clear.
func (w *typing) sees(want ...string) {
	w.t.Helper()
	w.seen = want
	all := []string{"transcript S1 session_live"}
	for _, line := range want {
		session, what, _ := strings.Cut(line, " ")
		switch what {
		case "prompt":
			all = append(all, "transcript "+session+" prompt")
		case "further": // the session continues in a further file, whose header is posted
			all = append(all, "transcript "+session+" session_live")
		case "resume": // no header is posted: it was read before, or is older than the command
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

// play plays stories, each with a launch of its own. After the last call of sees in a
// story, nothing more may be posted.
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
			w.typed("S1", "/resume") // no session is chosen
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

// alive writes a prompt to S1 and waits until the prompt is posted. All earlier records have
// then been read.
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
			w.tears()
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

// workDir is the working directory of a launch whose first session is not known.
const workDir = "/home/dev/project"

// beganGemini follows a launch without hooks whose first session is not known.
func beganGemini(t *testing.T) *typing {
	digest := sha256.Sum256([]byte(workDir))
	w := &typing{t: t, minute: "08-00", project: hex.EncodeToString(digest[:]), dir: filepath.Join(t.TempDir(), ".gemini/tmp/project/chats"),
		now: time.Now().Add(-time.Minute).Truncate(time.Millisecond)}
	w.begins("old")
	w.typed("old", "a line of the launch before")
	p, ok := profiles.For("gemini")
	require.True(t, ok)
	launch, err := p.Prepare([]string{"gemini"}, profiles.Host{NewID: "unused", Terminal: true, Dir: workDir, Env: []string{"HOME=" + filepath.Join(w.dir, "../../../..")}})
	require.NoError(t, err)
	require.Equal(t, []string{"gemini"}, launch.Argv)
	require.Empty(t, launch.SessionID)
	since := w.now.Add(time.Millisecond)
	w.read = read(t, Files{Fixed: launch.Sources, Named: p.Transcript, Since: since, Sessions: &Switches{Typing: launch.Typing, Since: since}})
	w.read.f.Launched(os.Getpid())
	return w
}

// shows passes a signal that comes from a title of the terminal.
func (w *typing) shows(kind telemetry.Kind) {
	w.read.f.Shown([]telemetry.Signal{{Kind: kind, Source: "terminal"}})
}

// today sets the clock so that the next line or record has the present time.
func (w *typing) today() { w.now = time.Now().Add(-time.Second).Truncate(time.Millisecond) }

// line types a line at the present time.
func (w *typing) line(session, text string) {
	w.t.Helper()
	w.today()
	w.typed(session, text)
}

// prompts types a prompt at the present time, and writes its record.
func (w *typing) prompts(session, text string) {
	w.t.Helper()
	w.line(session, text)
	w.today()
	w.asks(session, text)
}

// backdate makes the lines of the list a minute old.
func (w *typing) backdate() {
	for i := range w.list {
		w.list[i]["timestamp"] = time.Now().Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
	}
}

// A start is a story of a launch whose first session is not known, and the lines that are
// posted in it.
type start struct {
	story func(w *typing)
	want  []string
}

func begin(t *testing.T, stories map[string]start) {
	for name, c := range stories {
		t.Run(name, func(t *testing.T) {
			w := beganGemini(t)
			c.story(w)
			w.read.until(c.want...)
			require.NoError(t, w.read.stop())
			w.read.until(c.want...)
		})
	}
}

// TestFirstSession: the only session that began in the folder since the start of the
// process is its first one.
func TestFirstSession(t *testing.T) {
	begin(t, map[string]start{
		"a prompt": {func(w *typing) {
			w.begins("S1")
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working", "terminal  idle"}},
		"its record comes after the title": {func(w *typing) {
			w.begins("S1")
			w.line("S1", "one")
			w.shows(telemetry.Working)
			w.read.until("folder S1 session_live", "transcript S1 session_live", "terminal  working")
			w.asks("S1", "one")
		}, []string{"folder S1 session_live", "transcript S1 session_live", "terminal  working", "transcript S1 prompt"}},
		"a line to a shell": {func(w *typing) {
			w.begins("S1")
			w.line("S1", "ls")
			w.shows(telemetry.Working)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "terminal  working"}},
		"a question before the work": {func(w *typing) {
			w.begins("S1")
			w.line("S1", "/custom")
			w.shows(telemetry.NeedsInput)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "terminal  needs_input"}},
		"the list lacks the line": {func(w *typing) {
			w.begins("S1")
			w.today()
			w.asks("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  idle"}},
		"the list is being written": {func(w *typing) {
			w.begins("S1")
			w.prompts("S1", "one")
			w.tears()
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  idle"}},
		"the list is being written, and another terminal gets a line meanwhile": {func(w *typing) {
			w.begins("S1")
			w.prompts("S1", "one")
			w.tears()
			w.shows(telemetry.Working)
			w.read.until("terminal  working")
			w.line("old", "more")
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  idle"}},
		"the context is cleared before the first prompt": {func(w *typing) {
			w.begins("S1")
			w.typed("S1", "/clear")
			w.begins("S2")
			w.line("S1", "two")
			w.today()
			w.asks("S2", "two")
			w.shows(telemetry.Working)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "folder S2 session_live", "transcript S2 session_live", "transcript S2 prompt", "terminal  working"}},
		"the context is cleared before the first prompt, and the first file is deleted": {func(w *typing) {
			w.typed("S1", "/clear")
			w.begins("S2")
			w.line("S1", "two")
			w.today()
			w.asks("S2", "two")
			w.shows(telemetry.Working)
		}, []string{"folder S1 session_live", "folder S2 session_live", "transcript S2 session_live", "transcript S2 prompt", "terminal  working"}},
	})
}

// TestFirstSessionOfStart: a session of another project, or one that began before the
// process, is ignored in the search for the first session of the process.
func TestFirstSessionOfStart(t *testing.T) {
	begin(t, map[string]start{
		"the harness starts its process again": {func(w *typing) {
			w.begins("S1")
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
			w.read.until("folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working", "terminal  idle")
			w.shows(telemetry.Alive)
			w.today()
			w.begins("S2")
			w.prompts("S2", "two")
			w.shows(telemetry.Working)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working", "terminal  idle", "terminal  alive",
			"folder S2 session_live", "transcript S2 session_live", "transcript S2 prompt", "terminal  working"}},
		"the title of the start is seen late": {func(w *typing) {
			w.now = time.Now().Add(-2 * time.Second).Truncate(time.Millisecond)
			w.begins("S1")
			w.shows(telemetry.Alive)
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
		}, []string{"terminal  alive", "folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working"}},
		"an old file is deleted": {func(w *typing) {
			w.worksAfterDeletion("old", "S1", "one")
		}, []string{"terminal  idle", "terminal  idle", "folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working"}},
		"a session begins in another project": {func(w *typing) {
			w.begins("S1")
			w.project = strings.Repeat("0", 64)
			w.begins("other")
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working"}},
	})
}

// TestFirstSessionOfTwo: two sessions began. If only one of them gets a prompt in each of
// two turns, it is the session of the process. This is known when the second turn ends.
func TestFirstSessionOfTwo(t *testing.T) {
	begin(t, map[string]start{
		"only one gets a prompt, twice": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
			w.read.until("trouble transcript unassigned", "terminal  working", "terminal  idle")
			w.prompts("S1", "two")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle", "terminal  working",
			"folder S1 session_live", "trouble transcript recovered", "transcript S1 session_live", "transcript S1 prompt", "transcript S1 prompt", "terminal  idle"}},
		"both get a prompt, and then the harness starts its process again": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			w.prompts("S1", "one")
			w.prompts("other", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
			w.read.until("trouble transcript unassigned", "terminal  working", "terminal  idle")
			w.shows(telemetry.Alive)
			w.today()
			w.begins("S2")
			w.prompts("S2", "two")
			w.shows(telemetry.Working)
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle", "terminal  alive",
			"folder S2 session_live", "trouble transcript recovered", "transcript S2 session_live", "transcript S2 prompt", "terminal  working"}},
		"the file of the process is deleted, and the other one gets a prompt": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
			w.read.until("trouble transcript unassigned", "terminal  working", "terminal  idle")
			w.deletes("S1")
			posted := []string{"trouble transcript unassigned", "terminal  working", "terminal  idle"}
			for range 2 {
				w.prompts("other", "two")
				w.shows(telemetry.Working) // the list has no line of S1 for this turn
				w.shows(telemetry.Idle)
				posted = append(posted, "terminal  working", "terminal  idle")
				w.read.until(posted...)
			}
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle", "terminal  working", "terminal  idle", "terminal  working", "terminal  idle"}},
		"a line in another session during the work": {func(w *typing) {
			w.begins("other")
			w.line("S1", "one") // the file of S1 was created and deleted before it was seen
			w.shows(telemetry.Working)
			w.read.until("terminal  working")
			w.prompts("other", "two")
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "trouble transcript unassigned", "terminal  idle"}},
		"both get a prompt, and the list lacks one line": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			w.prompts("other", "two")
			w.today()
			w.asks("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle"}},
		"the other one gets a prompt, and the process a line to a shell": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			w.line("S1", "ls")
			w.prompts("other", "two")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle"}},
	})
}

// TestFirstSessionWithoutProof: a missing prompt, a missing line of the list or a missing
// file does not prove which session is the first one of the process.
func TestFirstSessionWithoutProof(t *testing.T) {
	begin(t, map[string]start{
		"the prompt is of one, and the line of the other": {func(w *typing) {
			w.begins("S1")
			w.begins("other")
			posted := []string{"trouble transcript unassigned"}
			for range 2 {
				w.line("other", "one")
				w.today()
				w.asks("S1", "one")
				w.shows(telemetry.Working)
				w.shows(telemetry.Idle)
				posted = append(posted, "terminal  working", "terminal  idle")
				w.read.until(posted...)
			}
		}, []string{"trouble transcript unassigned", "terminal  working", "terminal  idle", "terminal  working", "terminal  idle"}},
		"the file of the process was not seen, and both get a line": {func(w *typing) {
			w.begins("other")
			w.line("S1", "one")
			w.prompts("other", "two")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "trouble transcript unassigned", "terminal  idle"}},
		"a file is deleted before its beginning is written": {func(w *typing) {
			path := w.chatPath("S1")
			require.NoError(w.t, os.WriteFile(path, []byte(`{"sessionId":"S1"`), 0o600))
			w.worksAfterDeletion("S1", "other", "two")
		}, []string{"terminal  idle", "terminal  idle", "trouble transcript unassigned", "terminal  working"}},
	})
}

// TestNoFirstSession: the records of a session that began before the process are not posted.
// The same holds for a session that begins later in another terminal.
func TestNoFirstSession(t *testing.T) {
	begin(t, map[string]start{
		"a prompt in an older session": {func(w *typing) {
			w.prompts("old", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "trouble transcript unassigned", "terminal  idle"}},
		"the process ends while it works": {func(w *typing) {
			w.begins("S1")
			w.today()
			w.asks("S1", "one")
			w.shows(telemetry.Working)
			w.read.until("terminal  working")
			require.NoError(w.t, w.read.stop())
		}, []string{"terminal  working", "trouble transcript unassigned"}},
		"another session begins later": {func(w *typing) {
			w.begins("S1")
			w.prompts("S1", "one")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
			w.read.until("folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working", "terminal  idle")
			w.backdate()
			w.begins("other")
			w.prompts("other", "two")
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"folder S1 session_live", "transcript S1 session_live", "transcript S1 prompt", "terminal  working", "terminal  idle", "terminal  working", "terminal  idle"}},
		"a title without a session": {func(w *typing) {
			w.shows(telemetry.Working)
			w.shows(telemetry.Idle)
		}, []string{"terminal  working", "trouble transcript unassigned", "terminal  idle"}},
	})
}
