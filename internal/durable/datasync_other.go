//go:build unix && !linux

package durable

import "os"

// Datasync makes the content of f durable. On this system it uses a full fsync.
func Datasync(f *os.File) error { return f.Sync() }
