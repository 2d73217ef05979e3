//go:build linux

package harness

import (
	"bytes"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Wait waits without limit for a reader that has stalled, because all output must
// arrive. Abandon ends that wait.
func TestAStalledReaderIsAbandoned(t *testing.T) {
	socket := func(t *testing.T) (ours, theirs *os.File) { // a socket, because it cannot be opened again through /proc
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	}
	pipe := func(t *testing.T) (ours, theirs *os.File) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		return r, w
	}
	for name, open := range map[string]func(*testing.T) (ours, theirs *os.File){"pipe": pipe, "socket": socket} {
		for _, mode := range []Mode{Never, Always} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				for !abandoned(t, open, mode) {
					t.Log("the reader's buffer had room for all output: again")
				}
			})
		}
	}
}

// abandoned runs a child that prints without end to a reader that does not read. When the
// reader's buffer has stopped filling, abandoned kills the child. If Wait then waits for
// the reader, abandoned calls Abandon and returns true. But the buffer may have had room
// for everything that the child printed until then. In that case Wait returns without
// Abandon, and abandoned returns false.
func abandoned(t *testing.T, open func(*testing.T) (ours, theirs *os.File), mode Mode) bool {
	reader, stdout := open(t)
	// The abandoned pump uses the descriptor number of stdout. The number must not be
	// reused before the pump has got its error.
	defer func() {
		require.NoError(t, reader.Close())
		eventually(t, "the abandoned pump is over", func() bool { return !pumping() })
		require.NoError(t, stdout.Close())
	}()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	term, err := OpenTerminal(null, stdout, stdout, mode)
	require.NoError(t, err)
	defer term.Close()
	c, err := Start(sh("yes"), term, &recorder{})
	require.NoError(t, err)
	held, since := 0, time.Now()
	eventually(t, "the reader's buffer is full", func() bool {
		now, err := unix.IoctlGetInt(fdOf(reader), unix.TIOCINQ)
		require.NoError(t, err)
		if now != held { // the buffer still fills, which may be slow on a busy machine
			held, since = now, time.Now()
		}
		return held > 0 && time.Since(since) > 200*time.Millisecond
	})
	begin := time.Now()
	eventually(t, "output that waits for a stalled reader is seen", func() bool { return c.LastOutput().After(begin) })
	require.NoError(t, c.KillTree())
	ended := make(chan Exit, 1)
	go func() { ended <- c.Wait() }()
	<-c.endCh
	select {
	case <-ended:
		require.False(t, pumping(), "Wait returned before Abandon, and output is not written")
		return false
	case <-time.After(50 * time.Millisecond):
	}
	c.Abandon()
	require.Equal(t, unix.SIGKILL, (<-ended).Signal)
	return true
}

// pumping reports whether a pump runs.
func pumping() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*Child).pump("))
}
