package hosts

import "lifeloop/profiles"

// A whole file of ours has a name of its own in a folder that a harness reads.
// It is there or it is not; under its name somebody else's file is left alone.

// inspectWhole compares such a file with what it should be.
func inspectWhole(text *string, in profiles.Installation) string {
	switch {
	case text == nil || !in.Ours(*text):
		return NotInstalled
	case *text != in.Whole:
		return Outdated
	}
	return Installed
}

func applyingWhole(in profiles.Installation, w world) (plan, error) {
	switch inspectWhole(w.settings.text, in) {
	case Installed:
		return plan{}, nil
	case NotInstalled:
		if w.settings.text != nil {
			return plan{}, &Flaw{Path: in.Path, Line: 1, Column: 1, Text: "this file is not ours, or was changed since; ours needs its name"}
		}
	}
	p := plan{origin: origin{Path: in.Path, Settings: note{Absent: true}, Folders: w.origin.Folders}}
	p.move(w.settings, &in.Whole, in.Shared)
	return p, nil
}

func removingWhole(in profiles.Installation, w world) plan {
	var p plan
	if inspectWhole(w.settings.text, in) != NotInstalled {
		p.move(w.settings, nil, in.Shared)
	}
	return p
}
