// Package otlp is a loopback receiver of OTLP/HTTP: what a harness exports as
// telemetry, it hands over, body by body in the order in which they came, and
// passes each on unchanged to where the user's own telemetry goes.
//
// It reads no body. It refuses to be in the way: a request is answered when it
// has been read, whoever is slow behind it. What does not fit into its bounded
// queues is lost, counted and told, and never waited for.
//
//	r, err := otlp.New(otlp.Config{Deliver: deliver, Path: secret})
//	launch the harness with its exporter at r.Endpoint()
//	err = r.Run(ctx) // until ctx ends and what came in is handed over
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Signal is one of OTLP's kinds of telemetry, as its path names it.
type Signal string

const (
	Logs    Signal = "logs"
	Metrics Signal = "metrics"
	Traces  Signal = "traces"
)

// Config is fixed for the life of a Receiver. Zero sizes and times mean the
// defaults.
type Config struct {
	// Deliver takes each body, one at a time, on a goroutine of Run's.
	Deliver func(Body)
	// Lost is told of each body that was given up. It may be called from
	// several goroutines.
	Lost func(Loss)
	// Path is what stands before `/v1/logs` in the address. Everybody on this
	// machine can reach a port: who does not know the path is not heard.
	Path string
	// Upstream is where each signal is passed on to; a signal that is not in it
	// goes no further. See also [Receiver.PassOn].
	Upstream map[Signal]Target
	// MaxBody is the largest body, in bytes, as it comes and unpacked: 8 MiB.
	MaxBody int64
	// MaxWaiting is how many bytes may wait to be handed over, and as many to be
	// passed on: 32 MiB.
	MaxWaiting int64
	// Patience is how long one request to Upstream may take: 5 s.
	Patience time.Duration
	// Rest is how long those that still wait have together when Run ends: 1 s.
	Rest time.Duration
}

// A Target is a place where telemetry goes.
type Target struct {
	URL string // the whole of it, nothing is put behind it
	// Header goes along, in the place of what came under the same name.
	Header map[string]string
}

// A Body is one request's, unpacked.
type Body struct {
	Signal Signal
	JSON   bool // else protobuf
	Data   []byte
}

// A Loss is a body that did not get where it should.
type Loss struct {
	Signal   Signal
	Upstream bool // it was not passed on; else it was not handed over
	Why      string
}

// A Receiver listens from New on, and answers while Run runs.
type Receiver struct {
	cfg      Config
	listener net.Listener
	client   *http.Client
	inbound  *queue[Body]
	outbound *queue[passed]
}

// passed is a request as it came, on its way to Upstream.
type passed struct {
	signal Signal
	header http.Header
	raw    []byte
}

// New opens a port of the loopback interface. Who does not run the Receiver
// must close it.
func New(cfg Config) (*Receiver, error) {
	if cfg.Deliver == nil {
		return nil, errors.New("otlp receiver: nobody takes what it receives")
	}
	if strings.Trim(cfg.Path, "/") != cfg.Path {
		return nil, fmt.Errorf("otlp receiver: path %q begins or ends with a slash", cfg.Path)
	}
	if cfg.Lost == nil {
		cfg.Lost = func(Loss) {}
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 8 << 20
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = 32 << 20
	}
	if cfg.Patience == 0 {
		cfg.Patience = 5 * time.Second
	}
	if cfg.Rest == 0 {
		cfg.Rest = time.Second
	}
	if err := checkTargets(cfg.Upstream); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("otlp receiver: %w", err)
	}
	return &Receiver{
		cfg: cfg, listener: listener,
		client: &http.Client{
			Timeout:       cfg.Patience,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		inbound:  newQueue[Body](cfg.MaxWaiting),
		outbound: newQueue[passed](cfg.MaxWaiting),
	}, nil
}

// PassOn sets Config.Upstream, for who learns of it only when the address is
// known. It must come before Run.
func (r *Receiver) PassOn(upstream map[Signal]Target) error {
	r.cfg.Upstream = upstream
	return checkTargets(upstream)
}

func checkTargets(upstream map[Signal]Target) error {
	for signal, to := range upstream {
		u, err := url.Parse(to.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			// What is wrong with it is not told: there may be a secret in it.
			return fmt.Errorf("otlp receiver: where %s were to be passed on to is no http address", signal)
		}
	}
	return nil
}

// Endpoint is the base address for an exporter, which puts `/v1/logs` behind it.
func (r *Receiver) Endpoint() string {
	return strings.TrimSuffix("http://"+r.listener.Addr().String()+"/"+r.cfg.Path, "/")
}

// Close gives the port back without Run.
func (r *Receiver) Close() error { return r.listener.Close() }

// Run answers until ctx ends. Then it takes no more requests, hands over all
// that came, passes on what can be passed on within Rest, and returns.
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
	// The requests on their way have a life of their own, a little longer.
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
		server.Close() // an exporter that does not finish its request
	}
	stop()
	requests.Wait()
	r.inbound.close()
	r.outbound.close()
	serving.Wait()
	late := time.AfterFunc(r.cfg.Rest, cut)
	passing.Wait()
	late.Stop()
	r.client.CloseIdleConnections()
	return failed
}

// serve takes one request and answers it as OTLP/HTTP says.
func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	isJSON := kind == "application/json"
	refuse := func(code int, why string) { answer(w, isJSON, code, why) }

	path := strings.TrimPrefix(req.URL.Path, "/")
	if r.cfg.Path != "" {
		var ok bool
		if path, ok = strings.CutPrefix(path, r.cfg.Path+"/"); !ok {
			refuse(http.StatusNotFound, "no such address")
			return
		}
	}
	var signal Signal
	switch path {
	case "v1/logs":
		signal = Logs
	case "v1/metrics":
		signal = Metrics
	case "v1/traces":
		signal = Traces
	default:
		refuse(http.StatusNotFound, "no such address")
		return
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "only POST is answered")
		return
	}
	if !isJSON && kind != "application/x-protobuf" {
		refuse(http.StatusUnsupportedMediaType, "the body is neither application/json nor application/x-protobuf")
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.cfg.MaxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			r.cfg.Lost(Loss{Signal: signal, Why: "a body is larger than is taken"})
			refuse(http.StatusRequestEntityTooLarge, "the body is too large")
			return
		}
		refuse(http.StatusBadRequest, "the body did not come whole")
		return
	}
	// It is the user's own telemetry first: it goes on even if it cannot be
	// unpacked here.
	if _, ok := r.cfg.Upstream[signal]; ok && !r.outbound.push(passed{signal, req.Header, raw}, int64(len(raw))) {
		r.cfg.Lost(Loss{Signal: signal, Upstream: true, Why: "too much waits to be passed on"})
	}
	data, code, why := unpack(raw, req.Header.Get("Content-Encoding"), r.cfg.MaxBody)
	if code != 0 {
		r.cfg.Lost(Loss{Signal: signal, Why: why})
		refuse(code, why)
		return
	}
	if !r.inbound.push(Body{signal, isJSON, data}, int64(len(data))) {
		r.cfg.Lost(Loss{Signal: signal, Why: "too much waits to be read"})
	}
	answer(w, isJSON, http.StatusOK, "")
}

// unpack undoes the encoding of a body. A code other than 0 refuses it.
func unpack(raw []byte, encoding string, limit int64) (data []byte, code int, why string) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return raw, 0, ""
	case "gzip":
	default:
		return nil, http.StatusUnsupportedMediaType, "the body is packed in a way that is not understood"
	}
	zipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, http.StatusBadRequest, "the body is not gzip"
	}
	data, err = io.ReadAll(io.LimitReader(zipped, limit+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest, "the body is not gzip"
	case int64(len(data)) > limit:
		return nil, http.StatusRequestEntityTooLarge, "the body is too large unpacked"
	}
	return data, 0, ""
}

// answer writes a response in the request's own format: an empty export
// response, or a Status whose message says why not.
func answer(w http.ResponseWriter, isJSON bool, code int, why string) {
	var body []byte
	if isJSON {
		w.Header().Set("Content-Type", "application/json")
		body = []byte("{}")
		if why != "" {
			body = []byte(`{"message":"` + why + `"}`) // the words are ours and need no escape
		}
	} else {
		w.Header().Set("Content-Type", "application/x-protobuf")
		if why != "" { // google.rpc.Status, member 2
			body = append([]byte{2<<3 | 2, byte(len(why))}, why...)
		}
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // an exporter that has gone does not hear it
}

// hopByHop are headers of the connection and not of the request.
var hopByHop = [...]string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host"}

// pass sends one request on as it came. It is tried once: an exporter that
// wants more would have to be answered later, and then it would wait for us.
func (r *Receiver) pass(ctx context.Context, p passed) {
	to := r.cfg.Upstream[p.signal]
	err := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(p.raw))
		if err != nil {
			return errors.New("its address is none")
		}
		for key, values := range p.header {
			req.Header[key] = values
		}
		for _, key := range hopByHop {
			req.Header.Del(key)
		}
		for key, value := range to.Header {
			req.Header.Set(key, value)
		}
		resp, err := r.client.Do(req)
		if err != nil {
			return errors.New("nobody answers there") // an error's text would name the address and what may be in it
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("it was answered with %d", resp.StatusCode)
		}
		return nil
	}()
	if err != nil {
		r.cfg.Lost(Loss{Signal: p.signal, Upstream: true, Why: err.Error()})
	}
}
