package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// The usual exit codes: success, a negative result, wrong usage. The commands run, gate,
// policy test and evidence have their own (CLI.md, Common).
const (
	exitDone  = 0
	exitNo    = 1
	exitUsage = 2
)

// A failure is an error with its exit code and class, and a hint for the user
// (CLI.md, Common).
type failure struct {
	code  int
	class lifeloop.FailureClass
	text  string
	hint  string // may be empty
}

func (f *failure) Error() string { return f.text }

// no returns a failure with exit code 1, for example if something is invalid,
// not found or not verified.
func no(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: exitNo, class: class, text: fmt.Sprintf(format, args...)}
}

func (f *failure) withHint(format string, args ...any) *failure {
	f.hint = fmt.Sprintf(format, args...)
	return f
}

// exitCode is an error that is only an exit code. Its cause was already reported.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprint("exit ", int(e)) }

// death is the error of a run whose harness was ended by a signal.
type death struct {
	signal syscall.Signal
	group  bool // a key such as Ctrl-C caused the signal, so the whole process group must get it
}

func (d death) Error() string { return "died of " + d.signal.String() }

// refused returns a failure of run with exit code 125: the wrapper failed or
// refused to run.
func refused(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: 125, class: class, text: fmt.Sprintf(format, args...)}
}

// ofRun sets exit code 125 for an error that occurred before the session started.
// It does not change an error of usage.
func ofRun(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitUsage {
		return err
	}
	return refused(lifeloop.InternalError, "%v", err)
}

// usage returns a failure with exit code 2: the command line or configuration is
// wrong.
func usage(format string, args ...any) *failure {
	return &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: fmt.Sprintf(format, args...)}
}

// settle reports the error of a command and returns its exit code. If a signal
// ended the harness, settle ends this process by the same signal, and returns only if
// that signal does not end the process.
func (g *globals) settle(err error, args []string, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if d, ok := errors.AsType[death](err); ok {
		harness.Die(d.signal, d.group)
		return 128 + int(d.signal)
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = usage("%v", err).withHint("lifeloop-wrap --help lists the commands")
	}
	report(stderr, f, g.json || jsonAsked(args))
	return f.code
}

// jsonAsked finds --json in a command line that was not parsed to its end.
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
	fmt.Fprintf(w, "lifeloop-wrap: %s\n", vt.Plain(f.text))
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", vt.Plain(f.hint))
	}
}

// classifyErrors sets exit code 1 and class internal_error for errors without a
// class that occur while a command runs, such as a failed write of the output.
// Other errors without a class come from parsing the command line; settle reports
// them.
func classifyErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if _, ok := errors.AsType[*failure](err); err == nil || ok {
				return err
			}
			return argumentError(cmd, args, err)
		}
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			_, classified := errors.AsType[*failure](err)
			_, code := errors.AsType[exitCode](err)
			if _, died := errors.AsType[death](err); err == nil || classified || code || died {
				return err
			}
			return no(lifeloop.InternalError, "%v", err)
		}
	}
	for _, sub := range cmd.Commands() {
		classifyErrors(sub)
	}
}

// startHint returns a hint for the user about a harness that was not started.
func startHint(f *failure, program, adapter string) string {
	switch {
	case f.code == 126:
		return "check that the program is a file, is executable (chmod +x) and is built for this machine"
	case f.code == 127 && strings.Contains(program, "/"):
		return "check that the file exists and, for a script, that the interpreter in its first line exists"
	case f.code == 127:
		return "check that the program is installed and that its folder is in PATH"
	case f.class == lifeloop.CapabilityUnsupported:
		return fmt.Sprintf("lifeloop-wrap manifest inspect %s lists the capabilities; --require CAPABILITY=preferred starts even without that capability, --require CAPABILITY=required:partial accepts partial support", adapter)
	}
	return ""
}
