package supervisor

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry/claude"
)

// The harness's telemetry becomes inputs of the loop. If the user's settings export the
// telemetry to another endpoint, it is forwarded to that endpoint.
func TestExports(t *testing.T) {
	var mu sync.Mutex
	var passed []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		passed = append(passed, req.URL.Path+" "+req.Header.Get("X-Key"))
		if len(passed) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer upstream.Close()

	e, err := NewExports("secret", zerolog.Nop())
	require.NoError(t, err)
	require.Error(t, e.Prepared(profiles.Export{Decoder: claude.OTLP, Chain: "nowhere"}))
	require.NoError(t, e.Prepared(profiles.Export{Decoder: claude.OTLP, Chain: upstream.URL + "/v1/logs", Headers: map[string]string{"X-Key": "k"}}))
	inputs, end := runSource(t, Join(e))

	post := func(path string, body []byte) {
		resp, err := http.Post(e.Endpoint()+path, "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
	}
	body, err := os.ReadFile(recordedFile("claude/otlp-print/001-logs.json"))
	require.NoError(t, err)
	post("/v1/logs", body)
	post("/v1/metrics", []byte(`{"resourceMetrics":[]}`)) // the receiver did not ask for metrics and ignores them
	post("/v1/logs", []byte(`{"resourceLogs":`))
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, end())

	var signals, unknown int
	var troubles []string
	for _, in := range *inputs {
		switch in := in.(type) {
		case input.SignalsSeen:
			require.Nil(t, in.Position)
			signals += len(in.Signals)
		case input.UnknownSeen:
			require.Equal(t, input.UnknownSeen{Source: "otlp", Types: map[string]int{"malformed": 1}}, in)
			unknown++
		case input.SourceTrouble:
			troubles = append(troubles, in.Source+" "+string(in.What))
		default:
			t.Fatalf("unexpected %T", in)
		}
	}
	require.Equal(t, 6, signals)
	require.Equal(t, 1, unknown)
	require.Equal(t, []string{"otlp not_passed_on"}, troubles, "the user's endpoint rejected the second one")
	require.Equal(t, []string{"/v1/logs k", "/v1/logs k"}, passed)
}

// runSource runs a source and collects its inputs.
func runSource(t *testing.T, s Sources) (*[]input.Input, func() error) {
	var mu sync.Mutex
	inputs := new([]input.Input)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(in input.Input) {
			mu.Lock()
			defer mu.Unlock()
			*inputs = append(*inputs, in)
		})
	}()
	return inputs, func() error {
		cancel()
		return <-done
	}
}

type fakeSource struct {
	err   error
	calls []string
}

func (f *fakeSource) Run(ctx context.Context, _ func(input.Input)) error { <-ctx.Done(); return f.err }
func (f *fakeSource) Launched(int)                                       { f.calls = append(f.calls, "launched") }
func (f *fakeSource) Watch(path string, _ time.Time)                     { f.calls = append(f.calls, path) }

func TestJoin(t *testing.T) {
	a, b := &fakeSource{}, &fakeSource{err: errors.New("broken")}
	s := Join(a, b)
	s.Launched(7)
	s.Watch("/x", time.Time{})
	_, end := runSource(t, s)
	require.ErrorIs(t, end(), b.err)
	for _, f := range []*fakeSource{a, b} {
		require.Equal(t, []string{"launched", "/x"}, f.calls)
	}
}
