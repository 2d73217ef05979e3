package main

import (
	"errors"
	"fmt"
	"io"
	"os"

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

// readInput reads a file, or standard input if its name is "-".
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	in := cmd.InOrStdin()
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, no(lifeloop.InvalidRequest, "%v", err)
		}
		defer f.Close()
		in = f
	}
	data, err := readBounded(in)
	if err != nil {
		return nil, no(lifeloop.InvalidRequest, "read %s: %v", name, err)
	}
	return data, nil
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

// warn prints members that are valid but may be mistakes.
func warn(w io.Writer, ignored []lifeloop.Problem) {
	for _, p := range ignored {
		fmt.Fprintf(w, "warning: %s: %s\n", vt.Plain(p.Path), vt.Plain(p.Message))
	}
}
