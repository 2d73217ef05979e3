package profiles

import (
	"bytes"
	"encoding/json"
	"path/filepath"
)

// A Place is where a harness stores its sessions: files below a folder, one per
// session, or databases of many sessions. A session found there may belong to
// any process.
type Place struct {
	Source  Source // the form of a session; its Path is set for each one found
	Dir     string // absolute
	Pattern string // of the files below it, element by element as in filepath.Match
	// Whose returns the session of a file from the file's beginning, and whether
	// it has the working directory dir; nil for a database.
	Whose func(head []byte, dir string) (session string, here bool)
	// Sessions is a query for the sessions in a database, in the form of
	// Source.Query: the time of a session's last change in Unix milliseconds, and
	// {"id","dir"}.
	Sessions string
}

// stored is where a harness stores its sessions: in place.Dir below the folder that
// the variable names. Without the variable it is the folder below in HOME.
type stored struct {
	variable, below string
	place           Place
}

// Places returns where this adapter's sessions are for the user of Host, nil if
// that is not known.
func (p Profile) Places(h Host) []Place {
	dir := h.home(p.sessions.variable, p.sessions.below)
	if p.sessions.variable == "" || dir == "" {
		return nil
	}
	place := p.sessions.place
	place.Source, place.Dir = p.Transcript, filepath.Join(dir, place.Dir)
	return []Place{place}
}

// byRecords returns a Place.Whose for files of JSON lines. It passes whole lines
// to owner until owner is done. A line that does not decode as T is the zero T.
func byRecords[T any](owner func(r T, dir string) (session string, here, done bool)) func(head []byte, dir string) (string, bool) {
	return func(head []byte, dir string) (string, bool) {
		for {
			line, rest, whole := bytes.Cut(head, []byte("\n"))
			if !whole {
				return "", false
			}
			var r T
			if json.Unmarshal(line, &r) != nil {
				r = *new(T)
			}
			if session, here, done := owner(r, dir); done {
				return session, here
			}
			head = rest
		}
	}
}
