// Package durable has the file operations whose order matters in a crash: replacing
// a whole file, creating private folders, and a lock that names its owner.
//
// It knows no format and holds no file open but the lock. It never deletes a user's
// file, never guesses after an error, and does not wait for a lock.
//
//	err := durable.Mkdir(dir)                                     // 0700, each new folder synced in its parent
//	lock, err := durable.Lock(filepath.Join(dir, "lock"))         // *LockedError names the owner
//	defer lock.Unlock()
//	err = durable.WriteFile(filepath.Join(dir, "state"), b, 0o600) // old bytes or new bytes, never a mix
package durable
