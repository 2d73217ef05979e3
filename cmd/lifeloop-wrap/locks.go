package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// abandon sets the times of lock folders whose owner has ended to long ago. The harness
// then takes them for abandoned at once and does not wait until they are old enough.
// abandon does not remove them, because the harness does so in a way that is safe
// against other starts.
func abandon(locks []string) {
	here, err := os.Hostname()
	if err != nil {
		return
	}
	for _, lock := range locks {
		heartbeat := filepath.Join(lock, "heartbeat")
		info, err := os.Lstat(heartbeat)
		if err != nil || !info.Mode().IsRegular() || !ownerEnded(lock, here) {
			continue
		}
		_ = os.Chtimes(heartbeat, time.Unix(0, 0), time.Unix(0, 0)) // if this fails, the harness waits
	}
}

// ownerEnded reports whether the owner of a lock was a process of this machine, and
// has ended.
func ownerEnded(lock, here string) bool {
	data, err := os.ReadFile(filepath.Join(lock, "meta.json"))
	var owner struct {
		PID      int    `json:"pid"`
		Hostname string `json:"hostname"`
	}
	if err != nil || json.Unmarshal(data, &owner) != nil || owner.PID <= 0 || owner.Hostname != here {
		return false
	}
	return errors.Is(syscall.Kill(owner.PID, 0), syscall.ESRCH)
}
