//go:build unix

package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lifeloop/internal/durable"
)

// errChanged means that another program wrote a file during our edit.
var errChanged = errors.New("another program changed it in the meantime")

// tooLarge is the size limit in bytes: a larger file is not read.
const tooLarge = 16 << 20

// A file is the state of one file when it was read.
type file struct {
	path   string  // the path that the harness uses
	target string  // path without symbolic links: the file to be replaced
	text   *string // nil if there is no file
	mode   fs.FileMode
	uid    int
	gid    int
}

func read(path string) (file, error) {
	f := file{path: path, target: path}
	for range 40 {
		info, err := os.Lstat(f.target)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("read %s: %w", path, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			next, err := os.Readlink(f.target)
			if err != nil {
				return f, fmt.Errorf("read %s: %w", path, err)
			}
			if !filepath.IsAbs(next) {
				// Resolve the links of the folder first, because ".." after a link does not
				// lead back to the folder of the link.
				dir, err := filepath.EvalSymlinks(filepath.Dir(f.target))
				if err != nil {
					return f, fmt.Errorf("read %s: %w", path, err)
				}
				next = filepath.Join(dir, next)
			}
			f.target = next
			continue
		}
		if !info.Mode().IsRegular() || info.Size() > tooLarge {
			return f, fmt.Errorf("read %s: not a regular file of at most %d MiB", path, tooLarge>>20)
		}
		data, err := durable.ReadFile(f.target)
		if err != nil {
			return f, fmt.Errorf("read %s: %w", path, err)
		}
		text := string(data)
		f.text, f.mode = &text, info.Mode().Perm()
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			f.uid, f.gid = int(s.Uid), int(s.Gid)
		}
		return f, nil
	}
	return f, fmt.Errorf("read %s: too many symbolic links", path)
}

// same reports whether the file still has the text that was read.
func (f file) same() bool {
	now, err := read(f.path)
	return err == nil && now.target == f.target && equal(now.text, f.text)
}

func equal(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// replace replaces the file that was read, or removes it if next is nil. After
// a crash the file has the old text or the new one. replace returns errChanged
// if the file no longer has the text that was read. A write between this check
// and the rename right after it cannot be prevented on every file system, so
// Store checks the file again afterwards.
func (f file) replace(next *string, shared bool) (err error) {
	if next == nil {
		if !f.same() {
			return errChanged
		}
		if err := os.Remove(f.target); err != nil {
			return err
		}
		return durable.SyncDir(filepath.Dir(f.target))
	}
	dir, name := filepath.Split(f.target)
	temp, err := os.CreateTemp(dir, "."+name+".tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // does nothing after the rename
	defer temp.Close()

	mode := fs.FileMode(0o600)
	if shared {
		mode = 0o644
	}
	if f.text != nil {
		mode = f.mode
		if info, err := temp.Stat(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != f.uid || int(s.Gid) != f.gid) {
				if err := temp.Chown(f.uid, f.gid); err != nil {
					return fmt.Errorf("set its owner: %w", err)
				}
			}
		}
	}
	if err := temp.Chmod(mode); err != nil {
		return err
	}
	if _, err := temp.WriteString(*next); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	if !f.same() {
		return errChanged
	}
	if err := os.Rename(temp.Name(), f.target); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// folders creates a folder and its missing parents. It returns those it
// created, the innermost first.
func folders(dir string, shared bool) (made []string, err error) {
	perm := fs.FileMode(0o700)
	if shared {
		perm = 0o755
	}
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		switch err := os.Mkdir(d, perm); {
		case err == nil:
			made = append([]string{d}, made...)
		case !errors.Is(err, fs.ErrExist):
			return made, err
		}
	}
	return made, nil
}

// backup writes a copy of a text and returns its path. The copy is named by
// the digest, so that the same text is written once.
func backup(dir string, path, text, digest string) (string, error) {
	at := filepath.Join(dir, filepath.Base(path)+"."+digest[:16])
	if have, err := durable.ReadFile(at); err == nil && bytes.Equal(have, []byte(text)) {
		return at, nil
	}
	if err := durable.Mkdir(dir); err != nil {
		return "", err
	}
	return at, durable.WriteFile(at, []byte(text), 0o600)
}
