package profiles

import (
	"bytes"
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

// lines calls f with each whole line of head until it returns false.
func lines(head []byte, f func(line []byte) bool) {
	for {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole || !f(line) {
			return
		}
		head = rest
	}
}
