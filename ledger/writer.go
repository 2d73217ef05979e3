package ledger

import (
	"path/filepath"

	"lifeloop/internal/durable"
)

// AwaitWriter returns when no process has the ledger in dir open for writing:
// its session is over, or its writer died. It cannot be interrupted.
func AwaitWriter(dir string) error { return durable.AwaitUnlock(filepath.Join(dir, lockName)) }

// Hold keeps writers out of dir until release is called; it fails with
// *durable.LockedError while there is one.
func Hold(dir string) (release func(), err error) {
	lock, err := durable.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}
