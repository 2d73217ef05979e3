package supervisor

import (
	"bytes"
	"io"
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
// If the harness itself chooses its first session, the title of the terminal shows which
// one that is: it reports work soon after a line was typed and its prompt was recorded. So
// the process began with the session of that line, if no other session has a line or a
// prompt at that time.
type Switches struct {
	profiles.Typing
	First string    // the session with which the launch begins; empty if it is not known before
	Since time.Time // the time of the launch; an earlier line was not typed in its process

	files   *Files
	dir     string              // the folder of the session files; empty until it is known
	present string              // the session that the process has
	lines   []telemetry.Typed   // the lines of all processes since the launch
	done    time.Time           // when the newest line was typed whose prompt was found
	began   time.Time           // when the command was typed that led to the present session
	busy    bool                // the title of the terminal reports work, or a question to the user
	started time.Time           // when the process that shows its titles started; zero if that is not known
	known   bool                // First is the first session of the process that shows its titles
	missed  bool                // work began in an unknown session, and this was reported
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
	// titleTime is the longest time from a typed line to the title that reports work, unless
	// the machine is overloaded.
	titleTime = 2 * time.Second
)

func (s *Switches) start(f *Files) {
	s.files, s.present, s.done = f, s.First, s.Since
	s.watched, s.offsets = map[string]bool{}, map[string]int64{}
}

// shown handles a signal of the terminal. When the work of a process begins whose first
// session is not known, it looks for that session. The harness may start its process again,
// to apply a changed setting; then it shows the title of a start again.
func (s *Switches) shown(sig telemetry.Signal, at time.Time) {
	began := sig.Kind == telemetry.Working && !s.busy
	switch sig.Kind {
	case telemetry.Working, telemetry.NeedsInput:
		s.busy = true
	case telemetry.Alive:
		s.known, s.busy, s.started = false, false, at.Truncate(time.Millisecond)
	case telemetry.Idle:
		s.busy = false
	}
	if began && !s.known {
		s.begin(at)
	}
}

// begin finds the first session of the process, if the terminal began to show work at a
// time, and follows it.
func (s *Switches) begin(at time.Time) {
	line, dir, asked := s.near(at)
	s.known = line.Session != ""
	switch {
	case s.known:
		if line.Session != s.First {
			s.first(line, dir)
		}
		s.report(false)
	case asked:
		s.report(true)
	}
}

// first follows the process whose first session a line shows.
func (s *Switches) first(line telemetry.Typed, dir string) {
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "line typed in this terminal", At: line.At, Session: line.Session}
	if s.First != "" {
		live.Cause = "startup"
	}
	s.First, s.present, s.began, s.held = line.Session, line.Session, s.Since, nil
	clear(s.watched)
	s.opened(dir)
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	for _, path := range s.changed(dir, s.Since) {
		s.noticed(path)
	}
}

// report posts that work began in an unknown session, or that the session is known again,
// if that is new.
func (s *Switches) report(missed bool) {
	if missed == s.missed {
		return
	}
	s.missed = missed
	what := input.TroubleRecovered
	if missed {
		what = input.TroubleUnassigned
	}
	s.files.reportTrouble(s.files.Named.Name, what, nil)
}

// near returns the line that was typed shortly before a time, and the folder of its session
// files. It searches the list of typed lines, and the session files for the line's prompt,
// because the list lacks a line if two processes wrote it at the same time. It returns no
// line if two sessions have a line or a prompt at that time: one of them belongs to another
// terminal. asked is false if no session has a prompt, because a command to a shell was
// typed.
func (s *Switches) near(at time.Time) (line telemetry.Typed, dir string, asked bool) {
	folders, err := matching(s.Dir, s.Folders)
	if err != nil {
		return line, "", false
	}
	from := later(s.started, at.Add(-titleTime))
	recent := func(l telemetry.Typed) bool { return !l.At.Before(from) && !l.At.After(at) }
	var prompt telemetry.Typed
	prompted, sure := "", true // the session with the prompt, and whether no other one has any
	for _, folder := range folders {
		lines, whole := s.listed(filepath.Join(folder, s.List))
		sure = sure && whole
		for _, l := range lines {
			if recent(l) {
				sure = sure && (line.Session == "" || line.Session == l.Session)
				line, dir = l, folder
			}
		}
		for _, file := range s.changed(folder, s.Since) {
			session, _, prompts := s.read(file)
			for _, p := range prompts {
				if session != "" && recent(p) {
					sure = sure && (prompted == "" || prompted == session)
					prompt, prompted = p, session
				}
			}
		}
	}
	// After the context was cleared, the prompt is in another session than the line.
	if !sure || prompted != line.Session && prompt.Text != line.Text {
		line = telemetry.Typed{}
	}
	return line, dir, prompted != ""
}

// listed reads a list if it changed since the launch. whole is false while it is being
// written.
func (s *Switches) listed(path string) (lines []telemetry.Typed, whole bool) {
	if !changedSince(path, s.Since) {
		return nil, true
	}
	list, err := durable.ReadLinked(path, maxList)
	if err != nil {
		return nil, false
	}
	return s.Lines(list)
}

// changedSince reports whether a file exists and changed since a time.
func changedSince(path string, since time.Time) bool {
	info, err := os.Stat(path)
	return err == nil && !info.ModTime().Add(coarse).Before(since)
}

// changed returns the session files of a folder that changed since a time.
func (s *Switches) changed(folder string, since time.Time) (paths []string) {
	files, _ := matching(folder, s.Pattern) // the watcher reports an error of the folder
	for _, file := range files {
		if changedSince(file, since) {
			paths = append(paths, file)
		}
	}
	return paths
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
	switch l.Source {
	case listSource:
		s.typed(l.Text)
		s.find()
	case filesSource:
		s.noticed(l.Path)
	default:
		return false
	}
	return true
}

func (s *Switches) list() string { return filepath.Join(s.dir, s.List) }

// typed takes a new state of the list, and reports whether it is whole. It is not while
// it is being written; then it is delivered again.
func (s *Switches) typed(list []byte) bool {
	lines, whole := s.Lines(list)
	s.lines = slices.DeleteFunc(lines, func(l telemetry.Typed) bool { return l.At.Before(s.Since) })
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

func (s *Switches) end() {}

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

// read reads the beginning and the end of a session file: the session, when it began, and
// its prompts.
func (s *Switches) read(path string) (session string, began time.Time, prompts []telemetry.Typed) {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return "", began, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", began, nil
	}
	head, err := headOf(f)
	if err != nil {
		return "", began, nil
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	for _, sig := range s.files.Named.Decoder().Decode(first) {
		if sig.Kind == telemetry.SessionLive && sig.Agent == "" {
			session, began = sig.Session, sig.At
		}
	}
	// Only the end of a long file is searched, soon after a prompt was written.
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailSize), tailSize))
	if err != nil {
		return "", began, nil
	}
	for record := range bytes.Lines(tail) {
		if p, ok := s.Prompt(bytes.TrimSuffix(record, []byte("\n"))); ok {
			prompts = append(prompts, p)
		}
	}
	return session, began, prompts
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
