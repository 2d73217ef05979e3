//go:build unix

package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Private creates dir and its missing parents, and checks that no other user can read
// or replace dir:
//
//   - dir belongs to the current user and has mode 0700;
//   - each folder above it, and each symbolic link on the way, belongs to the
//     current user or to root;
//   - none of these folders can be written by others, unless it is sticky, as /tmp
//     is.
//
// So a symbolic link that belongs to the user may lead to dir. A parent may be
// writable by root's group and by the user's own private group. In a user
// namespace, an owner that has no user id in the namespace counts as root.
//
// The check begins at the root. No other user can change a folder that was checked,
// so the result still holds when the caller uses dir.
func Private(dir string) error { return private(dir, Mkdir) }

// PrivateUnsynced is like [Private], but creates dir with [MkdirUnsynced].
func PrivateUnsynced(dir string) error { return private(dir, MkdirUnsynced) }

// IsPrivate checks dir as [Private] does, but creates nothing. The error is
// [fs.ErrNotExist] if dir does not exist.
func IsPrivate(dir string) error {
	return private(dir, func(resolved string) error {
		_, err := os.Stat(resolved)
		return err
	})
}

// IsPrivateFolder checks dir as [IsPrivate] does, and also returns an error if dir is a
// symbolic link, because a link may lead to a folder with the user's own files.
func IsPrivateFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", dir)
	}
	if err != nil {
		return err
	}
	return IsPrivate(dir)
}

// private checks the folders above dir, then calls find, which must find or create dir,
// and then checks dir itself. The path resolved has no symbolic links.
func private(dir string, find func(resolved string) error) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	resolved, err := resolve(path)
	if err == nil {
		if err := find(resolved); err != nil {
			return err
		}
		// A new folder is checked too, because some file systems do not store modes.
		err = ours(resolved)
	}
	if err != nil {
		return fmt.Errorf("folder %s must be private: %w", dir, err)
	}
	return nil
}

// resolve follows the symbolic links of path and checks every folder and link on the
// way. The last elements need not exist.
func resolve(path string) (string, error) {
	const maxLinks = 40 // the limit of the Linux kernel
	links, at, rest := 0, "/", path
	here, err := os.Stat(at)
	if err != nil {
		return "", err
	}
	for rest != "" {
		if err := parent(at, here); err != nil {
			return "", err
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name) // for "..", this is the parent folder
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(next, rest), nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at, here = next, info
			continue
		}
		if uid := uidOf(info); !trusted(uid) {
			return "", fmt.Errorf("the link %s belongs to %s, who can change it (choose another folder, or: sudo chown -h %d '%s')",
				next, userName(uid), os.Geteuid(), next)
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through more than %d links", path, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
			if here, err = os.Stat(at); err != nil {
				return "", err
			}
		}
		rest = target + "/" + rest
	}
	return at, nil
}

// parent checks dir, a folder above a private one.
func parent(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	uid, mode := uidOf(info), info.Mode()
	others := mode.Perm()&0o002 != 0
	group := mode.Perm()&0o020 != 0
	switch {
	case !trusted(uid):
		return fmt.Errorf("%s belongs to %s, who can replace its content (choose another folder, or: sudo chown %d '%s')", dir, userName(uid), os.Geteuid(), dir)
	case mode&fs.ModeSticky != 0:
	case others:
		return fmt.Errorf("every user can write %s, which has mode %04o (choose another folder, or: chmod o-w '%s')", dir, mode.Perm(), dir)
	case group && !privateGroup(gidOf(info)):
		return fmt.Errorf("the users of group %d can write %s, which has mode %04o (choose another folder, or: chmod g-w '%s')", gidOf(info), dir, mode.Perm(), dir)
	}
	return nil
}

// ours checks that dir belongs to the current user and has mode 0700.
func ours(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	switch uid := uidOf(info); {
	case uid != os.Geteuid():
		return fmt.Errorf("%s belongs to %s (choose another folder, or: sudo chown %d '%s')", dir, userName(uid), os.Geteuid(), dir)
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has mode %04o and must have 0700 (chmod 700 '%s')", dir, info.Mode().Perm(), dir)
	}
	return nil
}

func uidOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
func gidOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Gid) }

// trusted reports whether a folder or link with this owner is safe. The owner must
// be the current user, root, or a user outside our user namespace (see noNumber).
func trusted(uid int) bool {
	return uid == os.Geteuid() || uid == 0 || uid == noNumber && inUserNamespace()
}

// noNumber is the user id that the system shows for an owner without a user id in
// the namespace.
const noNumber = 65534

// inUserNamespace reports whether this process is in a user namespace in which
// some users of the machine have no user id.
func inUserNamespace() bool {
	numbers, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !bytes.Equal(bytes.Join(bytes.Fields(numbers), []byte(" ")), []byte("0 0 4294967295"))
}

// privateGroup reports whether a group counts as having no other member: it is the
// group of root, or the current user's group with the user's own name. The list of its
// members is not read.
func privateGroup(gid int) bool {
	if gid == 0 {
		return true
	}
	me, err := user.Current()
	if err != nil || me.Gid != strconv.Itoa(gid) {
		return false
	}
	group, err := user.LookupGroupId(me.Gid)
	return err == nil && group.Name == me.Username
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("user %d", uid)
}
