//go:build !linux

package dispatch

import (
	"fmt"
	"runtime"
)

// A client must end with the wrapper and its exit must be visible in poll(2):
// only Linux has a parent-death signal and pidfds. Elsewhere no client process
// starts; a [Func] works everywhere.

var errSystem = fmt.Errorf("client programs are not supported on %s", runtime.GOOS)

func (cfg *Config) fork(string, [3]int) (pid, pidfd int, err error) { return -1, -1, errSystem }
func newEvent() (int, error)                                        { return -1, errSystem }
func pipe() (r, w int, err error)                                   { return -1, -1, errSystem }
func hasExited(int) bool                                            { return true }
func awaitExit(int)                                                 {}
