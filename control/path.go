package control

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxPath is below the 108 bytes of a Unix socket address.
const maxPath = 100

// SocketDir returns the folder for sockets and creates it if it is missing:
// $XDG_RUNTIME_DIR/lifeloop, or lifeloop-UID in the temporary folder. It is a
// directory of the current user with mode 0700. If the name is taken by
// something else, each call creates a new folder.
func SocketDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if dir = filepath.Join(dir, "lifeloop"); makePrivate(dir) == nil {
			return dir, nil
		}
	}
	return tempDir(os.TempDir())
}

func tempDir(parent string) (string, error) {
	name := fmt.Sprintf("lifeloop-%d", os.Geteuid())
	dir := filepath.Join(parent, name)
	if makePrivate(dir) == nil {
		return dir, nil
	}
	dir, err := os.MkdirTemp(parent, name+"-") // 0700
	if err != nil {
		return "", fmt.Errorf("create a private folder for sockets (set XDG_RUNTIME_DIR to a folder that you own): %w", err)
	}
	return dir, nil
}

// makePrivate creates dir if it is missing and checks that it is private.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir) // another user could have made a link
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || info.Mode().Perm() != 0o700 || int(owner) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of the current user with mode 0700", dir)
	}
	return nil
}

// SocketPath returns the path of the session's socket, in [SocketDir]. A session
// id that is too long or no plain file name is replaced by its hash. A folder
// with too long a name is replaced by one directly under /tmp.
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
