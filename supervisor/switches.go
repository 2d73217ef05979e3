package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Switches follow a launch without hooks whose process continues with another harness
// session, after `/clear` for example. The new session's file does not name the process.
// The harness's list of typed lines does, by the first session of the process. So the
// process has the session of a file if all of this holds:
//
//	a command that leads to another session was typed in the process: to a new one, if
//	the file began after it, or to an earlier one
//	the file records a prompt with the text of a line typed in the process after it
//	no other process's line with this text is between the line and the prompt
//	the file of the present session has no such prompt, and no third session has one
//
// Nothing follows from a prompt whose record has another text than was typed; a later
// prompt may show the session. If two running processes began with the same session, one
// as a new one and the other by resuming it, their lines cannot be distinguished.
//
// If the harness itself chooses its first session, firsts finds it.
type Switches struct {
	profiles.Typing
	First string    // the session with which the launch begins; empty if it is not known before
	Since time.Time // the time of the launch; an earlier line was not typed in its process

	files *Files
	typedFiles
	firsts  *firsts             // nil if First is known before
	dir     string              // the folder of the session files; empty until it is known
	present string              // the session that the process has
	lines   []telemetry.Typed   // the lines of all processes since the launch
	done    time.Time           // when the newest line was typed whose prompt was found
	began   time.Time           // when the command was typed that led to the present session
	watched map[string]bool     // the first session file, and those that changed after it was left: whether their records are read
	offsets map[string]int64    // how far each file was read, in bytes
	held    []input.SignalsSeen // records of sessions other than present, posted if one becomes it
}

const (
	// listSource is the source name of the list of typed lines, and filesSource that of the
	// watch on the folder of session files. They cause no signal but the one that names a
	// session.
	listSource  = "typed"
	filesSource = "chats"
	// maxList is the largest size of a list that is read.
	maxList = 64 << 20
	// tailSize is how many bytes at the end of a session file are searched for a prompt. A
	// prompt may contain a picture.
	tailSize = 8 << 20
	// coarse is at most how much earlier the time of a file is than that of its newest
	// record.
	coarse = time.Second
)

func (s *Switches) start(f *Files) {
	s.files, s.present, s.done = f, s.First, s.Since
	s.typedFiles = typedFiles{s.Typing, f.Named.Decoder, s.Since}
	s.watched, s.offsets = map[string]bool{}, map[string]int64{}
	if s.WorkDir != "" {
		s.firsts = newFirsts(s.typedFiles)
		f.watcher.Add(watchers.Spec{Source: filesSource, Form: watchers.Stamp, AtEnd: true, Path: s.Place.Dir, Pattern: s.Place.Pattern})
	}
}

// shown follows the process to its first session when a signal of the terminal shows it.
func (s *Switches) shown(sig telemetry.Signal, at time.Time) {
	if s.firsts == nil {
		return
	}
	switch first, state := s.firsts.shown(sig, at); state {
	case firstFound:
		s.first(first)
		s.report(input.TroubleRecovered)
	case firstMissing:
		s.report(input.TroubleUnassigned)
	}
}

// first follows the process from its first session on. The process may have another one
// by now.
func (s *Switches) first(session string) {
	s.First, s.present, s.began, s.held, s.dir = session, session, later(s.Since, s.firsts.started.Add(-titleTime)), nil, s.firsts.dir
	clear(s.watched)
	s.files.watcher.Add(watchers.Spec{Source: listSource, Form: watchers.Whole, Path: s.list()})
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "began with this process",
		At: s.began, Session: session, Cause: "startup"}}})
	for _, path := range s.changed(s.dir, s.Since) {
		s.noticed(path)
	}
}

// report posts that the process has an unknown session, or a known one, if that is new or
// the file of the session before was deleted.
func (s *Switches) report(what input.Trouble) {
	if trouble := s.files.trouble; what != trouble && (what == input.TroubleUnassigned || trouble == input.TroubleUnassigned || trouble == input.TroubleDeleted) {
		s.files.trouble = what
		s.files.reportTrouble(s.files.Named.Name, what, nil)
	}
}

// opened notes the folder of the session files, and starts following the list and the
// files in it.
func (s *Switches) opened(dir string) {
	s.dir = dir
	s.files.watcher.Add(watchers.Spec{Source: listSource, Form: watchers.Whole, Path: s.list()})
	s.files.watcher.Add(watchers.Spec{Source: filesSource, Form: watchers.Stamp, AtEnd: true, Path: s.dir, Pattern: s.Pattern})
}

// notice handles a change of the list or of a session file.
func (s *Switches) notice(l watchers.Line) bool {
	switch {
	case l.Source != listSource && l.Source != filesSource:
		return false
	case l.Source == filesSource && s.firsts != nil:
		s.firsts.meet(l.Path, l.Gone)
	}
	switch {
	case l.Gone || s.dir == "":
	case l.Source == listSource:
		s.typed(l.Text)
		s.find()
	default:
		s.noticed(l.Path)
	}
	return true
}

func (s *Switches) list() string { return filepath.Join(s.dir, s.List) }

// typed takes a new state of the list, and reports whether it is whole. It is not while
// it is being written; then it is delivered again.
func (s *Switches) typed(list []byte) bool {
	var whole bool
	s.lines, whole = s.linesOf(list)
	return whole
}

// noticed handles a change of a session file. The present session may continue in a
// further file.
func (s *Switches) noticed(path string) {
	if _, known := s.watched[path]; !known && !s.began.IsZero() {
		switch session, _, _ := s.read(path); session {
		case "": // its beginning is being written
		case s.present:
			s.watch(path)
		default:
			s.watched[path] = false
		}
	}
	s.find()
}

func (s *Switches) watch(path string) {
	s.watched[path] = true
	s.files.Watch(path, s.began)
}

// sees keeps signals of a session that the process does not have, and posts others.
func (s *Switches) sees(_ string, in input.SignalsSeen) {
	session := in.Signals[0].Session
	if session == "" || session == s.present {
		s.files.post(in)
		return
	}
	if s.held = append(s.held, in); len(s.held) > maxHeld {
		s.held = s.held[1:]
	}
	s.find()
}

// end reports that the process ended while it worked in an unknown session.
func (s *Switches) end() {
	if s.firsts != nil && !s.firsts.known && !s.firsts.works.IsZero() {
		s.report(input.TroubleUnassigned)
	}
}

// handled notes how far a session file was read, after its record was posted.
func (s *Switches) handled(at watchers.Position) {
	if s.dir == "" {
		s.watched[at.Path] = true
		s.opened(filepath.Dir(at.Path))
	}
	s.offsets[at.Path] = at.Offset
	s.find()
}

// own reports whether a line was typed in the process, and its prompt or a later one was
// not found yet.
func (s *Switches) own(l telemetry.Typed) bool { return l.Session == s.First && l.At.After(s.done) }

// asked reports whether a command was typed in the process that leads to another
// session, and no prompt of the present session after it was found.
func (s *Switches) asked() bool {
	return slices.ContainsFunc(s.lines, func(l telemetry.Typed) bool { return s.own(l) && l.Begins != "" })
}

// find searches the changed files for prompts of the process, and follows the session of
// another file that has one.
func (s *Switches) find() {
	if !s.asked() {
		return
	}
	session, path := s.other()
	if session == "" {
		return
	}
	// A line is in the list before its prompt is in a file, but the watcher may deliver
	// the file first.
	list, err := durable.ReadLinked(s.list(), maxList)
	if err != nil || !s.typed(list) {
		return
	}
	if again, _ := s.other(); again == session {
		s.follow(session, path)
	}
}

// other returns the session other than the present one whose file has the newest prompt of
// the process; empty if there is none, or if two have it. It notes the newest prompt of
// the present session in done.
func (s *Switches) other() (session, path string) {
	var newest telemetry.Typed
	for _, file := range s.changed(s.dir, s.done) {
		has, began, prompts := s.read(file)
		prompt := s.ours(prompts)
		switch {
		case has == s.present && s.behind(file):
			return "", "" // its newest records come first
		case has == "" || prompt.At.IsZero():
		case has == s.present:
			s.done = later(s.done, prompt.At)
		case s.command(began, prompt).Begins == "":
		case prompt.At.After(newest.At):
			session, path, newest = has, file, prompt
		case prompt == newest && has != session:
			session, path = "", "" // two files have the prompt
		}
	}
	return session, path
}

// command returns the command of the process that led to a session which began at a time
// and has a prompt of the process; the zero Typed if none did.
func (s *Switches) command(began time.Time, prompt telemetry.Typed) (command telemetry.Typed) {
	for _, l := range s.lines {
		switch {
		case !s.own(l) || !l.At.Before(prompt.At):
		case l.Begins == "clear" && !began.Before(l.At):
			return l
		case l.Begins == "resume" && began.Before(l.At):
			command = l
		}
	}
	return command
}

// behind reports whether a session file has records that were not read yet.
func (s *Switches) behind(path string) bool {
	info, err := os.Stat(path)
	return err == nil && s.offsets[path] < info.Size()
}

// ours returns the newest line of the process that became one of the prompts.
func (s *Switches) ours(prompts []telemetry.Typed) (line telemetry.Typed) {
	for _, p := range prompts {
		if l := s.newest(p); s.own(l) && l.At.After(line.At) {
			line = l
		}
	}
	return line
}

// newest returns the newest line, of any process, that has the text of a prompt and is
// not newer.
func (s *Switches) newest(prompt telemetry.Typed) (newest telemetry.Typed) {
	for _, l := range s.lines {
		if l.Text == prompt.Text && !l.At.After(prompt.At) && !l.At.Before(newest.At) {
			newest = l
		}
	}
	return newest
}

// follow posts that the process has another session, and reads its file from the command
// on that led there.
func (s *Switches) follow(session, path string) {
	_, began, prompts := s.read(path)
	line := s.ours(prompts)
	command := s.command(began, line)
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "prompt typed in this terminal",
		At: line.At, Session: session, Cause: command.Begins}
	s.present, s.done, s.began = session, line.At, command.At
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	for _, in := range s.held {
		in.Signals = slices.DeleteFunc(in.Signals, func(sig telemetry.Signal) bool { return sig.Session != session || sig.At.Before(s.began) })
		if len(in.Signals) > 0 {
			s.files.post(in)
		}
	}
	s.held = nil
	s.watch(path)
}
