package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"lifeloop/internal/config"
	"lifeloop/internal/conformance"
	"lifeloop/internal/doctor"
	"lifeloop/internal/store"
	"lifeloop/internal/trust"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// hostile is a text from outside that tries to clear the screen, to reorder what is
// read, and to print a line of its own.
const hostile = "x\nforged\tline\x1b[2J\u009b31m\u202e\u2066\x07\x7f\r\x9b"

// hostileValue returns a T whose every string is hostile, also in lists, in maps
// and behind pointers.
func hostileValue[T any]() *T {
	var v T
	spoil(reflect.ValueOf(&v).Elem())
	return &v
}

func spoil(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		spoil(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]byte]() || v.Type().ConvertibleTo(reflect.TypeFor[[]byte]()) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		spoil(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		spoil(key)
		spoil(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(hostile))
		}
	}
}

// Output for people quotes text from outside: such text begins no line and does not
// move the cursor. It may be in names, labels, ids, reasons and clients' answers. In the
// program this output also passes a filter, which this test does not use.
func TestHostileTextIsQuoted(t *testing.T) {
	session := *hostileValue[store.Session]()
	session.Damage = errors.New(hostile)
	why := hostileValue[view.Why]()
	refusal := hostileValue[trust.Refusal]()
	cfg := config.Default()
	cfg.Ignored = refusal
	bad := &failure{text: hostile, hint: hostile}
	cmd := newRoot(&globals{}, false)
	for name, print := range map[string]func(w io.Writer) error{
		"ps":             func(w io.Writer) error { printRow(w, session); return nil },
		"status":         func(w io.Writer) error { return printStatus(w, session, 1) },
		"why":            func(w io.Writer) error { return printWhy(w, why) },
		"doctor":         func(w io.Writer) error { return hostileValue[doctor.Report]().Print(w, true) },
		"client test":    func(w io.Writer) error { return hostileValue[conformance.Report]().Print(w) },
		"failed clients": func(w io.Writer) error { warnFailing(w, *hostileValue[[]view.ClientCalls](), false); return nil },
		"damage":         func(w io.Writer) error { warnDamaged(w, session, false); return nil },
		"an error":       func(w io.Writer) error { report(w, bad, false); return nil },
		"a warning":      func(w io.Writer) error { warn(w, *hostileValue[[]lifeloop.Problem]()); return nil },
		"an untrusted file": func(w io.Writer) error {
			cmd.SetErr(w)
			(&globals{}).warnOf(cmd, cfg)
			return nil
		},
		"observe": func(w io.Writer) error {
			o := &observer{notes: w}
			return o.listener(io.Discard)([]kernel.Entry{{Fact: *hostileValue[kernel.BindRefused]()}, {Fact: *hostileValue[kernel.SourceTroubled]()}})
		},
		"config show": func(w io.Writer) error {
			_, err := io.WriteString(w, config.Show(cfg, config.Origins{"log_level": {File: hostile, Line: 1}}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, print(&out))
			require.NotEmpty(t, out.String())
			require.Contains(t, strings.ReplaceAll(strings.ReplaceAll(out.String(), "\n", ""), " ", ""), `forged`)
			for line := range strings.Lines(out.String()) {
				text := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", " ")
				if text != vt.Plain(text) {
					t.Errorf("a terminal acts on this line: %q", line)
				}
				if strings.HasPrefix(strings.TrimSpace(text), "forged") {
					t.Errorf("a line that is not ours: %q", line)
				}
			}
		})
	}
}

// Only output that is not for people bypasses the filter.
func TestOutputPassesTheFilter(t *testing.T) {
	allowed := []string{"vt.NewFilter(os.Std", "harness.OpenTerminal(", "term.IsTerminal(",
		"run.Stderr = ",       // the demo's harness
		"f := os.Stderr",      // --events -, which is filtered when it is written
		"hostHook(",           // answers a harness; its messages to people are quoted
		"demoClientMain(",     // answers the wrapper
		"Fprintln(os.Stderr,", // the demo's client reports an error
		"fakeharness.Run("}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			direct := strings.Contains(line, "os.Stdout") || strings.Contains(line, "os.Stderr")
			if direct && !strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(allowed, func(s string) bool { return strings.Contains(line, s) }) {
				t.Errorf("%s writes past the filter: %s", name, strings.TrimSpace(line))
			}
		}
	}
}

// A row of ps keeps its columns, whatever its cells hold.
func TestHostileTextKeepsColumns(t *testing.T) {
	k := *hostileValue[store.Session]()
	k.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	var out bytes.Buffer
	printRow(&out, k)
	require.Equal(t, 10, strings.Count(out.String(), "\t"))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// The help of `evidence` and of its commands fits a terminal of 80 columns, except for a
// line that package cobra adds. In a paragraph only the last line may be short.
func TestHelpOfEvidenceFitsATerminal(t *testing.T) {
	commands := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		commands++
		text := cmd.Long + "\n\n" + cmd.UsageString()
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "Use \"") {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, "%s: %s", cmd.CommandPath(), line)
			}
		}
		for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
			lines := strings.Split(paragraph, "\n")
			for i, line := range lines[:len(lines)-1] {
				word, _, _ := strings.Cut(lines[i+1], " ")
				if !strings.HasPrefix(line, " ") {
					require.Greater(t, len(line)+1+len(word), 72, "%s: %s", cmd.CommandPath(), line)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	evidence, _, err := newRoot(&globals{}, false).Find([]string{"evidence"})
	require.NoError(t, err)
	walk(evidence)
	require.Greater(t, commands, 8)
}
