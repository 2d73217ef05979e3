package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// maxInput is the largest document that a command reads, in bytes.
const maxInput = 16 << 20

// readDocument reads the first file of args. Without one, it reads standard
// input.
func readDocument(cmd *cobra.Command, args []string) ([]byte, error) {
	return readInput(cmd, append(args, "-")[0])
}

// readInput reads a file that openInput accepts, or standard input if its name is "-".
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		data, err := readBounded(cmd.InOrStdin())
		if err != nil {
			return nil, no(lifeloop.InvalidRequest, "read standard input: %v", err)
		}
		return data, nil
	}
	data, _, err := readNamed(name, pipeWait)
	return data, err
}

// pipeWait is the time that the other end of a pipe has to write the whole document.
const pipeWait = 30 * time.Second

// readNamed reads a file that openInput accepts. The FileInfo describes the file that was
// read.
func readNamed(name string, wait time.Duration) ([]byte, fs.FileInfo, error) {
	f, info, err := openInput(name, wait)
	if err != nil {
		return nil, nil, no(lifeloop.InvalidRequest, "%v", err)
	}
	defer f.Close()
	data, err := readBounded(f)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the other end of the pipe did not close it within %v", wait)
		fallthrough
	case err != nil:
		return nil, nil, no(lifeloop.InvalidRequest, "read %s: %v", name, err)
	}
	return data, info, nil
}

// openInput opens a regular file, or a pipe that a shell passes as an open file, as bash
// does for <(COMMAND). Reads from the pipe fail once the duration wait has passed.
// openInput itself never blocks: a FIFO, or a device other than /dev/null, is an error.
func openInput(name string, wait time.Duration) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil || info.Mode().IsRegular() || name == os.DevNull:
	case info.Mode()&fs.ModeNamedPipe != 0 && passed(name):
		err = f.SetReadDeadline(time.Now().Add(wait))
	default:
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// passed reports whether a path names a file that this process has open.
func passed(name string) bool {
	dir := filepath.Dir(name)
	return name == "/dev/stdin" || dir == "/dev/fd" || dir == "/proc/self/fd"
}

func readBounded(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(data) > maxInput {
		return nil, fmt.Errorf("more than %d MiB", maxInput>>20)
	}
	return data, err
}

// problemsOf lists the problems of a document, each with its path.
func problemsOf(err error) []lifeloop.Problem {
	if err == nil {
		return []lifeloop.Problem{}
	}
	if invalid, ok := errors.AsType[*lifeloop.ValidationError](err); ok {
		return invalid.Problems
	}
	return []lifeloop.Problem{{Path: "$", Message: err.Error()}}
}

// verdict prints whether a document is valid, and returns an error if it is
// not.
func (g *globals) verdict(cmd *cobra.Command, kind string, doc []byte) error {
	_, err := lifeloop.Echo(kind, doc)
	valid, ignored := err == nil, lifeloop.Unknown(kind, doc)
	if g.json {
		printed := printJSON(cmd.OutOrStdout(), struct {
			Valid    bool               `json:"valid"`
			Errors   []lifeloop.Problem `json:"errors"`
			Warnings []lifeloop.Problem `json:"warnings"`
		}{valid, problemsOf(err), append([]lifeloop.Problem{}, ignored...)})
		if printed == nil && !valid {
			return exitCode(exitNo)
		}
		return printed
	}
	warn(cmd.ErrOrStderr(), ignored)
	if valid {
		_, err := io.WriteString(cmd.OutOrStdout(), "valid\n")
		return err
	}
	return invalid(kind, err)
}

// invalid returns the error for an invalid document.
func invalid(kind string, err error) *failure {
	return no(lifeloop.InvalidRequest, "invalid %s: %v", kind, &lifeloop.ValidationError{Problems: problemsOf(err)})
}

// warn prints warnings about members of a document that are valid but may be mistakes.
func warn(w io.Writer, ignored []lifeloop.Problem) {
	for _, p := range ignored {
		fmt.Fprintf(w, "warning: %s: %s\n", vt.Plain(p.Path), vt.Plain(p.Message))
	}
}
