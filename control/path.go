package control

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lifeloop/internal/durable"
)

// maxPath is below the 108 bytes of a Unix socket address.
const maxPath = 100

// SocketDir returns the folder for sockets and creates it if it is missing:
// $XDG_RUNTIME_DIR/lifeloop, or lifeloop-UID in the temporary folder, or lifeloop-UID
// with a suffix if that name is taken. No other user can use or replace it
// ([durable.Private]).
func SocketDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if dir = filepath.Join(dir, "lifeloop"); makePrivate(dir) == nil {
			return dir, nil
		}
	}
	dir, err := tempDir(os.TempDir())
	if err != nil && os.TempDir() != "/tmp" {
		if dir, err := tempDir("/tmp"); err == nil {
			return dir, nil
		}
	}
	return dir, err
}

// CheckSocketDir does the same as SocketDir, but then removes the folder if it is in
// the temporary folder and no session uses it.
func CheckSocketDir() (string, error) {
	dir, err := SocketDir()
	if err == nil {
		tidy(dir, tidyWait)
	}
	return dir, err
}

func tempDir(parent string) (string, error) {
	usual := filepath.Join(parent, tempName())
	err := makePrivate(usual)
	if err == nil {
		return usual, nil
	}
	for _, dir := range durable.Beginning(parent, tempName()+"-") { // folders that an earlier session created
		if makePrivate(dir) == nil {
			return dir, nil
		}
	}
	dir, mkErr := os.MkdirTemp(parent, tempName()+"-") // creates the folder with mode 0700
	if mkErr == nil {
		if err = makePrivate(dir); err == nil {
			return dir, nil
		}
		tidy(dir, tidyWait)
	}
	return "", fmt.Errorf("create a folder for sockets (set XDG_RUNTIME_DIR to a folder that you own): %w", err)
}

func tempName() string { return fmt.Sprintf("lifeloop-%d", os.Geteuid()) }

// makePrivate creates dir if dir is missing, in a folder that exists. makePrivate then
// checks that dir is private.
func makePrivate(dir string) error {
	created := os.Mkdir(dir, 0o700)
	if created != nil && !errors.Is(created, fs.ErrExist) {
		return created
	}
	// Reject a symbolic link, even one to a safe folder. The sockets need a folder of their
	// own, and the folder that a link leads to may have other files.
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", dir)
	}
	if err == nil {
		err = durable.Private(dir)
	}
	if err != nil && created == nil {
		tidy(dir, tidyWait)
	}
	return err
}

// tidy removes one of our folders in the temporary folder, with the files that
// killed processes have left in it, if no session uses it. It does not touch other
// folders, nor a folder whose lock another process holds longer than wait.
func tidy(dir string, wait time.Duration) {
	if !strings.HasPrefix(filepath.Base(dir), tempName()) {
		return
	}
	unlock, err := lockDir(dir, wait)
	if err != nil {
		return
	}
	defer unlock()
	sweep(dir)
	_ = os.Remove(dir) // only an empty folder can be removed
}

// tidyTemp removes the folders that killed sessions have left in the temporary
// folder. It skips the folder in use: Listen has removed the stale sockets there.
func tidyTemp(inUse string) {
	left := durable.Beginning(os.TempDir(), tempName()+"-")
	for _, dir := range append(left, filepath.Join(os.TempDir(), tempName())) {
		if dir != inUse && durable.IsPrivateFolder(dir) == nil {
			// Do not wait for the lock, because a suspended process may have it.
			tidy(dir, 0)
		}
	}
}

// Open creates the socket of a session, in [SocketDir].
func Open(sessionID string) (*Server, error) {
	for {
		path, err := SocketPath(sessionID)
		if err != nil {
			return nil, err
		}
		s, err := Listen(path)
		if !errors.Is(err, errRemoved) {
			return s, err
		}
	}
}

// RemoveSocket removes the socket of a killed session, and its folder if that is in
// the temporary folder and empty.
func RemoveSocket(path string) {
	_ = os.Remove(path)
	tidy(filepath.Dir(path), tidyWait)
}

// SocketPath returns the path of the session's socket, in [SocketDir]. A session
// id that is too long, or that is not a plain file name, is replaced by its
// hash. If the folder's path is too long, a folder directly under /tmp is used.
func SocketPath(sessionID string) (string, error) {
	if sessionID == "" {
		return "", errors.New("socket path: no session id")
	}
	dir, err := SocketDir()
	if err != nil {
		return "", err
	}
	if path := filepath.Join(dir, sessionID+".sock"); plain(sessionID) && len(path) <= maxPath {
		return path, nil
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(sessionID))
	short := fmt.Sprintf("%016x.sock", h.Sum64())
	if path := filepath.Join(dir, short); len(path) <= maxPath {
		return path, nil
	}
	if dir, err = tempDir("/tmp"); err != nil {
		return "", err
	}
	return filepath.Join(dir, short), nil
}

func plain(id string) bool {
	return !strings.HasPrefix(id, ".") && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}
