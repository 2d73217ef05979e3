package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

// Exit codes of every command but run: done, the answer is no, wrong usage.
const (
	exitDone  = 0
	exitNo    = 1
	exitUsage = 2
)

// A failure is an error with what a program and a person need besides its
// text (CLI.md, Common).
type failure struct {
	code  int
	class lifeloop.FailureClass
	text  string
	hint  string
}

func (f *failure) Error() string { return f.text }

// no is the answer "no": invalid, not found, not verified.
func no(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: exitNo, class: class, text: fmt.Sprintf(format, args...)}
}

func (f *failure) withHint(format string, args ...any) *failure {
	f.hint = fmt.Sprintf(format, args...)
	return f
}

// exitCode is an error that is only an exit code: everything that was to be
// said has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprint("exit ", int(e)) }

// refused is an error that ends run with 125: the wrapper failed or refused.
func refused(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: 125, class: class, text: fmt.Sprintf(format, args...)}
}

// ofRun gives an error from before the run the exit code of run, unless it is
// one of usage.
func ofRun(err error) error {
	var f *failure
	if errors.As(err, &f) && f.code == exitUsage {
		return err
	}
	return refused(lifeloop.InternalError, "%v", err)
}

// usage is an error in what was asked, with exit code 2.
func usage(format string, args ...any) *failure {
	return &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: fmt.Sprintf(format, args...)}
}

// settle reports the error that a command ended with, and is its exit code.
func (g *globals) settle(err error, args []string, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: err.Error(), hint: "lifeloop-wrap --help lists the commands"}
	}
	report(stderr, f, g.json || jsonAsked(args))
	return f.code
}

// jsonAsked finds --json where a flag error kept it from being parsed.
func jsonAsked(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--json" {
			return true
		}
	}
	return false
}

func report(w io.Writer, f *failure, asJSON bool) {
	if asJSON {
		line, _ := json.Marshal(map[string]any{"error": f.text, "failure_class": f.class, "retry_class": f.class.DefaultRetry(), "hint": f.hint})
		fmt.Fprintf(w, "%s\n", line)
		return
	}
	fmt.Fprintf(w, "lifeloop-wrap: %s\n", f.text)
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
}

// troubleIsNoUsage gives every error of a command at work that does not say
// what it is the exit code and the class of our own trouble: a file that cannot
// be read, an output that cannot be written. What is left for execute are then
// the errors of the command line itself; a wrong number of words shows the
// line that would be right.
func troubleIsNoUsage(cmd *cobra.Command) {
	if fits := cmd.Args; fits != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := fits(cmd, args)
			var f *failure
			if err == nil || errors.As(err, &f) {
				return err
			}
			return usage("%s: %v", cmd.CommandPath(), err).withHint("%s", cmd.UseLine())
		}
	}
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			var f *failure
			var code exitCode
			if err == nil || errors.As(err, &f) || errors.As(err, &code) {
				return err
			}
			return no(lifeloop.InternalError, "%v", err)
		}
	}
	for _, sub := range cmd.Commands() {
		troubleIsNoUsage(sub)
	}
}

// wayOut is what to do about a harness that was not started.
func wayOut(f *failure, program, adapter string) string {
	switch {
	case f.code == 126:
		return "is it a file, a program for this machine, and may you run it? chmod +x makes a script one"
	case f.code == 127 && strings.Contains(program, "/"):
		return "is it there, and if it is a script, is the program that its first line names?"
	case f.code == 127:
		return "is it installed, and is its folder in PATH?"
	case f.class == lifeloop.CapabilityUnsupported:
		return fmt.Sprintf("lifeloop-wrap manifest show %s says what may be required; CAPABILITY=preferred goes on without it, CAPABILITY=required:partial accepts a part", adapter)
	}
	return ""
}
