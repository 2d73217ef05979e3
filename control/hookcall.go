package control

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lifeloop/internal/hook"
)

// A HookCall is one hook that waits for its answer.
type HookCall struct {
	Event string
	Input []byte // what the harness gave the hook on stdin, untouched
	// Told means that the peer wants no answer and may have left already.
	Told bool

	conn  *net.UnixConn
	gone  chan struct{} // closed by listen
	acked chan struct{} // closed by listen

	turn     sync.Mutex  // held while an answer is under way, so that Serve waits for it
	answered atomic.Bool // set under turn; tells listen an ok from one said too early
}

// Gone is closed if the peer hangs up before it has acknowledged an answer.
func (c *HookCall) Gone() <-chan struct{} { return c.gone }

// Answer sends out and reports whether the peer wrote it whole to a harness
// that still listened. It blocks until the peer says so, for at most 2 s. Only
// the first answer counts, and it may come from any goroutine; later ones, and
// answers of more than [MaxBody] bytes, are not delivered.
func (c *HookCall) Answer(out []byte) (delivered bool) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.answered.Swap(true) || c.Told {
		return false
	}
	fits := len(out) <= MaxBody
	if !fits {
		out = nil // the peer shall not wait for what will not come
	}
	message, err := json.Marshal(reply{Bytes: len(out)})
	if err != nil {
		return false
	}
	message = append(append(message, '\n'), out...)
	if c.conn.SetDeadline(time.Now().Add(replyTime)) != nil {
		return false
	}
	if _, err := c.conn.Write(message); err != nil {
		return false
	}
	select {
	case <-c.acked:
		return fits
	case <-c.gone: // also when the deadline ends listen's read
		return false
	}
}

// listen reads what the peer says after its request: "ok" after an answer.
// Anything else, and the end of the connection, means that nobody waits.
func (c *HookCall) listen(in *bufio.Reader) {
	line, err := in.ReadSlice('\n')
	if err == nil && string(line) == hook.Ack && c.answered.Load() {
		close(c.acked)
		return
	}
	close(c.gone)
}
