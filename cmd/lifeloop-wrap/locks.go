package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"lifeloop/profiles"
)

// abandon gives an old modification time to the heartbeat file in each lock folder
// whose owner has ended. The harness then treats the lock as abandoned at once, and
// does not wait until the heartbeat is old enough. abandon does not remove the
// folder, because the harness can do that safely even if other harness processes start
// at the same time.
func abandon(locks []string) {
	here, err := os.Hostname()
	if err != nil {
		return
	}
	for _, lock := range locks {
		meta, heartbeat := profiles.LockFiles(lock)
		info, err := os.Lstat(heartbeat)
		if err != nil || !info.Mode().IsRegular() || !ownerEnded(meta, here) {
			continue
		}
		_ = os.Chtimes(heartbeat, time.Unix(0, 0), time.Unix(0, 0)) // if this fails, the harness waits until the heartbeat is old enough
	}
}

// ownerEnded reports whether the owner of a lock was a process of this machine, and has
// ended. meta is the path of the lock's file that names the owner.
func ownerEnded(meta, here string) bool {
	data, err := os.ReadFile(meta)
	if err != nil {
		return false
	}
	owner, ok := profiles.ParseLockOwner(data)
	return ok && owner.Hostname == here && errors.Is(syscall.Kill(owner.PID, 0), syscall.ESRCH)
}
