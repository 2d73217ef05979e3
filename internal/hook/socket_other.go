//go:build !linux

package hook

import (
	"errors"
	"runtime"
	"time"
)

// No session runs on other systems, so a hook cannot connect. It fails open as
// on Linux.

var errSystem = errors.New("hooks are not supported on " + runtime.GOOS)

type conn struct{ stream }

func dial(string, time.Time) (conn, error) { return conn{}, errSystem }
func (conn) close()                        {}

func newMemory() (fd int, err error) { return -1, errSystem }
func replaceStdin(int, []byte)       {}
