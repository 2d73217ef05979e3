package ledger

import (
	"path/filepath"

	"lifeloop/internal/durable"
)

// AwaitWriter returns when no process has the ledger in dir open for writing, after
// its session ended or its writer died. It cannot be interrupted.
func AwaitWriter(dir string) error { return durable.AwaitUnlock(filepath.Join(dir, lockName)) }

// Hold locks dir against writers until release is called. If a writer has it open,
// the error is *durable.LockedError.
func Hold(dir string) (release func(), err error) {
	lock, err := durable.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}
