package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// registered is a home folder of Claude Code. A process without hooks runs in it, and the
// registry file of this process names its session.
type registered struct {
	t        *testing.T
	projects string
	registry string
	began    time.Time // the launch
	read     *reader
	want     []string
}

// launchedClaude follows the files of a launch of Claude Code without hooks. The launch
// begins with session S1, unless args continue another session.
func launchedClaude(t *testing.T, args ...string) *registered {
	home := t.TempDir()
	w := &registered{t: t, projects: filepath.Join(home, ".claude/projects"), began: time.Now().Add(-time.Minute).Truncate(time.Millisecond),
		registry: filepath.Join(home, ".claude/sessions", fmt.Sprintf("%d.json", os.Getpid()))}
	p, ok := profiles.For("claude")
	require.True(t, ok)
	launch, err := p.Prepare(slices.Concat([]string{"claude"}, args),
		profiles.Host{NewID: "S1", Dir: "/work", Terminal: true, Hooks: profiles.Never, Env: []string{"HOME=" + home}})
	require.NoError(t, err)
	w.read = read(t, Files{Fixed: launch.Sources, Named: p.Transcript, Since: w.began,
		Sessions: &Moves{Chats: launch.Chats, First: launch.SessionID, Since: w.began}})
	w.read.f.Launched(os.Getpid())
	return w
}

// names writes the registry file, and waits until exactly the lines in want were posted.
func (w *registered) names(session, status string, want ...string) {
	w.t.Helper()
	w.registers(session, status)
	w.sees(want...)
}

func (w *registered) registers(session, status string) {
	w.t.Helper()
	w.registersAt(session, status, time.Now())
}

func (w *registered) registersAt(session, status string, at time.Time) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.registry), 0o700))
	text := fmt.Sprintf(`{"pid":%d,"sessionId":%q,"status":%q,"updatedAt":%d}`, os.Getpid(), session, status, at.UnixMilli())
	require.NoError(w.t, os.WriteFile(w.registry, []byte(text), 0o600))
}

// sees waits until exactly the lines in want were posted since the previous call of sees.
func (w *registered) sees(want ...string) {
	w.t.Helper()
	w.want = append(w.want, want...)
	w.read.until(w.want...)
}

// file is the transcript of a session in the folder of the launch.
func (w *registered) file(session string) string {
	return filepath.Join(w.projects, "-work", session+".jsonl")
}

// clears writes the records with which a session begins after /clear.
func (w *registered) clears(session string) {
	w.t.Helper()
	write(w.t, w.file(session), fmt.Sprintf(`{"parentUuid":null,"type":"user","message":{"content":"<command-name>/clear</command-name>"},"uuid":"%[1]s-c","timestamp":%[2]q,"sessionId":%[1]q}`+"\n",
		session, stampOf(time.Now())))
}

// asks appends a prompt, with the given time, to the transcript at path.
func (w *registered) asks(path, session string, at time.Time) {
	w.t.Helper()
	write(w.t, path, fmt.Sprintf(`{"parentUuid":null,"type":"user","message":{"content":"hello"},"promptId":"p-%d","promptSource":"typed","uuid":"%[2]s-%[1]d","timestamp":%[3]q,"sessionId":%[2]q}`+"\n",
		at.UnixMilli(), session, stampOf(at)))
}

// orphan is a prompt in S2 whose parent is in no file.
func orphan(at time.Time) string {
	return fmt.Sprintf(`{"parentUuid":"of another file","type":"user","message":{"content":"hello"},"promptId":"p","promptSource":"typed","uuid":"u","timestamp":%q,"sessionId":"S2"}`+"\n", stampOf(at))
}

func stampOf(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// causes returns the sessions that were followed, each with its cause.
func (w *registered) causes() (out []string) {
	w.read.mu.Lock()
	defer w.read.mu.Unlock()
	for _, in := range w.read.in {
		if in, ok := in.(input.SignalsSeen); ok && in.Signals[0].Source == kernel.FolderSource {
			out = append(out, in.Signals[0].Session+" "+in.Signals[0].Cause)
		}
	}
	return out
}

// A move is a test case in which play writes the files of a process without hooks.
type move struct {
	args   []string // of its launch
	play   func(w *registered)
	causes []string // of the sessions that were followed
}

const (
	inFirst  = "registry S1 idle"
	toSecond = "folder S2 session_live"
	asked    = "transcript S2 prompt"
)

// soon returns a time that is later than all records of a story so far.
func soon() time.Time { return time.Now().Add(time.Second) }

func playMoves(t *testing.T, moves map[string]move) {
	for name, c := range moves {
		t.Run(name, func(t *testing.T) {
			w := launchedClaude(t, c.args...)
			c.play(w)
			require.NoError(t, w.read.stop())
			w.sees()
			require.Equal(t, c.causes, w.causes())
		})
	}
}

// TestMoves: a process without hooks is followed to each session that its registry file
// names.
func TestMoves(t *testing.T) {
	playMoves(t, map[string]move{
		"a cleared context": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			w.clears("S2")
			w.names("S2", "idle", toSecond, "registry S2 idle")
			w.asks(w.file("S2"), "S2", soon())
			w.sees(asked)
		}, []string{"S2 clear"}},
		"the file comes after the registry": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			w.registers("S2", "idle")
			w.asks(w.file("S1"), "S1", soon()) // a late record of the previous session
			w.sees("transcript S1 prompt")
			w.clears("S2")
			w.sees(toSecond, "registry S2 idle")
			w.asks(w.file("S2"), "S2", soon())
			w.sees(asked)
		}, []string{"S2 clear"}},
		"its prompt is written before the command": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			at := soon()
			w.registers("S2", "busy")
			write(t, w.file("S2"), fmt.Sprintf(`{"parentUuid":"S2-c","type":"user","message":{"content":"hello"},"promptId":"p","promptSource":"typed","uuid":"u","timestamp":%q,"sessionId":"S2"}`+"\n", stampOf(at)))
			w.clears("S2")
			w.sees(toSecond, "registry S2 working", asked)
		}, []string{"S2 clear"}},
		"a first record that is too long": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			write(t, w.file("S2"), `{"parentUuid":null,"type":"user","message":{"content":"`+strings.Repeat("x", headSize)+`"}}`+"\n")
			w.names("S2", "idle", toSecond, "registry S2 idle")
		}, []string{"S2 unknown"}},
		"a registry file of an earlier process": {nil, func(w *registered) {
			require.NoError(w.t, os.MkdirAll(filepath.Dir(w.registry), 0o700))
			w.asks(w.file("S9"), "S9", w.began.Add(-time.Hour))
			require.NoError(w.t, os.WriteFile(w.registry, fmt.Appendf(nil, `{"pid":%d,"procStart":"1","sessionId":"S9"}`, os.Getpid()), 0o600))
			w.asks(w.file("S1"), "S1", soon()) // this file's folder is read after the folder of the registry
			w.sees("transcript S1 prompt")
			w.names("S1", "idle", inFirst)
		}, nil},
	})
}

// TestMovesToEarlierSessions: a process moves to a session that began earlier. Only the
// records that were written since the move are posted.
func TestMovesToEarlierSessions(t *testing.T) {
	playMoves(t, map[string]move{
		"an earlier session of another folder": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			path := filepath.Join(w.projects, "-elsewhere", "S2.jsonl")
			w.asks(path, "S2", w.began.Add(-time.Hour))
			w.asks(path, "S2", w.began.Add(time.Second)) // written by another process, before the move
			w.names("S2", "idle", toSecond, "registry S2 idle")
			w.asks(path, "S2", soon())
			w.sees(asked)
		}, []string{"S2 resume"}},
		"back to the first session": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			w.clears("S2")
			w.names("S2", "idle", toSecond, "registry S2 idle")
			w.asks(w.file("S1"), "S1", time.Now()) // posted, although S1 was left; the kernel rejects it
			w.sees("transcript S1 prompt")
			w.names("S1", "idle", "folder S1 session_live", "registry S1 idle")
		}, []string{"S2 clear", "S1 resume"}},
		"launched to continue a session": {[]string{"--continue"}, func(w *registered) {
			w.asks(w.file("S2"), "S2", w.began.Add(-time.Second))
			w.names("S2", "idle", toSecond, "registry S2 idle")
			w.asks(w.file("S2"), "S2", soon())
			w.sees(asked)
		}, []string{"S2 resume"}},
		"a session that another process began meanwhile": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			w.asks(w.file("S2"), "S2", time.Now().Add(time.Minute)) // later than Moves.named, but earlier than the record that names S2
			w.registersAt("S2", "idle", time.Now().Add(2*time.Minute))
			w.sees(toSecond, "registry S2 idle")
			w.asks(w.file("S2"), "S2", time.Now().Add(3*time.Minute))
			w.sees(asked)
		}, []string{"S2 resume"}},
		"a session whose beginning refers to another file": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			write(t, w.file("S2"), orphan(w.began.Add(time.Second)))
			w.names("S2", "idle", toSecond, "registry S2 idle")
		}, []string{"S2 resume"}},
		"a branch": {nil, func(w *registered) {
			w.names("S1", "idle", inFirst)
			write(t, w.file("S2"), strings.Replace(orphan(w.began.Add(time.Second)), "{", `{"forkedFrom":{"sessionId":"S1"},`, 1))
			w.names("S2", "idle", toSecond, "registry S2 idle")
			w.asks(w.file("S2"), "S2", soon())
			w.sees(asked)
		}, []string{"S2 unknown"}},
		"a session that began in another way": {[]string{"--resume"}, func(w *registered) {
			w.registers("S2", "idle")
			w.asks(w.file("S2"), "S2", soon())
			w.sees(toSecond, "registry S2 idle", asked)
		}, []string{"S2 unknown"}},
	})
}

// mover follows sessions of a folder directly, without a watcher. posted is what it posts.
type mover struct {
	*Moves
	posted []string
}

// newMover returns a mover whose first session is S1. For every session file in dir, Begins
// returns began and cause.
func newMover(dir string, began time.Time, cause string) *mover {
	m := &mover{Moves: &Moves{First: "S1", Since: day, Chats: profiles.Chats{Dir: dir, Pattern: "*/{session}.jsonl", New: filepath.Join(dir, "c/{session}.jsonl"),
		Begins: func([]byte) (time.Time, string) { return began, cause }}}}
	m.start(&Files{starts: new(sync.Map), post: func(in input.Input) {
		sig := in.(input.SignalsSeen).Signals[0]
		m.posted = append(m.posted, strings.TrimSpace(sig.Session+" "+string(sig.Kind)+" "+sig.Cause))
	}})
	return m
}

// names handles a record in which the process names its session.
func (m *mover) names(session string, kind telemetry.Kind) {
	m.sees("", input.SignalsSeen{Signals: []telemetry.Signal{{Kind: kind, Source: "registry", Session: session, Process: &telemetry.Process{PID: os.Getpid()}}}})
}

// TestNoMove: a session whose file is missing or uncertain is not followed. After two turns
// in such a session, the registry signals that name the session are posted.
func TestNoMove(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a/S2.jsonl", "b/S2.jsonl", "a/S4.jsonl"} {
		write(t, filepath.Join(dir, path), "{}\n")
	}
	for name, session := range map[string]string{"no file": "S3", "two files": "S2", "a pattern": "S[4]"} {
		t.Run(name, func(t *testing.T) {
			m := newMover(dir, day, "unknown")
			m.names("S1", telemetry.Idle)
			m.names(session, telemetry.Idle)
			m.names(session, telemetry.Working)
			require.Equal(t, []string{"S1 idle"}, m.posted)
			m.names(session, telemetry.Idle) // ends the first turn, which may be only the change of the session
			m.names(session, telemetry.Working)
			require.Equal(t, []string{"S1 idle"}, m.posted)
			m.names(session, telemetry.Idle)
			require.Equal(t, []string{"S1 idle", session + " idle", session + " working", session + " idle", session + " working", session + " idle"}, m.posted)
			m.names(session, telemetry.Working)
			m.end()
			require.Equal(t, []string{session + " working"}, m.posted[6:], "the process has ended in a turn")
			m.names("S1", telemetry.Idle) // the process is in S1 again, so the file below is another process's
			write(t, filepath.Join(dir, "c", session+".jsonl"), "{}\n")
			m.handled(watchers.Position{})
			m.names("S4", telemetry.Idle)
			require.Equal(t, []string{"S1 idle", "S4 session_live resume", "S4 idle"}, m.posted[7:])
		})
	}
}

// TestMoveAfterTheLastRecords: a process moves to another session. The move is posted only
// after the file of the previous session was read to its end.
func TestMoveAfterTheLastRecords(t *testing.T) {
	dir := t.TempDir()
	s1 := filepath.Join(dir, "c/S1.jsonl")
	write(t, s1, "{}\n{}\n")
	write(t, filepath.Join(dir, "c/S2.jsonl"), "{}\n")
	m := newMover(dir, time.Now(), "clear")
	m.handled(watchers.Position{Path: s1, Offset: 3})
	m.names("S2", telemetry.Idle)
	require.Empty(t, m.posted)
	m.handled(watchers.Position{Path: s1, Offset: 6})
	require.Equal(t, []string{"S2 session_live clear", "S2 idle"}, m.posted)
}

// TestMoveWithoutABeginning: a session whose file never shows how it began is followed when
// the process has worked in it twice.
func TestMoveWithoutABeginning(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "c/S2.jsonl"), "{}\n")
	m := newMover(dir, time.Now(), "")
	for _, kind := range []telemetry.Kind{telemetry.Working, telemetry.Idle, telemetry.Working, telemetry.Idle} {
		require.Empty(t, m.posted)
		m.names("S2", kind)
	}
	require.Equal(t, []string{"S2 session_live unknown", "S2 working", "S2 idle", "S2 working", "S2 idle"}, m.posted)
}
