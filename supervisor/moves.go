package supervisor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Moves follow a launch without hooks whose process itself names the harness session that
// it has, in a record with its pid. The process moves to another session after `/clear` or
// `/resume`; if it was launched to continue a session, its first record names that one. The
// session's file is found by the id.
//
//	record names another session ──► its file shows how it began ──► follow it
//	                            └──► no file, or it does not ───────► keep the records
//
// If a whole turn passes in a session without such a file, the kept records are posted,
// which reports that the harness has a session that cannot be read.
type Moves struct {
	profiles.Chats
	First string    // the session with which the launch begins; empty if the harness chooses it
	Since time.Time // the time of the launch

	files   *Files
	present string              // the session whose records are posted
	past    map[string]bool     // the sessions before it
	named   time.Time           // when a record named the present session the last time
	next    string              // the session that the process has; empty if it is the present one
	at      time.Time           // the time of the newest record that named next
	works   bool                // a turn of next runs
	held    []input.SignalsSeen // records that name next, and records of its file
}

// lag is how much later than the change itself a change of the session is noticed at
// most, if the machine is not overloaded.
const lag = 2 * time.Second

func (m *Moves) start(f *Files) {
	m.files, m.present, m.named, m.past = f, m.First, m.Since, map[string]bool{}
}

func (m *Moves) notice(watchers.Line) bool { return false }

// handled looks again whether the file of the next session shows how it began.
func (m *Moves) handled(watchers.Position) { m.look(false) }

func (m *Moves) sees(_ string, in input.SignalsSeen) {
	sig := in.Signals[0]
	switch {
	case sig.Process != nil && sig.Session == m.present && sig.Session != "":
		m.named, m.next, m.held = time.Now(), "", nil
	case sig.Process != nil && sig.Session != "":
		m.name(sig, in)
		return
	case sig.Session != "" && sig.Session == m.next:
		m.hold(in)
		return
	}
	m.files.post(in)
}

// name handles a record that names another session than the present one.
func (m *Moves) name(sig telemetry.Signal, in input.SignalsSeen) {
	if sig.Session != m.next {
		m.next, m.works, m.held = sig.Session, false, nil
	}
	m.at = sig.At
	m.hold(in)
	ended := m.works && sig.Kind == telemetry.Idle
	m.works = sig.Kind == telemetry.Working || sig.Kind == telemetry.NeedsInput
	if !m.look(ended) && ended {
		m.release()
	}
}

func (m *Moves) hold(in input.SignalsSeen) {
	if m.held = append(m.held, in); len(m.held) > maxHeld {
		m.held = m.held[1:]
	}
}

func (m *Moves) release() {
	for _, in := range m.held {
		m.files.post(in)
	}
	m.held = nil
}

// look follows the process to the next session, if the session's file shows how it
// began, and reports whether it does. Until then it waits for the file, at most until a
// turn of the session has ended.
func (m *Moves) look(ended bool) bool {
	if m.next == "" {
		return false
	}
	path := m.path()
	if path == "" {
		return false
	}
	began, cause := m.began(path)
	var since time.Time // earlier records are of another process
	if ended && !began.IsZero() {
		cause = cmp.Or(cause, "unknown")
	}
	switch {
	case cause == "":
		m.files.Watch(path, since)
		return false
	case m.past[m.next], began.Before(m.named) && m.present == "", began.Before(m.named.Add(-lag)):
		cause, since = "resume", later(m.named, m.at.Add(-lag))
	}
	m.past[m.present] = true
	m.present, m.next, m.named = m.next, "", time.Now()
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "named by its process", At: later(m.at, began), Session: m.present, Cause: cause}
	m.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	m.release()
	m.files.Watch(path, since)
	return true
}

// path returns the path of the next session's file, or of the file that a new session
// gets; "" if there is none, or more than one.
func (m *Moves) path() string {
	if strings.Trim(strings.ToLower(m.next), "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
		return "" // not an id, and perhaps a pattern
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

// began reads how the session of a file began. The cause is empty if the file does not
// show it yet.
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
		cause = "unknown" // its first record is longer
	}
	return at, cause
}
