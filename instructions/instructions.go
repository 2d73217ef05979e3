// Package instructions serves the URL that a harness reads before each request to
// its model. The harness waits for the answer, which becomes a part of that request.
//
// The harness sends the URL to the model, so the URL cannot contain a secret. Instead the
// server asks the system which process is at the other end of a connection, and
// answers only the launched harness. For the request of another process it calls
// foreign, and answers with an empty text. The server neither interprets nor stores
// the texts.
//
//	s, err := instructions.Listen()
//	launch the harness with s.URL() in its instructions
//	err = s.Serve(ctx, pid, func(ctx context.Context, r *instructions.Reading) { r.Answer(text) }, foreign)
package instructions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// path is the path of the URL. The model sees the path.
const path = "/instructions"

// A Server listens as soon as Listen returns, and answers while Serve runs.
type Server struct {
	listener net.Listener

	mu     sync.Mutex // guards reader
	reader int        // pid of the process that may read; 0 before the harness's first request
}

// Listen opens a port of the loopback interface. Listen fails if the system does not
// show which process a connection belongs to. If Serve is never called, call Close.
func Listen() (*Server, error) {
	if err := checkSystem(); err != nil {
		return nil, fmt.Errorf("serve instructions: %w", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve instructions: %w", err)
	}
	return &Server{listener: listener}, nil
}

// URL returns the address for the harness.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + path }

// Close closes the port. Serve closes it too.
func (s *Server) Close() { _ = s.listener.Close() }

// A Reading is one request of the harness for the URL. The harness waits for
// the answer.
type Reading struct {
	w         http.ResponseWriter
	ctx       context.Context
	answered  bool
	delivered bool
}

// Gone returns a channel that is closed when the harness stops waiting.
func (r *Reading) Gone() <-chan struct{} { return r.ctx.Done() }

// Answer sends the text and reports whether it was written while the harness still
// waited for it. Only the first call has an effect.
func (r *Reading) Answer(text []byte) (delivered bool) {
	if r.answered {
		return r.delivered
	}
	r.answered = true
	r.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	r.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	r.w.Header().Set("Cache-Control", "no-store")
	_, err := r.w.Write(text)
	if err == nil {
		err = http.NewResponseController(r.w).Flush()
	}
	r.delivered = err == nil && r.ctx.Err() == nil
	return r.delivered
}

// Serve calls handle for each reading by the harness, until ctx ends. The harness
// is the process pid, or the first process below it that reads. If handle returns
// without an answer, the answer is empty. foreign is called for the reading of any
// other process.
func (s *Server) Serve(ctx context.Context, pid int, handle func(ctx context.Context, r *Reading), foreign func()) error {
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			reading := &Reading{w: w, ctx: request.Context()}
			switch {
			case request.Method != http.MethodGet || request.URL.Path != path:
				http.NotFound(w, request)
				return
			case !s.accepts(pid, request.RemoteAddr):
				foreign()
			default:
				handle(request.Context(), reading)
			}
			reading.Answer(nil)
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(s.listener)
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve instructions: %w", err)
}

// accepts reports whether the process at the other end of a connection is the harness.
// Of the process pid and the processes below pid, the first that connects is the harness.
// All other processes below pid are tools of the harness, such as another harness.
func (s *Server) accepts(pid int, remote string) bool {
	theirs, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	ours := s.listener.Addr().(*net.TCPAddr).AddrPort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != 0 {
		return owns(s.reader, theirs, ours)
	}
	s.reader = owner(pid, theirs, ours)
	return s.reader != 0
}
