package watchers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A point is an entry of a real folder at which the meaning of a path can
// change: the file itself, a link to it, or the first part that is missing.
type point struct{ dir, name string }

func (p point) path() string { return filepath.Join(p.dir, p.name) }

// maxLinks ends a circle of symbolic links, as the kernel does.
const maxLinks = 40

// realDirs holds folders that were found to be folders and no links. It is good
// for one round of work: many files share most of their folders.
type realDirs map[string]struct{}

// resolve walks a path and returns the points to watch. Folders come out
// without symbolic links, because inotify knows a folder by its inode and tells
// its events under one name only. Links among the folders are followed but not
// watched: that would mean to watch "/" or a home folder all the time.
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

// watch puts watches on all that the tail's path depends on, and says why it
// could not. A new watch is followed by another look at the path, so that what
// appeared before the watch was there is not missed; each round goes at least
// one folder deeper.
func (w *Watcher) watch(t *tail) error {
	for range 2 * maxLinks {
		points := w.real.resolve(t.watched())
		if slices.Equal(points, t.points) {
			return nil
		}
		switch err := w.follow(t, points); {
		case err == nil:
		case missing(err): // a folder that was just there
			clear(w.real)
		default:
			w.follow(t, nil)
			return err
		}
	}
	w.follow(t, nil)
	return errors.New("the folders of the path do not hold still")
}

// follow makes points the ones that wake the tail. New folders are watched
// before old ones are let go.
func (w *Watcher) follow(t *tail, points []point) error {
	for _, p := range points {
		if slices.Contains(t.points, p) {
			continue
		}
		if err := w.watchDir(p.dir); err != nil {
			return err
		}
		if !slices.Contains(w.dirs[p.dir], t) {
			w.dirs[p.dir] = append(w.dirs[p.dir], t)
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
		w.dirs[p.dir] = slices.DeleteFunc(w.dirs[p.dir], func(o *tail) bool { return o == t })
		w.unwatchDir(p.dir)
		// Its end is told to nobody if the folder above is watched from now on.
		if unix.Access(p.dir, unix.F_OK) != nil {
			w.dirGone(p.dir)
		}
	}
	t.points = append(t.points[:0], points...) // in the order of resolve, to be compared
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

func (w *Watcher) watchDir(dir string) error {
	if w.noNotify != nil {
		return w.noNotify
	}
	if _, ok := w.dirs[dir]; ok {
		return nil
	}
	if w.notify == nil {
		n, err := newInotify()
		if err != nil {
			return err
		}
		w.setNotify(n)
	}
	if err := w.notify.add(dir); err != nil {
		return err
	}
	w.dirs[dir] = nil
	return nil
}

func (w *Watcher) unwatchDir(dir string) {
	if len(w.dirs[dir]) > 0 {
		return
	}
	delete(w.dirs, dir)
	if w.notify != nil {
		w.notify.remove(dir)
	}
}

// setPolled begins polling because of err, or ends it when err is nil.
func (w *Watcher) setPolled(t *tail, err error) {
	switch {
	case err != nil && !t.polled:
		t.polled = true
		w.polled++
		w.tell(t, Polling, err)
	case err == nil && t.polled:
		t.polled = false
		w.polled--
		if !t.last {
			w.tell(t, Recovered, nil)
		}
	}
}

// missing says that there is nothing under a path.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// exhausted says that a shortage kept us from opening a file. No event tells
// when a shortage is over, so the file has to be tried again.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
