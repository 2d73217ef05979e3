//go:build !linux

package dispatch

import (
	"fmt"
	"runtime"
)

// A client must end when the wrapper ends, and poll(2) must report the client's
// exit. Both need features that only Linux has: the parent-death signal and pidfds.
// On other systems no client process starts; a [Func] works everywhere.

var errSystem = fmt.Errorf("client programs are not supported on %s", runtime.GOOS)

func (cfg *Config) fork(string, [3]int) (pid, pidfd int, err error) { return -1, -1, errSystem }
func newEvent() (int, error)                                        { return -1, errSystem }
func pipe() (r, w int, err error)                                   { return -1, -1, errSystem }
func hasExited(int) bool                                            { return true }
func awaitExit(int)                                                 {}
