package profiles

import (
	"bytes"
	"encoding/json"
)

// A Place is where a harness keeps its sessions: files below a folder, each of
// one session, or databases of many. That a session lies there says nothing of
// who runs it.
type Place struct {
	Source  Source // how such a session is read; its Path is that of what is found
	Dir     string // absolute
	Pattern string // of the files below it, element by element as in filepath.Match
	// Whose reads from the beginning of a file which session it is of, and
	// whether that is of the working folder dir; nil for a database.
	Whose func(head []byte, dir string) (session string, here bool)
	// Sessions is a query for the sessions of a database, of the form of
	// Source.Query: the time of a session's last change in Unix milliseconds, and
	// {"id","dir"}.
	Sessions string
}

// Places says where this adapter's sessions lie for who runs as Host; none
// where nothing is known of it.
func (p Profile) Places(h Host) []Place {
	if p.places == nil {
		return nil
	}
	return p.places(h, p.Transcript)
}

// byRecords returns a Place.Whose for files of JSON lines. It decodes whole
// lines, one that is no T as the zero T, until owner is done.
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
