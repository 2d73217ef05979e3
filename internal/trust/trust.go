// Package trust decides which project files are used. A project's file comes
// with a folder, often with a checkout from elsewhere, and it can name programs
// to run. It is used only if
//
//   - it is a regular file of at most [MaxFile] bytes,
//   - its owner is the user or root, and no other user can write to it,
//   - its path and the digest of its content were recorded by a [Store].
//
// A symbolic link is followed, as direnv does: the record has the path of the
// link and the digest of the target, and the checks apply to the file that was
// opened. A file that is not trusted is not parsed. No record counts if another user
// can write to the folder of the records or replace it.
//
// The package does not interpret a file's content, and does not check the programs that
// the file names.
//
//	records := trust.Open(stateDir)
//	f := records.Find(workDir, home, ".lifeloop.yaml")
//	if f.Path != "" && f.Refused == nil { use(f.Data) }
package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// MaxFile is the largest size in bytes of a file that is read.
const MaxFile = 64 << 10

// A Refusal says why a project's file is not used.
type Refusal struct {
	Path    string
	Why     string
	Unknown bool // there is no record, or the content differs from the record
}

func (r *Refusal) Error() string { return r.Path + ": " + r.Why }

// ReadFile reads a regular file of at most [MaxFile] bytes. It never waits for
// a device or for the other end of a FIFO.
func ReadFile(path string) ([]byte, error) {
	data, _, err := read(path, 0)
	return data, err
}

// read is like ReadFile, with further flags for open. It also returns the FileInfo of
// the opened file, so that the checks are about the file that was read.
func read(path string, flags int) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("%s: too large for a configuration file (limit: %d KiB)", path, MaxFile>>10)
	}
	return data, info, err
}

// Examine reads a file, and refuses it unless only the user or root can write to
// it.
func Examine(path string) ([]byte, *Refusal) {
	data, info, err := read(path, 0)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), path+": ")
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			why = "cannot be read: " + at.Err.Error()
		}
		return nil, &Refusal{Path: path, Why: why}
	}
	if why := unsafe(info.Mode(), owner(info), os.Geteuid()); why != "" {
		return nil, &Refusal{Path: path, Why: why}
	}
	return data, nil
}

// unsafe returns the reason why the content of a file may come from another user;
// empty if that is impossible.
func unsafe(mode fs.FileMode, owner, user int) string {
	switch {
	case owner != user && owner != 0:
		return fmt.Sprintf("it belongs to another user (uid %d)", owner)
	case mode.Perm()&0o022 != 0:
		return fmt.Sprintf("others can write to it (mode %04o); chmod go-w changes that", mode.Perm())
	}
	return ""
}

func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// Nearest returns the path of the file called name in dir or in the nearest folder
// above it, or "". The search does not go above home, nor into a folder with another
// owner than dir. Links in dir are resolved first, so that a file always has the same
// path.
func Nearest(dir, home, name string) string {
	return nearest(resolved(dir), resolved(home), name, func(dir string) (int, error) {
		info, err := os.Stat(dir)
		if err != nil {
			return 0, err
		}
		return owner(info), nil
	})
}

func nearest(dir, home, name string, ownerOf func(dir string) (int, error)) string {
	uid, err := ownerOf(dir)
	for err == nil {
		path := filepath.Join(dir, name)
		if _, missing := os.Stat(path); !errors.Is(missing, fs.ErrNotExist) {
			return path
		}
		above := filepath.Dir(dir)
		if dir == home || above == dir {
			break
		}
		was := uid
		if uid, err = ownerOf(above); uid != was {
			break
		}
		dir = above
	}
	return ""
}

// resolved returns path with its links resolved, or unchanged if that fails.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Name returns the path under which the file at an absolute path is recorded. Links in
// the path of the file's folder are resolved; if the file itself is a link, its name is
// kept.
func Name(path string) string {
	return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
}

// A Record says that the user trusts a file with this content.
type Record struct {
	Path   string       `json:"path"`
	Digest canon.Digest `json:"digest"`
	At     time.Time    `json:"trusted_at"`
}

// A Store is a folder with one file per record. Several processes may use it at
// the same time.
type Store struct{ dir string }

// Open returns the records of a state folder. It reads and creates nothing.
func Open(stateDir string) Store { return Store{filepath.Join(stateDir, "trust")} }

// A File is the nearest project file of a folder.
type File struct {
	Path    string   // empty if there is none
	Data    []byte   // the file's content, if the file is trusted
	Refused *Refusal // the reason why the file is not used; nil if the file is trusted
}

// Find finds the nearest project file, see [Nearest], and returns its content if the file
// is trusted.
func (s Store) Find(dir, home, name string) File {
	path := Nearest(dir, home, name)
	if path == "" {
		return File{}
	}
	data, refused := s.read(path)
	return File{path, data, refused}
}

// Check returns the reason why the file at path is not used; nil if it is
// trusted.
func (s Store) Check(path string) *Refusal {
	_, refused := s.read(path)
	return refused
}

// read returns the content of a file if it equals the recorded content.
func (s Store) read(path string) ([]byte, *Refusal) {
	data, refused := Examine(path)
	if refused == nil {
		refused = s.compare(path, data)
	}
	if refused != nil {
		return nil, refused
	}
	return data, nil
}

// compare compares the content of a file with its record.
func (s Store) compare(path string, data []byte) *Refusal {
	r, err := load(s.file(path))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && r.Path != path:
		return &Refusal{Path: path, Why: "it is not trusted", Unknown: true}
	case err != nil:
		return &Refusal{Path: path, Why: "its trust record cannot be used: " + err.Error()}
	case r.Digest != canon.Sum(data):
		return &Refusal{Path: path, Why: "it has changed since it was trusted", Unknown: true}
	}
	return nil
}

// Add records that the user trusts the file at path with this content.
func (s Store) Add(path string, data []byte, now time.Time) (Record, error) {
	r := Record{Path: path, Digest: canon.Sum(data), At: now.UTC().Truncate(time.Millisecond)}
	if !utf8.ValidString(path) {
		return r, errors.New("its path is not valid UTF-8, so it cannot be recorded (rename the folder, or use --config FILE)")
	}
	text, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	if err := durable.Private(s.dir); err != nil {
		return r, err
	}
	return r, durable.WriteFile(s.file(path), append(text, '\n'), 0o600)
}

// Remove removes the record of path. The error is [fs.ErrNotExist] if there is
// none.
func (s Store) Remove(path string) error {
	if err := os.Remove(s.file(path)); err != nil {
		return err
	}
	return durable.SyncDir(s.dir)
}

// List returns all valid records, sorted by path.
func (s Store) List() ([]Record, error) {
	list := []Record{}
	if err := durable.IsPrivate(s.dir); errors.Is(err, fs.ErrNotExist) {
		return list, nil
	} else if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".json" {
			continue // skip a record that is just being written
		}
		r, err := load(filepath.Join(s.dir, f.Name()))
		if err == nil && s.file(r.Path) == filepath.Join(s.dir, f.Name()) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// file returns the path of the record of a trusted file.
func (s Store) file(path string) string {
	name := strings.TrimPrefix(string(canon.Sum([]byte(path))), "sha256:")
	return filepath.Join(s.dir, name+".json")
}

// load reads the record in file. The file must pass the checks of [Examine]. Its folder
// must pass the checks of [durable.IsPrivate], because otherwise another user could put
// a record there. A symbolic link is refused, because it could lead to a file that
// belongs to the user but is not a record, such as a file in a checkout.
func load(file string) (r Record, err error) {
	if err := durable.IsPrivate(filepath.Dir(file)); err != nil {
		return r, err
	}
	data, info, err := read(file, syscall.O_NOFOLLOW)
	if err != nil {
		return r, err
	}
	if why := unsafe(info.Mode(), owner(info), os.Geteuid()); why != "" {
		return r, &Refusal{Path: file, Why: why}
	}
	return r, json.Unmarshal(data, &r)
}
