package watchers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Spec with a Pattern is a tail, too, but of a folder: where a file tail
// reads, it lists, and makes a tail of each entry that matches. It is woken by
// what is created in its folder, and by nothing else that happens there.

// anyEntry stands for all entries of a folder in the points of a pattern. It
// is not the pattern itself, which may be the name of a file.
const anyEntry = "*"

// normal moves what a pattern begins with, as far as it has no wildcards, into
// the path. A pattern without any is a path.
func (s Spec) normal() (Spec, error) {
	s.Path = filepath.Clean(s.Path)
	if !filepath.IsAbs(s.Path) {
		return s, errors.New("the path is not absolute")
	}
	if s.Pattern == "" {
		return s, nil
	}
	if !filepath.IsLocal(s.Pattern) {
		return s, fmt.Errorf("the pattern %q does not stay below its folder", s.Pattern)
	}
	if _, err := filepath.Match(s.Pattern, ""); err != nil {
		return s, fmt.Errorf("the pattern %q: %w", s.Pattern, err)
	}
	rest := parts(filepath.Clean(s.Pattern))
	for len(rest) > 0 && !strings.ContainsAny(rest[0], `*?[\`) {
		s.Path = filepath.Join(s.Path, rest[0])
		rest = rest[1:]
	}
	s.Pattern = strings.Join(rest, "/")
	return s, nil
}

// name is how a spec is known.
func (s Spec) name() name {
	if s.Pattern == "" {
		return name{s.Source, s.Path}
	}
	return name{s.Source, s.Path + "/" + s.Pattern}
}

// watched is the path whose points wake the tail.
func (t *tail) watched() string {
	if t.Pattern == "" {
		return t.Path
	}
	return filepath.Join(t.Path, anyEntry)
}

// below says whether t is o, or was found by o's pattern.
func (t *tail) below(o *tail) bool {
	for ; t != nil; t = t.finder {
		if t == o {
			return true
		}
	}
	return false
}

// seeCreated wakes the patterns that a new entry may match.
func (w *Watcher) seeCreated(path string) {
	for _, t := range w.points[filepath.Join(filepath.Dir(path), anyEntry)] {
		element, _, _ := strings.Cut(t.Pattern, "/")
		if ok, _ := filepath.Match(element, filepath.Base(path)); ok {
			w.mark(t, toLook)
		}
	}
}

// find makes a tail of each entry that matches and has none yet: of a file
// where the pattern ends, else of a folder, in which the rest of it is found.
func (w *Watcher) find(t *tail) error {
	atEnd := t.AtEnd && !t.placed // what comes later was not there at the Add
	t.placed = true
	element, rest, deeper := strings.Cut(t.Pattern, "/")
	entries, err := os.ReadDir(t.Path)
	if missing(err) {
		return nil
	}
	if err != nil {
		w.unreadable(t, err)
		return err
	}
	w.recover(t)
	for _, e := range entries {
		if ok, _ := filepath.Match(element, e.Name()); !ok {
			continue
		}
		// Where a link leads to shows when it is followed.
		if link := e.Type()&fs.ModeSymlink != 0; !link && e.IsDir() != deeper {
			continue
		}
		w.admit(Spec{Source: t.Source, Path: filepath.Join(t.Path, e.Name()), Pattern: rest, Form: t.Form, AtEnd: atEnd}, t)
	}
	return nil
}

// admit makes a tail of the spec, unless there is one.
func (w *Watcher) admit(s Spec, finder *tail) {
	s, err := s.normal()
	switch {
	case err != nil:
		w.cfg.Trouble(Trouble{s.Source, s.name().path, Unreadable, err})
	case w.byName[s.name()] == nil:
		t := newTail(s)
		t.finder = finder
		w.tails = append(w.tails, t)
		w.byName[s.name()] = t
		w.mark(t, toLook)
	}
}

// forget reads what the spec asked for to its end once more and drops it, with
// all that its pattern found.
func (w *Watcher) forget(s Spec) {
	s, err := s.normal()
	t := w.byName[s.name()]
	if err != nil || t == nil {
		return
	}
	var gone []*tail
	for i := 0; i < len(w.tails); i++ { // a last look may find more
		if o := w.tails[i]; o.below(t) && !o.last {
			o.last = true
			w.look(o)
			gone = append(gone, o)
		}
	}
	for _, o := range gone {
		w.drop(o)
	}
}
