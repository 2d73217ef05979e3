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

// firsts finds the first harness session of a process that chooses it itself. It is one of
// those that began in the working folder since the process started, because their files
// are created before the title of the terminal shows work. A file may be deleted again, by
// the clean-up of another process:
//
//	only one began, and the list has a line of it shortly before the title ──► found
//	only one began, the list lacks the line, and that work had a prompt ─────► found at its end
//	more began, and only one had a prompt in a work, and again in a later one ► found at its end
//	otherwise ─────────────────────────────► not found; look at the next work
//
// After the context was cleared before the first prompt, the line is of the first session,
// and the prompt of one that began after the command.
type firsts struct {
	typedFiles
	dir      string               // the folder of the session files; empty until one began
	past     map[string]bool      // the session files at the launch
	met      map[string]bool      // the session files whose beginnings were read
	begun    map[string]time.Time // when each session began, of the working folder and since the launch
	vanished bool                 // a file was deleted before its beginning was read
	started  time.Time            // when the process that shows its titles started, or up to titleTime later; zero if that is not known
	works    time.Time            // since when the titles show work, or a question; zero if they show neither
	guess    string               // the only session with a prompt in an earlier work
	known    bool                 // the first session of that process was found
}

// titleTime is how much later than the line a title that reports work is seen, and any
// title than it was set, unless the machine is overloaded.
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

// shown handles a signal of the terminal. The harness may start its process again, to apply
// a changed setting; then it shows the title of a start again.
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
	ours := func(session string) bool { // whether the process in which the line was typed has the session
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
		return "", firstUnchanged // the line may be missing in a list that is being written
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

// prompted returns the session that alone had a prompt between two times. whole is false if
// a session's file was not read, or not all of it.
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

// one returns the session of all lines; empty if there is no line, or if they are of more
// than one.
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

// meet notes the session of a session file that is new, or gone.
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
		f.vanished = true // it was deleted just now
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
