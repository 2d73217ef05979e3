package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/internal/document"
	"lifeloop/internal/nearest"
)

// This file has the messages for errors in the command line.

func unknownCommand(cmd *cobra.Command, word string) *failure {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return usage("unknown command %q%s", word, nearest.Hint(word, names)).withHint("%s --help lists the commands", cmd.CommandPath())
}

// argumentError describes a wrong number of arguments, with the names of the
// arguments from the command's usage line. err is the error of the library.
func argumentError(cmd *cobra.Command, args []string, err error) *failure {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	var required []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word != strings.ToUpper(word) || strings.ContainsAny(word[:1], "-[") {
			break
		}
		required = append(required, word)
	}
	text := fmt.Sprintf("%s: %v", name, err)
	switch {
	case len(args) >= len(required) && len(args) > 0:
		text = fmt.Sprintf("%s: unexpected argument %q", name, args[len(args)-1])
	case len(args) >= len(required):
	case required[len(args)] == "SESSION":
		text = name + ` needs a SESSION: an id, its beginning, or "last"`
	default:
		text = fmt.Sprintf("%s needs %s", name, required[len(args)])
	}
	return usage("%s", text).withHint("usage: %s", cmd.UseLine())
}

// flagError describes an error that occurred when the flags of cmd were parsed.
func flagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help describes the flags"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		near := nearest.Word(unknown.GetSpecifiedName(), names)
		if near != "" {
			return usage("%v; did you mean --%s?", err, near).withHint("%s", help)
		}
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := wrong.GetFlag()
		want := map[string]string{"uint64": "a number", "int": "a number", "bool": "true or false"}[f.Value.Type()]
		if want != "" {
			return usage("--%s wants %s, got %q", f.Name, want, wrong.GetValue()).withHint("%s", help)
		}
		return usage("--%s: %v", f.Name, wrong.Unwrap()).withHint("%s", help)
	}
	return usage("%v", err).withHint("%s", help)
}

// durationFlag defines a flag for a duration, which may also be in days or
// weeks: 7d, 2w.
func durationFlag(fl *pflag.FlagSet, p *time.Duration, name string, value time.Duration, text string) {
	*p = value
	fl.Var((*duration)(p), name, text)
}

// A duration is the value of a flag that durationFlag defines.
type duration time.Duration

func (d *duration) String() string {
	if *d == 0 {
		return "0" // the help does not show 0 as a default
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(text string) error {
	parsed, err := document.ParseDuration(text)
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if number, found := strings.CutSuffix(text, unit); found {
			var n int
			if n, err = strconv.Atoi(number); !errors.Is(err, strconv.ErrSyntax) {
				n = min(max(n, -100_000), 100_000) // n*hours must not overflow; 100,000 days are more than the limit
				parsed, err = document.ParseDuration(fmt.Sprintf("%dh", n*hours))
			}
		}
	}
	if _, over := errors.AsType[*document.LimitError](err); over {
		return document.TooLong(text)
	}
	if err != nil {
		return fmt.Errorf("%q is not a duration, such as 90s, 12h or 7d", text)
	}
	*d = duration(parsed)
	return nil
}
