package control

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lifeloop/internal/hook"
)

// A Hook is the request that a hook sent.
type Hook struct {
	Key   string // the secret of the launch that injected the hook; other processes may send any value
	Event string
	Input []byte // the input that the harness wrote to the hook's stdin, unchanged
	PID   int    // the process that connected
	// OneWay means that the peer wants no answer and may have closed already.
	OneWay bool
}

// A HookCall is one call of a hook. The hook waits for an answer unless OneWay is set.
type HookCall struct {
	Hook

	conn  *net.UnixConn
	gone  chan struct{} // closed by listen when the peer no longer waits
	acked chan struct{} // closed by listen when the peer has acknowledged the answer

	turn     sync.Mutex  // held while an answer is sent, so that the server does not close the connection meanwhile
	answered atomic.Bool // set before an answer is sent; an ok that arrives earlier is not an acknowledgement
}

// Gone is closed when the peer no longer waits for an answer: it closed the connection,
// sent anything other than an acknowledgement, or sent none in time.
func (c *HookCall) Gone() <-chan struct{} { return c.gone }

// Answer sends the bytes of out to the peer. It reports whether the peer wrote them all to
// the harness while the harness was still reading. It waits for the peer's acknowledgement
// for up to 2 s, and another second for each MiB of the answer. An empty answer has no
// acknowledgement. Any goroutine may call Answer. Only the first answer is sent; a
// later answer, or one of more than [MaxBody] bytes, is not delivered.
func (c *HookCall) Answer(out []byte) (delivered bool) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.answered.Swap(true) || c.OneWay {
		return false
	}
	fits := len(out) <= MaxBody
	if !fits {
		out = nil // send an empty answer, so that the peer does not wait
	}
	if c.conn.SetDeadline(time.Now().Add(timeToReply(out))) != nil || send(c.conn, reply{Bytes: len(out)}, out) != nil {
		return false
	}
	if len(out) == 0 {
		return fits
	}
	select {
	case <-c.acked:
		return fits
	case <-c.gone: // the peer closed, sent anything but an ok, or sent nothing in time
		return false
	}
}

// listen reads what the peer sends after its request. It closes acked after an "ok"
// that follows an answer. Any other input, or the end of the connection, means that
// the peer no longer waits; listen then closes gone.
func (c *HookCall) listen(in *bufio.Reader) {
	line, err := in.ReadSlice('\n')
	if err == nil && string(line) == hook.Ack && c.answered.Load() {
		close(c.acked)
		return
	}
	close(c.gone)
}
