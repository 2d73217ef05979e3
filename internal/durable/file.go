package durable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the content of the file at path. After a crash during the call
// the file holds either the old content or all of data. After it returns nil, data
// is durable.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	if err := replace(path, data, perm, (*os.File).Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Cache replaces the content of the file at path like WriteFile, but does not sync
// it. After a crash of the machine the file may hold neither the old content nor the
// new one. It is for content that its readers check and can compute again.
func Cache(path string, data []byte, perm fs.FileMode) error {
	return replace(path, data, perm, func(*os.File) error { return nil })
}

func replace(path string, data []byte, perm fs.FileMode, sync func(*os.File) error) error {
	return put(path, bytes.NewReader(data), perm, sync)
}

// Copy is like [WriteFile], for data that is too large for memory.
func Copy(path string, data io.Reader, perm fs.FileMode) error {
	if err := put(path, data, perm, (*os.File).Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func put(path string, data io.Reader, perm fs.FileMode, sync func(*os.File) error) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+name+".tmp-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if _, err := io.Copy(f, data); err != nil {
		return err
	}
	// Sync before the rename: if the rename reached the disk before the data, a
	// crash would leave an empty file.
	if err := sync(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// SyncDir makes the creation, renaming and removal of files in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}

// Mkdir creates dir and its missing parents, with mode 0700, and makes their names
// durable. It does not change a folder that exists.
func Mkdir(dir string) error { return createDir(dir, SyncDir) }

// MkdirUnsynced is like [Mkdir], but the name of dir is not durable if dir is new. The
// caller makes it durable with [SyncDir] of the folder above dir.
func MkdirUnsynced(dir string) error {
	return createDir(dir, func(string) error { return nil })
}

// createDir is Mkdir with a function that makes the names in the folder above dir durable.
func createDir(dir string, syncParent func(string) error) error {
	dir = filepath.Clean(dir)
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("create folder %s: a file has this name", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := Mkdir(parent); err != nil {
			return err
		}
	}
	// Another process may have created the folder meanwhile.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create folder %s: %w", dir, err)
	}
	if err := syncParent(parent); err != nil {
		return fmt.Errorf("create folder %s: sync its parent: %w", dir, err)
	}
	return nil
}
