// Package hosts puts our hooks into a harness's own settings, for people who
// start it themselves, and takes them out again.
//
// A settings file is its owner's. It is edited as text: what we did not write
// keeps every byte, its order, its indentation and its line ends, and taking
// our hooks out gives back the bytes that were there, with whatever the owner
// changed in between. A file that is not understood from end to end is not
// touched; a [*Flaw] says where it is wrong. Nothing is written that the same
// code could not take out again: that is tried first, on the text.
//
//	in, err := profile.Install(false, host)
//	at := hosts.At(filepath.Join(stateDir, "host"))
//	report, err := at.Status(in)        // installed, not_installed, outdated, partly
//	changes, err := at.Apply(in, false) // true: only say what would change
//	changes, err = at.Remove(in, false)
//
// Where a harness reads a folder of programs, ours is a whole file of its own
// name: laid down, replaced and removed as long as it is as we wrote it, and
// refused where somebody else's file has that name.
//
// What the text alone cannot tell, such as that a list was there and empty, is
// kept in a note in that folder, beside a copy of each file as it was before
// its first change. Without the note our hooks are taken out all the same, and
// what is empty then goes with them.
package hosts
