package control

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// A Stream is a peer that sends records, one per line, until it closes.
type Stream struct {
	Key   string // the secret of the launch that started the peer
	Event string // the event that the peer's request names, such as "plugin"
	PID   int    // the process that connected
	// Records yields each line that the peer sends after its request, without the line's
	// end. A line is valid until the next line is read. A line of more than 64 KiB ends
	// the stream.
	Records func(yield func(record []byte) bool)
	// Send sends a line to the peer, which must read it within two seconds.
	Send func(line []byte) error
}

// A Follower is a Handler that also reads streams. Follow is called in the
// connection's own goroutine. The records end when the peer closes or ctx ends.
type Follower interface {
	Follow(ctx context.Context, s Stream)
}

// maxRecord is the largest size in bytes of a line of a stream.
const maxRecord = 64 << 10

// sender returns a function that sends lines, one at a time.
func sender(conn *net.UnixConn) func(line []byte) error {
	var mu sync.Mutex // held while a line is written
	return func(line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if err := conn.SetWriteDeadline(time.Now().Add(replyTime)); err != nil {
			return err
		}
		_, err := conn.Write(append(bytes.Clone(line), '\n'))
		return err
	}
}

// records returns an iterator over the lines that follow a request. It reads the bytes
// that are buffered in the bufio.Reader, and then conn. It does not use peer.Read, which
// counts all bytes as bytes of the request.
func records(in *bufio.Reader, conn *net.UnixConn) func(yield func([]byte) bool) {
	read, _ := in.Peek(in.Buffered()) // exactly the bytes that were already read into the buffer
	rest := io.MultiReader(bytes.NewReader(bytes.Clone(read)), conn)
	return func(yield func([]byte) bool) {
		lines := bufio.NewScanner(rest)
		lines.Buffer(nil, maxRecord)
		for lines.Scan() {
			if !yield(lines.Bytes()) {
				return
			}
		}
	}
}
