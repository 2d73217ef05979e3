package control

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// These limits apply to all peers of a server together. They prevent a process that
// connects in a loop from exhausting the wrapper's memory and descriptors.
const (
	maxPeers = 64
	maxHeld  = 32 << 20 // the largest size of all requests together, in bytes
	// idleTime is how long a peer may take to send its request before another one
	// may take its place.
	idleTime = time.Second
)

var errHeld = errors.New("the pending requests together have more than 32 MiB; try again later")

// A room holds the connected peers of a server and limits them.
type room struct {
	mu      sync.Mutex // guards the fields below, and the fields of the peers
	changed *sync.Cond
	peers   []*peer // in the order of their arrival
	held    int     // the sum of peer.held over all peers
}

func newRoom() *room {
	r := &room{}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// A peer is one connection. It reads from the connection and counts the bytes.
type peer struct {
	*net.UnixConn
	room *room
	came time.Time
	held int  // the number of bytes of the request that were read
	busy bool // the peer's request is complete, and the peer waits for the answer
}

// enter waits for a place and takes it. If there is none, the oldest peer that did not
// send its request within idleTime loses its place. If ctx ends first, enter returns
// nil.
func (r *room) enter(ctx context.Context, conn *net.UnixConn) *peer {
	stop := context.AfterFunc(ctx, r.wake)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.peers) >= maxPeers && ctx.Err() == nil {
		idle := r.idle(nil)
		if idle != nil && time.Since(idle.came) >= idleTime {
			r.drop(idle)
			break
		}
		wait := idleTime
		if idle != nil {
			wait = time.Until(idle.came.Add(idleTime))
		}
		later := time.AfterFunc(wait, r.wake)
		r.changed.Wait()
		later.Stop()
	}
	if ctx.Err() != nil {
		return nil
	}
	p := &peer{UnixConn: conn, room: r, came: time.Now()}
	r.peers = append(r.peers, p)
	return p
}

func (r *room) wake() {
	r.mu.Lock() // lock, so that the broadcast happens either before enter's check or during enter's wait
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// idle returns the oldest peer, except the given one, that has not sent its whole
// request; nil if there is none. A peer with bytes that were not read yet is not idle.
func (r *room) idle(but *peer) *peer {
	i := slices.IndexFunc(r.peers, func(p *peer) bool { return !p.busy && p != but && !p.unread() })
	if i < 0 {
		return nil
	}
	return r.peers[i]
}

// unread reports whether the connection has bytes that were not read yet.
func (p *peer) unread() (some bool) {
	raw, err := p.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		some = err == nil && n > 0
	})
	return some
}

// drop closes a peer and frees its place.
func (r *room) drop(p *peer) {
	p.Close()
	if i := slices.Index(r.peers, p); i >= 0 {
		r.peers = slices.Delete(r.peers, i, i+1)
		r.held -= p.held
		r.changed.Broadcast()
	}
}

func (p *peer) leave() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.room.drop(p)
}

// complete records that the whole request was read.
func (p *peer) complete() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.busy = true
}

// Read counts the bytes that it reads. If all requests together become too large,
// the oldest idle peers lose their places; if there are none, Read returns an
// error.
func (p *peer) Read(b []byte) (int, error) {
	n, err := p.UnixConn.Read(b)
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held+n > maxHeld {
		idle := r.idle(p)
		if idle == nil {
			return 0, errHeld
		}
		r.drop(idle)
	}
	if slices.Contains(r.peers, p) {
		p.held += n
		r.held += n
	}
	return n, err
}
