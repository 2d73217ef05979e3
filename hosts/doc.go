// Package hosts adds our hooks to a harness's own settings, for runs without
// the wrapper, and removes them again.
//
// A settings file is edited as text. What we did not write keeps every byte: its
// order, its indentation and its line ends. Removing our hooks restores the file
// as it was, with the changes that the user made in between. A file that cannot
// be parsed is not touched; a [*Flaw] has the place of the error. An edit is
// written only after a check that removing the hooks restores the file.
//
//	in, err := profile.Install(false, host)
//	store := hosts.At(filepath.Join(stateDir, "host"))
//	report, err := store.Status(in)        // installed, not_installed, outdated, partly
//	changes, err := store.Apply(in, false) // true: return the changes, write nothing
//	changes, err = store.Remove(in, false)
//
// If a harness reads a folder of programs, we add a whole file with a name of
// our own. Such a file is replaced and removed only while it is as we wrote it.
// A file of this name that we did not write is an error.
//
// Facts that the edited text cannot show, for example that a list was empty before we
// added a hook, are stored in a note in the store's folder. Before each change of a file,
// a copy of the file is stored there too. If the note is lost, our hooks can still be
// removed; each inner list or object that held only our hooks is then removed too.
package hosts
