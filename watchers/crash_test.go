package watchers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These environment variables hold the path and the form of the file to follow,
// in a process that a test starts in order to kill it.
const followed, formOf = "LIFELOOP_TEST_FOLLOW", "LIFELOOP_TEST_FORM"

// A note is what the follower saves of each line: the text, and the position after the
// line. Each note is one write. If a kill cuts a note off, the next follower drops it, so
// text and position are always saved together.
type note struct {
	Text string
	Pos  Position
}

// followUntilKilled notes each line. When it starts, it resumes after the newest
// note.
func followUntilKilled(path string) error {
	dropPart(path + ".notes")
	notes := readNotes(path + ".notes")
	s := Spec{Source: "s", Path: path}
	if os.Getenv(formOf) == "values" {
		s.Form = Values
	}
	if len(notes) > 0 {
		s.From = &notes[len(notes)-1].Pos
	}
	out, err := os.OpenFile(path+".notes", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	w, err := New(Config{
		Deliver: func(l Line) {
			text, err := json.Marshal(note{string(l.Text), l.Pos})
			if err == nil {
				_, err = out.Write(append(text, '\n'))
			}
			if err != nil {
				panic(err)
			}
		},
		Trouble: func(x Trouble) { panic(fmt.Sprintf("trouble: %+v", x)) },
	})
	if err != nil {
		return err
	}
	w.Add(s)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return w.Run(ctx)
}

func readNotes(path string) (notes []note) {
	content, _ := os.ReadFile(path) // the file may not exist yet
	for line := range bytes.Lines(content) {
		var n note
		if json.Unmarshal(line, &n) == nil {
			notes = append(notes, n)
		}
	}
	return notes
}

// dropPart removes an incomplete note from the end of the file. A kill can cut off a note,
// because the kernel may end a write between two pages.
func dropPart(path string) {
	if content, err := os.ReadFile(path); err == nil {
		_ = os.Truncate(path, int64(bytes.LastIndexByte(content, '\n')+1))
	}
}

// countNotes counts the whole notes.
func countNotes(path string) int {
	content, _ := os.ReadFile(path)
	return bytes.Count(content, []byte("\n"))
}

// TestKilledFollowerResumes kills a process that follows a file, at random
// moments while a writer appends to the file, and starts it again each time. All
// its runs together note each line once.
func TestKilledFollowerResumes(t *testing.T) {
	for _, form := range []string{"lines", "values"} {
		t.Run(form, func(t *testing.T) {
			seed := testSeed(t)
			f := &killedFollower{path: filepath.Join(t.TempDir(), "log"), form: form}
			random := rand.New(rand.NewPCG(seed, 1))
			out := startFlusher(t, f.path, form, rand.New(rand.NewPCG(seed, 2)))
			for round := range 40 {
				before := countNotes(f.notes())
				out.allow(60)
				cmd := f.start(t)
				if round%3 > 0 {
					f.await(t, before+1) // kill it while it writes notes; in the other rounds, at any time after its start
				}
				time.Sleep(time.Duration(random.IntN(15_000)) * time.Microsecond) // choose a random moment for the kill
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
			}
			want := out.stop()
			// One more line, written while no follower runs: its note shows that
			// the last follower has started.
			last := "the last line"
			if form == "values" {
				last = `{"the": "last"}`
			}
			appendTo(t, f.path, last+"\n")
			want = append(want, last)
			cmd := f.start(t)
			f.await(t, len(want))
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(t, cmd.Wait())

			var got []string
			for _, n := range readNotes(f.notes()) {
				got = append(got, n.Text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d lines noted, want %d", len(got), len(want))
			}
		})
	}
}

// testSeed returns the seed of a random test: LIFELOOP_TEST_SEED, or a new one.
// It logs the seed, so that a failing test prints it.
func testSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if text := os.Getenv("LIFELOOP_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("LIFELOOP_TEST_SEED=%d", seed)
	return seed
}

// A killedFollower is the process that follows path.
type killedFollower struct{ path, form string }

func (f *killedFollower) notes() string { return f.path + ".notes" }

func (f *killedFollower) start(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), followed+"="+f.path, formOf+"="+f.form)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd
}

// await waits until the file has at least the given number of notes.
func (f *killedFollower) await(t *testing.T, notes int) {
	t.Helper()
	for deadline := time.Now().Add(patience); countNotes(f.notes()) < notes; time.Sleep(3 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "fewer than %d lines noted", notes)
	}
}

// A flusher appends lines or values to a file, each in pieces of random size, like a
// harness that flushes in the middle of a line.
type flusher struct {
	t      *testing.T
	form   string
	out    *os.File
	random *rand.Rand
	limit  atomic.Int64 // the number of lines that may be written, so that a slow follower can catch up
	ended  chan struct{}
	done   chan error
	lines  []string // owned by run until its result is in done
}

func startFlusher(t *testing.T, path, form string, random *rand.Rand) *flusher {
	t.Helper()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	f := &flusher{t: t, form: form, out: out, random: random, ended: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		defer out.Close()
		f.done <- f.run()
	}()
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *flusher) allow(lines int64) { f.limit.Add(lines) }

// stop ends the writing and returns the lines written.
func (f *flusher) stop() []string {
	select {
	case <-f.ended:
	default:
		close(f.ended)
		require.NoError(f.t, <-f.done)
	}
	return f.lines
}

func (f *flusher) run() error {
	for {
		pause := time.Duration(f.random.IntN(300)) * time.Microsecond
		if int64(len(f.lines)) < f.limit.Load() {
			if err := f.write(); err != nil {
				return err
			}
		}
		select {
		case <-f.ended:
			return nil
		case <-time.After(pause): // pause for a random time
		}
	}
}

func (f *flusher) write() error {
	n, fill := len(f.lines), strings.Repeat("x", f.random.IntN(500))
	text := fmt.Sprintf("line %d %s", n, fill)
	if f.form == "values" {
		text = fmt.Sprintf("{\n  \"n\": %d,\n  \"x\": %q\n}", n, fill)
	}
	f.lines = append(f.lines, text)
	for rest := text + "\n"; rest != ""; {
		size := 1 + f.random.IntN(len(rest))
		if _, err := f.out.WriteString(rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}
