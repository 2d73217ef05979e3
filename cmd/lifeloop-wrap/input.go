package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

// maxInput bounds every document that a command reads.
const maxInput = 16 << 20

// maxProblems is how many problems of a list's items are worth reading.
const maxProblems = 100

// readDocument reads the file that args name at i, or stdin where they name none
// or "-".
func readDocument(cmd *cobra.Command, args []string, i int) ([]byte, error) {
	if i < len(args) {
		return readInput(cmd, args[i])
	}
	return readInput(cmd, "-")
}

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

// problemsOf lists what is wrong with a document, each with its path.
func problemsOf(err error) []lifeloop.Problem {
	var invalid *lifeloop.ValidationError
	if errors.As(err, &invalid) {
		return invalid.Problems
	}
	return []lifeloop.Problem{{Path: "$", Message: err.Error()}}
}

// below puts the problems of a part of a document where that part is.
func below(at string, err error) []lifeloop.Problem {
	var moved []lifeloop.Problem
	for _, p := range problemsOf(err) {
		switch {
		case p.Path == "$":
			p.Path = at
		case p.Path[0] == '[':
			p.Path = at + p.Path
		default:
			p.Path = at + "." + p.Path
		}
		moved = append(moved, p)
	}
	return moved
}

// verdict prints whether a document is valid and is the exit code that says so.
func (g *globals) verdict(cmd *cobra.Command, kind string, doc []byte) error {
	problems, ignored := flaws(kind, doc), lifeloop.Unknown(kind, doc)
	valid := len(problems) == 0
	if g.json {
		if err := printJSON(cmd.OutOrStdout(), struct {
			Valid    bool               `json:"valid"`
			Errors   []lifeloop.Problem `json:"errors"`
			Warnings []lifeloop.Problem `json:"warnings"`
		}{valid, append([]lifeloop.Problem{}, problems...), append([]lifeloop.Problem{}, ignored...)}); err != nil {
			return err
		}
		if valid {
			return nil
		}
		return exitCode(exitNo)
	}
	warn(cmd.ErrOrStderr(), ignored)
	if valid {
		_, err := io.WriteString(cmd.OutOrStdout(), "valid\n")
		return err
	}
	return invalid(kind, problems)
}

// invalid is the refusal of a document.
func invalid(kind string, problems []lifeloop.Problem) *failure {
	err := &lifeloop.ValidationError{Problems: problems}
	return no(err.FailureClass(), "no valid %s: %v", kind, err)
}

// misfit says why encoding/json could not read a value, without quoting it.
func misfit(err error) string {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err.Error()
	}
	expected := map[reflect.Kind]string{reflect.Struct: "an object", reflect.Slice: "an array", reflect.Bool: "true or false"}[typed.Type.Kind()]
	text := "expected " + cmp.Or(expected, "a string") + ", got " + typed.Value
	if typed.Field != "" {
		return typed.Field + ": " + text
	}
	return text
}

// warn tells of what is valid and may be a mistake.
func warn(w io.Writer, ignored []lifeloop.Problem) {
	for _, p := range ignored {
		fmt.Fprintf(w, "warning: %s: %s\n", p.Path, p.Message)
	}
}
