package supervisor

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/telemetry"
)

// firsts finds the first harness session of a process that chooses this session itself.
// The candidates are the sessions that began in the working folder since the process
// started: the file of a session is created before the title of the terminal shows work.
// A line is an entry of the harness's list of typed lines. The entry names the first
// session of the process in which the line was typed. A turn lasts as long as the titles
// show work. The session is found:
//
//	at once            one candidate, and a line from just before the title names it
//	at the turn's end  one candidate, no such line, but it has a prompt in this turn
//	at the turn's end  several candidates, such a line names one of them, and only this
//	                   one has prompts in this turn; the same was true in an earlier turn
//
// Otherwise the search continues in the next turn.
//
// If a file was deleted before it was read, no session is found: the file may have been a
// candidate's. If the user typed /clear before the first prompt, the line of the prompt
// names the first session, but the prompt is in the session that began after /clear. The
// two sessions then count as one candidate.
type firsts struct {
	typedFiles
	dir      string               // the folder of the session files; empty until a session began
	past     map[string]bool      // the session files that existed at the launch
	met      map[string]bool      // the session files whose beginnings were read
	begun    map[string]time.Time // when each session of the working folder began; only sessions that began after the launch
	vanished bool                 // a file was deleted before its beginning was read
	started  time.Time            // the start of the process that sets the titles, or up to titleTime later; zero if not known
	works    time.Time            // since when the titles show work, or a question; zero if they show neither
	known    bool                 // the first session of the process was found
	// guess is one of several candidates: in an earlier turn a line named it, and only it had
	// prompts. If both are true again in another turn, the session is found. guess is empty if
	// there was no such turn since the search began.
	guess string
}

// titleTime is the longest delay of a title, unless the machine is overloaded. Any title
// is seen at most titleTime after it was set. A title that shows work is seen at most
// titleTime after the line was typed.
const titleTime = 2 * time.Second

// newFirsts is called before the process can have begun a session.
func newFirsts(files typedFiles) *firsts {
	f := &firsts{typedFiles: files, past: map[string]bool{}, met: map[string]bool{}, begun: map[string]time.Time{}}
	existing, _ := matching(f.Place.Dir, f.Place.Pattern) // without the folder there is no session
	for _, path := range existing {
		f.past[path] = true
	}
	return f
}

// A firstState is what a signal of the terminal shows of the first session.
type firstState int

const (
	firstUnchanged firstState = iota
	firstFound
	firstMissing // the process works in a session that is not known
)

// shown handles a signal of the terminal. Each signal Alive starts the search again,
// because the harness may have restarted its process to apply a changed setting.
func (f *firsts) shown(sig telemetry.Signal, at time.Time) (first string, state firstState) {
	switch sig.Kind {
	case telemetry.Alive:
		f.known, f.vanished, f.guess, f.works, f.started = false, false, "", time.Time{}, at.Truncate(time.Millisecond)
	case telemetry.Working, telemetry.NeedsInput:
		if f.works.IsZero() {
			f.works = at
		}
		if !f.known {
			first, state = f.look(at, false)
		}
	case telemetry.Idle:
		if !f.known && !f.works.IsZero() {
			first, state = f.look(at, true)
		}
		f.works = time.Time{}
	}
	f.known = f.known || state == firstFound
	return first, state
}

// look returns the first session if it is known now. ended says that the work of the
// process has ended.
func (f *firsts) look(now time.Time, ended bool) (first string, state firstState) {
	from := later(f.works.Add(-titleTime), f.started)
	began := f.beginnings()
	lines := f.typed()
	near := slices.DeleteFunc(slices.Clone(lines), func(l telemetry.Typed) bool { return l.At.Before(from) || l.At.After(f.works) })
	line := one(near)
	// ours reports whether session is line (the session of the typed line), or began
	// after a /clear in the process whose first session is line.
	ours := func(session string) bool {
		return session == line || slices.ContainsFunc(lines, func(l telemetry.Typed) bool {
			return l.Session == line && l.Begins == "clear" && !l.At.Before(f.started) && !l.At.After(began[session])
		})
	}
	others := f.vanished
	for session := range began {
		others = others || !ours(session)
	}
	alone := len(began) == 1 && !f.vanished
	switch {
	case len(began) > 0 && !others:
		return line, firstFound
	case !ended && (len(began) == 0 || alone):
		return "", firstUnchanged // typed returns no line while the list is being written
	case !ended:
		return "", firstMissing
	}
	prompted, whole := f.prompted(began, from, now)
	switch guess := f.guess; {
	case prompted == "" || !whole || f.vanished:
		return "", firstMissing
	case alone && len(near) == 0:
		return prompted, firstFound
	case !ours(prompted):
		return "", firstMissing
	default:
		if f.guess = prompted; guess != prompted {
			return "", firstMissing
		}
		return line, firstFound
	}
}

// prompted returns the only session with a prompt between two times; empty if no session
// or several have one. whole is false if the file of a session was not read, or if the
// file is so long that only the prompts at its end were read.
func (f *firsts) prompted(began map[string]time.Time, from, to time.Time) (session string, whole bool) {
	var prompts []telemetry.Typed
	unread := maps.Clone(began)
	whole = true
	for _, path := range f.changed(f.dir, f.since) {
		session, _, all := f.read(path)
		if _, candidate := began[session]; !candidate {
			continue
		}
		delete(unread, session)
		if info, err := os.Stat(path); err != nil || info.Size() > tailSize {
			whole = false
		}
		for _, p := range all {
			if p.Session = session; !p.At.Before(from) && !p.At.After(to) {
				prompts = append(prompts, p)
			}
		}
	}
	return one(prompts), whole && len(unread) == 0
}

// one returns the session of the lines; empty if there is no line, or if the lines are of
// several sessions.
func one(lines []telemetry.Typed) (session string) {
	for _, l := range lines {
		if session != "" && session != l.Session {
			return ""
		}
		session = l.Session
	}
	return session
}

// typed returns the lines of the list; none while it is being written.
func (f *firsts) typed() []telemetry.Typed {
	if f.dir == "" {
		return nil
	}
	list, err := durable.ReadLinked(filepath.Join(f.dir, f.List), maxList)
	if err != nil {
		return nil
	}
	lines, whole := f.linesOf(list)
	if !whole {
		return nil
	}
	return lines
}

// meet records when the session of a file began. If a new file is gone before it was read,
// meet sets vanished.
func (f *firsts) meet(path string, gone bool) {
	if gone {
		f.vanished = f.vanished || !f.met[path] && !f.past[path]
		return
	}
	if f.met[path] {
		return
	}
	here, final := examine(f.Place, path, f.WorkDir)
	f.met[path] = final
	if len(here) == 0 {
		return
	}
	switch session, began, _ := f.read(path); {
	case session == "":
		f.vanished = true // the file was deleted just now
	case !began.Before(f.since):
		f.dir, f.begun[session] = filepath.Dir(path), began
	}
}

// beginnings returns the sessions that began since the process started.
func (f *firsts) beginnings() map[string]time.Time {
	files, _ := matching(f.Place.Dir, f.Place.Pattern) // without the folder there is no session
	for _, path := range files {
		if changedSince(path, f.since) {
			f.meet(path, false)
		}
	}
	began := map[string]time.Time{}
	for session, at := range f.begun {
		if !at.Before(f.started.Add(-titleTime)) {
			began[session] = at
		}
	}
	return began
}
