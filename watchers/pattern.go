package watchers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Spec with a Pattern becomes a tail of a folder. Such a tail reads no file;
// it lists the folder and adds a tail for each matching entry. The folder's tail
// is not queued when a file in the folder grows.

// anyEntry is the name of a point that means all entries of the point's folder. A real
// file named * does no harm: its events only cause further listings of the folder.
const anyEntry = "*"

// normal moves the leading elements of the pattern that have no wildcards into
// the path. A pattern without wildcards becomes a path.
func (s Spec) normal() (Spec, error) {
	s.Path = filepath.Clean(s.Path)
	if !filepath.IsAbs(s.Path) {
		return s, errors.New("the path is not absolute")
	}
	if s.Pattern == "" {
		return s, nil
	}
	if !filepath.IsLocal(s.Pattern) {
		return s, fmt.Errorf("the pattern %q leads out of its folder", s.Pattern)
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

// name identifies the spec.
func (s Spec) name() name {
	if s.Pattern == "" {
		return name{s.Source, s.Path}
	}
	return name{s.Source, s.Path + "/" + s.Pattern}
}

// watched returns the path to watch for the tail.
func (t *tail) watched() string {
	if t.Pattern == "" {
		return t.Path
	}
	return filepath.Join(t.Path, anyEntry)
}

// seeCreated queues the tails whose pattern may match the new entry.
func (w *Watcher) seeCreated(path string) {
	for _, t := range w.points[filepath.Join(filepath.Dir(path), anyEntry)] {
		element, _, _ := strings.Cut(t.Pattern, "/")
		if ok, _ := filepath.Match(element, filepath.Base(path)); ok {
			w.mark(t, toLook)
		}
	}
}

// find adds a tail for each entry that matches the pattern's first element and has no
// tail yet. If the pattern has only this element, the entry is followed as a file.
// Otherwise the entry is a folder, and its tail gets the rest of the pattern.
func (w *Watcher) find(t *tail) error {
	atEnd := t.AtEnd && !t.placed // AtEnd skips nothing in entries found later: they did not exist when the Spec was added
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
		// A link is accepted here; its target is checked when it is opened.
		if link := e.Type()&fs.ModeSymlink != 0; !link && e.IsDir() != deeper {
			continue
		}
		w.addSpec(Spec{Source: t.Source, Path: filepath.Join(t.Path, e.Name()), Pattern: rest, Form: t.Form, AtEnd: atEnd})
	}
	return nil
}

// addSpec adds a tail for the spec, unless it exists.
func (w *Watcher) addSpec(s Spec) {
	s, err := s.normal()
	switch {
	case err != nil:
		w.cfg.Trouble(Trouble{s.Source, s.name().path, Unreadable, err})
	case w.byName[s.name()] == nil:
		t := newTail(s)
		w.tails = append(w.tails, t)
		w.byName[s.name()] = t
		w.mark(t, toLook)
	}
}
