package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	asJSON  = "application/json"
	asProto = "application/x-protobuf"
)

// A world is a running receiver and the bodies that it delivered.
type world struct {
	t      *testing.T
	r      *Receiver
	client *http.Client
	end    func()

	mu     sync.Mutex // guards the fields below
	bodies []Body
	losses []Loss
}

// start starts a receiver, which forwards logs to a target if there is one.
func start(t *testing.T, cfg Config, logs ...Target) *world {
	t.Helper()
	w := &world{t: t, client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
	if cfg.Deliver == nil {
		cfg.Deliver = func(b Body) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.bodies = append(w.bodies, b)
		}
	}
	cfg.Lost = func(l Loss) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.losses = append(w.losses, l)
	}
	cfg.Path = "secret"
	var err error
	w.r, err = New(cfg)
	require.NoError(t, err)
	for _, to := range logs {
		require.NoError(t, w.r.PassOn(map[Signal]Target{Logs: to}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.r.Run(ctx) }()
	var once sync.Once
	w.end = func() {
		once.Do(func() {
			w.client.CloseIdleConnections()
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(w.end)
	return w
}

// post sends a body and returns the code, the type and the body of the answer.
func (w *world) post(path, kind, encoding string, body []byte) (int, string, string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(w.r.Endpoint(), "/secret")+path, bytes.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer the user's")
	req.Header.Set("Connection", "keep-alive, X-Hop")
	req.Header.Set("X-Hop", "of the connection")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := w.client.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(answer)
}

func zip(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestBodiesAreDeliveredInOrder(t *testing.T) {
	w := start(t, Config{})
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/secret$`, w.r.Endpoint())
	for _, c := range []struct {
		path, kind, encoding string
		body                 []byte
		answer               string
	}{
		{"/secret/v1/logs", asJSON, "", []byte(`{"resourceLogs":[]}`), "{}"},
		{"/secret/v1/logs", asJSON + "; charset=utf-8", "identity", []byte(`{"a":1}`), "{}"},
		{"/secret/v1/metrics", asProto, "", []byte{0x0a, 0x00}, ""},
		{"/secret/v1/traces", asJSON, "gzip", zip(t, []byte(`{"resourceSpans":[]}`)), "{}"},
		{"/secret/v1/logs", asProto, "GZIP", zip(t, []byte{0x0a, 0x01, 0x00}), ""},
		{"/secret/v1/logs", asProto, "", nil, ""},
	} {
		code, kind, answer := w.post(c.path, c.kind, c.encoding, c.body)
		require.Equal(t, 200, code)
		require.Equal(t, c.answer, answer)
		require.Equal(t, strings.Split(c.kind, ";")[0], kind)
	}
	w.end()
	require.Empty(t, w.losses)
	require.Len(t, w.bodies, 6, "what came before the end is handed over")
	want := []Body{
		{Logs, true, []byte(`{"resourceLogs":[]}`)}, {Logs, true, []byte(`{"a":1}`)}, {Metrics, false, []byte{0x0a, 0x00}},
		{Traces, true, []byte(`{"resourceSpans":[]}`)}, {Logs, false, []byte{0x0a, 0x01, 0x00}}, {Logs, false, []byte{}},
	}
	require.Equal(t, want, w.bodies)
}

func TestRefusedRequests(t *testing.T) {
	w := start(t, Config{MaxBody: 100})
	large := bytes.Repeat([]byte("x"), 101)
	for _, c := range []struct {
		name, path, kind, encoding string
		body                       []byte
		code                       int
		answer                     string
	}{
		{"an unknown path", "/v1/logs", asJSON, "", nil, 404, `{"message":"no such address"}`},
		{"another path", "/secret2/v1/logs", asJSON, "", nil, 404, `{"message":"no such address"}`},
		{"another signal", "/secret/v1/profiles", asJSON, "", nil, 404, `{"message":"no such address"}`},
		{"neither format", "/secret/v1/logs", "text/plain", "", nil, 415, "\x12\x3fthe body is neither application/json nor application/x-protobuf"},
		{"no format", "/secret/v1/logs", "", "", nil, 415, "\x12\x3fthe body is neither application/json nor application/x-protobuf"},
		{"another packing", "/secret/v1/logs", asJSON, "zstd", nil, 415, `{"message":"the content encoding is not supported"}`},
		{"no gzip", "/secret/v1/logs", asProto, "gzip", []byte("plain"), 400, "\x12\x1athe body is not valid gzip"},
		{"torn gzip", "/secret/v1/logs", asJSON, "gzip", zip(t, []byte("whole"))[:15], 400, `{"message":"the body is not valid gzip"}`},
		{"too large", "/secret/v1/logs", asJSON, "", large, 413, `{"message":"the body is too large"}`},
		{"too large unpacked", "/secret/v1/logs", asJSON, "gzip", zip(t, large), 413, `{"message":"the decompressed body is too large"}`},
	} {
		code, kind, answer := w.post(c.path, c.kind, c.encoding, c.body)
		require.Equal(t, c.code, code, c.name)
		require.Equal(t, c.answer, answer, c.name)
		require.Contains(t, []string{asJSON, asProto}, kind, c.name)
	}
	resp, err := w.client.Get(w.r.Endpoint() + "/v1/logs")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 405, resp.StatusCode)
	require.Equal(t, "POST", resp.Header.Get("Allow"))
	w.end()
	require.Empty(t, w.bodies)
	require.Len(t, w.losses, 5, "telemetry that could not be read is reported")
}

// The user's own receiver of telemetry gets the same requests as without the wrapper.
func TestRequestsAreForwardedUnchanged(t *testing.T) {
	type got struct {
		path, query string
		header      http.Header
		body        []byte
	}
	var mu sync.Mutex
	var seen []got
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, got{req.URL.Path, req.URL.RawQuery, req.Header, body})
	}))
	defer upstream.Close()
	w := start(t, Config{}, Target{URL: upstream.URL + "/mine/v1/logs?key=1", Header: map[string]string{"X-Key": "theirs"}})
	zipped := zip(t, []byte(`{"resourceLogs":[]}`))
	for _, c := range []struct {
		path, kind, encoding string
		body                 []byte
	}{
		{"/secret/v1/logs", asJSON, "gzip", zipped},
		{"/secret/v1/metrics", asJSON, "", []byte(`{}`)}, // metrics have no target and are not forwarded
		{"/secret/v1/logs", asProto, "", []byte{0x0a, 0x00}},
		{"/secret/v1/logs", asProto, "zstd", []byte("theirs")}, // cannot be decompressed here, but is forwarded
	} {
		code, _, _ := w.post(c.path, c.kind, c.encoding, c.body)
		require.Contains(t, []int{200, 415}, code)
	}
	w.end()
	require.Len(t, seen, 3)
	for i, body := range [][]byte{zipped, {0x0a, 0x00}, []byte("theirs")} {
		require.Equal(t, body, seen[i].body)
		require.Equal(t, "/mine/v1/logs", seen[i].path)
		require.Equal(t, "key=1", seen[i].query)
		require.Equal(t, "Bearer the user's", seen[i].header.Get("Authorization"))
		require.Equal(t, "theirs", seen[i].header.Get("X-Key"))
		require.NotContains(t, seen[i].header, "X-Hop")
	}
	require.Equal(t, "gzip", seen[0].header.Get("Content-Encoding"))
	require.NotContains(t, seen[0].header, "Transfer-Encoding")
	require.Equal(t, asProto, seen[1].header.Get("Content-Type"))
	require.Len(t, w.bodies, 3)
	require.Equal(t, []Loss{{Signal: Logs, Why: "the content encoding is not supported"}}, w.losses)
}

// The harness gets its answer even if the user's own receiver rejects the request.
func TestFailingUpstream(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		why     string
	}{
		"refuses": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "the upstream server answered with status 503"},
		"redirects": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/elsewhere", http.StatusTemporaryRedirect)
		}, "the upstream server answered with status 307"},
		"is gone": {nil, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			url := gone.URL
			if c.handler != nil {
				upstream := httptest.NewServer(c.handler)
				defer upstream.Close()
				url = upstream.URL
			}
			w := start(t, Config{}, Target{URL: url})
			code, _, _ := w.post("/secret/v1/logs", asJSON, "", []byte(`{}`))
			require.Equal(t, 200, code)
			w.end()
			require.Len(t, w.bodies, 1)
			require.Equal(t, []Loss{{Signal: Logs, Upstream: true, Why: c.why}}, w.losses)
		})
	}
}

// If the user's own receiver hangs, neither the harness nor the end of Run is
// delayed, and the queue stays limited.
func TestSlowUpstream(t *testing.T) {
	called, release := make(chan struct{}, 1), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-release
	}))
	defer upstream.Close()
	defer close(release)
	w := start(t, Config{MaxWaiting: 3 * 1300}, Target{URL: upstream.URL})
	post := func() {
		code, _, _ := w.post("/secret/v1/logs", asJSON, "", make([]byte, 1000))
		require.Equal(t, 200, code)
	}
	post()
	<-called
	for range 6 { // three of them fit
		post()
	}
	w.end()
	var upstreams, late int
	for _, l := range w.losses {
		require.True(t, l.Upstream, l)
		upstreams++
		if l.Why == "the queue for forwarding is full" {
			late++
		}
	}
	require.Equal(t, 3, late)
	require.GreaterOrEqual(t, upstreams, 4, "hanging upstreams are called too")
}

// A slow callback does not delay the harness. Bodies that do not fit into the queue
// are lost.
func TestSlowReader(t *testing.T) {
	taken, release := make(chan struct{}, 10), make(chan struct{})
	w := start(t, Config{MaxWaiting: 3 * 1300, Deliver: func(Body) { taken <- struct{}{}; <-release }})
	post := func() {
		code, _, _ := w.post("/secret/v1/logs", asJSON, "", make([]byte, 1000))
		require.Equal(t, 200, code)
	}
	post()
	<-taken
	for range 5 {
		post()
	}
	close(release)
	w.end()
	require.Len(t, taken, 3, "what waited was delivered at the end")
	require.Equal(t, []Loss{{Signal: Logs, Why: "the queue for delivery is full"}, {Signal: Logs, Why: "the queue for delivery is full"}}, w.losses)
}

func TestManyAtOnce(t *testing.T) {
	w := start(t, Config{})
	var posting sync.WaitGroup
	for range 8 {
		posting.Go(func() {
			for range 25 {
				code, _, _ := w.post("/secret/v1/logs", asProto, "", []byte{0x0a, 0x00})
				if code != 200 {
					t.Errorf("answered %d", code)
				}
			}
		})
	}
	posting.Wait()
	w.end()
	require.Len(t, w.bodies, 200)
	require.Empty(t, w.losses)
}

func TestInvalidConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no Deliver":          {},
		"a path with a slash": {Deliver: func(Body) {}, Path: "/x"},
	} {
		_, err := New(cfg)
		require.Error(t, err, name)
	}
	r, err := New(Config{Deliver: func(Body) {}})
	require.NoError(t, err)
	for _, bad := range []string{"", "http://[::1", "host:1/v1/logs", "ftp://host/x", "/v1/logs", "http://"} {
		require.Error(t, r.PassOn(map[Signal]Target{Logs: {URL: bad}}), bad)
	}
	require.NoError(t, r.PassOn(map[Signal]Target{Logs: {URL: "https://host/v1/logs"}}))
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, r.Endpoint())
	require.NoError(t, r.Close())
}
