package supervisor

import (
	"bytes"
	"io"
	"path/filepath"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Switches follow a launch whose process continues with another harness session, after
// `/clear` for example, and whose hooks are not called. The new session's file does not
// name the process. The harness's list of typed lines does, by the process's first
// session. So the process has the session of a file if all of this holds:
//
//	the file records a prompt with the text of the newest line typed in the process
//	the prompt is not older than the line
//	no other process's line with this text is between them
//	the file of the present session has no such prompt, and no third file has one
//
// Nothing follows from a prompt whose record has another text than was typed, such as
// one with a file's content. Then the next prompt shows the session.
type Switches struct {
	profiles.Typing
	First string    // the session with which the launch begins
	Since time.Time // earlier lines belong to an earlier process

	files   *Files
	dir     string              // the folder of the session files; empty until it is known
	present string              // the session that the process has
	lines   []telemetry.Typed   // the lines of all processes
	line    telemetry.Typed     // the newest line of the process, until its prompt is found
	found   time.Time           // when the newest line was typed whose prompt was found
	since   time.Time           // when the line was typed whose prompt showed the present session
	held    []input.SignalsSeen // records of a session that the process does not have
}

// listSource is the source name of the list of typed lines. Its content causes no signal
// but the one that names a session.
const listSource = "typed"

// maxList is the largest size of a list that is read.
const maxList = 64 << 20

// opened notes the folder of the first session's file, and starts following the list
// and the other files in it.
func (s *Switches) opened(path string) {
	if s.dir != "" {
		return
	}
	s.dir, s.present = filepath.Dir(path), s.First
	s.files.watcher.Add(watchers.Spec{Source: listSource, Form: watchers.Whole, Path: s.list()})
	s.files.watcher.Add(watchers.Spec{Source: noticeSource, Form: watchers.Stamp, AtEnd: true, Path: s.dir, Pattern: s.Pattern})
}

// typed takes a new state of the list.
func (s *Switches) typed(list []byte) {
	s.line = telemetry.Typed{}
	s.lines, _ = s.Lines(list) // not whole while it is being written; then it is delivered again
	for _, l := range s.lines {
		if s.own(l) && l.At.After(s.found) {
			s.line = l
		}
	}
	s.find()
}

// own reports whether a line was typed in the process.
func (s *Switches) own(l telemetry.Typed) bool { return l.Session == s.First && !l.At.Before(s.Since) }

// hold keeps the signals of a session that the process does not have, and reports whether
// it does.
func (s *Switches) hold(in input.SignalsSeen) bool {
	session := in.Signals[0].Session
	if s.dir == "" || session == "" || session == s.present {
		return false
	}
	if len(s.held) > 0 && (s.held[0].Signals[0].Session != session || len(s.held) == maxHeld) {
		s.held = nil
	}
	s.held = append(s.held, in)
	s.find()
	return true
}

// find searches the files that changed since the newest line for its prompt, and
// follows the session of another file that has it.
func (s *Switches) find() {
	if s.line.Text == 0 {
		return
	}
	paths, err := filepath.Glob(filepath.Join(s.dir, s.Pattern))
	if err != nil {
		return
	}
	found, at := "", ""
	for _, path := range paths {
		session := s.prompted(path)
		switch {
		case session == "":
		case session == s.present:
			s.found, s.line = s.line.At, telemetry.Typed{}
			return
		case found != "":
			return // two files have the prompt
		default:
			found, at = session, path
		}
	}
	// A prompt is in the list before it is in a file, but the watcher may deliver the file
	// first.
	if found != "" && s.reread() && s.prompted(at) == found {
		s.follow(found, at)
	}
}

// reread reads the list, and reports whether it could be read.
func (s *Switches) reread() bool {
	list, err := durable.ReadLinked(s.list(), maxList)
	if err != nil {
		return false
	}
	lines, whole := s.Lines(list)
	if whole {
		s.lines = lines
	}
	return whole
}

func (s *Switches) list() string { return filepath.Join(s.dir, s.List) }

// prompted returns the session of a file that has the prompt of the newest line; empty
// if it has not.
func (s *Switches) prompted(path string) string {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const coarse = time.Second // at most how much earlier the time of a file is than that of a record in it
	info, err := f.Stat()
	if err != nil || info.ModTime().Add(coarse).Before(s.line.At) {
		return ""
	}
	head, err := headOf(f)
	if err != nil {
		return ""
	}
	// The search begins when the prompt was written, so it is near the end.
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-headSize), headSize))
	if err != nil {
		return ""
	}
	for record := range bytes.Lines(tail) {
		if p, ok := s.Prompt(bytes.TrimSuffix(record, []byte("\n"))); ok && s.became(p) {
			session, _ := s.Whose(head, "") // every file in this folder belongs to the same working folder
			return session
		}
	}
	return ""
}

// became reports whether the newest line of the process became this prompt.
func (s *Switches) became(prompt telemetry.Typed) bool {
	var last telemetry.Typed // the newest line before the prompt that has its text
	for _, l := range s.lines {
		if l.Text == prompt.Text && !l.At.After(prompt.At) && !l.At.Before(last.At) {
			last = l
		}
	}
	return last == s.line
}

// follow posts that the process has another session, and reads the file of it.
func (s *Switches) follow(session, path string) {
	live := telemetry.Signal{Kind: telemetry.SessionLive, Source: kernel.FolderSource, Detail: "prompt typed in this terminal",
		At: s.line.At, Session: session, Cause: "unknown"}
	for _, l := range s.lines {
		if s.own(l) && l.Begins != "" && l.At.After(s.since) {
			live.Cause = l.Begins
		}
	}
	s.present, s.found, s.since, s.line = session, s.line.At, s.line.At, telemetry.Typed{}
	s.files.post(input.SignalsSeen{Signals: []telemetry.Signal{live}})
	for _, in := range s.held {
		if in.Signals[0].Session == session {
			s.files.post(in)
		}
	}
	s.held = nil
	s.files.Watch(path)
}
