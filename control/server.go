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

// A Handler answers what comes in by the door.
type Handler interface {
	// Hook is called in the connection's own goroutine and may block until it
	// can answer. If it returns without having answered, an empty answer is
	// sent. ctx ends with the server.
	Hook(ctx context.Context, call *HookCall)
}

// A Server is an open door.
type Server struct {
	ln *net.UnixListener
}

// Listen opens the door at path, whose folder must be there and private
// ([SocketDir]). The socket of a dead process is replaced, that of a living
// one is not.
func Listen(path string) (*Server, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on %s: path longer than %d bytes", path, maxPath)
	}
	if err := checkSystem(); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// Two starting processes must not both find the same dead socket and each
	// remove what the other has just put there.
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()

	if err := removeDead(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	sweep(filepath.Dir(path))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err // it names the path
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return &Server{ln}, nil
}

func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	return func() { f.Close() }, nil
}

func removeDead(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is no socket is in the way")
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		conn.Close()
		return errors.New("another process is listening there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // a full queue, say: somebody is alive
	}
	return os.Remove(path)
}

// sweep removes the sockets that killed processes left in the folder: nobody
// else would, for every session has a new name. The folder is locked, so
// nobody is about to listen on one of them.
func sweep(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, name := range names {
		_ = removeDead(name) // a living one, or something that is no socket, stays
	}
}

// Path is where the door is: what a harness is given as LIFELOOP_SOCKET.
func (s *Server) Path() string { return s.ln.Addr().String() }

// Close shuts the door and removes the socket. Serve returns; calling Close
// again, or after Serve has returned, does no harm.
func (s *Server) Close() error {
	if err := s.ln.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve lets peers in, one goroutine each, until ctx ends or the server is
// closed. Then it hangs up on whoever is still there, waits for all of them,
// and returns nil; any other error of the listener is returned as it is.
func (s *Server) Serve(ctx context.Context, h Handler) error {
	var peers sync.WaitGroup
	defer peers.Wait()
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	peers.Go(func() {
		<-ctx.Done()
		s.Close()
	})

	for {
		conn, err := s.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			// Passing troubles of the process, or of the peer. The caller
			// waits in the queue meanwhile.
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", s.Path(), err)
		}
		peers.Go(func() { serveConn(ctx, conn, h) })
	}
}

// serveConn has one conversation. It owns conn.
func serveConn(ctx context.Context, conn *net.UnixConn, h Handler) {
	defer conn.Close()
	if uid, err := peerUID(conn); err != nil || uid != os.Geteuid() {
		return
	}
	// Ending the context hangs up, which ends every read and write here.
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
	doer, does := h.(Doer)
	switch {
	case req.Op == hook.OpAsk, req.Op == hook.OpTell, req.Op == opDo && does:
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

	if req.Op == opDo {
		if stay() { // Do ends with ctx, and says so to whoever asked
			send(conn, doer.Do(ctx, req.Event, body))
		}
		return
	}
	call := &HookCall{
		Event: req.Event, Input: body, Told: req.Op == hook.OpTell,
		conn: conn, gone: make(chan struct{}), acked: make(chan struct{}),
	}
	var listening sync.WaitGroup
	listening.Go(func() { call.listen(in) })
	h.Hook(ctx, call)
	call.Answer(nil)
	conn.Close() // ends listen
	listening.Wait()
}

// send gives the answer to a command. The peer may be gone: nobody minds.
func send(conn *net.UnixConn, body []byte) {
	line, err := json.Marshal(reply{Bytes: len(body)})
	if err != nil || conn.SetWriteDeadline(time.Now().Add(replyTime)) != nil {
		return
	}
	_, _ = conn.Write(append(append(line, '\n'), body...))
}

// refuse says what was wrong. The peer may be gone: nobody minds.
func refuse(conn *net.UnixConn, why string) {
	line, err := json.Marshal(reply{Error: why})
	if err != nil {
		return
	}
	_, _ = conn.Write(append(line, '\n'))
}

// readLine reads one line, which must fit r's buffer and stays there until the
// next read.
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

// readBody reads exactly n bytes. It makes room as they come: a peer that only
// says a large number gets no memory for it.
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
