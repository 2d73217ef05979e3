// Package durable has file operations that are safe if the machine crashes or another
// user interferes: replacing a whole file, creating private folders, and a lock that
// names its owner. It also opens files without following a link and without waiting
// for a FIFO.
//
// It does not interpret files, and keeps no file open except the lock. It never
// deletes a user's file. Lock does not wait for another owner.
//
//	err := durable.Private(dir)                                   // 0700, and no other user can replace it
//	lock, err := durable.Lock(filepath.Join(dir, "lock"))         // *LockedError names the owner
//	defer lock.Unlock()
//	err = durable.WriteFile(filepath.Join(dir, "state"), b, 0o600) // old bytes or new bytes, never a mix
package durable
