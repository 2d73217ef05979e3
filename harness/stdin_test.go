//go:build linux

package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// same returns a Spec with SameInput: each child reads the input from the position at
// which the first child began.
func same(script string) Spec {
	spec := sh(script)
	spec.SameInput = true
	return spec
}

// Each child reads a file from the position at which the first one began.
// Afterwards the file's position is where the last child stopped.
func TestEachChildReadsTheSameFile(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(in, []byte("one\ntwo\nthree\n"), 0o600))
	stdin, err := os.Open(in)
	require.NoError(t, err)
	defer stdin.Close()
	_, err = stdin.Seek(4, 0)
	require.NoError(t, err)
	term, stdout, _ := onFiles(t, Auto, stdin)
	run(t, same("cat; exit 3"), term)
	run(t, same("read -r line; echo $line"), term)
	run(t, sh("cat"), term)
	require.Equal(t, "two\nthree\ntwo\nthree\n", string(stdout()))
}

// Each child reads a pipe from its beginning, however much the previous child had
// read, and whether the pipe has ended or not.
func TestEachChildReadsTheSamePipe(t *testing.T) {
	for _, mode := range []string{"pipes", "a terminal beside it"} {
		t.Run(mode, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			r.Fd() // blocking, as a shell's pipe is
			var term *Terminal
			var stdout func() []byte
			if mode == "pipes" {
				term, stdout, _ = onFiles(t, Auto, r)
			} else {
				d := newDesk(t)
				term, err = OpenTerminal(r, d.slave, d.slave, Auto)
				require.NoError(t, err)
				t.Cleanup(term.Close)
				stdout = func() []byte { return bytes.ReplaceAll([]byte(d.text()), []byte("\r\n"), []byte("\n")) }
			}
			prompt := bytes.Repeat([]byte("a long prompt\n"), 20_000) // more than a pipe holds
			go w.Write(prompt)
			size := strconv.Itoa(len(prompt))
			run(t, same("read -r line; echo first: $line; exit 3"), term)
			run(t, same("exit 3"), term)
			run(t, same("head -c "+size+" | cksum"), term)
			go func() {
				w.WriteString("end\n")
				w.Close()
			}()
			run(t, same("cat | cksum"), term)
			run(t, same("tail -n 1"), term)
			var want bytes.Buffer
			want.WriteString("first: a long prompt\n")
			for _, text := range [][]byte{prompt, append(bytes.Clone(prompt), "end\n"...)} {
				cksum := sh("cksum")
				want.Write(outputOf(t, cksum, text))
			}
			want.WriteString("end\n")
			eventually(t, "all of it is there", func() bool { return len(stdout()) >= want.Len() })
			require.Equal(t, want.String(), string(stdout()))
		})
	}
}

// outputOf returns what a program prints for the given input.
func outputOf(t *testing.T, spec Spec, text []byte) []byte {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(in, text, 0o600))
	stdin, err := os.Open(in)
	require.NoError(t, err)
	defer stdin.Close()
	term, stdout, _ := onFiles(t, Never, stdin)
	run(t, spec, term)
	return stdout()
}

// The first child reads all of a stream that is too long to be saved. A second child with
// SameInput does not start, because it would get only a part of the stream.
func TestALongStreamIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	r.Fd()
	term, stdout, _ := onFiles(t, Never, r)
	go func() {
		chunk := make([]byte, 1<<20)
		for range maxSaved>>20 + 1 {
			w.Write(chunk)
		}
		w.Close()
	}()
	run(t, same("wc -c"), term)
	_, err = Start(same("wc -c"), term, &recorder{})
	require.ErrorContains(t, err, "read standard input again: it has more than 16777216 bytes")
	require.Equal(t, strconv.Itoa(maxSaved+1<<20)+"\n", string(stdout()))
	run(t, sh("echo it can continue without"), term)
}

// A device cannot be read again, so each child gets it as it is.
func TestADeviceIsInherited(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil) // stdin is the null device
	c := begin(t, same("cat; echo over"), term, &recorder{})
	require.Nil(t, c.stdin)
	c.Wait()
	require.Equal(t, "over\n", string(stdout()))
}
