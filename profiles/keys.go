package profiles

import "time"

// Keys make a harness that waits at its prompt begin a fresh session. The zero value
// means that no such keys are known.
type Keys struct {
	Reset []Stroke // the keys that reset the harness, to be typed on an empty line
	// Aside is typed before Reset if the user has begun a line. It stores the line, which
	// the harness restores after Reset. It is nil if the harness cannot do that.
	Aside []Stroke
	// Back restores the line that Aside stored, if Reset had no effect. It is typed after
	// the keys in the field Undo of the strokes in Reset.
	Back []Stroke
	// Cursor is true if the harness hides the cursor exactly while its input line is not on
	// the screen, for example in a dialog.
	Cursor bool
}

// A Stroke is one write of keys, and the pause after it. A command and its Enter are two
// strokes, because the harness treats a command and Enter in one write as a paste.
type Stroke struct {
	Keys string
	// Shows is text that the harness displays when it has taken the keys, or "" if no text
	// is expected. A space in Shows matches one or more spaces, control characters and
	// control sequences. The pause begins when the text appears. If the text does not
	// appear, no more strokes are typed.
	Shows string
	Then  time.Duration
	Undo  string // the keys that take back this stroke if Reset had no effect
}

// Clears returns the keys that give a launch of argv a fresh session. It returns false if
// there is no terminal, if the harness exits after one answer (as with `claude -p`), or
// if the harness has no such keys.
func (p Profile) Clears(argv []string, terminal bool) (Keys, bool) {
	if len(p.Keys.Reset) == 0 || !terminal || p.prints == nil || len(argv) == 0 || p.prints(argv[1:]) {
		return Keys{}, false
	}
	return p.Keys, true
}
