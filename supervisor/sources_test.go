package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
)

// A reader follows real files and collects their signals.
type reader struct {
	t    *testing.T
	f    *Files
	stop func() error

	mu     sync.Mutex // guards the fields below
	posted []string
	in     []input.Input
}

func read(t *testing.T, f Files) *reader {
	t.Helper()
	f.Log = zerolog.Nop()
	files, err := NewFiles(f)
	require.NoError(t, err)
	r := &reader{t: t, f: files}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- files.Run(ctx, r.post) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *reader) post(in input.Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in = append(r.in, in)
	switch in := in.(type) {
	case input.SignalsSeen:
		for _, s := range in.Signals {
			r.posted = append(r.posted, fmt.Sprintf("%s %s %s", s.Source, s.Session, s.Kind))
		}
	case input.SourceTrouble:
		r.posted = append(r.posted, "trouble "+in.Source+" "+string(in.What))
	}
}

// until waits until exactly the wanted lines were posted.
func (r *reader) until(want ...string) {
	r.t.Helper()
	var got string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		r.mu.Lock()
		got = strings.Join(r.posted, "\n")
		r.mu.Unlock()
		if got == strings.Join(want, "\n") {
			return
		}
	}
	r.t.Fatalf("posted:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
}

// entry returns the content of a registry file.
func entry(session, status string, at time.Time) string {
	return fmt.Sprintf(`{"sessionId":%q,"status":%q,"statusUpdatedAt":%d}`, session, status, at.UnixMilli())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

var day = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// TestFilesOfALaunch follows a file whose name contains the process id and that
// does not exist yet, and a file that the harness names.
func TestFilesOfALaunch(t *testing.T) {
	dir := t.TempDir()
	r := read(t, Files{
		Fixed: []profiles.Source{{Name: "registry", Decoder: claude.Registry, Path: filepath.Join(dir, "{pid}.json"), Form: profiles.Whole}},
		Named: profiles.Source{Name: "log", Decoder: claude.Registry},
	})
	r.f.Launched(4242)
	r.f.Watch(filepath.Join(dir, "log.jsonl"), time.Time{})
	write(t, filepath.Join(dir, "4242.json"), entry("S1", "busy", day))
	r.until("registry S1 working")
	log, second := filepath.Join(dir, "log.jsonl"), entry("S2", "busy", day)
	write(t, log, entry("S2", "idle", day)+"\n"+second[:20])
	r.until("registry S1 working", "registry S2 idle") // a partial line is not reported
	write(t, log, second[20:]+"\nnot JSON\n")
	r.until("registry S1 working", "registry S2 idle", "registry S2 working")

	require.NoError(t, r.stop())
	require.Equal(t, input.UnknownSeen{Source: "log", Types: map[string]int{"malformed": 1}}, r.in[len(r.in)-1], "a malformed record is counted")
	last := r.in[len(r.in)-2].(input.SignalsSeen).Position
	require.Equal(t, log, last.Path)
	require.EqualValues(t, len(entry("S2", "idle", day))+1+len(second)+1, last.Offset, "the end of its line")
}

// TestFilesAreReadToTheirEnd checks that records written just before the run
// ends are read.
func TestFilesAreReadToTheirEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r := read(t, Files{Named: profiles.Source{Name: "log", Decoder: claude.Registry}})
	r.f.Watch(path, time.Time{})
	write(t, path, entry("S1", "busy", day)+"\n")
	r.until("registry S1 working")
	for i := range 50 {
		write(t, path, entry("S1", []string{"idle", "busy"}[i%2], day)+"\n")
	}
	require.NoError(t, r.stop())
	require.Len(t, r.posted, 51)
}

// Each change of an activity file after the launch is a sign of life, whatever the file's
// time is: another machine may have set that time. A file that does not change is no sign.
func TestActivityFiles(t *testing.T) {
	dir := t.TempDir()
	old, path, aside, bell := filepath.Join(dir, "old"), filepath.Join(dir, "alive"), filepath.Join(dir, "aside"), filepath.Join(dir, "bell")
	write(t, old, "from before")
	r := read(t, Files{Since: time.Now(), Fixed: []profiles.Source{profiles.Activity(old), profiles.Activity(path),
		{Name: "registry", Decoder: claude.Registry, Path: bell, Form: profiles.Whole}}})
	r.f.Launched(4242)
	write(t, bell, entry("S1", "busy", time.Now().Add(time.Hour)))
	r.until("registry S1 working") // when this line is posted, the other files were already checked
	write(t, aside, "x")
	require.NoError(t, os.Chtimes(aside, day, day))
	require.NoError(t, os.Rename(aside, path)) // a rename is one change; creating, writing and setting the time would be three
	r.until("registry S1 working", "file  alive")
	require.NoError(t, os.Chtimes(old, day, day))
	r.until("registry S1 working", "file  alive", "file  alive")
	require.NoError(t, r.stop())
	require.Equal(t, []telemetry.Signal{{Kind: telemetry.Alive, Source: "file", Detail: "changed", At: day}},
		r.in[len(r.in)-1].(input.SignalsSeen).Signals)
}

// TestThePastIsSkipped checks that two things are skipped: the records from before the
// launch in the file of a continued session, and, with AtEnd, the present content of a
// fixed source.
func TestThePastIsSkipped(t *testing.T) {
	dir := t.TempDir()
	resumed, found := filepath.Join(dir, "resumed"), filepath.Join(dir, "found")
	undated := `{"sessionId":"S1","status":"waiting"}`
	write(t, resumed, entry("OLD", "busy", day.Add(-time.Millisecond))+"\n"+undated+"\n"+entry("S1", "busy", day)+"\n")
	write(t, found, entry("S9", "busy", day)+"\n")
	r := read(t, Files{Since: day, AtEnd: true,
		Fixed: []profiles.Source{{Name: "found", Decoder: claude.Registry, Path: found}},
		Named: profiles.Source{Name: "log", Decoder: claude.Registry}})
	r.f.Watch(resumed, time.Time{})
	r.until("registry S1 needs_input", "registry S1 working")
	r.f.Launched(1)
	write(t, resumed, entry("S1", "idle", day)+"\n")
	r.until("registry S1 needs_input", "registry S1 working", "registry S1 idle")
	require.NoError(t, r.stop())
	require.Len(t, r.posted, 3)
}

// Each file has its own decoder state, so each reports that its session is live.
func TestADecoderForEachFile(t *testing.T) {
	dir := t.TempDir()
	r := read(t, Files{Named: profiles.Source{Name: "osc", Decoder: codex.OSC}})
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		r.f.Watch(path, time.Time{})
		write(t, path, "state=idle:app=codex\nstate=working:app=codex\n")
		want := []string{"terminal  session_live", "terminal  idle", "terminal  working"}
		if name == "b" {
			want = append(want, want...)
		}
		r.until(want...)
	}
}

func TestFilesWithoutDecoder(t *testing.T) {
	// If the profile does not describe the files that a harness names, such a file is
	// ignored.
	r := read(t, Files{})
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, entry("S1", "busy", day)+"\n")
	r.f.Watch(path, time.Time{})
	require.NoError(t, r.stop())
	require.Empty(t, r.posted)
}

// TestTroubleIsReported checks that a report names the source and the trouble.
func TestTroubleIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r := read(t, Files{Named: profiles.Source{Name: "log", Decoder: claude.Registry}})
	write(t, path, entry("S1", "busy", day)+"\n")
	r.f.Watch(path, time.Time{})
	r.until("registry S1 working")
	require.NoError(t, os.Truncate(path, 0))
	r.until("registry S1 working", "trouble log truncated")
	write(t, path, entry("S1", "idle", day)+"\n")
	r.until("registry S1 working", "trouble log truncated", "registry S1 idle")
}

// A file that describes its writer is used only while that process runs.
func TestAFileWithoutItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "4242.json")
	state := func(pid int, status string) string {
		return fmt.Sprintf(`{"pid":%d,"procStart":"7","sessionId":"S1","status":%q}`, pid, status)
	}
	var gone atomic.Bool
	r := read(t, Files{Fixed: []profiles.Source{{Name: "registry", Decoder: claude.Registry, Path: path, Form: profiles.Whole}},
		Runs: func(p telemetry.Process) bool {
			return p == telemetry.Process{PID: 4242, Start: 7} && !gone.Load()
		}})
	r.f.Launched(4242)
	write(t, path, state(4242, "busy"))
	r.until("registry S1 working")
	gone.Store(true)
	require.NoError(t, os.WriteFile(path, []byte(state(4242, "idle")), 0o600))
	r.until("registry S1 working", "trouble registry stale")
	gone.Store(false)
	require.NoError(t, os.WriteFile(path, []byte(state(4242, "busy")+" "), 0o600))
	r.until("registry S1 working", "trouble registry stale", "registry S1 working")
	require.NoError(t, r.stop())
}
