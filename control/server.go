package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/internal/hook"
)

// A Handler answers the calls of hooks.
type Handler interface {
	// Hook is called in the connection's own goroutine and may block. If it
	// returns without an answer, an empty one is sent. ctx ends with the server.
	Hook(ctx context.Context, call *HookCall)
}

// A Server listens on a session's socket.
type Server struct {
	ln *net.UnixListener
}

// Listen creates the socket at path, whose folder must exist and be private
// ([SocketDir]). It replaces a stale socket, but not one with a listener.
func Listen(path string) (*Server, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on %s: path longer than %d bytes", path, maxPath)
	}
	if err := checkSystem(); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// Without the lock, two processes could find the same stale socket, and one
	// could remove the socket that the other has just created.
	unlock, err := lockDir(filepath.Dir(path), lockWait)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()

	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	sweep(filepath.Dir(path))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err // returned unchanged, because the error names the path
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return &Server{ln}, nil
}

// errRemoved is the error for a folder that another session removed, because no socket
// was left in the folder.
var errRemoved = errors.New("the folder for the socket was removed")

// A session holds the lock of a folder of sockets for less than a millisecond, unless it is
// suspended meanwhile. These are the times for which other processes then wait.
const (
	lockWait = 5 * time.Second // before a session is refused, because it has no socket
	tidyWait = time.Second     // before an empty folder is left where it is
)

// lockDir locks a folder of sockets. If another process holds the lock longer than wait,
// lockDir returns an error. It returns errRemoved if the folder does not exist or was
// removed meanwhile.
func lockDir(dir string, wait time.Duration) (unlock func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRemoved
	}
	if err != nil {
		return nil, err
	}
	// flock itself cannot wait for a limited time.
	deadline := time.Now().Add(wait)
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for err == unix.EWOULDBLOCK && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("another process, which may be suspended, has held the lock of %s for %v", dir, wait)
		}
		return nil, os.NewSyscallError("flock", err)
	}
	locked, err := f.Stat()
	if now, statErr := os.Stat(dir); err == nil && (statErr != nil || !os.SameFile(locked, now)) {
		err = errRemoved
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket has this name")
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		conn.Close()
		return errors.New("another process is listening there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // another error, for example a full queue, means that there is a listener
	}
	return os.Remove(path)
}

// sweep removes the stale sockets of killed processes from the folder. Other
// sessions do not replace them, because every session uses a new name. The caller
// holds the folder's lock, so no process is about to listen on one of them.
func sweep(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, name := range names {
		_ = removeStale(name) // an error means that the socket is in use or the file is not a socket; both stay
	}
}

// Path is the socket's path, the value of LIFELOOP_SOCKET for the harness.
func (s *Server) Path() string { return s.ln.Addr().String() }

// Close removes the socket, and its folder if that is in the temporary folder and
// empty. Serve then returns. Call Close even after Serve has returned.
func (s *Server) Close() error {
	err := s.ln.Close()
	tidy(filepath.Dir(s.Path()), tidyWait)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Serve accepts peers, at most 64 at a time, each with its own goroutines, until ctx
// ends or the server is closed. If 64 are connected, the next peer waits until one of
// them leaves, or until one has not sent its whole request within a second: Serve closes
// that one. At the end Serve removes the socket and closes the connections, except those
// of commands that are being executed, which still get their answers. It waits for all
// goroutines, and returns nil, or else the listener's error.
//
// From its start, and in the background, Serve removes the folders that killed sessions
// have left in the temporary folder.
func (s *Server) Serve(ctx context.Context, h Handler) error {
	var peers sync.WaitGroup
	defer peers.Wait()
	defer s.ln.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	peers.Go(func() { tidyTemp(filepath.Dir(s.Path())) }) // in the background, because a temporary folder may have very many entries
	peers.Go(func() {
		<-ctx.Done()
		s.ln.Close()
	})

	inside := newRoom()
	for {
		conn, err := s.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			// These errors are temporary: no file descriptor is free, or the peer has
			// closed. Peers wait in the socket's queue meanwhile.
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", s.Path(), err)
		}
		p := inside.enter(ctx, conn)
		if p == nil {
			conn.Close()
			return nil
		}
		peers.Go(func() {
			defer p.leave()
			serveConn(ctx, p, h)
		})
	}
}

// serveConn handles one connection. The caller closes the connection.
func serveConn(ctx context.Context, conn *peer, h Handler) {
	pid, uid, err := peerOf(conn.UnixConn)
	if err != nil || uid != os.Geteuid() {
		return
	}
	// When the context ends, conn is closed, which ends every read and write
	// below.
	stay := context.AfterFunc(ctx, func() { conn.Close() })
	defer stay()

	in := bufio.NewReaderSize(conn, maxLine)
	if conn.SetDeadline(time.Now().Add(requestTime)) != nil {
		return
	}
	var req request
	line, err := readLine(in)
	if err == nil {
		err = json.Unmarshal(line, &req)
	}
	if err != nil {
		refuse(conn, "cannot read the request: "+err.Error())
		return
	}
	doer, isDoer := h.(Doer)
	follower, isFollower := h.(Follower)
	switch {
	case req.Op == hook.OpCall, req.Op == hook.OpNotify, req.Op == opDo && isDoer, req.Op == opStream && isFollower:
	default:
		refuse(conn, fmt.Sprintf("unknown op %q", req.Op))
		return
	}
	if req.Event == "" || len(req.Event) > maxEvent {
		refuse(conn, fmt.Sprintf("event name of %d bytes, want 1 to %d", len(req.Event), maxEvent))
		return
	}
	body, err := readBody(in, req.Bytes)
	if err != nil {
		refuse(conn, "cannot read the input: "+err.Error())
		return
	}
	if conn.SetDeadline(time.Time{}) != nil {
		return
	}
	conn.complete()

	if req.Op == opStream {
		follower.Follow(ctx, Stream{Key: req.Key, Event: req.Event, PID: pid, Records: records(in, conn.UnixConn), Send: sender(conn.UnixConn)})
		return
	}
	if req.Op == opDo {
		if stay() { // keeps conn open when ctx ends, so that the answer of Do can still be sent
			answer := doer.Do(ctx, Command{Name: req.Event, Input: body, Token: req.Key, PID: pid})
			_ = conn.SetWriteDeadline(time.Now().Add(timeToReply(answer)))
			_ = send(conn, reply{Bytes: len(answer)}, answer) // ignore the error: the peer may have closed
		}
		return
	}
	call := &HookCall{
		Hook: Hook{Key: req.Key, Event: req.Event, Input: body, PID: pid, OneWay: req.Op == hook.OpNotify},
		conn: conn.UnixConn, gone: make(chan struct{}), acked: make(chan struct{}),
	}
	var listening sync.WaitGroup
	listening.Go(func() { call.listen(in) })
	h.Hook(ctx, call)
	call.Answer(nil)
	conn.Close() // ends call.listen, which reads from conn
	listening.Wait()
}

// timeToReply returns the time in which a peer must read this answer: replyTime, and
// another second for each MiB.
func timeToReply(answer []byte) time.Duration {
	return replyTime + time.Duration(len(answer)>>20)*time.Second
}

// send writes a request or a reply and the body that it announces, in one Write.
func send(conn net.Conn, head any, body []byte) error {
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(append(line, '\n'), body...))
	return err
}

// refuse sends an error. Errors of sending are ignored, because the peer may
// have closed.
func refuse(conn net.Conn, why string) { _ = send(conn, reply{Error: why}, nil) }

// readLine returns one line, which must fit into r's buffer. It is valid until
// the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("line longer than %d bytes", r.Size())
	}
	if err == io.EOF && len(line) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return line, err
}

// readBody reads exactly n bytes. It allocates memory only for bytes that arrive, so
// that a peer that announces many bytes and sends few uses little memory.
func readBody(r io.Reader, n int) ([]byte, error) {
	if n < 0 || n > MaxBody {
		return nil, fmt.Errorf("body of %d bytes, want at most %d", n, MaxBody)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, err
	}
	if len(body) < n {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}
