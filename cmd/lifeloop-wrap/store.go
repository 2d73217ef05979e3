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

	"github.com/google/uuid"
	"github.com/spf13/cobra"

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

// pruned begins the name of a folder that is being removed.
const pruned = ".pruned-"

// names are the sessions that there are folders of; a folder with any other
// name than an id is somebody else's. No folder is no session.
func (s store) names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if u, err := uuid.Parse(e.Name()); e.IsDir() && err == nil && u.String() == e.Name() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// list reads every session, the oldest first.
func (s store) list() ([]kept, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, name := range names {
		k := s.read(name)
		if k.damage != nil {
			if _, err := os.Stat(k.dir); errors.Is(err, fs.ErrNotExist) {
				continue // pruned while we were looking
			}
		}
		all = append(all, k)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].StartedAt.Before(all[j].StartedAt) })
	return all, nil
}

// read folds one session's ledger. Liveness is "live" while its writer holds
// the ledger, "ended" once it says so, and "lost" when neither is true: the
// wrapper died and could not say how it ended.
func (s store) read(id string) kept { return s.readEach(id, func(kernel.Entry) {}) }

// readEach is read that also hands over each entry.
func (s store) readEach(id string, each func(kernel.Entry)) kept {
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
		each(e)
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
		k.Liveness = "lost"
		k.Lose()
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
	names, err := s.names()
	if err != nil {
		return "", err
	}
	var matches []string
	for _, id := range names {
		switch {
		case id == name:
			return name, nil
		case name == "last" || name != "" && strings.HasPrefix(id, name):
			matches = append(matches, id)
		}
	}
	switch {
	case name == "last" && len(matches) > 0:
		all, err := s.list()
		if err != nil {
			return "", err
		}
		if len(all) > 0 { // else the last one has been pruned meanwhile
			return all[len(all)-1].SessionID, nil
		}
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		return "", no(lifeloop.InvalidRequest, "%q is the beginning of %d sessions", name, len(matches)).
			withHint("give more of the id; lifeloop-wrap ps --all lists them")
	}
	return "", no(lifeloop.InvalidRequest, "no session %q in %s", name, s.dir).withHint("lifeloop-wrap ps --all lists the sessions")
}

// remove removes a session for good. It holds the ledger's lock, so that
// nobody can begin to write there meanwhile, and takes the folder out of sight
// in one step, so that nobody finds half a session.
func (s store) remove(id string) error {
	release, err := ledger.Hold(s.path(id))
	if err != nil {
		return err
	}
	defer release()
	away := s.path(pruned + id)
	if err := os.Rename(s.path(id), away); err != nil {
		return err
	}
	return os.RemoveAll(away)
}

// sweep removes what a remove that was interrupted has left. Another one may
// be at it this moment: what cannot be removed is left for the next time.
func (s store) sweep() {
	left, _ := filepath.Glob(s.path(pruned + "*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// sessions opens the store that the configuration names.
func (g *globals) sessions(cmd *cobra.Command) (store, error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return store{}, err
	}
	return openStore(cfg.StateDir), nil
}

// session opens the store and resolves SESSION in it.
func (g *globals) session(cmd *cobra.Command, name string) (st store, id string, err error) {
	if st, err = g.sessions(cmd); err != nil {
		return st, "", err
	}
	id, err = st.find(name)
	return st, id, err
}
