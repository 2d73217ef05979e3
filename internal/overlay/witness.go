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

// witnesses is the folder of the overlay with the second names of links. When the program
// removes or replaces a link, the system sets the time of the last change of the link
// itself, which its second name still shows. Nothing has to run at that moment.
const witnesses = ".lifeloop-links"

// watch gives the links of a folder that the program may remove a second name. If the
// file system has no such names, the links have none.
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
	// The links must be on disk before their second names, because a link without its
	// first name counts as removed.
	if err := errors.Join(durable.SyncDir(dir), os.MkdirAll(seconds, 0o700)); err != nil {
		return err
	}
	for _, name := range names {
		_ = os.Link(filepath.Join(dir, name), filepath.Join(seconds, name))
	}
	return nil
}

// goneAt returns when the program removed or replaced a link, if it did and that is known.
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
