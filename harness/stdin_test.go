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

// same is a specification of a child that is to read what the first one did.
func same(script string) Spec {
	spec := sh(script)
	spec.SameInput = true
	return spec
}

// A file is read by each child from where the first one found it, and stands
// behind what the last one has read.
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

// Of a pipe each child reads all, however much of it the one before had read,
// and whether it has ended or not.
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

// outputOf is what a program says to an input.
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

// What is too long to be kept is given once, whole; nobody is given a part.
func TestAStreamIsGivenOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	r.Fd()
	term, stdout, _ := onFiles(t, Never, r)
	go func() {
		chunk := make([]byte, 1<<20)
		for range keptInput>>20 + 1 {
			w.Write(chunk)
		}
		w.Close()
	}()
	run(t, same("wc -c"), term)
	_, err = Start(same("wc -c"), term, &ears{})
	require.ErrorContains(t, err, "give it the same standard input: more was read of it than could be kept")
	require.Equal(t, strconv.Itoa(keptInput+1<<20)+"\n", string(stdout()))
	run(t, sh("echo it can go on without"), term)
}

// What nobody can begin anew is given as it is.
func TestADeviceIsGivenAsItIs(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil) // the empty device
	c := begin(t, same("cat; echo over"), term, &ears{})
	require.Nil(t, c.stdin)
	c.Wait()
	require.Equal(t, "over\n", string(stdout()))
}
