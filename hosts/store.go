//go:build unix

package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
)

// A Store edits the settings of harnesses. It keeps notes and backups in a
// folder of its own.
type Store struct {
	dir string
	// testOnlyWrite is called right before and right after a file is replaced.
	testOnlyWrite func(path string, done bool)
}

// At returns the store in a folder, which is created by the first edit.
func At(dir string) *Store { return &Store{dir: dir} }

// A ConflictError means that another program kept changing the settings file or the
// trust file during an edit. Path is the settings file in both cases.
type ConflictError struct{ Path string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("edit %s: another program keeps changing the harness's settings; the edit was given up", e.Path)
}

// attempts limits how often an edit of a file that keeps changing is tried.
const attempts = 5

// origin is what the store keeps in a file about one installation: a note about the
// settings file, a note about the trust file, and the folders that were created.
type origin struct {
	Path     string   `json:"path"`
	Settings note     `json:"settings"`
	Trust    note     `json:"trust"`
	Folders  []string `json:"folders,omitempty"` // the folders created for the files; in each tree the innermost first
}

// world is the state of all files that an edit depends on.
type world struct {
	settings, trust file
	origin          origin
}

func (s *Store) look(in profiles.Installation) (w world, err error) {
	if w.settings, err = read(in.Path); err != nil {
		return w, err
	}
	if in.Trust != nil {
		if w.trust, err = read(in.Trust.Path); err != nil {
			return w, err
		}
	}
	data, err := durable.ReadFile(s.notePath(in))
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("read the record of what was installed in %s: %w", in.Path, err)
	}
	// Ignore a note that cannot be parsed, or that is about another file.
	if json.Unmarshal(data, &w.origin) != nil || w.origin.Path != in.Path {
		w.origin = origin{}
	}
	// The note about the settings is valid while they have hooks of ours. If the
	// user has removed the hooks by hand, ignore the note.
	if r, err := inspect(w.settings.text, nil, in); err == nil && r.State == NotInstalled {
		w.origin.Settings = note{}
	}
	return w, nil
}

func (s *Store) notePath(in profiles.Installation) string {
	return filepath.Join(s.dir, filepath.Base(in.Path)+"-"+digest(in.Path)[:16]+".json")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Status reports what is installed. It changes nothing.
func (s *Store) Status(in profiles.Installation) (Report, error) {
	w, err := s.look(in)
	if err != nil {
		return Report{}, err
	}
	r, err := inspect(w.settings.text, w.trust.text, in)
	return r, inFile(err, in.Path)
}

// inFile sets the Path of err to path, if err is a [*Flaw] whose Path is empty.
func inFile(err error, path string) error {
	if flaw := (*Flaw)(nil); errors.As(err, &flaw) && flaw.Path == "" {
		flaw.Path = path
	}
	return err
}

// Apply adds our hooks, or updates them. If they are up to date it touches no
// file. With dry it returns the changes without making them. The error may be a
// [*Flaw] or a [*ConflictError].
func (s *Store) Apply(in profiles.Installation, dry bool) ([]Change, error) {
	return s.edit(in, dry, applying)
}

// Remove removes our hooks. It has the same parameters and errors as Apply.
func (s *Store) Remove(in profiles.Installation, dry bool) ([]Change, error) {
	return s.edit(in, dry, removing)
}

// A plan lists the file replacements of an edit, in order.
type plan struct {
	moves  []move
	origin origin // the new note; if its Path is empty, the note is deleted
}

// A move is the replacement of one file.
type move struct {
	file   file
	next   *string
	shared bool // other users may read the file, if this move creates it
}

func (p *plan) move(f file, next *string, shared bool) {
	if !equal(f.text, next) {
		p.moves = append(p.moves, move{f, next, shared})
	}
}

func applying(in profiles.Installation, w world) (plan, error) {
	if in.Whole != "" {
		return applyingWhole(in, w)
	}
	r, err := inspect(w.settings.text, w.trust.text, in)
	if err != nil || r.State == Installed {
		return plan{}, inFile(err, in.Path)
	}
	settings, remembered, err := withHooks(w.settings.text, in, w.origin.Settings)
	if err != nil {
		return plan{}, inFile(err, in.Path)
	}
	p := plan{origin: origin{Path: in.Path, Settings: remembered, Folders: w.origin.Folders}}
	// Write the consents before the hooks: a crash between the two writes leaves a consent
	// without a hook, which is harmless. For a hook without a consent, the harness asks the user.
	if in.Trust != nil {
		trust, remembered, err := withTrust(w.trust.text, w.settings.text, settings, in, w.origin.Trust)
		if err != nil {
			return plan{}, inFile(err, in.Trust.Path)
		}
		p.origin.Trust = remembered
		p.move(w.trust, &trust, false)
	}
	p.move(w.settings, &settings, in.Shared)
	return p, nil
}

func removing(in profiles.Installation, w world) (plan, error) {
	if in.Whole != "" {
		return removingWhole(in, w)
	}
	var p plan
	if w.settings.text != nil {
		settings, err := withoutHooks(*w.settings.text, in, w.origin.Settings)
		if err != nil {
			return plan{}, inFile(err, in.Path)
		}
		p.move(w.settings, settings, in.Shared)
	}
	if in.Trust != nil && w.trust.text != nil {
		trust, err := withoutTrust(*w.trust.text, w.settings.text, in, w.origin.Trust)
		if err != nil {
			return plan{}, inFile(err, in.Trust.Path)
		}
		p.move(w.trust, trust, false)
	}
	return p, nil
}

func (s *Store) edit(in profiles.Installation, dry bool, plan func(profiles.Installation, world) (plan, error)) ([]Change, error) {
	w, err := s.look(in)
	if err != nil {
		return nil, err
	}
	p, err := plan(in, w)
	if err != nil || dry || len(p.moves) == 0 {
		return p.changes(), err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	for range attempts {
		if w, err = s.look(in); err != nil {
			return nil, err
		}
		if p, err = plan(in, w); err != nil || len(p.moves) == 0 {
			return nil, err
		}
		changes, err := s.perform(in, w, p)
		if !errors.Is(err, errChanged) {
			return changes, err
		}
	}
	return nil, &ConflictError{in.Path}
}

func (p plan) changes() []Change {
	var list []Change
	for _, m := range p.moves {
		list = append(list, Change{Path: m.file.path, Before: m.file.text, After: m.next})
	}
	return list
}

// lock locks the store's folder. It waits while another process has the lock.
func (s *Store) lock() (unlock func(), err error) {
	if err := durable.Private(s.dir); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "lock")
	for {
		lock, err := durable.Lock(path)
		if err == nil {
			return func() { _ = lock.Unlock() }, nil
		}
		var locked *durable.LockedError
		if !errors.As(err, &locked) {
			return nil, err
		}
		if err := durable.AwaitUnlock(path); err != nil {
			return nil, err
		}
	}
}

// perform makes all moves of a plan, or none.
func (s *Store) perform(in profiles.Installation, w world, p plan) (changes []Change, err error) {
	var made []string
	defer func() {
		if err != nil {
			err = errors.Join(err, undo(p.moves[:len(changes)]))
			changes = nil
			unmake(made)
		}
	}()
	for _, m := range p.moves {
		if m.next == nil {
			continue
		}
		more, err := folders(filepath.Dir(m.file.target), m.shared)
		made = append(more, made...)
		if err != nil {
			return nil, fmt.Errorf("create the folder of %s: %w", m.file.path, err)
		}
	}
	// The note is valid for the old files too. So it is written first, and a crash before
	// the files are written does no harm.
	if p.origin.Path != "" {
		p.origin.Folders = append(made, p.origin.Folders...)
		data, err := json.Marshal(p.origin)
		if err == nil {
			err = durable.WriteFile(s.notePath(in), append(data, '\n'), 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("write the record of what is installed in %s: %w", in.Path, err)
		}
	}
	for _, m := range p.moves {
		c := Change{Path: m.file.path, Before: m.file.text, After: m.next}
		if m.file.text != nil {
			if c.Backup, err = backup(filepath.Join(s.dir, "backup"), m.file.path, *m.file.text, digest(*m.file.text)); err != nil {
				return changes, fmt.Errorf("back up %s: %w", m.file.path, err)
			}
		}
		s.wrote(m, false)
		if err := m.file.replace(m.next, m.shared); err != nil {
			return changes, fmt.Errorf("write %s: %w", m.file.path, err)
		}
		s.wrote(m, true)
		changes = append(changes, c)
		if now, err := read(m.file.path); err != nil || !equal(now.text, m.next) {
			return changes, errors.Join(fmt.Errorf("write %s: %w", m.file.path, errChanged), err)
		}
	}
	if p.origin.Path == "" {
		if err := os.Remove(s.notePath(in)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return changes, fmt.Errorf("delete the record of what was installed in %s: %w", in.Path, err)
		}
		unmake(w.origin.Folders)
	}
	return changes, nil
}

func (s *Store) wrote(m move, done bool) {
	if s.testOnlyWrite != nil {
		s.testOnlyWrite(m.file.path, done)
	}
}

// undo reverts moves. If another program has written a file since, undo does
// not touch that file.
func undo(moves []move) error {
	var errs []error
	for _, m := range slices.Backward(moves) {
		now, err := read(m.file.path)
		if err == nil && equal(now.text, m.next) {
			err = now.replace(m.file.text, m.shared)
		}
		if err != nil && !errors.Is(err, errChanged) {
			errs = append(errs, fmt.Errorf("restore %s: %w", m.file.path, err))
		}
	}
	return errors.Join(errs...)
}

// unmake removes the folders that we created and that are empty. The list may hold the
// folders of two trees.
func unmake(made []string) {
	for _, dir := range made {
		_ = syscall.Rmdir(dir) // os.Remove would also delete a file or a link with the name of the folder
	}
}
