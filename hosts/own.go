package hosts

import (
	"strings"

	"lifeloop/profiles"
)

// A whole file of ours has a name of its own in a folder that a harness reads.
// It is there or it is not; under its name somebody else's file is left alone.

// inspectWhole compares such a file with what it should be.
func inspectWhole(text *string, in profiles.Installation) string {
	switch {
	case edited(text, in):
		return Outdated
	case text == nil || !in.Ours(*text):
		return NotInstalled
	case *text != in.Whole:
		return Outdated
	}
	return Installed
}

// edited reports whether it is ours with somebody's changes: the harness still
// runs it, and to write over it or take it away would lose those.
func edited(text *string, in profiles.Installation) bool {
	return text != nil && in.Mark != "" && strings.HasPrefix(*text, in.Mark) && !in.Ours(*text)
}

func wasEdited(in profiles.Installation) error {
	return &Flaw{Path: in.Path, Line: 1, Column: 1, Text: "this file is ours, and was changed since; take it away by hand"}
}

func applyingWhole(in profiles.Installation, w world) (plan, error) {
	if edited(w.settings.text, in) {
		return plan{}, wasEdited(in)
	}
	switch inspectWhole(w.settings.text, in) {
	case Installed:
		return plan{}, nil
	case NotInstalled:
		if w.settings.text != nil {
			return plan{}, &Flaw{Path: in.Path, Line: 1, Column: 1, Text: "this file is not ours, and ours needs its name"}
		}
	}
	p := plan{origin: origin{Path: in.Path, Settings: note{Absent: true}, Folders: w.origin.Folders}}
	p.move(w.settings, &in.Whole, in.Shared)
	return p, nil
}

func removingWhole(in profiles.Installation, w world) (plan, error) {
	var p plan
	if edited(w.settings.text, in) {
		return p, wasEdited(in)
	}
	if inspectWhole(w.settings.text, in) != NotInstalled {
		p.move(w.settings, nil, in.Shared)
	}
	return p, nil
}
