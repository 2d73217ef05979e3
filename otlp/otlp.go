// Package otlp is a loopback receiver of OTLP/HTTP. It delivers the telemetry that
// a harness exports, body by body in order, and forwards each body unchanged to the
// receiver of the user's own telemetry.
//
// It does not interpret the bodies. It never delays the harness: it answers a request
// as soon as the request is read, even if the callback or the user's receiver is slow. A
// body that does not fit into the limited queues is dropped and reported.
//
//	r, err := otlp.New(otlp.Config{Deliver: deliver, Path: secret})
//	launch the harness with its exporter at r.Endpoint()
//	err = r.Run(ctx) // until ctx ends and every received body is delivered
package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Signal is one of OTLP's kinds of telemetry: the last element of a request's path.
type Signal string

const (
	Logs    Signal = "logs"
	Metrics Signal = "metrics"
	Traces  Signal = "traces"
)

// Config configures a Receiver. A size of zero means the default.
type Config struct {
	// Deliver is called with each body, one at a time, on a goroutine that Run
	// starts.
	Deliver func(Body)
	// Lost is called for each body that is dropped, possibly from several
	// goroutines.
	Lost func(Loss)
	// Path precedes `/v1/logs` in the address. Every program on this machine can
	// reach the port; only requests with the path are accepted.
	Path string
	// MaxBody is the maximum size of a body in bytes, both as received and after
	// decompression; the default is 8 MiB.
	MaxBody int64
	// MaxWaiting limits the bytes that wait for delivery, and separately those
	// that wait for forwarding; the default is 32 MiB.
	MaxWaiting int64
}

const (
	forwardTime = 5 * time.Second // time-out of one forwarded request
	// restTime is the time-out for all requests that still wait to be forwarded
	// when Run ends.
	restTime = time.Second
)

// A Target is the address to which a signal is forwarded.
type Target struct {
	URL string // the complete address; nothing is appended
	// Header is added to each request and replaces received headers with the same
	// names.
	Header map[string]string
}

// A Body is the body of one request, decompressed.
type Body struct {
	Signal Signal
	JSON   bool // the body is JSON; otherwise it is protobuf
	Data   []byte
}

// A Loss is a body that did not reach its destination.
type Loss struct {
	Signal   Signal
	Upstream bool // the destination: true for the upstream target, false for Config.Deliver
	Why      string
}

// A Receiver listens as soon as New returns, and answers while Run runs.
type Receiver struct {
	cfg      Config
	upstream map[Signal]Target
	listener net.Listener
	client   *http.Client
	inbound  *queue[Body]
	outbound *queue[passed]
}

// passed is a received request that is to be forwarded.
type passed struct {
	signal Signal
	header http.Header
	raw    []byte
}

// New opens a port of the loopback interface. If Run is never called, call
// Close.
func New(cfg Config) (*Receiver, error) {
	if cfg.Deliver == nil {
		return nil, errors.New("otlp receiver: Config.Deliver is nil")
	}
	if strings.Trim(cfg.Path, "/") != cfg.Path {
		return nil, fmt.Errorf("otlp receiver: path %q begins or ends with a slash", cfg.Path)
	}
	if cfg.Lost == nil {
		cfg.Lost = func(Loss) {}
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 8<<20)
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, 32<<20)
	if cfg.Path != "" {
		cfg.Path = "/" + cfg.Path
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("otlp receiver: %w", err)
	}
	return &Receiver{
		cfg: cfg, listener: listener,
		client: &http.Client{
			Timeout:       forwardTime,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		inbound:  newQueue[Body](cfg.MaxWaiting),
		outbound: newQueue[passed](cfg.MaxWaiting),
	}, nil
}

// PassOn sets the target to which each signal is forwarded. A signal without an
// entry is not forwarded. Call it before Run.
func (r *Receiver) PassOn(upstream map[Signal]Target) error {
	for signal, to := range upstream {
		u, err := url.Parse(to.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			// The error does not contain the address, which may contain a secret.
			return fmt.Errorf("otlp receiver: the address that %s are forwarded to is not an http or https URL", signal)
		}
	}
	r.upstream = upstream
	return nil
}

// Endpoint returns the base address for an exporter, which appends `/v1/logs` to
// it.
func (r *Receiver) Endpoint() string {
	return "http://" + r.listener.Addr().String() + r.cfg.Path
}

// Close closes the port. It must be called if Run is never called.
func (r *Receiver) Close() error { return r.listener.Close() }

// Run answers until ctx ends. Then it accepts no more requests, delivers the received
// ones, forwards waiting ones for at most restTime, and returns.
func (r *Receiver) Run(ctx context.Context) error {
	var requests sync.WaitGroup
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			requests.Add(1)
			defer requests.Done()
			r.serve(w, req)
		}), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	var serving, passing sync.WaitGroup
	var failed error
	serving.Go(func() {
		if err := server.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
			failed = fmt.Errorf("otlp receiver: %w", err)
		}
	})
	serving.Go(func() {
		for body, ok := r.inbound.pop(); ok; body, ok = r.inbound.pop() {
			r.cfg.Deliver(body)
		}
	})
	// Forwarding continues after ctx has ended, until no request is left or cut is
	// called.
	outward, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	passing.Go(func() {
		for p, ok := r.outbound.pop(); ok; p, ok = r.outbound.pop() {
			r.pass(outward, p)
		}
	})

	<-ctx.Done()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	if server.Shutdown(last) != nil {
		server.Close() // some exporter has not finished its request in time
	}
	stop()
	requests.Wait()
	r.inbound.close()
	r.outbound.close()
	serving.Wait()
	late := time.AfterFunc(restTime, cut)
	passing.Wait()
	late.Stop()
	r.client.CloseIdleConnections()
	return failed
}

// serve takes one request and answers it as OTLP/HTTP requires.
func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	isJSON := kind == "application/json"
	refuse := func(code int, why string) { answer(w, isJSON, code, why) }

	name, ok := strings.CutPrefix(req.URL.Path, r.cfg.Path+"/v1/")
	signal := Signal(name)
	if !ok || signal != Logs && signal != Metrics && signal != Traces {
		refuse(http.StatusNotFound, "no such address")
		return
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "only POST is allowed")
		return
	}
	if !isJSON && kind != "application/x-protobuf" {
		refuse(http.StatusUnsupportedMediaType, "the body is neither application/json nor application/x-protobuf")
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.cfg.MaxBody))
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			r.cfg.Lost(Loss{Signal: signal, Why: "the body is larger than the limit"})
			refuse(http.StatusRequestEntityTooLarge, "the body is too large")
			return
		}
		refuse(http.StatusBadRequest, "the body is incomplete")
		return
	}
	// The user's own telemetry has priority: a request is forwarded even if it
	// cannot be decompressed here.
	if _, ok := r.upstream[signal]; ok && !r.outbound.push(passed{signal, req.Header, raw}, int64(len(raw))) {
		r.cfg.Lost(Loss{Signal: signal, Upstream: true, Why: "the queue for forwarding is full"})
	}
	data, code, why := unpack(raw, req.Header.Get("Content-Encoding"), r.cfg.MaxBody)
	if code != 0 {
		r.cfg.Lost(Loss{Signal: signal, Why: why})
		refuse(code, why)
		return
	}
	if !r.inbound.push(Body{signal, isJSON, data}, int64(len(data))) {
		r.cfg.Lost(Loss{Signal: signal, Why: "the queue for delivery is full"})
	}
	answer(w, isJSON, http.StatusOK, "")
}

// unpack decompresses a body. A code other than 0 rejects it.
func unpack(raw []byte, encoding string, limit int64) (data []byte, code int, why string) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return raw, 0, ""
	case "gzip":
	default:
		return nil, http.StatusUnsupportedMediaType, "the content encoding is not supported"
	}
	zipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, http.StatusBadRequest, "the body is not valid gzip"
	}
	data, err = io.ReadAll(io.LimitReader(zipped, limit+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest, "the body is not valid gzip"
	case int64(len(data)) > limit:
		return nil, http.StatusRequestEntityTooLarge, "the decompressed body is too large"
	}
	return data, 0, ""
}

// answer writes a response in the request's own format: an empty export
// response, or a Status with the reason.
func answer(w http.ResponseWriter, isJSON bool, code int, why string) {
	var body []byte
	if isJSON {
		w.Header().Set("Content-Type", "application/json")
		body = []byte("{}")
		if why != "" {
			body = []byte(`{"message":"` + why + `"}`) // the reason is a constant of this package and needs no escaping
		}
	} else {
		w.Header().Set("Content-Type", "application/x-protobuf")
		if why != "" { // a google.rpc.Status in protobuf; the message is field 2
			body = append([]byte{2<<3 | 2, byte(len(why))}, why...)
		}
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // the exporter may have closed the connection
}

// hopByHop lists the headers that are not forwarded: those of the connection, and two
// that the HTTP client sets itself.
var hopByHop = [...]string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host"}

// pass forwards the body and the end-to-end headers of one request, and sets the headers
// of the target. It tries only once, because a retry would delay the waiting requests.
func (r *Receiver) pass(ctx context.Context, p passed) {
	to := r.upstream[p.signal]
	err := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(p.raw))
		if err != nil {
			return errors.New("the address to forward to is invalid")
		}
		maps.Copy(req.Header, p.header)
		for _, named := range p.header["Connection"] { // Connection names more headers that must not be forwarded
			for key := range strings.SplitSeq(named, ",") {
				req.Header.Del(strings.TrimSpace(key))
			}
		}
		for _, key := range hopByHop {
			req.Header.Del(key)
		}
		for key, value := range to.Header {
			req.Header.Set(key, value)
		}
		resp, err := r.client.Do(req)
		if err != nil {
			return errors.New("no answer") // the text of the error would contain the address, which may contain a secret
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("the upstream server answered with status %d", resp.StatusCode)
		}
		return nil
	}()
	if err != nil {
		r.cfg.Lost(Loss{Signal: p.signal, Upstream: true, Why: err.Error()})
	}
}
