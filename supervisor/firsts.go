package supervisor

import (
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
//	when that work ends: only one of them got a prompt meanwhile ────────────► found
//	otherwise ───────────────────────────────► not found; look at the next work
//
// After the context was cleared before the first prompt, the line is of the first session,
// and the prompt of one that began after the command.
type firsts struct {
	typedFiles
	dir      string               // the folder of the session files; empty until one began
	met      map[string]bool      // the session files whose beginnings were read
	begun    map[string]time.Time // when each session began, of the working folder and since the launch
	vanished bool                 // a file was deleted before its beginning was read
	started  time.Time            // when the process that shows its titles started; zero if that is not known
	works    time.Time            // since when the titles show work, or a question; zero if they show neither
	known    bool                 // the first session of that process was found
}

// titleTime is how long a line is typed before the title that reports work, unless the
// machine is overloaded.
const titleTime = 2 * time.Second

func newFirsts(files typedFiles) *firsts {
	return &firsts{typedFiles: files, met: map[string]bool{}, begun: map[string]time.Time{}}
}

// A firstState is what a signal of the terminal shows of the first session.
type firstState int

const (
	nothingNew firstState = iota
	found
	notFound // the process works in a session that is not known
)

// shown handles a signal of the terminal. The harness may start its process again, to apply
// a changed setting; then it shows the title of a start again.
func (f *firsts) shown(sig telemetry.Signal, at time.Time) (first string, state firstState) {
	switch sig.Kind {
	case telemetry.Alive:
		f.known, f.vanished, f.works, f.started = false, false, time.Time{}, at.Truncate(time.Millisecond)
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
	f.known = f.known || state == found
	return first, state
}

// look returns the first session if it is known now. ended says that the work of the
// process has ended.
func (f *firsts) look(now time.Time, ended bool) (first string, state firstState) {
	from := later(f.works.Add(-titleTime), f.started)
	recent := func(l telemetry.Typed) bool { return !l.At.Before(from) && !l.At.After(now) }
	began := f.beginnings()
	lines := f.typed()
	line := one(slices.DeleteFunc(slices.Clone(lines), func(l telemetry.Typed) bool { return !recent(l) }))
	ours := func(session string) bool { // whether the process in which the line was typed has the session
		return session == line || slices.ContainsFunc(lines, func(l telemetry.Typed) bool {
			return l.Session == line && l.Begins == "clear" && !l.At.Before(f.started) && !l.At.After(began[session])
		})
	}
	var prompts []telemetry.Typed
	for _, path := range f.changed(f.dir, f.since) {
		session, _, all := f.read(path)
		if _, candidate := began[session]; !candidate {
			continue
		}
		for _, p := range all {
			if p.Session = session; recent(p) {
				prompts = append(prompts, p)
			}
		}
	}
	others := f.vanished
	for session := range began {
		others = others || !ours(session)
	}
	prompted, alone := one(prompts), len(began) == 1 && !f.vanished
	switch {
	case len(began) > 0 && !others, ended && prompted != "" && ours(prompted):
		return line, found
	case ended && prompted != "" && line == "" && alone:
		return prompted, found
	case ended && len(prompts) > 0, !ended && len(began) > 0 && !alone:
		return "", notFound
	}
	return "", nothingNew
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
		f.vanished = f.vanished || !f.met[path]
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
	if session, began, _ := f.read(path); !began.Before(f.since) {
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
		if !at.Before(f.started) {
			began[session] = at
		}
	}
	return began
}
