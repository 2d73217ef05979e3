package supervisor

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Successors are the harness sessions of a working folder. An observer follows the session
// that got the newest prompt. A harness begins another session after `/clear` and after a
// restart, and returns to an earlier session when the user resumes it. Most records do not
// say which sessions belong to one process, so after a prompt in another session the
// observer leaves the followed session only if no turn of it runs or if it is silent. If a
// record says that a session continues the followed one, the observer follows it at once.
//
//	prompt in another session ──► the followed one is idle or silent ──► follow the other
//	                         └──► a turn of the followed one runs ─────► stay
type Successors struct {
	Place profiles.Place
	Dir   string
	// Found are the sessions of the folder at the start. The first one is followed.
	Found []Found
	// Prompted is called when a session that was not followed got a prompt. followed is
	// true if the session is followed from then on.
	Prompted func(session string, followed bool)

	files    *Files
	followed string
	busy     bool                           // a turn of the followed session runs
	last     time.Time                      // when the newest record of the followed session was read
	known    map[string]bool                // sessions that existed at the start or were followed
	began    time.Time                      // when the method start was called
	paths    map[string]string              // the session of each file; empty if the session belongs to another folder
	rest     map[string]Found               // sessions whose files are followed only when they change
	held     map[string][]input.SignalsSeen // records of sessions that are not followed, kept until their session gets a prompt; move clears the map
	passed   map[string]bool                // sessions that got a prompt but were not followed, because a turn of the followed one ran
}

const (
	// noticeSource is the source name of the watch on the place where the harness
	// keeps its files. Its records show only that a file changed.
	noticeSource = "place"
	// silentFor is the silence after which a session can be left although a turn runs.
	silentFor = 2 * time.Minute
	// maxSuccessors is the largest number of earlier sessions whose files are followed from
	// the start. maxHeld is how many records of a session are kept until it gets a prompt.
	maxSuccessors = 64
	maxHeld       = 256
)

// start follows the files of the newest sessions in Found, except the first, whose source
// is among Files.Fixed. It also watches the place for new files.
func (s *Successors) start(f *Files) {
	s.files, s.followed, s.last = f, s.Found[0].Session, time.Now()
	s.began, s.rest = s.last.Truncate(time.Millisecond), map[string]Found{}
	s.known, s.paths, s.held, s.passed = map[string]bool{}, map[string]string{}, map[string][]input.SignalsSeen{}, map[string]bool{}
	for i, found := range s.Found {
		s.known[found.Session] = true
		if s.Place.Whose == nil {
			continue
		}
		if i > maxSuccessors {
			s.rest[found.Source.Path] = found
			continue
		}
		s.paths[found.Source.Path] = found.Session
		if i > 0 {
			f.follow(found.Source, true)
		}
	}
	if s.Place.Whose != nil {
		f.watcher.Add(watchers.Spec{Source: noticeSource, Form: watchers.Stamp, Path: s.Place.Dir, Pattern: s.Place.Pattern})
	}
}

func (s *Successors) handled(watchers.Position)         {}
func (s *Successors) end()                              {}
func (s *Successors) shown(telemetry.Signal, time.Time) {}

// notice handles a record of the watch on s.Place. Such a record names a file. If this file
// is not followed yet and its session belongs to Dir, notice follows the file. A file that
// is in the map s.rest is followed only if it was changed after the time noted there.
func (s *Successors) notice(l watchers.Line) bool {
	if l.Source != noticeSource {
		return false
	}
	s.noticed(l.Path)
	return true
}

func (s *Successors) noticed(path string) {
	if _, seen := s.paths[path]; seen {
		return
	}
	if found, old := s.rest[path]; old {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(found.At) {
			delete(s.rest, path)
			s.paths[path] = found.Session
			s.files.starts.Store(stem(path), s.began)
			s.files.follow(found.Source, false)
		}
		return
	}
	found, final := examine(s.Place, path, s.Dir)
	if len(found) == 0 {
		if final {
			s.paths[path] = "" // the beginning of the file shows another folder, or none
		}
		return
	}
	s.paths[path] = found[0].Session
	s.files.follow(found[0].Source, false)
}

// sees posts the signals of a record if the record's session is unknown, is followed, or
// becomes followed. Otherwise it keeps or drops them. path is the file or the database of
// the record.
func (s *Successors) sees(path string, in input.SignalsSeen) {
	session := s.of(path)
	prompted := false
	for _, sig := range in.Signals {
		if sig.Agent == "" && sig.Side == "" {
			session = cmp.Or(session, sig.Session)
			prompted = prompted || sig.Kind == telemetry.Prompt
		}
	}
	switch {
	case session == "" || session == s.followed:
	case slices.ContainsFunc(in.Signals, func(sig telemetry.Signal) bool {
		return sig.Kind == telemetry.SessionLive && sig.From != "" && sig.From == s.followed
	}):
		s.followed, s.known[session] = session, true // the harness reports that this session continues the followed one
	case prompted && !s.here(session):
		return
	case prompted && s.busy && time.Since(s.last) < silentFor:
		s.passed[session] = true
		delete(s.held, session)
		s.Prompted(session, false)
		return
	case prompted:
		s.move(session, in.Signals)
	default:
		if !s.passed[session] && len(s.held[session]) < maxHeld {
			s.held[session] = append(s.held[session], in)
		}
		return
	}
	s.last, s.busy = time.Now(), works(s.busy, in.Signals)
	s.files.post(in)
}

// of returns the session to which a file belongs. A sub-agent's file belongs to the session
// whose file is beside it. The result is empty for a database.
func (s *Successors) of(path string) string {
	if session, known := s.paths[path]; known || s.Place.Whose == nil {
		return session
	}
	for file, session := range s.paths {
		if strings.HasPrefix(path, stem(file)+"/") {
			s.paths[path] = session
			return session
		}
	}
	return ""
}

// works reports whether a turn still runs after the signals of a record of the followed
// session. busy says whether a turn ran before them. Some harnesses do not record the end
// of a turn, so an answer of the model ends the turn, unless the same record has a prompt
// or a tool call, before or after the answer.
func works(busy bool, signals []telemetry.Signal) bool {
	// worked is set if there is a prompt or a tool call after the last end of a turn in
	// this record.
	worked := false
	for _, sig := range signals {
		switch {
		case sig.Agent != "" || sig.Side != "":
		case sig.Kind == telemetry.Prompt, sig.Kind == telemetry.ToolStart, sig.Kind == telemetry.ToolEnd:
			busy, worked = true, true
		case sig.Kind == telemetry.UsageSeen:
			busy = worked
		case sig.Kind == telemetry.TurnEnd, sig.Kind == telemetry.TurnStop, sig.Kind == telemetry.Idle, sig.Kind == telemetry.SessionGone:
			busy, worked = false, false
		}
	}
	return busy
}

// move makes another session the followed one. It posts that the session is live, and
// then the session's held records. signals are the signals of the record that has the
// session's prompt.
func (s *Successors) move(session string, signals []telemetry.Signal) {
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "newest prompt", Session: session, Cause: "unknown"}
	if s.known[session] {
		live.Cause = "resume"
	}
	for _, sig := range signals {
		if sig.Kind == telemetry.Prompt {
			live.At = sig.At
		}
	}
	s.followed, s.known[session] = session, true
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	for _, in := range s.held[session] {
		s.files.post(in)
	}
	clear(s.held)
	delete(s.passed, session)
	s.Prompted(session, true)
}

// here reports whether a session belongs to the folder.
func (s *Successors) here(session string) bool {
	if s.known[session] || s.Place.Whose != nil {
		return true
	}
	found, err := ofDatabase(s.Place, s.Found[0].Source.Path, s.Dir)
	return err == nil && slices.ContainsFunc(found, func(f Found) bool { return f.Session == session })
}
