// Package sse reads a stream of server-sent events: the data of each event is
// one record.
//
// A server that is not there, or goes away, is tried again with growing pauses
// until it answers. What it sends an id with is asked for again from there;
// what it sent without one while nobody was connected is lost, and that it was
// away is told. An event that was cut off is no event.
//
//	s, err := sse.New(sse.Config{URL: "http://127.0.0.1:4096/event"})
//	err = s.Run(ctx, func(data []byte) { … }, func(t sse.Trouble) { … })
//
// It refuses to leave this machine unless asked, to go through a proxy, to
// follow a redirection, to go on where a password is missing, and to interpret
// what it reads. No error of it holds a password.
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

// ErrUnauthorized says that the server wants another user or password. Asking
// again would not help.
var ErrUnauthorized = errors.New("the server refuses the user or the password")

// Config says what to read. Zero values mean the defaults.
type Config struct {
	URL string // http or https; a user and a password in it are sent as basic authentication
	// User and Password are sent where the URL has none; nothing without a Password.
	User, Password string
	// Anywhere allows hosts other than this machine.
	Anywhere bool
	// MinWait and MaxWait bound the pause before a new attempt: 250 ms, 5 s. It
	// doubles from attempt to attempt and begins anew with each event.
	MinWait, MaxWait time.Duration
	// Patience is how long a server that took the connection may take to answer:
	// 5 s. A server that was only just starting was seen to answer no request
	// that had come too early, and to answer the next one at once.
	Patience time.Duration
	// MaxEvent is the longest data of one event in bytes: 16 MiB. A longer event
	// is passed over.
	MaxEvent int
}

// TroubleKind says what happened to a stream other than that an event came.
type TroubleKind string

const (
	Gone         TroubleKind = "gone"           // no server answers, or it ended the stream; told once until Recovered
	Recovered    TroubleKind = "recovered"      // it answers again
	EventTooLong TroubleKind = "event_too_long" // an event beyond Config.MaxEvent was passed over
)

// Trouble is told besides the events, in their order.
type Trouble struct {
	What TroubleKind
	Err  error // the cause, where there is one
}

// A Stream is one server's stream of events.
type Stream struct {
	cfg    Config
	url    *url.URL // without user and password
	client *http.Client

	// All below is owned by Run.
	last  string        // id of the last event that had one
	retry time.Duration // the pause that the server asked for
}

// New checks the configuration and connects to nothing.
func New(cfg Config) (*Stream, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("read events: the address is not a URL") // the error would hold its password
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
		return nil, fmt.Errorf("read events of %s: it is no http address", u)
	case cfg.MinWait < 0 || cfg.MaxWait < cfg.MinWait || cfg.Patience < 0 || cfg.MaxEvent < 0:
		return nil, fmt.Errorf("read events of %s: MinWait %v, MaxWait %v, Patience %v and MaxEvent %d must be positive and in order",
			u, cfg.MinWait, cfg.MaxWait, cfg.Patience, cfg.MaxEvent)
	case !cfg.Anywhere && !local(u.Hostname()):
		return nil, fmt.Errorf("read events of %s: that is not this machine", u)
	}
	dial := net.Dialer{Timeout: 10 * time.Second}
	if !cfg.Anywhere {
		// A name is what the resolver makes of it.
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

// Run reads the stream until ctx ends, the server says that there is no more
// (204), or it refuses for good. Both functions run on the caller's goroutine;
// while one runs nothing is read. The data is valid until deliver returns.
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

// A refusal is an answer after which asking again would not help.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

var errNoMore = errors.New("the server says that there is no more")

// connect asks once and hands the body of a good answer to read. It returns
// why the stream is over; never nil.
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
		var u *url.Error // it would repeat method and address
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
		return &refusal{fmt.Errorf("the server answers with %q, which is no stream of events", kind)}
	}
	return read(res.Body)
}

// read tells the events of one connection.
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
