// Package sse reads a stream of server-sent events. The data of each event is one
// record.
//
// While no server answers, it tries to connect again, with growing pauses. It
// resumes after the last event that had an id. Events without an id that were sent
// while it was not connected are lost, and the gap is reported. An incomplete event
// is dropped.
//
//	s, err := sse.New(sse.Config{URL: "http://127.0.0.1:4096/event"})
//	err = s.Run(ctx, func(data []byte) { … }, func(t sse.Trouble) { … })
//
// It connects to other machines only if configured to, uses no proxy, follows no
// redirection, does not retry if the server rejects the password, and does not
// interpret the data. Its errors never contain a password.
package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	defaultMinWait  = 250 * time.Millisecond
	defaultMaxWait  = 5 * time.Second
	defaultMaxEvent = 16 << 20
	defaultPatience = 5 * time.Second
	chunk           = 32 << 10
)

// ErrUnauthorized means that the server rejects the user or the password. A retry
// would not help.
var ErrUnauthorized = errors.New("the server refuses the user or the password")

// Config selects the stream. Zero values mean the defaults.
type Config struct {
	URL string // http or https; its user and password are sent as basic authentication
	// User and Password are used if the URL has no user. If the password is empty,
	// neither is sent.
	User, Password string
	// Anywhere allows hosts other than this machine.
	Anywhere bool
	// MinWait and MaxWait bound the pause before the next connection; the defaults
	// are 250 ms and 5 s. The pause doubles each time, and each event resets it.
	MinWait, MaxWait time.Duration
	// Patience is how long a server may take to answer after it accepted the
	// connection; the default is 5 s. It is short because one harness's server
	// never answered a request sent during its start, but answered the next
	// request at once.
	Patience time.Duration
	// MaxEvent is the longest data of one event in bytes; the default is 16 MiB. A
	// longer event is skipped.
	MaxEvent int
}

// TroubleKind is what happened to a stream, other than an event.
type TroubleKind string

const (
	Gone         TroubleKind = "gone"           // the server does not send the stream, or ended it; not reported again before Recovered
	Recovered    TroubleKind = "recovered"      // the server answers again
	EventTooLong TroubleKind = "event_too_long" // an event longer than Config.MaxEvent was skipped
)

// A Trouble reports what happened to a stream. It comes at its place among the events:
// for example, EventTooLong comes in place of the skipped event.
type Trouble struct {
	What TroubleKind
	Err  error // the cause, if there is one
}

// A Stream is one server's stream of events.
type Stream struct {
	cfg    Config
	url    *url.URL // the address without user and password
	client *http.Client

	// The fields below are owned by Run.
	last  string        // the last event id
	retry time.Duration // the pause that the server asks for
}

// New checks the configuration. It does not connect.
func New(cfg Config) (*Stream, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("read events: the address is not a URL") // drop url's error, which would contain the password
	}
	if u.User != nil {
		cfg.User = u.User.Username()
		cfg.Password, _ = u.User.Password()
		u.User = nil
	}
	cfg.URL = ""
	cfg.MinWait = cmp.Or(cfg.MinWait, defaultMinWait)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, max(defaultMaxWait, cfg.MinWait))
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	cfg.MaxEvent = cmp.Or(cfg.MaxEvent, defaultMaxEvent)
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("read events of %s: not an http address", u)
	case cfg.MinWait < 0 || cfg.MaxWait < cfg.MinWait || cfg.Patience < 0 || cfg.MaxEvent < 0:
		return nil, fmt.Errorf("read events of %s: MinWait %v, MaxWait %v, Patience %v and MaxEvent %d must not be negative, and MinWait not above MaxWait",
			u, cfg.MinWait, cfg.MaxWait, cfg.Patience, cfg.MaxEvent)
	case !cfg.Anywhere && !local(u.Hostname()):
		return nil, fmt.Errorf("read events of %s: the address is not on this machine", u)
	}
	dial := net.Dialer{Timeout: 10 * time.Second}
	if !cfg.Anywhere {
		// Check the address to which the host name was resolved: the address may belong
		// to another machine.
		dial.Control = func(_, address string, _ syscall.RawConn) error {
			if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
				return fmt.Errorf("%s is not this machine", address)
			}
			return nil
		}
	}
	return &Stream{cfg: cfg, url: u, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                 nil,
			DialContext:           dial.DialContext,
			DisableKeepAlives:     true,
			DisableCompression:    true,
			ResponseHeaderTimeout: cfg.Patience,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func local(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Run reads the stream until ctx ends, the server answers 204 (no content), or it
// rejects the request in a way that a retry cannot change. Run calls deliver and
// trouble on the caller's goroutine, and reads no data during these calls. The data
// is valid until deliver returns.
func (s *Stream) Run(ctx context.Context, deliver func(data []byte), trouble func(Trouble)) error {
	gone := false
	wait := s.cfg.MinWait
	for {
		err := s.connect(ctx, func(body io.Reader) error {
			if gone {
				gone = false
				trouble(Trouble{What: Recovered})
			}
			return s.read(body, func(data []byte) {
				wait = s.cfg.MinWait
				deliver(data)
			}, trouble)
		})
		var final *refusal
		switch {
		case ctx.Err() != nil || errors.Is(err, errNoMore):
			return nil
		case errors.As(err, &final):
			return fmt.Errorf("read events of %s: %w", s.url, final.err)
		}
		if !gone {
			gone = true
			trouble(Trouble{What: Gone, Err: fmt.Errorf("read events of %s: %w", s.url, err)})
		}
		pause := time.NewTimer(min(max(wait, s.retry), s.cfg.MaxWait))
		wait = min(2*wait, s.cfg.MaxWait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// A refusal is an error after which a retry would not help.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

var errNoMore = errors.New("the server has no more events")

// connect sends one request and passes the body of a successful answer to read.
// It always returns an error, which says why the stream ended.
func (s *Stream) connect(ctx context.Context, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return &refusal{err}
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache")
	if s.last != "" {
		req.Header.Set("Last-Event-ID", s.last)
	}
	if s.cfg.Password != "" {
		req.SetBasicAuth(s.cfg.User, s.cfg.Password)
	}
	res, err := s.client.Do(req)
	if err != nil {
		var u *url.Error // unwrap the error, whose text would repeat method and address
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer res.Body.Close()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch code := res.StatusCode; {
	case code == http.StatusNoContent:
		return errNoMore
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &refusal{fmt.Errorf("%w: %s", ErrUnauthorized, res.Status)}
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return fmt.Errorf("the server answers %s", res.Status)
	case code != http.StatusOK:
		return &refusal{fmt.Errorf("the server answers %s", res.Status)}
	case kind != "text/event-stream":
		return &refusal{fmt.Errorf("the server answers with %q, which is not an event stream", kind)}
	}
	return read(res.Body)
}

// read delivers the events of one connection.
func (s *Stream) read(body io.Reader, deliver func([]byte), trouble func(Trouble)) error {
	p := parser{max: s.cfg.MaxEvent, id: s.last, retry: s.retry}
	buf := make([]byte, chunk)
	for {
		n, err := body.Read(buf)
		p.feed(buf[:n], func(e event) {
			s.last = p.id
			switch {
			case e.long:
				trouble(Trouble{What: EventTooLong, Err: fmt.Errorf("an event of more than %d bytes", s.cfg.MaxEvent)})
			case e.some:
				deliver(e.data)
			}
		})
		s.retry = p.retry
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the server ended the stream")
		case err != nil:
			return err
		}
	}
}
