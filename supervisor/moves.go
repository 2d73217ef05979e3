package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lifeloop/harness"
	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Moves follow the harness session of a launch without hooks. The process of the harness
// writes records with its pid and the id of its session. The process moves to another
// session after `/clear` or `/resume`. If the process was launched to continue a session,
// its first record names that session. The file of a session is found by the session's id.
//
//	a record names another session
//	├─► the session is resumed, or its file shows how it began ─► follow the session
//	└─► otherwise ──────────────────────────────────────────────► keep the records
//
// The last records of the previous session are posted first. If the new session can still
// not be followed when the process ends, or when a second period of work in the new
// session ends, the kept records are posted. They show the kernel that the harness has a
// session that cannot be read. One period of work is not enough, because the harness may
// also report the change to the new session as work.
type Moves struct {
	profiles.Chats
	First string    // the session with which the launch begins; empty if the harness chooses it
	Since time.Time // the time of the launch

	files   *Files
	present string            // the session whose records are posted
	past    map[string]bool   // the earlier values of the field present
	named   time.Time         // when the newest record that names the present session was handled
	read    watchers.Position // how far the present session's file was read
	next    string            // the session to which the process has moved and which is not followed yet; empty if there is none
	at      time.Time         // the time in the first record that names the next session
	works   bool              // the process works in the next session
	// ends counts how often the process has stopped working in the next session. The
	// first stop may only be the end of the change to that session, because the harness
	// may also report this change as work.
	ends int
	held []input.SignalsSeen // records that name the next session, and records of that session's file
}

// lag is the longest time from the writing of a record to its handling, unless the machine
// is overloaded. Moves.named is the time when a record was handled, so a session that began
// less than lag before named may have begun after the record was written.
const lag = 2 * time.Second

func (m *Moves) start(f *Files) {
	m.files, m.present, m.named, m.past = f, m.First, m.Since, map[string]bool{}
}

func (m *Moves) notice(watchers.Line) bool         { return false }
func (m *Moves) shown(telemetry.Signal, time.Time) {}

// handled is called after a record of a session file was handled. It checks again
// whether the file of the next session shows how that session began.
func (m *Moves) handled(at watchers.Position) {
	if filepath.Base(stem(at.Path)) == m.present {
		m.read = at
	}
	m.look(false)
}

// end moves to the next session if the file of that session is there. In any case end
// posts the kept records.
func (m *Moves) end() {
	if m.next != "" && !m.look(true) {
		m.release()
	}
}

func (m *Moves) sees(_ string, in input.SignalsSeen) {
	sig := in.Signals[0]
	switch {
	case sig.Process != nil && sig.Session == m.present && sig.Session != "":
		m.named, m.next, m.held = time.Now(), "", nil
	case sig.Process != nil && sig.Session != "":
		if harness.Runs(sig.Process.PID, sig.Process.Start) {
			m.name(sig, in)
		}
		return // if the process does not run, the record is of an earlier process with the same pid
	case sig.Session != "" && sig.Session == m.next:
		m.hold(in)
		return
	}
	m.files.post(in)
}

// name handles a record that names another session than the present one.
func (m *Moves) name(sig telemetry.Signal, in input.SignalsSeen) {
	if sig.Session != m.next {
		m.next, m.at, m.works, m.ends, m.held = sig.Session, sig.At, false, 0, nil
	}
	m.hold(in)
	ended := m.works && sig.Kind == telemetry.Idle
	m.works = sig.Kind == telemetry.Working || sig.Kind == telemetry.NeedsInput
	if ended {
		m.ends++
	}
	over := ended && m.ends > 1
	if !m.look(over) && over {
		m.release()
	}
}

func (m *Moves) hold(in input.SignalsSeen) {
	if len(m.held) < maxHeld {
		m.held = append(m.held, in)
	}
}

func (m *Moves) release() {
	for _, in := range m.held {
		m.files.post(in)
	}
	m.held = nil
}

// look moves to the next session, and reports whether it has moved. Two conditions must
// hold: the next session is resumed, or its file shows how it began; and the present
// session's file was read to its end. If ended is true, it is enough that the next
// session is resumed, or that its file shows when it began.
func (m *Moves) look(ended bool) bool {
	if m.next == "" {
		return false
	}
	path := m.path()
	if path == "" {
		return false
	}
	began, cause := m.began(path)
	forked := cause == "fork"
	var since time.Time // records before since are of another process, or are copies
	switch {
	case m.earlier(began, cause):
		since = later(m.named, m.at.Add(-lag))
		if cause = "resume"; forked && !m.past[m.next] {
			cause = "unknown" // the session was forked just now, or was forked earlier and is resumed: its copied records are old in both cases
		}
	case cause == "" && (!ended || began.IsZero()):
		m.files.Watch(path, since)
		return false
	case cause == "":
		cause = "unknown"
	}
	if m.behind() && !ended {
		return false
	}
	m.past[m.present] = true
	m.present, m.next, m.named, m.read = m.next, "", time.Now(), watchers.Position{}
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "named in a record that the harness process wrote", At: later(m.at, began), Session: m.present, Cause: cause}
	m.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	m.release()
	m.files.Watch(path, since)
	return true
}

// earlier reports whether the next session began before the process moved to it, which
// means that the process resumed it. began is the time of that session's first record.
func (m *Moves) earlier(began time.Time, cause string) bool {
	switch {
	case m.past[m.next]:
		return true
	case began.IsZero():
		return false
	case m.present == "":
		return began.Before(m.named)
	}
	return began.Before(m.named.Add(-lag)) || cause == "unknown" && began.Before(m.at.Add(-lag))
}

// behind reports whether the present session's file has records that were not read yet.
func (m *Moves) behind() bool {
	path := m.read.Path
	if path == "" {
		path = strings.ReplaceAll(m.New, "{session}", m.present)
	}
	info, err := os.Stat(path)
	return err == nil && info.Size() > m.read.Offset
}

// path returns the path of the next session's file. This is the path that the file of a
// new session gets, if that file exists or no other file matches. Otherwise it is the
// path of the only matching file. path returns "" if several files match, or if m.next
// is not an id.
func (m *Moves) path() string {
	if strings.Trim(strings.ToLower(m.next), "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
		return "" // not an id; as a part of a pattern it could match other files
	}
	begins := strings.ReplaceAll(m.New, "{session}", m.next)
	paths, err := matching(m.Dir, strings.ReplaceAll(m.Pattern, "{session}", m.next))
	switch {
	case err != nil:
		return ""
	case len(paths) == 0 || slices.Contains(paths, begins):
		return begins
	case len(paths) > 1:
		return ""
	}
	return paths[0]
}

// began reads from a file when and how its session began. The cause is empty if the file
// does not show the cause yet.
func (m *Moves) began(path string) (at time.Time, cause string) {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return at, ""
	}
	defer f.Close()
	head, err := headOf(f)
	if err != nil {
		return at, ""
	}
	at, cause = m.Begins(head)
	if cause == "" && len(head) == headSize {
		cause = "unknown" // the first headSize bytes do not show it
	}
	return at, cause
}
