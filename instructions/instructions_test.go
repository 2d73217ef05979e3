package instructions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Environment variables of the test binary. If readURL is set, the test binary reads
// that URL and prints the answer. If throughURL is set, the test binary starts a second
// process with readURL, like a script that starts a harness.
const (
	readURL    = "LIFELOOP_TEST_READ_URL"
	throughURL = "LIFELOOP_TEST_THROUGH_URL"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(throughURL); url != "" {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{readURL + "=" + url}
		cmd.Stdout = os.Stdout
		if err := cmd.Run(); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	if url := os.Getenv(readURL); url != "" {
		text, err := read(context.Background(), url)
		fmt.Print(text, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// read reads a URL in the same way as OpenCode.
func read(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(text)), err
}

// start returns a command that runs the test binary with the URL in the given variable.
func start(t *testing.T, variable, url string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{variable + "=" + url, "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// serve serves until the test ends.
func serve(t *testing.T, pid int, handle func(ctx context.Context, r *Reading)) (s *Server, foreign *atomic.Int32) {
	t.Helper()
	s, err := Listen()
	require.NoError(t, err)
	foreign = new(atomic.Int32)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, pid, handle, func() { foreign.Add(1) }) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return s, foreign
}

func answering(text string) func(context.Context, *Reading) {
	return func(_ context.Context, r *Reading) { r.Answer([]byte(text)) }
}

func TestTheHarnessReads(t *testing.T) {
	delivered := make(chan bool, 2)
	s, foreign := serve(t, os.Getpid(), func(_ context.Context, r *Reading) {
		delivered <- r.Answer([]byte("a <b> & é"))
		delivered <- r.Answer([]byte("again"))
	})
	for range 2 {
		text, err := read(t.Context(), s.URL())
		require.NoError(t, err)
		require.Equal(t, "200 a <b> & é", text)
		require.True(t, <-delivered)
		require.True(t, <-delivered)
	}
	require.Zero(t, foreign.Load())

	text, err := read(t.Context(), strings.TrimSuffix(s.URL(), path)+"/other")
	require.NoError(t, err)
	require.Contains(t, text, "404")
	require.Empty(t, delivered)
}

// Only the harness gets an answer. The harness is the first process that reads the URL,
// among the launched process and its descendants. In the first test the harness is
// this process.
func TestOtherProcessesGetNothing(t *testing.T) {
	t.Run("a program of the user", func(t *testing.T) {
		s, foreign := serve(t, os.Getpid(), answering("payload"))
		text, err := read(t.Context(), s.URL()) // the harness
		require.NoError(t, err)
		require.Equal(t, "200 payload", text)
		out, err := start(t, readURL, s.URL()).Output() // a child process acts as a tool of the harness
		require.NoError(t, err)
		require.Equal(t, "200 <nil>", string(out))
		require.EqualValues(t, 1, foreign.Load())
	})
	t.Run("a process that is not below the harness", func(t *testing.T) {
		harness := exec.Command("sleep", "300")
		require.NoError(t, harness.Start())
		t.Cleanup(func() {
			_ = harness.Process.Kill()
			_ = harness.Wait()
		})
		s, foreign := serve(t, harness.Process.Pid, answering("payload"))
		text, err := read(t.Context(), s.URL())
		require.NoError(t, err)
		require.Equal(t, "200 ", text)
		require.EqualValues(t, 1, foreign.Load())
	})
	t.Run("a harness that is started by a script", func(t *testing.T) {
		s, err := Listen()
		require.NoError(t, err)
		harness := start(t, throughURL, s.URL())
		var out strings.Builder
		harness.Stdout = &out
		require.NoError(t, harness.Start())
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- s.Serve(ctx, harness.Process.Pid, answering("payload"), func() { t.Error("it counts as foreign") })
		}()
		require.NoError(t, harness.Wait())
		require.Equal(t, "200 payload<nil>", out.String())
		stop()
		require.NoError(t, <-served)
	})
}

// If the harness stops waiting, the server detects it and reports that nothing
// was delivered.
func TestTheHarnessStopsWaiting(t *testing.T) {
	result := make(chan bool, 1)
	ctx, stop := context.WithCancel(t.Context())
	s, _ := serve(t, os.Getpid(), func(_ context.Context, r *Reading) {
		stop()
		<-r.Gone()
		result <- r.Answer([]byte("late"))
	})
	_, err := read(ctx, s.URL())
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, <-result)
}

// When the server ends, a waiting request ends too.
func TestServeEnds(t *testing.T) {
	s, err := Listen()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		served <- s.Serve(ctx, os.Getpid(), func(ctx context.Context, _ *Reading) {
			stop()
			<-ctx.Done()
			close(over)
		}, func() {})
	}()
	_, _ = read(t.Context(), s.URL()) // the answer is empty or an error
	<-over
	require.NoError(t, <-served)
	_, err = read(t.Context(), s.URL())
	require.Error(t, err)
}
