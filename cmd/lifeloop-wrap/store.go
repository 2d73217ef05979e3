//go:build linux

package main

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// A store is the folder in which every session has its own.
type store struct{ dir string }

func openStore(stateDir string) store { return store{filepath.Join(stateDir, "sessions")} }

func (s store) path(id string) string { return filepath.Join(s.dir, id) }

// A kept session and what its ledger says.
type kept struct {
	view.Status
	dir string
	// damage is what keeps the ledger from being read to its end; nil when it
	// is whole. A torn last line of a dead writer is not damage.
	damage error
}

// list reads every session, the oldest first.
func (s store) list() ([]kept, error) {
	folders, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, f := range folders {
		if f.IsDir() {
			all = append(all, s.read(f.Name()))
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].StartedAt.Before(all[j].StartedAt) })
	return all, nil
}

// read folds one session's ledger. Liveness is "live" while its writer holds
// the ledger, "ended" once it says so, and "lost" when neither is true: the
// wrapper died and could not say how it ended.
func (s store) read(id string) kept {
	k := kept{dir: s.path(id)}
	live := ledger.Locked(k.dir)
	for e, err := range facts(k.dir, 0) {
		if errors.Is(err, ledger.ErrTornTail) {
			break
		}
		if err != nil {
			k.damage = err
			break
		}
		k.Apply(e)
	}
	k.SessionID = id
	if k.StartedAt.IsZero() { // its wrapper has not got, or never got, to its first word
		if info, err := os.Stat(k.dir); err == nil {
			k.StartedAt = info.ModTime()
		}
	}
	switch {
	case k.Ended():
		k.Liveness = "ended"
	case live:
		k.Liveness = "live"
	default:
		k.Liveness, k.PID = "lost", 0
	}
	return k
}

// facts reads a ledger as facts, from seq on.
func facts(dir string, from uint64) iter.Seq2[kernel.Entry, error] {
	return decoded(ledger.Read(dir), from)
}

func decoded(entries iter.Seq2[ledger.Entry, error], from uint64) iter.Seq2[kernel.Entry, error] {
	return func(yield func(kernel.Entry, error) bool) {
		for e, err := range entries {
			if err != nil {
				yield(kernel.Entry{}, err)
				return
			}
			if e.Seq < from {
				continue
			}
			f, err := kernel.Decode(e.Kind, e.Body)
			if !yield(kernel.Entry{Seq: e.Seq, At: e.At, Fact: f}, err) {
				return
			}
		}
	}
}

// find resolves SESSION: an id, a unique prefix of one, or "last".
func (s store) find(name string) (string, error) {
	folders, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var matches []string
	for _, f := range folders {
		switch {
		case !f.IsDir():
		case f.Name() == name:
			return name, nil
		case name == "last" || name != "" && strings.HasPrefix(f.Name(), name):
			matches = append(matches, f.Name())
		}
	}
	switch {
	case name == "last" && len(matches) > 0:
		all, err := s.list()
		if err != nil {
			return "", err
		}
		return all[len(all)-1].SessionID, nil
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		return "", no(lifeloop.InvalidRequest, "%q is the beginning of %d sessions", name, len(matches)).
			withHint("give more of the id; lifeloop-wrap ps --all lists them")
	}
	return "", no(lifeloop.InvalidRequest, "no session %q in %s", name, s.dir).withHint("lifeloop-wrap ps --all lists the sessions")
}
