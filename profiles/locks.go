package profiles

import (
	"encoding/json"
	"path/filepath"
)

// LockFiles returns the paths of two files in a lock folder (Launch.Locks): the one that
// names the owner, and the one that the owner regularly touches.
func LockFiles(lock string) (owner, heartbeat string) {
	return filepath.Join(lock, "meta.json"), filepath.Join(lock, "heartbeat")
}

// A LockOwner is the process that holds a lock.
type LockOwner struct {
	PID      int    `json:"pid"`
	Hostname string `json:"hostname"` // of the machine on which the process runs
}

// ParseLockOwner reads the file that names the owner of a lock. ok is false if the file
// does not name a process.
func ParseLockOwner(data []byte) (owner LockOwner, ok bool) {
	if json.Unmarshal(data, &owner) != nil || owner.PID <= 0 {
		return LockOwner{}, false
	}
	return owner, true
}
