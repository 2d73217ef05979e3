//go:build linux

package harness

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reading is a Spec whose output the sink reads.
func reading(script string) Spec {
	spec := sh(script)
	spec.Text = true
	return spec
}

// The sink gets all output before Wait returns, in order and unchanged, on a pty
// and on pipes.
func TestAllTextReachesTheSink(t *testing.T) {
	const write = `i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; printf 'and no end'`
	for _, mode := range []Mode{Always, Never} {
		t.Run(string(mode), func(t *testing.T) {
			term, stdout, _ := onFiles(t, mode, nil)
			exit, e := run(t, reading(write), term)
			require.Equal(t, Exit{}, exit)
			want := stdout()
			if mode == Never { // stderr is another stream, so each line waits for its end
				want = append(want, '\n')
			}
			require.Equal(t, string(want), string(e.snapshot().text))
			totals := e.snapshot().totals
			require.Equal(t, int64(len(stdout())), totals[len(totals)-1])
			require.Zero(t, e.snapshot().lost)
		})
	}
}

// The first output is reported at once, even if its line is not complete.
func TestAnIncompleteLineIsReported(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	e := &recorder{}
	c := begin(t, reading(`printf half; exec sleep 300`), term, e)
	eventually(t, "the output is reported", func() bool { h := e.snapshot(); return len(h.totals) > 0 && h.totals[0] == 4 })
	require.Empty(t, e.snapshot().text)
	require.NoError(t, c.KillTree())
	c.Wait()
	require.Equal(t, "half\n", string(e.snapshot().text))
}

// The time of the last output is that of its reading, and does not change while
// the child is silent.
func TestLastOutput(t *testing.T) {
	for _, mode := range []Mode{Always, Never} {
		t.Run(string(mode), func(t *testing.T) {
			stdin, keys, err := pipe(false) // stdin blocks, as the child expects
			require.NoError(t, err)
			defer stdin.Close()
			defer keys.Close()
			term, stdout, _ := onFiles(t, mode, stdin)
			c := begin(t, sh(`while read line; do printf x; done`), term, &recorder{})
			require.Zero(t, c.LastOutput())
			var last time.Time
			for n := range 3 {
				asked := time.Now()
				_, err := keys.WriteString("\n")
				require.NoError(t, err)
				eventually(t, "the output is there", func() bool { return len(stdout()) == n+1 && c.LastOutput().After(last) })
				last = c.LastOutput()
				require.False(t, last.Before(asked))
				require.Equal(t, last, c.LastOutput(), "silence changes nothing")
			}
			require.NoError(t, c.KillTree())
			c.Wait()
		})
	}
}

// Lines of two streams are not mixed, in whatever pieces they were written.
func TestTwoStreamsOfLines(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	_, e := run(t, reading(`for i in 1 2 3 4 5 6 7 8; do printf 'out'; printf 'err' >&2; sleep 0.01; printf "put $i\n"; printf "or $i\n" >&2; done`), term)
	lines := strings.Split(strings.TrimSuffix(string(e.snapshot().text), "\n"), "\n")
	require.Len(t, lines, 16)
	seen := map[string]int{}
	for _, line := range lines {
		seen[line]++
	}
	for i := 1; i <= 8; i++ {
		require.Equal(t, 1, seen[fmt.Sprint("output ", i)], "%q", lines)
		require.Equal(t, 1, seen[fmt.Sprint("error ", i)], "%q", lines)
	}
	// If both are one stream, it is passed on without waiting for lines.
	d := newDesk(t)
	term, err := OpenTerminal(d.slave, d.slave, d.slave, Auto)
	require.NoError(t, err)
	t.Cleanup(term.Close)
	_, e = run(t, reading(`printf 'out'; printf 'err' >&2`), term)
	require.Equal(t, "outerr", string(e.snapshot().text))
}

// A slow sink does not delay the screen. It gets the newest output and the number
// of dropped bytes, and no line that was not written.
func TestASlowSinkLosesTheOldestText(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	going := make(chan struct{})
	e := &recorder{slow: func() { <-going }}
	c := begin(t, reading(`i=0; while [ $i -lt 60000 ]; do echo "a line of some length, number $i"; i=$((i+1)); done; echo done`), term, e)
	eventually(t, "all of it is on the screen", func() bool { return bytes.HasSuffix(stdout(), []byte("done\n")) })
	ended := make(chan struct{})
	go func() { defer close(ended); c.Wait() }()
	select {
	case <-ended:
		t.Fatal("Wait returned before the text was passed on")
	case <-time.After(50 * time.Millisecond):
	}
	close(going)
	<-ended
	h := e.snapshot()
	require.Positive(t, h.lost)
	require.Equal(t, len(stdout()), len(h.text)+int(h.lost), "passed on and dropped bytes are all bytes")
	require.True(t, bytes.HasSuffix(h.text, []byte("number 59999\ndone\n")))
	for line := range strings.SplitSeq(string(h.text), "\n") {
		if line != "" && line != "done" && (!strings.HasPrefix(line, "a line of some length, number ") || strings.Count(line, "a") != 1) {
			t.Fatalf("no such line was written: %q", line)
		}
	}
}

func TestATapOfLongLines(t *testing.T) {
	tap, s := newTap(2), &source{}
	tap.put(s, bytes.Repeat([]byte("x"), tapLine))
	text, _ := tap.take()
	require.Empty(t, text, "the line may continue")
	tap.put(s, []byte("y"))
	text, _ = tap.take()
	require.Equal(t, tapLine+2, len(text))
	require.True(t, bytes.HasSuffix(text, []byte("xy\n")))
	tap.put(s, []byte("z"))
	tap.end([]*source{s})
	text, lost := tap.take()
	require.Equal(t, "z\n", string(text))
	require.Zero(t, lost)
	one := newTap(1)
	for range 3 { // without any end of a line
		one.put(s, bytes.Repeat([]byte("x"), tapSize/2))
	}
	text, lost = one.take()
	require.Equal(t, int64(tapSize*3/2), lost+int64(len(text)-1))
}

// Without Spec.Text no output is queued.
func TestTextIsNotQueuedWithoutAReader(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh("echo hi"), term, &recorder{slow: func() { os.Exit(3) }})
	c.Wait()
	require.Nil(t, c.tap)
	require.Equal(t, "hi\n", string(stdout()))
}
