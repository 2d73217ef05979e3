package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
)

// witnesses is the folder of the overlay that holds second names (hard links) of symbolic
// links. When the program removes or replaces a link, the system sets the link's ctime,
// which the second name still shows. No process has to watch the link.
const witnesses = ".lifeloop-links"

// watch gives a second name to each link in f.Removes: the links that the program may
// remove. If the file system has no hard links to symbolic links, the links get no
// second name.
func watch(o profiles.Overlay, f profiles.OverlayFolder) error {
	dir := filepath.Join(o.Root, f.Path)
	names := slices.DeleteFunc(slices.Clone(f.Removes), func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, name))
		return err != nil || info.Mode().Type() != fs.ModeSymlink
	})
	if len(names) == 0 {
		return nil
	}
	seconds := filepath.Join(o.Root, witnesses, f.Path)
	// The links must be on disk before their second names: after a crash, a second name
	// without its link would mean that the program removed the link.
	if err := errors.Join(durable.SyncDir(dir), os.MkdirAll(seconds, 0o700)); err != nil {
		return err
	}
	for _, name := range names {
		_ = os.Link(filepath.Join(dir, name), filepath.Join(seconds, name))
	}
	return nil
}

// goneAt returns the time at which the program removed or replaced a link. gone is
// false if the program did neither, or if the time is not known.
func (r record) goneAt(link string) (at time.Time, gone bool) {
	rel, err := filepath.Rel(r.Root, link)
	if err != nil {
		return time.Time{}, false
	}
	info, err := os.Lstat(filepath.Join(r.Root, witnesses, rel))
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return time.Time{}, false
	}
	at, names, known := status(info)
	return at, known && names == 1
}
