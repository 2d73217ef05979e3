// Package durable holds the few file operations whose order matters when the
// power goes: whole-file replacement, private folders, and a lock that tells
// who holds it.
//
// It knows no format and keeps no handle but the lock's. It never deletes a
// user's file, never follows up an error with a guess, and a lock it cannot
// have is refused at once, not waited for.
//
//	err := durable.Mkdir(dir)                                     // 0700, each new level recorded in its parent
//	lock, err := durable.Lock(filepath.Join(dir, "lock"))         // *LockedError says by which process
//	defer lock.Unlock()
//	err = durable.WriteFile(filepath.Join(dir, "state"), b, 0o600) // old bytes or new bytes, never a mixture
package durable
