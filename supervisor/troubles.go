package supervisor

import (
	"lifeloop/kernel/input"
	"lifeloop/watchers"
	"lifeloop/watchers/sse"
)

// This file converts the troubles that readers report into the kernel's troubles.

// watcher is the name under which the ledger lists the reader of a launch's sources.
const watcher = "watcher"

// ofFileTrouble returns the kernel's trouble for what happened to a file.
func ofFileTrouble(what watchers.TroubleKind) input.Trouble {
	switch what {
	case watchers.Polling:
		return input.TroublePolling
	case watchers.Truncated:
		return input.TroubleTruncated
	case watchers.Replaced:
		return input.TroubleReplaced
	case watchers.Deleted:
		return input.TroubleDeleted
	case watchers.Unreadable:
		return input.TroubleUnreadable
	case watchers.LineTooLong:
		return input.TroubleLineTooLong
	case watchers.Broken:
		return input.TroubleBroken
	case watchers.Recovered:
		return input.TroubleRecovered
	}
	return ""
}

// ofStreamTrouble returns the kernel's trouble for what happened to a server's stream.
// A server that no longer answers counts as a file that was deleted.
func ofStreamTrouble(what sse.TroubleKind) input.Trouble {
	switch what {
	case sse.Gone:
		return input.TroubleDeleted
	case sse.Recovered:
		return input.TroubleRecovered
	case sse.EventTooLong:
		return input.TroubleEventTooLong
	}
	return ""
}

// readNames lists the sources that one reader reads, by their names in the manifest of the
// harness's adapter. The list is empty if the reader has no method Names.
func readNames(sources Sources) []string {
	if s, ok := sources.(interface{ Names() []string }); ok {
		return s.Names()
	}
	return nil
}

// Names lists the sources that f reads.
func (f *Files) Names() (names []string) {
	for _, s := range f.Fixed {
		names = append(names, s.Name)
	}
	if f.Named.Decoder != nil {
		names = append(names, f.Named.Name)
	}
	return names
}

// Names lists the one source that Exports receives.
func (e *Exports) Names() []string { return []string{exported} }

// Names lists the names of all sources.
func (t joined) Names() (names []string) {
	for _, s := range t {
		names = append(names, readNames(s)...)
	}
	return names
}
