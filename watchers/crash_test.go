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
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// followed names the file that this process follows, when a test has started
// it to be killed, and form its form.
const followed, formOf = "LIFELOOP_TEST_FOLLOW", "LIFELOOP_TEST_FORM"

// A note is what the follower keeps of each line: one write, so that the line
// and the position behind it are both there or neither is.
type note struct {
	Text string
	Pos  Position
}

// followUntilKilled keeps a note of each line told and goes on, when it starts,
// behind the newest one.
func followUntilKilled(path string) error {
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
			kept, err := json.Marshal(note{string(l.Text), l.Pos})
			if err == nil {
				_, err = out.Write(append(kept, '\n'))
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
	content, _ := os.ReadFile(path) // there may be none yet
	for line := range bytes.Lines(content) {
		var n note
		if json.Unmarshal(line, &n) == nil {
			notes = append(notes, n)
		}
	}
	return notes
}

// countNotes is how many whole notes there are.
func countNotes(path string) int {
	content, _ := os.ReadFile(path)
	return bytes.Count(content, []byte("\n"))
}

// A process that follows a file, killed wherever it happens to be while a
// writer goes on, and started again each time, tells each line once.
func TestKilledFollowerResumes(t *testing.T) {
	for _, form := range []string{"lines", "values"} {
		t.Run(form, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			var want []string
			var upTo atomic.Int64 // a slow machine must not be written ahead of for ever
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				if err != nil {
					t.Error(err)
					return
				}
				defer out.Close()
				random := rand.New(rand.NewPCG(7, 7))
				for n := 0; ; n++ {
					for int64(n) >= upTo.Load() {
						select {
						case <-stop:
							return
						case <-time.After(100 * time.Microsecond):
						}
					}
					text := fmt.Sprintf("line %d %s", n, strings.Repeat("x", random.IntN(500)))
					if form == "values" {
						text = fmt.Sprintf("{\n  \"n\": %d,\n  \"x\": %q\n}", n, strings.Repeat("x", random.IntN(500)))
					}
					want = append(want, text)
					// A harness flushes when it likes: in the midst of a line, too.
					for rest := text + "\n"; rest != ""; {
						size := 1 + random.IntN(len(rest))
						if _, err := out.WriteString(rest[:size]); err != nil {
							t.Error(err)
							return
						}
						rest = rest[size:]
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(random.IntN(300)) * time.Microsecond): // the writer's own pace
					}
				}
			}()

			random := rand.New(rand.NewPCG(1, 1))
			follow := func() *exec.Cmd {
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), followed+"="+path, formOf+"="+form)
				cmd.Stderr = os.Stderr
				require.NoError(t, cmd.Start())
				return cmd
			}
			await := func(notes int) {
				for deadline := time.Now().Add(patience); countNotes(path+".notes") < notes; time.Sleep(3 * time.Millisecond) {
					require.True(t, time.Now().Before(deadline), "fewer than %d lines are told", notes)
				}
			}
			for round := range 40 {
				was := countNotes(path + ".notes")
				upTo.Add(60)
				cmd := follow()
				if round%3 > 0 {
					await(was + 1) // in the midst of telling, else anywhere from its start on
				}
				time.Sleep(time.Duration(random.IntN(15_000)) * time.Microsecond) // the moment of the kill
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
			}
			close(stop)
			<-stopped
			// One more line, which nobody was there to tell: who tells it has begun.
			last, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			text := "the last line"
			if form == "values" {
				text = `{"the": "last"}`
			}
			_, err = last.WriteString(text + "\n")
			require.NoError(t, err)
			require.NoError(t, last.Close())
			want = append(want, text)
			cmd := follow()
			await(len(want))
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(t, cmd.Wait())

			var got []string
			for _, n := range readNotes(path + ".notes") {
				got = append(got, n.Text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("told %d of %d", len(got), len(want))
			}
		})
	}
}
