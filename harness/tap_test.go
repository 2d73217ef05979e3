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
			require.Equal(t, string(stdout()), string(e.snapshot().text))
			totals := e.snapshot().totals
			require.Equal(t, int64(len(stdout())), totals[len(totals)-1])
			require.Zero(t, e.snapshot().lost)
		})
	}
}

// Output is passed on before its line is complete.
func TestPartOfALineIsPassedOn(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	e := &recorder{}
	c := begin(t, reading(`printf half; exec sleep 300`), term, e)
	eventually(t, "the text is passed on", func() bool { return string(e.snapshot().text) == "half" })
	require.NoError(t, c.KillTree())
	c.Wait()
	require.Equal(t, "half", string(e.snapshot().text))
}

// The output of two streams is not mixed, whatever the sizes of the writes.
func TestTwoStreams(t *testing.T) {
	term, stdout, stderr := onFiles(t, Never, nil)
	_, e := run(t, reading(`for i in 1 2 3 4 5 6 7 8; do printf 'out'; printf 'err' >&2; sleep 0.01; printf "put $i\n"; printf "or $i\n" >&2; done`), term)
	require.Equal(t, string(stdout()), string(e.snapshot().streams[0]))
	require.Equal(t, string(stderr()), string(e.snapshot().streams[1]))
	// If stdout and stderr are one stream, their common order is kept.
	d := newDesk(t)
	term, err := OpenTerminal(d.slave, d.slave, d.slave, Auto)
	require.NoError(t, err)
	t.Cleanup(term.Close)
	_, e = run(t, reading(`printf 'out'; printf 'err' >&2`), term)
	require.Equal(t, "outerr", string(e.snapshot().streams[0]))
}

// If the sink does not read the output, it gets the number of lines. An unfinished
// last line of a stream counts too.
func TestLinesAreCounted(t *testing.T) {
	for script, want := range map[string]int64{`:`: 0, `echo a; echo b`: 2, `echo a; printf b`: 2, `echo a; echo b >&2; printf c`: 3, `printf a; printf b >&2`: 2} {
		term, _, _ := onFiles(t, Never, nil)
		_, e := run(t, sh(script), term)
		require.Equal(t, want, e.snapshot().lines, script)
	}
}

// A slow sink does not delay the screen. The sink gets the newest output and the
// number of dropped bytes. The sink never gets a line joined from parts of two lines.
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

// A tap that drops output of a stream drops it up to the end of a line, or inserts a
// line end. So the sink never gets a line joined from parts of two lines.
func TestATapDropsLines(t *testing.T) {
	one := newTap()
	for range 3 { // output that contains no line end
		one.put(0, bytes.Repeat([]byte("x"), tapSize/2))
	}
	segments, lost := one.take()
	require.Equal(t, 1, len(segments))
	require.Equal(t, int64(tapSize*3/2), lost.bytes+int64(len(segments[0].text)-1))
	require.Equal(t, byte('\n'), segments[0].text[0])
	require.Zero(t, lost.lines)

	two, text := newTap(), [2][]byte{}
	for i := range 100_000 {
		for stream := range text {
			line := fmt.Appendf(nil, "stream %d line %d\n", stream, i)
			text[stream] = append(text[stream], line...)
			two.put(stream, line[:5])
			two.put(1-stream, nil)
			two.put(stream, line[5:])
		}
	}
	segments, lost = two.take()
	var got [2][]byte
	total := 0
	for _, s := range segments {
		got[s.stream] = append(got[s.stream], s.text...)
		total += len(s.text)
	}
	require.Positive(t, lost.bytes)
	require.Equal(t, len(text[0])+len(text[1]), total+int(lost.bytes))
	for stream := range text {
		require.True(t, bytes.HasSuffix(text[stream], got[stream]))
		require.Equal(t, byte('\n'), got[stream][0])
	}
	lines := bytes.Count(got[0], []byte{'\n'}) + bytes.Count(got[1], []byte{'\n'})
	require.Equal(t, 200_000, lines+int(lost.lines))
}

// Without Spec.Text no output is queued.
func TestTextIsNotQueuedWithoutAReader(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh("echo hi"), term, &recorder{slow: func() { os.Exit(3) }})
	c.Wait()
	require.Nil(t, c.tap)
	require.Equal(t, "hi\n", string(stdout()))
}
