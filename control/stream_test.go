package control

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// follows is a Follower that records the streams that it reads.
type follows struct{ got chan followed }

type followed struct {
	key, event string
	pid        int
	records    []string
}

func (follows) Hook(context.Context, *HookCall) {}

func (f follows) Follow(_ context.Context, s Stream) {
	in := followed{key: s.Key, event: s.Event, pid: s.PID}
	for record := range s.Records {
		in.records = append(in.records, string(record))
	}
	f.got <- in
}

// served serves a handler until the test ends, and returns a connection.
func served(t *testing.T, h Handler) net.Conn {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "stream-") // a socket's address holds 108 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	server, err := Listen(filepath.Join(dir, "s.sock"))
	require.NoError(t, err)
	over := make(chan error, 1)
	go func() { over <- server.Serve(context.Background(), h) }()
	conn, err := net.Dial("unix", server.Path())
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		server.Close()
		require.NoError(t, <-over)
	})
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

const streamRequest = `{"op":"stream","key":"k","event":"plugin","bytes":0}` + "\n"

// A stream yields the lines after its request in order, wherever the writes
// split them.
func TestStream(t *testing.T) {
	f := follows{make(chan followed, 1)}
	conn := served(t, f)
	write(t, conn, streamRequest+"one\ntw")
	write(t, conn, "o\n")
	long := strings.Repeat("x", maxRecord-2)
	write(t, conn, long+"\nlast")
	conn.Close()
	require.Equal(t, followed{"k", "plugin", os.Getpid(), []string{"one", "two", long, "last"}}, <-f.got)
}

// A stream may be longer than the limit for all requests together.
func TestLongStream(t *testing.T) {
	f := follows{make(chan followed, 1)}
	conn := served(t, f)
	write(t, conn, streamRequest)
	record := strings.Repeat("x", maxRecord/2) + "\n"
	n := 2 * maxHeld / len(record)
	for range n {
		write(t, conn, record)
	}
	conn.Close()
	require.Len(t, (<-f.got).records, n)
}

// A line that is too long ends the stream, and the records before it were read.
func TestStreamEnds(t *testing.T) {
	f := follows{make(chan followed, 1)}
	conn := served(t, f)
	write(t, conn, streamRequest+"one\n"+strings.Repeat("x", maxRecord+1))
	require.Equal(t, []string{"one"}, (<-f.got).records)
}

// hooksOnly serves no streams.
type hooksOnly struct{}

func (hooksOnly) Hook(context.Context, *HookCall) {}

func TestStreamIsRefused(t *testing.T) {
	conn := served(t, hooksOnly{})
	write(t, conn, streamRequest)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), `unknown op \"stream\"`)
}
