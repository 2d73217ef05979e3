package hosts

import (
	"strings"

	"lifeloop/profiles"
)

// The functions below are for a harness that reads a folder of programs. Our hooks are
// then a whole file in that folder, with a name of our own.

// inspectWhole compares a whole file of ours with the text that this version
// writes.
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

// edited reports whether the file is ours with changes by the user. The harness
// still runs it, and replacing or removing it would lose the changes.
func edited(text *string, in profiles.Installation) bool {
	return text != nil && in.Mark != "" && strings.HasPrefix(*text, in.Mark) && !in.Ours(*text)
}

// errEdited returns the flaw of a file of ours that the user has changed.
func errEdited(in profiles.Installation) error {
	return inFile(flawAt("", 0, "this file was installed by lifeloop-wrap and has been changed since; remove it by hand"), in.Path)
}

func applyingWhole(in profiles.Installation, w world) (p plan, err error) {
	text := w.settings.text
	switch state := inspectWhole(text, in); {
	case edited(text, in):
		return p, errEdited(in)
	case state == NotInstalled && text != nil:
		return p, inFile(flawAt("", 0, "this file was not installed by lifeloop-wrap; move it away, because lifeloop-wrap needs this name"), in.Path)
	case state != Installed:
		p.origin = origin{Path: in.Path, Settings: note{Absent: true}, Folders: w.origin.Folders}
		p.move(w.settings, &in.Whole, in.Shared)
	}
	return p, nil
}

func removingWhole(in profiles.Installation, w world) (p plan, err error) {
	switch {
	case edited(w.settings.text, in):
		return p, errEdited(in)
	case inspectWhole(w.settings.text, in) != NotInstalled:
		p.move(w.settings, nil, in.Shared)
	}
	return p, nil
}
