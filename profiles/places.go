package profiles

import "path/filepath"

// A Place is a folder in which a harness stores its sessions: either one file
// per session, or databases with many sessions. A session found there may
// belong to any process.
type Place struct {
	Source  Source // describes the file of a session; its Path is set for each session that is found
	Dir     string // absolute
	Pattern string // pattern of the files below Dir, matched element by element as in filepath.Match
	// Whose reads head, the beginning of a session's file. It returns the session's id,
	// and whether dir is the session's working directory. Whose is nil for a database.
	Whose func(head []byte, dir string) (session string, here bool)
	// Sessions is a query for the sessions in a database, in the form of Source.Query. It
	// selects the time of a session's last change in Unix milliseconds, and a JSON object
	// with the members "id" and "dir".
	Sessions string
}

// stored describes where a harness stores its sessions: in place.Dir inside the
// harness's folder. The path of that folder is the value of the environment variable
// named in the field "variable". If the variable is not set, the path is in the field
// "below", relative to HOME.
type stored struct {
	variable, below string
	place           Place
}

// Places returns the places in which this adapter's sessions are stored for the
// user of Host, or nil if they are not known.
func (p Profile) Places(h Host) []Place {
	dir := h.home(p.sessions.variable, p.sessions.below)
	if p.sessions.variable == "" || dir == "" {
		return nil
	}
	place := p.sessions.place
	place.Source, place.Dir = p.Transcript, filepath.Join(dir, place.Dir)
	return []Place{place}
}

// Together returns found, which is a source of one session, and the other sources in
// the same database.
func (p Profile) Together(found Source) []Source {
	all := []Source{found}
	for _, s := range p.Kinds {
		if found.Form == Rows && s.Form == Rows {
			s.Path = found.Path
			all = append(all, s)
		}
	}
	return all
}

// WithWindows returns s with its field Windows set. The field then gives the context
// windows of models, as the harness's own files state them now for the user and the folder
// of Host. If the adapter reads no such files, s is returned unchanged.
func (p Profile) WithWindows(s Source, h Host) Source {
	if p.windows != nil {
		s.Windows = p.windows(s, h)
	}
	return s
}
