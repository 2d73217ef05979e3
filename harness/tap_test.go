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

// reading is a specification whose output is read.
func reading(script string) Spec {
	spec := sh(script)
	spec.Text = true
	return spec
}

// All that was written is told before the end is, in order and as it was, on a
// pty and on pipes; and nothing of it goes to the screen later than before.
func TestTheTextIsTold(t *testing.T) {
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
			require.Equal(t, string(want), string(e.heard().text))
			totals := e.heard().totals
			require.Equal(t, int64(len(stdout())), totals[len(totals)-1])
			require.Zero(t, e.heard().lost)
		})
	}
}

// A first sign comes at once, though the line that it begins is not told yet.
func TestASignComesBeforeItsLine(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	e := &ears{}
	c := begin(t, reading(`printf half; exec sleep 300`), term, e)
	eventually(t, "a sign is told", func() bool { h := e.heard(); return len(h.totals) > 0 && h.totals[0] == 4 })
	require.Empty(t, e.heard().text)
	require.NoError(t, c.KillTree())
	c.Wait()
	require.Equal(t, "half\n", string(e.heard().text))
}

// Of two streams each line is whole, whatever pieces they were written in.
func TestTwoStreamsOfLines(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	_, e := run(t, reading(`for i in 1 2 3 4 5 6 7 8; do printf 'out'; printf 'err' >&2; sleep 0.01; printf "put $i\n"; printf "or $i\n" >&2; done`), term)
	lines := strings.Split(strings.TrimSuffix(string(e.heard().text), "\n"), "\n")
	require.Len(t, lines, 16)
	seen := map[string]int{}
	for _, line := range lines {
		seen[line]++
	}
	for i := 1; i <= 8; i++ {
		require.Equal(t, 1, seen[fmt.Sprint("output ", i)], "%q", lines)
		require.Equal(t, 1, seen[fmt.Sprint("error ", i)], "%q", lines)
	}
	// One stream of both is told as it came, without waiting for lines.
	d := newDesk(t)
	term, err := OpenTerminal(d.slave, d.slave, d.slave, Auto)
	require.NoError(t, err)
	t.Cleanup(term.Close)
	_, e = run(t, reading(`printf 'out'; printf 'err' >&2`), term)
	require.Equal(t, "outerr", string(e.heard().text))
}

// Who reads too slowly does not hold up the screen. The newest is kept, what
// was dropped is counted, and no line is made of what never was one.
func TestAReaderThatCannotFollow(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	going := make(chan struct{})
	e := &ears{slow: func() { <-going }}
	c := begin(t, reading(`i=0; while [ $i -lt 60000 ]; do echo "a line of some length, number $i"; i=$((i+1)); done; echo done`), term, e)
	eventually(t, "all of it is on the screen", func() bool { return bytes.HasSuffix(stdout(), []byte("done\n")) })
	ended := make(chan struct{})
	go func() { defer close(ended); c.Wait() }()
	select {
	case <-ended:
		t.Fatal("the end was told before the text")
	case <-time.After(50 * time.Millisecond):
	}
	close(going)
	<-ended
	h := e.heard()
	require.Positive(t, h.lost)
	require.Equal(t, len(stdout()), len(h.text)+int(h.lost), "what is told and what was dropped is all that there was")
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
	require.Empty(t, text, "it may be the beginning of one")
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

// The text of a child that nobody reads costs nothing.
func TestNobodyReads(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh("echo hi"), term, &ears{slow: func() { os.Exit(3) }})
	c.Wait()
	require.Nil(t, c.tap)
	require.Equal(t, "hi\n", string(stdout()))
}
