// Package store manages sessions on disk: each has a folder named by its id,
// with the ledger and a few files that other commands need. It finds, lists,
// follows and removes sessions, and keeps a summary of each session that is not
// live. It makes no decision in a session and writes no fact.
//
//	st := store.Open(stateDir)
//	id, err := st.Find("last")
//	for entry, err := range st.Folder(id).Follow(ctx, 1) { … }
package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"lifeloop/internal/durable"
	"lifeloop/ledger"
	"lifeloop/view"
)

// A Store is the folder that holds a folder for each session.
type Store struct{ dir string }

// Open returns the store below a state directory. It creates nothing.
func Open(stateDir string) Store { return Store{filepath.Join(stateDir, "sessions")} }

// StateDir returns the state directory that Open was given.
func (s Store) StateDir() string { return filepath.Dir(s.dir) }

// Private returns an error if another user could have put a session into the store, or
// could have replaced the store by a link to another folder.
func (s Store) Private() error {
	for _, dir := range []string{s.StateDir(), s.dir} {
		if err := durable.IsPrivate(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Folder returns the folder of a session, whether it exists or not.
func (s Store) Folder(id string) Folder { return Folder(filepath.Join(s.dir, id)) }

// The liveness of a session: whether it has a wrapper.
const (
	Live  = "live"  // a wrapper holds the ledger open
	Ended = "ended" // the ledger contains the end of the session
	Lost  = "lost"  // neither live nor ended: the wrapper died, and the outcome is unknown
)

// A Session is the content of one session's ledger.
type Session struct {
	view.Status
	Claims view.Claims
	Folder Folder
	// Damage is the reason why the ledger cannot be read to its end, or nil. An
	// unfinished last line is not damage, because the writer may have died during
	// its last write.
	Damage error

	entries uint64 // the number of entries that were applied
}

// Observed reports whether the session only observed a harness that it had not
// launched.
func (k Session) Observed() bool { return k.Program == "" && k.Events > 0 }

// ResumeCommand returns the arguments of lifeloop-wrap that recover a lost session.
func (k Session) ResumeCommand() string {
	if k.Observed() {
		return "observe --resume " + k.SessionID
	}
	return "run --resume " + k.SessionID
}

// Ending returns the final state of a session and its reason.
func (s Session) Ending() string {
	if s.StateReason == "" {
		return s.State
	}
	return fmt.Sprintf("%s (%s)", s.State, s.StateReason)
}

// A NotFoundError says that no session, or more than one, matches a given name.
type NotFoundError struct {
	Name    string
	Dir     string // the folder of the store
	Known   int    // number of sessions in the store
	Matches int    // number of ids that begin with Name: 0, or more than 1
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Matches > 1:
		return fmt.Sprintf("%q is the prefix of %d session ids", e.Name, e.Matches)
	case e.Known == 0 && e.Name == "last":
		return "no sessions yet in " + e.Dir
	}
	return fmt.Sprintf("no session %q in %s", e.Name, e.Dir)
}

// IDs lists the ids of all sessions. Folders whose name is not an id are ignored. A
// store that does not exist has no sessions.
func (s Store) IDs() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && isID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func isID(name string) bool {
	u, err := uuid.Parse(name)
	return err == nil && u.String() == name
}

// List returns the sessions that want accepts, the oldest first, and the number of
// all sessions. For a session that is not live it reads only the summary, if there is a
// valid one. Sessions that never began are omitted.
func (s Store) List(want func(Brief) bool) (list []Session, total int, err error) {
	err = s.each(false, func(b Brief, whole func() Session) {
		total++
		if want(b) {
			list = append(list, whole())
		}
	})
	slices.SortStableFunc(list, func(a, b Session) int { return a.StartedAt.Compare(b.StartedAt) })
	return list, total, err
}

// Briefs lists the sessions, the oldest first. Sessions that never began are omitted.
func (s Store) Briefs() (all []Brief, err error) { return s.briefs(false) }

func (s Store) briefs(unbegun bool) (all []Brief, err error) {
	err = s.each(unbegun, func(b Brief, _ func() Session) { all = append(all, b) })
	slices.SortStableFunc(all, func(a, b Brief) int { return a.StartedAt.Compare(b.StartedAt) })
	return all, err
}

// neverBegan reports whether the session could not start, or its wrapper died
// before it recorded anything.
func (k Session) neverBegan() bool {
	return k.entries == 0 && k.Liveness == Lost && (k.Damage == nil || errors.Is(k.Damage, fs.ErrNotExist))
}

// timeToBegin is how long a wrapper may take to lock the ledger after it created the
// session's folder. Meanwhile the folder looks as if the session never began.
const timeToBegin = time.Minute

// each calls the function see for every session. It skips a session that never began,
// unless unbegun is true and the session is older than timeToBegin. The function whole
// reads the complete session; it must not be called after see has returned.
func (s Store) each(unbegun bool, see func(b Brief, whole func() Session)) error {
	ids, err := s.IDs()
	if err != nil {
		return err
	}
	summary := summaryReader{form: form()}
	for _, id := range ids {
		f := s.Folder(id)
		if summary.read(f) {
			see(summary.head.Brief, func() Session {
				if k, ok := summary.session(f); ok {
					return k
				}
				return s.Summarize(id)
			})
			continue
		}
		k := s.Summarize(id)
		if k.Damage != nil {
			if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
				continue // another process has removed the session meanwhile
			}
		}
		if !k.neverBegan() || unbegun && time.Since(k.StartedAt) > timeToBegin {
			see(k.brief(), func() Session { return k })
		}
	}
	return nil
}

// Summarize reads the ledger of one session, and writes a summary unless the session is
// live. It also removes the files of a wrapper that was killed after its session had
// ended.
func (s Store) Summarize(id string) Session {
	before, err := ledger.Measure(string(s.Folder(id)))
	k := s.Read(id)
	if err == nil && k.Liveness != Live && before.Fits(string(k.Folder)) {
		k.save(before)
		if k.Damage == nil && k.Liveness == Ended && !k.Folder.Live() {
			k.Folder.Forget()
		}
	}
	return k
}

// Read reads the ledger of one session.
func (s Store) Read(id string) Session {
	k := Session{Folder: s.Folder(id)}
	live := k.Folder.Live() // checked before reading, so that a session that ends meanwhile does not count as lost
	for e, err := range k.Folder.Facts(0) {
		if err != nil {
			k.Damage = err
			break
		}
		k.Apply(e)
	}
	if k.entries == 0 {
		if err := k.Folder.gone(k.Damage); err != nil {
			k.Damage = err
		}
	}
	k.SessionID = id
	if k.StartedAt.IsZero() { // the wrapper has written nothing yet, or died before its first entry
		if info, err := os.Stat(string(k.Folder)); err == nil {
			k.StartedAt = info.ModTime()
		}
	}
	switch {
	case k.Ended():
		k.Liveness = Ended
	case live:
		k.Liveness = Live
	default:
		k.Liveness = Lost
		k.Lose()
	}
	return k
}

// Find resolves the name of a session: an id, a unique prefix of an id, or "last".
// If there is no such session, the error is a *NotFoundError.
func (s Store) Find(name string) (string, error) {
	ids, err := s.IDs()
	if err != nil {
		return "", err
	}
	if slices.Contains(ids, name) {
		return name, nil
	}
	missing := &NotFoundError{Name: name, Dir: s.dir, Known: len(ids)}
	if name == "last" {
		all, err := s.Briefs()
		if err != nil || len(all) == 0 {
			return "", errors.Join(err, missing)
		}
		return all[len(all)-1].ID, nil
	}
	matches := slices.DeleteFunc(ids, func(id string) bool { return name == "" || !strings.HasPrefix(id, name) })
	if len(matches) == 1 {
		return matches[0], nil
	}
	missing.Matches = len(matches)
	return "", missing
}

// A Limit says which sessions Prune removes. Live sessions are never removed.
type Limit struct {
	OlderThan time.Duration // remove sessions that started longer ago than this; negative for no limit
	Keep      int           // number of the newest sessions to keep; negative for no limit
	Bytes     int64         // size of all sessions together; negative for no limit
	Ended     bool          // remove only ended sessions, because a lost one can be recovered
	Except    string        // id of a session that is not removed
}

// Prune removes sessions, the oldest first, and calls removed(id) for each of them.
// Prune also finishes removals that were interrupted. If a session cannot be removed,
// Prune continues with the next one, and at the end returns the first such error.
func (s Store) Prune(l Limit, removed func(id string) error) (failed error) {
	s.sweep()
	all, err := s.briefs(true)
	if err != nil {
		return err
	}
	sizes, total := map[string]int64{}, int64(0)
	if l.Bytes >= 0 {
		for _, k := range all {
			sizes[k.ID] = s.Folder(k.ID).Size()
			total += sizes[k.ID]
		}
	}
	for i, k := range all {
		old := l.OlderThan >= 0 && time.Since(k.StartedAt) > l.OlderThan
		many := l.Keep >= 0 && i < len(all)-l.Keep
		large := l.Bytes >= 0 && total > l.Bytes
		stays := k.Liveness == Live || l.Ended && k.Liveness == Lost || k.ID == l.Except
		if stays || !old && !many && !large {
			continue
		}
		err := s.remove(k.ID)
		_, locked := errors.AsType[*durable.LockedError](err)
		switch {
		case locked, err != nil && !s.Folder(k.ID).exists():
			// Another process is removing the session, has removed it, or has recovered
			// it. Its size is subtracted in each case, so that no newer session is removed
			// in its place.
			total -= sizes[k.ID]
			continue
		case err != nil:
			failed = cmp.Or(failed, err)
			continue
		}
		total -= sizes[k.ID]
		if err := removed(k.ID); err != nil {
			return err
		}
	}
	return failed
}

// removing is the prefix that a folder gets while it is being removed.
const removing = ".pruned-"

// remove removes a session. It holds the ledger's lock, so that no wrapper can
// open it meanwhile, and first renames the folder, so that no reader finds an
// incomplete session.
func (s Store) remove(id string) error {
	dir := string(s.Folder(id))
	release, err := ledger.Hold(dir)
	if err != nil {
		return err
	}
	defer release()
	if _, err := s.Folder(id).Settle(); err != nil {
		return err
	}
	hidden := string(s.Folder(removing + id))
	if err := os.Rename(dir, hidden); err != nil {
		return err
	}
	return os.RemoveAll(hidden)
}

// sweep removes the folders that interrupted removals left. Another process may
// be doing the same, so errors are ignored; the next Prune tries again.
func (s Store) sweep() {
	left, _ := filepath.Glob(string(s.Folder(removing + "*")))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}
