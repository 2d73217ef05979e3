package profiles

import "time"

// Keys make a harness that waits at its prompt begin a fresh session. The zero value
// means that no such keys are known.
type Keys struct {
	Reset []Stroke // on an empty line
	// Aside, before Reset, puts the user's line aside until Reset was carried out; nil if
	// the harness cannot do that.
	Aside []Stroke
	Undo  []Stroke // removes what Reset left on the line
	Back  []Stroke // after Undo, brings back a line that was put aside
}

// A Stroke is one write of keys, and the pause after it. A command and its Enter are two
// strokes: written at once they are taken for a paste.
type Stroke struct {
	Keys string
	Then time.Duration
}

// Clears returns the keys that give a launch of argv a fresh session. It returns false
// for a command line that has no prompt, or whose harness has no such keys.
func (p Profile) Clears(argv []string, terminal bool) (Keys, bool) {
	if len(p.Keys.Reset) == 0 || !terminal || p.prints == nil || len(argv) == 0 || p.prints(argv[1:]) {
		return Keys{}, false
	}
	return p.Keys, true
}
