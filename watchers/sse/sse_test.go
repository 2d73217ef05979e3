package sse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parsed feeds a stream in pieces of the given size.
func parsed(stream string, size, limit int) (p parser, got []string) {
	p.max = limit
	for len(stream) > 0 {
		n := min(size, len(stream))
		p.feed([]byte(stream[:n]), func(e event) {
			switch {
			case e.long:
				got = append(got, "too long")
			case e.some:
				got = append(got, string(e.data))
			}
		})
		stream = stream[n:]
	}
	return p, got
}

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"one event", "data: {\"a\":1}\n\n", []string{`{"a":1}`}},
		{"no space after the colon, and only the first space is not data", "data:a\n\ndata:  b\n\n", []string{"a", " b"}},
		{"several lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []string{"a\nb\n\nc"}},
		{"an empty line of data", "data\n\n", []string{""}},
		{"comments, names and unknown fields", ": hello\nevent: x\nfoo: bar\nfoo\ndata: a\n:\n\n", []string{"a"}},
		{"no data, no event", "event: x\n\n\n\nid: 1\n\n", nil},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"a\nb", "c"}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []string{"a\nb", "c"}},
		{"a mixture", "data: a\r\n\ndata: b\r\r\ndata: c\n\r", []string{"a", "b", "c"}},
		{"a byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"a"}},
		{"an incomplete event is dropped", "data: a\n\ndata: b\n", []string{"a"}},
		{"an incomplete line is dropped", "data: a\n\ndata: b", []string{"a"}},
		{"too long", "data: 0123456789\n\ndata: a\n\n", []string{"too long", "a"}},
		{"too long in several lines", "data: 01234\ndata: 5678\ndata: 9\n\ndata: 01234567\n\n", []string{"too long", "01234567"}},
		{"a long line that is not data", ": 0123456789012345678901234567890\ndata: a\n\n", []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.stream); size++ {
				_, got := parsed(c.stream, size, 8)
				require.Equal(t, c.want, got, "in pieces of %d", size)
			}
		})
	}
}

func TestIDsAndPauses(t *testing.T) {
	p, _ := parsed("id: 1\nretry: 30\ndata: a\n\nid: x\x00y\nretry: soon\ndata: b\n\n", 3, 100)
	require.Equal(t, "1", p.id)
	require.Equal(t, 30*time.Millisecond, p.retry)
}

func FuzzParser(f *testing.F) {
	f.Add("data: a\r\ndata: b\n\n: c\r\rid: 1\n\n", 3)
	f.Add("\ufeffdata\n\ndata: 0123456789012345\n\nretry: 1\n", 1)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		if size < 1 {
			return
		}
		const limit = 16
		p, atOnce := parsed(stream, len(stream)+1, limit)
		q, inPieces := parsed(stream, size, limit)
		require.Equal(t, atOnce, inPieces, "the pieces make a difference")
		require.Equal(t, p.id, q.id)
		for _, s := range atOnce {
			require.LessOrEqual(t, len(s), limit+1+len("too long"))
		}
		require.LessOrEqual(t, len(q.line), limit+len("\ufeffdata: "))
	})
}

// A run holds the events that one call of Run delivered, and the error that it
// returned.
type run struct {
	got     []string
	trouble []Trouble
	err     error
}

// follow reads a stream until the given number of events were delivered.
func follow(t *testing.T, cfg Config, events int) run {
	t.Helper()
	cfg.MinWait, cfg.MaxWait = time.Millisecond, 4*time.Millisecond
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var r run
	r.err = s.Run(ctx, func(data []byte) {
		if r.got = append(r.got, string(data)); len(r.got) == events {
			cancel()
		}
	}, func(t Trouble) { r.trouble = append(r.trouble, t) })
	return r
}

func (r run) kinds() []TroubleKind {
	var out []TroubleKind
	for _, t := range r.trouble {
		out = append(out, t.What)
	}
	return out
}

// server answers the n-th request with the n-th function, and later requests with
// the last one.
func server(t *testing.T, answers ...http.HandlerFunc) *httptest.Server {
	var mu sync.Mutex // guards n: each connection has its own goroutine
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func stream(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, p := range parts {
			fmt.Fprint(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
}

func TestReconnect(t *testing.T) {
	var asked []string
	remember := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("Last-Event-ID"))
			next(w, r)
		}
	}
	s := server(t,
		remember(status(503)),
		remember(stream("retry: 2\nid: 7\nda", "ta: a\n\n", "data: half")),
		remember(stream(": nothing\n\n")),
		remember(stream("data: b\n\n", "id: 8\ndata: c\n\n", "id: 9\ndata: half\n")),
		remember(stream("data: d\n\n")))
	r := follow(t, Config{URL: s.URL + "/event"}, 4)
	require.NoError(t, r.err)
	require.Equal(t, []string{"a", "b", "c", "d"}, r.got)
	require.Equal(t, []string{"", "", "7", "7", "8"}, asked)
	require.Equal(t, []TroubleKind{Gone, Recovered, Gone, Recovered, Gone, Recovered, Gone, Recovered}, r.kinds())
	require.ErrorContains(t, r.trouble[0].Err, "503")
}

// TestNoAnswer checks a server that accepts a connection and never answers, like
// one that is starting.
func TestNoAnswer(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, stream("data: a\n\n"))
	r := follow(t, Config{URL: s.URL, Patience: 20 * time.Millisecond}, 1)
	require.NoError(t, r.err)
	require.Equal(t, []string{"a"}, r.got)
	require.Equal(t, []TroubleKind{Gone, Recovered}, r.kinds())
}

func TestNoServer(t *testing.T) {
	// Use a port that was just released, so that no server answers there.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	s, err := New(Config{URL: "http://" + addr, MinWait: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var troubles []Trouble
	require.NoError(t, s.Run(ctx, func([]byte) { t.Error("an event without a server") }, func(tr Trouble) {
		troubles = append(troubles, tr)
		time.AfterFunc(20*time.Millisecond, cancel)
	}))
	require.Len(t, troubles, 1, "reported more than once")
	require.Equal(t, Gone, troubles[0].What)
	require.NotContains(t, troubles[0].Err.Error(), "Get ")
}

// TestPauses checks that the pauses grow to their limit, and that an event resets
// them.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{URL: "http://127.0.0.1:1", MinWait: time.Second, MaxWait: 6 * time.Second})
		require.NoError(t, err)
		begin := time.Now()
		var at []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(begin))
			switch len(at) {
			case 5:
				rec := httptest.NewRecorder()
				stream("data: a\n\n")(rec, r)
				return rec.Result(), nil
			case 8:
				cancel()
			}
			return nil, errors.New("refused")
		})
		require.NoError(t, s.Run(ctx, func([]byte) {}, func(Trouble) {}))
		second := time.Second
		require.Equal(t, []time.Duration{0, second, 3 * second, 7 * second, 13 * second, 14 * second, 16 * second, 20 * second}, at)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUserAndPassword(t *testing.T) {
	guarded := server(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "dev" || password != "sekret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		stream("data: a\n\n")(w, r)
	})
	in := func(userinfo string) string { return strings.Replace(guarded.URL, "//", "//"+userinfo, 1) }
	for _, cfg := range []Config{
		{URL: in("dev:sekret@")},
		{URL: guarded.URL, User: "dev", Password: "sekret"},
		{URL: in("dev:sekret@"), User: "other", Password: "wrong"},
	} {
		r := follow(t, cfg, 1)
		require.NoError(t, r.err)
		require.Equal(t, []string{"a"}, r.got)
	}
	for _, cfg := range []Config{{URL: guarded.URL}, {URL: in("dev:sekret2@")}, {URL: guarded.URL, User: "dev"}} {
		r := follow(t, cfg, 1)
		require.ErrorIs(t, r.err, ErrUnauthorized)
		require.NotContains(t, r.err.Error(), "sekret")
		require.Empty(t, r.trouble)
	}
}

func TestFinalAnswers(t *testing.T) {
	elsewhere := server(t, stream("data: a\n\n"))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"no more":       {status(204), ""},
		"not found":     {status(404), "404"},
		"a page":        {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }, "not an event stream"},
		"a redirection": {http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			r := follow(t, Config{URL: server(t, c.answer).URL}, 1)
			require.Empty(t, r.got)
			if c.want == "" {
				require.NoError(t, r.err)
				return
			}
			require.ErrorContains(t, r.err, c.want)
		})
	}
}

func TestLongEvents(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := server(t, stream("data: a\n\n", "data: "+long+"\n\n", "data: b\n\n"))
	r := follow(t, Config{URL: s.URL, MaxEvent: 1 << 10}, 2)
	require.Equal(t, []string{"a", "b"}, r.got)
	require.Equal(t, []TroubleKind{EventTooLong}, r.kinds())
	r = follow(t, Config{URL: s.URL}, 3)
	require.Len(t, r.got, 3)
	require.True(t, r.got[1] == long)
	require.Empty(t, r.trouble)
}

// TestOnlyThisMachine checks that neither a proxy nor another machine is used.
func TestOnlyThisMachine(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1/event", "http://example.test/event", "http://127.0.0.1.example.test/",
		"ftp://127.0.0.1/", "/event", "http://", "http://user:sekret@:x"} {
		_, err := New(Config{URL: url})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "sekret")
	}
	for _, url := range []string{"http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "https://localhost/"} {
		_, err := New(Config{URL: url})
		require.NoError(t, err, url)
	}
	_, err := New(Config{URL: "http://192.0.2.1/event", Anywhere: true})
	require.NoError(t, err)

	// A local name may resolve to another machine, so each connection checks the address.
	s, err := New(Config{URL: "http://localhost:1/"})
	require.NoError(t, err)
	_, err = s.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorContains(t, err, "192.0.2.1:80 is not this machine")
	require.Nil(t, s.client.Transport.(*http.Transport).Proxy)

	_, err = New(Config{URL: "http://127.0.0.1/", MinWait: 2, MaxWait: 1})
	require.Error(t, err)
}

// TestCancel checks that Run returns when its context ends, also in the middle of
// an event.
func TestCancel(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		stream("data: a\n\n", "data: half")(w, r)
		<-r.Context().Done()
	})
	r := follow(t, Config{URL: s.URL}, 1)
	require.NoError(t, r.err)
	require.Equal(t, []string{"a"}, r.got)
	require.Empty(t, r.trouble)
}
