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

// Switches follow a launch without hooks whose process moves to another harness session,
// after `/clear` for example. The file of the new session does not name the process. The
// harness's list of typed lines identifies the process: each line names the first session
// of the process in which the line was typed. The process has moved to the session of a
// file if all of this holds:
//
//   - A command that leads to another session was typed in the process. If the command
//     begins a new session, the session of the file began after the command. If the
//     command resumes an earlier session, the session of the file began before it.
//   - The file records a prompt with the text of a line that was typed in the process
//     after the command.
//   - No line with this text was typed in another process between the line and the prompt.
//   - The file of the present session has no such prompt, and no third session has this
//     prompt.
//
// A prompt shows nothing if its record differs from the typed text; a later prompt may
// then show the session. Two running processes can have the same first session: one began
// it, and the other resumed it. Their lines cannot be distinguished.
//
// If the harness itself chooses its first session, firsts finds that session.
type Switches struct {
	profiles.Typing
	First string    // the first session of the process; empty until firsts finds it, if the harness chooses it
	Since time.Time // the time of the launch; a line with an earlier time was typed in another process

	files *Files
	typedFiles
	firsts  *firsts             // nil if First is known at the launch
	dir     string              // the folder of the session files; empty until it is known
	present string              // the session that the process has
	lines   []telemetry.Typed   // the lines of all processes since the launch
	done    time.Time           // the time of the newest line of the process that was found as a prompt in a session file; at first the time of the launch
	began   time.Time           // the time of the command that led to the present session; if firsts found this session, the approximate time when the process started; otherwise zero
	watched map[string]bool     // the session files that were looked at; true if their records are read
	offsets map[string]int64    // how far each file was read, in bytes
	held    []input.SignalsSeen // signals of other sessions than present; posted if the process moves to their session
}

const (
	// listSource is the source name of the list of typed lines, and filesSource that of the
	// watch on the folder of session files. Changes of these two sources cause only one
	// kind of signal: that the process has another session.
	listSource  = "typed"
	filesSource = "chats"
	// maxList is the largest size of a list that is read.
	maxList = 64 << 20
	// tailSize is how many bytes at the end of a session file are searched for a prompt. A
	// prompt may contain a picture.
	tailSize = 8 << 20
	// coarse is the largest error of a file's modification time, which may be earlier than
	// the time of the file's newest record.
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

// shown passes a signal of the terminal to firsts. If firsts finds the first session, shown
// follows that session. shown reports that the session was found, or that the process works
// in an unknown session.
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

// first follows the first session of the process, which firsts has found. The process may
// have moved to another session since, so first also searches the files that changed.
func (s *Switches) first(session string) {
	s.First, s.present, s.began, s.held, s.dir = session, session, later(s.Since, s.firsts.started.Add(-titleTime)), nil, s.firsts.dir
	clear(s.watched)
	s.files.watcher.Add(watchers.Spec{Source: listSource, Form: watchers.Whole, Path: s.list()})
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "began with the harness process",
		At: s.began, Session: session, Cause: "startup"}}})
	for _, path := range s.changed(s.dir, s.Since) {
		s.noticed(path)
	}
}

// report posts a trouble, unless the newest trouble is the same. The caller passes
// TroubleUnassigned if the session of the process is unknown, and TroubleRecovered if
// the session is known. TroubleRecovered is posted only after TroubleUnassigned or
// TroubleDeleted.
func (s *Switches) report(what input.Trouble) {
	if trouble := s.files.trouble; what != trouble && (what == input.TroubleUnassigned || trouble == input.TroubleUnassigned || trouble == input.TroubleDeleted) {
		s.files.trouble = what
		s.files.reportTrouble(s.files.Named.Name, what, nil)
	}
}

// opened notes the folder of the session files, and starts to watch these files and the
// list of typed lines.
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

// typed stores the lines of a new state of the list, and reports whether the list is whole.
// A list that is read while the harness writes it is not whole, and is delivered again.
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
		case "": // the beginning of the file is being written
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

// sees posts signals of the present session, and signals without a session. It keeps the
// signals of other sessions.
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

// handled is called after each record of a session file, and notes how far the file was
// read.
func (s *Switches) handled(at watchers.Position) {
	if s.dir == "" {
		s.watched[at.Path] = true
		s.opened(filepath.Dir(at.Path))
	}
	s.offsets[at.Path] = at.Offset
	s.find()
}

// own reports whether a line was typed in the process after s.done, the time of the newest
// line that was found as a prompt in a session file.
func (s *Switches) own(l telemetry.Typed) bool { return l.Session == s.First && l.At.After(s.done) }

// asked reports whether a command that leads to another session was typed in the process
// after s.done.
func (s *Switches) asked() bool {
	return slices.ContainsFunc(s.lines, func(l telemetry.Typed) bool { return s.own(l) && l.Begins != "" })
}

// find searches the changed files for prompts of the process. If the file of another
// session has such a prompt, find moves to that session.
func (s *Switches) find() {
	if !s.asked() {
		return
	}
	session, path := s.other()
	if session == "" {
		return
	}
	// A line is in the list before its prompt is in a file, but the watcher may deliver
	// the file first. The list is therefore read here, and the search is repeated.
	list, err := durable.ReadLinked(s.list(), maxList)
	if err != nil || !s.typed(list) {
		return
	}
	if again, _ := s.other(); again == session {
		s.follow(session, path)
	}
}

// other returns the session, other than the present one, whose file has the newest prompt
// of the process, and the path of that file. Both are empty if there is no such prompt, if
// two sessions have it, or if the present session's file was not read to its end. The time
// of the newest prompt in the present session's file is stored in done.
func (s *Switches) other() (session, path string) {
	var newest telemetry.Typed
	for _, file := range s.changed(s.dir, s.done) {
		has, began, prompts := s.read(file)
		prompt := s.ours(prompts)
		switch {
		case has == s.present && s.behind(file):
			return "", "" // the present session's file must be read to its end first
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

// command returns the command that was typed in the process and led to a session. began is
// the time when the session began. prompt is a line that was typed in the process and is a
// prompt in the session's file. If no command led to the session, command returns the zero
// Typed.
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

// ours returns the newest line that was typed in the process after the time s.done and
// was recorded as one of the prompts. Without such a line, ours returns the zero Typed.
func (s *Switches) ours(prompts []telemetry.Typed) (line telemetry.Typed) {
	for _, p := range prompts {
		if l := s.newest(p); s.own(l) && l.At.After(line.At) {
			line = l
		}
	}
	return line
}

// newest returns the newest line, of any process, that has the text of a prompt and was not
// typed after the prompt's time.
func (s *Switches) newest(prompt telemetry.Typed) (newest telemetry.Typed) {
	for _, l := range s.lines {
		if l.Text == prompt.Text && !l.At.After(prompt.At) && !l.At.Before(newest.At) {
			newest = l
		}
	}
	return newest
}

// follow posts that the process has moved to a session. The records in the session's file
// are then read, from the time of the command that led to the session.
func (s *Switches) follow(session, path string) {
	_, began, prompts := s.read(path)
	line := s.ours(prompts)
	command := s.command(began, line)
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "prompt typed in the wrapper's terminal",
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
