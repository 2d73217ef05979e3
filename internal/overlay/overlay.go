// Package overlay makes a folder that replaces a user's home for one launch of a harness.
// In this package, the harness is called the program. The folder has a link to each entry
// of the home, and files of ours. Most writes of the program go through the links to the
// real files. Files that the program created in the overlay, or replaced there by
// renaming, are only in the overlay. [Settle] moves these files to the home.
//
// If the program removed the link of a file of OverlayFolder.Removes, Settle removes the
// file in the home too. Settle removes nothing else in the home, and loses nothing that
// another process wrote:
//
//   - A file is removed or replaced only if nothing has changed it since the program removed
//     or replaced its link. Earlier changes are ignored, because the program may have made
//     them through the link.
//   - The time when the program removed or replaced a link is known only for a link in
//     OverlayFolder.Removes, on a file system with hard links to symbolic links. If the
//     time is not known, the file in the home is never removed. It is replaced only if it
//     has not changed since the overlay was made.
//   - Otherwise the file in the home stays, and the program's file gets another name in the
//     same folder. Of several sessions, the one that is settled first replaces the file.
//
// The time of a removal or replacement is the link's ctime, which stays readable through
// a second name of the link (see witnesses). A folder of the overlay is merged with the
// folder of the same name in the home, and no folder of the home is removed. Settle adds
// members to the JSON files of Overlay.Merge even if those files have changed. It does not
// follow a link of the overlay when it removes the overlay. A FIFO or a socket is removed
// with the overlay if its name is taken in the home, or if the home is on another file
// system.
//
//	err := overlay.Make(launch.Overlay, record) // before the launch
//	kept, err := overlay.Settle(record) // after its end, or after a crash
package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
)

// record is the content of the record file, which Settle needs.
type record struct {
	profiles.Overlay
	Made time.Time `json:"made"`
}

// Make makes an overlay. It first writes a record to path, so that Settle can undo
// an overlay that a crash left incomplete.
func Make(o profiles.Overlay, path string) error {
	data, err := json.Marshal(record{o, time.Now()})
	if err != nil {
		return fmt.Errorf("create %s, the folder with links to the user's home: %w", o.Root, err)
	}
	if err := durable.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("create the folder with links to the user's home: %w", err)
	}
	for _, f := range o.Folders {
		if err := link(o, f); err != nil {
			return fmt.Errorf("create the folder with links to the user's home: %w", err)
		}
		if err := watch(o, f); err != nil {
			return fmt.Errorf("create the folder with links to the user's home: %w", err)
		}
	}
	return nil
}

// link makes one folder with its links.
func link(o profiles.Overlay, f profiles.OverlayFolder) error {
	dir := filepath.Join(o.Root, f.Path)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range f.Dirs {
		if err := os.MkdirAll(filepath.Join(f.Real, name), 0o777); err != nil { // mode 0777 less the umask, as if the program had created the folder
			return err
		}
	}
	entries, err := os.ReadDir(f.Real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := slices.Clone(f.Files)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if own(o, f, name) {
			continue
		}
		if err := os.Symlink(filepath.Join(f.Real, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// own reports whether we made an entry of a folder: a file of ours, or a folder of
// the overlay.
func own(o profiles.Overlay, f profiles.OverlayFolder, name string) bool {
	return slices.Contains(f.Ours, name) || f.Path == "." && name == witnesses || slices.ContainsFunc(o.Folders, func(g profiles.OverlayFolder) bool {
		return g.Path != "." && filepath.Clean(g.Path) == filepath.Join(f.Path, name)
	})
}

// Settle reads the record at path and moves the files that the program wrote in the
// overlay to the real folders. It then removes the overlay and the record. A file that
// must not replace a real one gets another name in the same folder; kept lists those
// names. If there is no record, Settle does nothing. It may be called again after an
// error or a crash.
func Settle(path string) (kept []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("move the harness's new files to the home folder: %w; files that were not moved are still in the folder that the harness used as its home", err)
		}
	}()
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := r.settle(&kept); err != nil {
		return kept, err
	}
	if err := r.discard(); err != nil {
		return kept, err
	}
	return kept, os.Remove(path)
}

// discard removes the overlay. The second names of links are removed first: after a crash
// in the middle, a link that discard has removed must not count as removed by the program.
func (r record) discard() error {
	if err := os.RemoveAll(filepath.Join(r.Root, witnesses)); err != nil {
		return err
	}
	if err := durable.SyncDir(r.Root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(r.Root)
}

// settle applies the changes in all folders of the overlay to the home. A second call
// changes nothing.
func (r record) settle(kept *[]string) error {
	for _, f := range slices.Backward(r.Folders) {
		dir := filepath.Join(r.Root, f.Path)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range f.Removes {
			if err := r.remove(filepath.Join(dir, name), filepath.Join(f.Real, name)); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if e.Type() == fs.ModeSymlink || own(r.Overlay, f, e.Name()) {
				continue
			}
			if err := r.giveBack(filepath.Join(dir, e.Name()), filepath.Join(f.Real, e.Name()), kept); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file from the home (to) if the program removed its link in the overlay
// (from) and the file has not changed since.
func (r record) remove(from, to string) error {
	at, gone := r.goneAt(from)
	if _, err := os.Lstat(from); !gone || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	theirs, err := os.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if changed, known := lastChange(to); theirs.IsDir() || !known || !changed.Before(at) {
		return nil
	}
	switch err := os.Remove(to); {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EROFS):
		return nil // the file stays: without the overlay, the program could not have removed it either
	case err != nil:
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}

// lastChange returns the time of the last change of a file in the home. For a symbolic
// link it is the later of two times: that of the link and that of the link's target.
func lastChange(path string) (at time.Time, known bool) {
	link, err := os.Lstat(path)
	if err != nil {
		return at, false
	}
	at, _, known = status(link)
	if file, err := os.Stat(path); err == nil && known {
		if changed, _, ok := status(file); ok && changed.After(at) {
			at = changed
		}
	}
	return at, known
}

// giveBack moves one entry of the overlay to its path in the home.
func (r record) giveBack(from, to string, kept *[]string) error {
	ours, err := os.Lstat(from)
	if err != nil {
		return err
	}
	theirs, err := os.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return move(from, to)
	case err != nil:
		return err
	case ours.IsDir() && theirs.IsDir():
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := r.giveBack(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), kept); err != nil {
				return err
			}
		}
		return nil
	case ours.Mode().IsRegular() && theirs.Mode().IsRegular():
		return r.giveFile(from, to, theirs, kept)
	case ours.Mode().IsRegular() && r.replacesLink(from, to):
		return move(from, to)
	case special(ours), sameLink(from, to):
		return nil
	}
	return keep(from, to, kept)
}

// giveFile handles a file whose path in the home already has a file. It merges the two
// files, replaces the file in the home, or moves the program's file to another name.
func (r record) giveFile(from, to string, theirs fs.FileInfo, kept *[]string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	real, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if slices.Contains(r.Merge, filepath.Base(to)) {
		if merged, ok := merge(real, data); ok {
			return durable.WriteFile(to, merged, theirs.Mode().Perm())
		}
	}
	switch {
	case string(real) == string(data):
		return nil
	case r.replaces(from, to, theirs):
		if err := durable.WriteFile(to, data, theirs.Mode().Perm()); err != nil {
			return err
		}
		// Remove the program's file at once. Otherwise, if Settle ran again after a crash
		// and the file in the home had changed meanwhile, Settle would keep the program's
		// file under another name.
		return os.Remove(from)
	}
	return keep(from, to, kept)
}

// replaces reports whether the file of the overlay (from) may replace the file in the
// home (to), which theirs describes.
func (r record) replaces(from, to string, theirs fs.FileInfo) bool {
	changed, known := lastChange(to)
	if at, gone := r.goneAt(from); gone && known {
		return changed.Before(at)
	}
	return theirs.ModTime().Before(r.Made)
}

// replacesLink reports whether a symbolic link in the home (to) leads to a regular file,
// and both are unchanged since the program replaced the overlay's link (from).
func (r record) replacesLink(from, to string) bool {
	file, err := os.Stat(to)
	at, gone := r.goneAt(from)
	changed, known := lastChange(to)
	return err == nil && file.Mode().IsRegular() && gone && known && changed.Before(at)
}

// keep moves an entry to an unused name in the folder of its real path.
func keep(from, to string, kept *[]string) error {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.lifeloop-%d", to, n)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			*kept = append(*kept, name)
			return move(from, name)
		}
	}
}

// move renames an entry, or copies it to another file system.
func move(from, to string) error {
	if err := durable.Mkdir(filepath.Dir(to)); err != nil {
		return err
	}
	if os.Rename(from, to) == nil {
		return durable.SyncDir(filepath.Dir(to))
	}
	return copyTo(from, to)
}

// special reports whether an entry is a FIFO, a socket or a device. Such an entry has no
// content to keep, and the processes that used the entry have ended.
func special(info fs.FileInfo) bool {
	return !info.IsDir() && !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink
}

// copyTo copies an entry to a path that does not exist, unless the entry is special.
func copyTo(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case special(info):
		return nil
	case info.Mode().IsRegular():
		f, err := durable.Open(from, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return durable.Copy(to, f, info.Mode().Perm())
	case info.IsDir():
		if err := copyFolder(from, to, info.Mode().Perm()); err != nil {
			return err
		}
	default:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); err != nil {
			return err
		}
	}
	return durable.SyncDir(filepath.Dir(to))
}

// copyFolder copies a folder, first under another name, so that a crash leaves no
// incomplete folder under the final name.
func copyFolder(from, to string, perm fs.FileMode) error {
	half := to + ".lifeloop-part"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyTo(filepath.Join(from, e.Name()), filepath.Join(half, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Chmod(half, perm); err != nil {
		return err
	}
	return os.Rename(half, to)
}

// sameLink reports whether two symbolic links have the same target.
func sameLink(a, b string) bool {
	x, err := os.Readlink(a)
	if err != nil {
		return false
	}
	y, err := os.Readlink(b)
	return err == nil && x == y
}

// merge adds members to the JSON object real: those that only the JSON object overlay
// has, also in nested objects. merge returns the result, or false if real or overlay is
// not an object.
func merge(real, overlay []byte) ([]byte, bool) {
	a, b := object(real), object(overlay)
	if a == nil || b == nil {
		return nil, false
	}
	add(a, b)
	data, err := json.MarshalIndent(a, "", "  ")
	return data, err == nil
}

// object decodes a JSON object, with its numbers as they are written.
func object(data []byte) (o map[string]any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&o) != nil {
		return nil
	}
	return o
}

func add(to, from map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		theirs, has := to[name]
		inner, nested := theirs.(map[string]any)
		outer, both := from[name].(map[string]any)
		switch {
		case !has:
			to[name] = from[name]
		case nested && both:
			add(inner, outer)
		}
	}
}
