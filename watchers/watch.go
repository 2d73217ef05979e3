package watchers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watches is the state of the watched folders. Run owns it.
type watches struct {
	notify   *notifier           // nil until the first folder is watched, and after fault has closed it
	dirs     map[string]*folder  // watched folder → its tails
	dirOf    map[identity]string // identity of a watched folder → its path; fsnotify reports a folder under one path only
	points   map[string][]*tail  // path of a point → the tails that have this point
	real     realDirs            // valid for one round of work
	noNotify error               // tests only: if set, watching fails with it
}

// A folder is a watched folder and the tails that need it.
type folder struct {
	id    identity
	tails []*tail
}

func newWatches() watches {
	return watches{dirs: map[string]*folder{}, dirOf: map[identity]string{}, points: map[string][]*tail{}, real: realDirs{}}
}

// A point is an entry of a folder; a change of the entry may make a path lead to
// another file. The entry is the file itself, a link to the file, or the first missing
// part of the path.
type point struct{ dir, name string }

func (p point) path() string { return filepath.Join(p.dir, p.name) }

// maxLinks limits the symbolic links that resolve follows in a path, as the kernel does.
// So resolve ends even if links form a circle.
const maxLinks = 40

// realDirs holds paths known to be folders, not links. It is a cache, valid for
// one round of work: many files share most of their folders.
type realDirs map[string]struct{}

// resolve walks a path and returns the points to watch. The paths of their folders
// contain no links, so that each folder has one name. Links among the folders
// are followed but not watched: otherwise "/" or a home folder would be watched
// all the time.
func (known realDirs) resolve(path string) []point {
	dir := filepath.Dir(path)
	for dir != "/" {
		if _, ok := known[dir]; ok {
			break
		}
		dir = filepath.Dir(dir)
	}
	var points []point
	rest := parts(path[len(dir):])
	for links := 0; len(rest) > 0; {
		p := point{dir, rest[0]}
		rest = rest[1:]
		if p.name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		entry := p.path()
		var st unix.Stat_t
		if unix.Lstat(entry, &st) != nil {
			return append(points, p)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			if len(rest) == 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return append(points, p)
			}
			dir = entry
			known[dir] = struct{}{}
			continue
		}
		target, err := os.Readlink(entry)
		if links++; err != nil || links > maxLinks {
			return append(points, p)
		}
		if len(rest) == 0 {
			points = append(points, p)
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = append(parts(target), rest...)
	}
	return points
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// watch watches the points of the tail's path. If a watch fails, it returns the
// error. After a new watch it resolves the path again, to find what appeared
// before the watch existed. It repeats this until the points stay the same.
func (w *Watcher) watch(t *tail) error {
	for range 2 * maxLinks {
		points := w.real.resolve(t.watched())
		if slices.Equal(points, t.points) {
			return nil
		}
		switch err := w.follow(t, points); {
		case err == nil:
		case missing(err): // the folder existed when the path was resolved, so resolve it again
			clear(w.real)
		default:
			w.follow(t, nil)
			return err
		}
	}
	w.follow(t, nil)
	return errors.New("the folders of the path keep changing")
}

// follow replaces the points (entries of folders) that are watched for a tail; when
// one changes, the tail is read again. It watches new folders before it releases old
// ones.
func (w *Watcher) follow(t *tail, points []point) error {
	for _, p := range points {
		if slices.Contains(t.points, p) {
			continue
		}
		if err := w.watchDir(p.dir); err != nil {
			return err
		}
		if f := w.dirs[p.dir]; !slices.Contains(f.tails, t) {
			f.tails = append(f.tails, t)
		}
		w.points[p.path()] = append(w.points[p.path()], t)
		t.points = append(t.points, p)
	}
	for _, p := range slices.Clone(t.points) {
		if slices.Contains(points, p) {
			continue
		}
		t.points = slices.DeleteFunc(t.points, func(o point) bool { return o == p })
		w.unpoint(t, p)
		if slices.ContainsFunc(t.points, func(o point) bool { return o.dir == p.dir }) {
			continue
		}
		w.release(p.dir, t)
		// Check whether the folder was removed before its parent folder was watched,
		// because no event reports that.
		if unix.Access(p.dir, unix.F_OK) != nil {
			w.dirGone(p.dir)
		}
	}
	// If a point is missing now, its folder was found to be gone, and dirGone removed the
	// point.
	if slices.ContainsFunc(points, func(p point) bool { return !slices.Contains(t.points, p) }) {
		return &os.PathError{Op: "watch", Path: t.Path, Err: fs.ErrNotExist}
	}
	t.points = append(t.points[:0], points...) // kept in the order of resolve, so that they can be compared later
	return nil
}

func (w *Watcher) unpoint(t *tail, p point) {
	left := slices.DeleteFunc(w.points[p.path()], func(o *tail) bool { return o == t })
	if len(left) == 0 {
		delete(w.points, p.path())
		return
	}
	w.points[p.path()] = left
}

// watchDir makes sure that a folder is watched.
func (w *Watcher) watchDir(dir string) error {
	if w.noNotify != nil {
		return w.noNotify
	}
	if _, ok := w.dirs[dir]; ok {
		return nil
	}
	id, err := identityOf(dir)
	if err != nil {
		return err
	}
	if other, ok := w.dirOf[id]; ok {
		if now, err := identityOf(other); err == nil && now == id {
			return fmt.Errorf("%s is already watched as %s", dir, other)
		}
		w.dirGone(other) // the folder was renamed; the event that reports this comes later
	}
	if w.notify == nil {
		if w.notify, err = newNotifier(); err != nil {
			return err
		}
	}
	if err := w.notify.add(dir); err != nil {
		return err
	}
	if now, err := identityOf(dir); err != nil || now != id {
		w.notify.remove(dir)
		return &os.PathError{Op: "watch", Path: dir, Err: fs.ErrNotExist} // the folder was replaced just now
	}
	w.dirs[dir], w.dirOf[id] = &folder{id: id}, dir
	return nil
}

func identityOf(path string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return identity{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return identify(&st), nil
}

// release removes t from the tails of the folder. If no tail is left, it ends the
// folder's watch.
func (w *Watcher) release(dir string, t *tail) {
	f := w.dirs[dir]
	if f == nil {
		return
	}
	f.tails = slices.DeleteFunc(f.tails, func(o *tail) bool { return o == t })
	if len(f.tails) == 0 {
		w.unwatchDir(dir)
	}
}

func (w *Watcher) unwatchDir(dir string) {
	delete(w.dirOf, w.dirs[dir].id)
	delete(w.dirs, dir)
	w.notify.remove(dir)
}

// dirGone handles the removal or renaming of a folder: it ends the folder's watch and
// lets the folder's tails resolve their paths again.
func (w *Watcher) dirGone(dir string) {
	f := w.dirs[dir]
	if f == nil {
		return
	}
	// End the watch in any case: the event may be about an old folder, while a new folder of
	// this name is watched.
	w.unwatchDir(dir)
	for _, t := range f.tails {
		t.points = slices.DeleteFunc(t.points, func(p point) bool {
			if p.dir != dir {
				return false
			}
			w.unpoint(t, p)
			return true
		})
		w.mark(t, toLook)
	}
}

// see queues the tails that an event may concern. An event only means that
// something may have changed; the file itself shows what.
func (w *Watcher) see(ev fsnotify.Event) {
	path := filepath.Clean(ev.Name) // entries of "/" come as "//name"
	todo := toLook
	if ev.Op == fsnotify.Write {
		todo = toRead
	}
	for _, t := range w.points[path] {
		w.mark(t, todo)
	}
	if ev.Has(fsnotify.Create) {
		w.seeCreated(path)
	}
	for _, t := range w.away {
		w.mark(t, toLook) // the open file of this tail has an unknown name now, so the event may be about it
	}
	// Create is included, because a removal can stay unreported: fsnotify drops a removed
	// folder's own event if the parent folder is watched when it reads the event, even if
	// that watch began after the removal. The creation of a new folder with the same name
	// shows that the old one is gone.
	if ev.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename) {
		w.dirGone(path)
	}
}

// fault handles an error of the notifier. It checks every file, because events may be
// missing. After an error other than an overflow it also closes the notifier; a new one
// is made when the files are checked.
func (w *Watcher) fault(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.closeNotify()
		clear(w.dirs)
		clear(w.dirOf)
		clear(w.points)
		for _, t := range w.tails {
			t.points = nil
		}
	}
	for _, t := range w.tails {
		w.mark(t, toLook)
	}
}

func (w *Watcher) closeNotify() {
	if w.notify != nil {
		w.notify.close()
		w.notify = nil
	}
}

// setPolled begins polling because of err, or ends it when err is nil.
func (w *Watcher) setPolled(t *tail, err error) {
	switch {
	case err != nil && !t.polled:
		t.polled = true
		w.polled++
		w.report(t, Polling, err)
	case err == nil && t.polled:
		t.polled = false
		w.polled--
		if !t.last {
			w.report(t, Recovered, nil)
		}
	}
}

// missing reports whether err means that nothing exists under a path.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// exhausted reports whether a lack of descriptors or memory prevented an open. No event
// reports that descriptors or memory are available again, so the open must be tried
// again later.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
