// Package telemetrytest holds what the tests of all decoders share: a one-line text form
// of signals, golden lists in this form, a check of every signal, and a fuzz target.
package telemetrytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// Lines writes each signal as Line does.
func Lines(signals []telemetry.Signal) []string {
	out := make([]string, len(signals))
	for i, s := range signals {
		out[i] = Line(s)
	}
	return out
}

// CheckSignal checks the rules that every signal of every decoder must follow.
func CheckSignal(t *testing.T, s telemetry.Signal) {
	t.Helper()
	switch s.Kind {
	case telemetry.SessionLive, telemetry.SessionGone, telemetry.Prompt, telemetry.Working, telemetry.Idle, telemetry.NeedsInput, telemetry.TurnStop, telemetry.TurnEnd, telemetry.UsageSeen,
		telemetry.WindowSeen, telemetry.Compacting, telemetry.Compacted, telemetry.Cleared, telemetry.ToolStart, telemetry.ToolEnd, telemetry.LimitWait, telemetry.Fault, telemetry.Gap, telemetry.Alive:
	default:
		t.Fatalf("unknown kind: %s", Line(s))
	}
	if s.Source == "" {
		t.Fatalf("no source: %s", Line(s))
	}
	if (s.Kind == telemetry.UsageSeen) != (s.Usage != nil) || s.Kind != telemetry.Compacting && (s.Kind == telemetry.Compacted) != (s.Compaction != nil) {
		t.Fatalf("the kind does not fit the content: %s", Line(s))
	}
	if u := s.Usage; u != nil && min(u.Used, u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning) < 0 || s.Window < 0 || (s.Window > 0) != (s.WindowSource != "") {
		t.Fatalf("a number is negative, or only one of Window and WindowSource is set: %s", Line(s))
	}
	switch s.ToolError {
	case "", telemetry.ToolNotFound, telemetry.ToolFailed, telemetry.ToolRefused:
	default:
		t.Fatalf("ToolError has an unknown value: %s", Line(s))
	}
	if s.Kind != telemetry.ToolStart && s.Args != nil || s.Kind != telemetry.ToolEnd && (s.Result != nil || s.ToolError != "") {
		t.Fatalf("the kind does not fit the content: %s", Line(s))
	}
	for _, text := range []*telemetry.Sized{s.Args, s.Result} {
		if text != nil && (len(text.Digest) != len("sha256:")+64 || text.Size <= 0) {
			t.Fatalf("%+v must have a sha256 digest and a positive size: %s", *text, Line(s))
		}
	}
	for _, v := range []string{s.Detail, s.Session, s.Turn, s.Agent, s.Cause, s.Reason, s.Tool, s.ToolName, s.Model, s.WindowSource, s.Side, s.Version} {
		if len(v) > 400 || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\x1b\x00") {
			t.Fatalf("%q is too long, is not UTF-8, or has a newline, ESC or NUL: %s", v, Line(s))
		}
	}
	if _, err := json.Marshal(s); err != nil {
		t.Fatalf("%v: %s", err, Line(s))
	}
}

// Fuzz passes the decoder arbitrary records, and records of its format with
// arbitrary text. The decoder must not panic, and the text must not be in its
// signals.
func Fuzz(f *testing.F, newDecoder func() telemetry.Decoder, pattern string, templates ...string) {
	files, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(pattern)))
	require.NoError(f, err)
	for _, file := range files {
		for _, record := range Records(f, file) {
			f.Add(record, "hello")
		}
	}
	f.Add([]byte("state=idle:app=codex"), "[Request interrupted by user]")
	f.Fuzz(func(t *testing.T, record []byte, text string) {
		d := newDecoder()
		if len(record)%2 == 0 {
			d = telemetry.Digesting(d)
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		for range 2 { // the second round decodes with the state that the first one left
			for _, s := range d.Decode(record) {
				CheckSignal(t, s)
			}
			for _, template := range templates {
				for _, s := range d.Decode([]byte(strings.ReplaceAll(template, "TEXT", string(quoted)))) {
					CheckSignal(t, s)
					if !bytes.ContainsRune(record, '⟦') && strings.Contains(Line(s), "⟦") {
						t.Fatalf("a signal contains text of the session: %s", Line(s))
					}
				}
			}
		}
		for kind := range d.Unknown() {
			if !scan.IsWord(kind) {
				t.Fatalf("the name of an unknown type is not a single word: %q", kind)
			}
		}
	})
}

// Decoded decodes the records in order with a new decoder and returns the signals
// as Lines does.
func Decoded(t *testing.T, newDecoder func() telemetry.Decoder, records ...string) []string {
	t.Helper()
	d := newDecoder()
	out := []string{}
	for _, r := range records {
		out = append(out, Lines(d.Decode([]byte(r)))...)
	}
	return out
}

// Values splits a recording into JSON values.
func Values(t testing.TB, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var all [][]byte
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		all = append(all, v)
	}
}

var update = flag.Bool("update", false, "write the golden signal lists anew; then read their diff, and check it against what the harness did")

// Line writes a signal on one line: its kind, then the fields that are set,
// except Missing. Source has the key "from". Origin and From both have the key "origin".
func Line(s telemetry.Signal) string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	put := func(key, val string) {
		if val == "" {
			return
		}
		if strings.ContainsAny(val, " \t\"") {
			val = fmt.Sprintf("%q", val)
		}
		fmt.Fprintf(&b, " %s=%s", key, val)
	}
	number := func(key string, n int64) {
		if n != 0 {
			fmt.Fprintf(&b, " %s=%d", key, n)
		}
	}
	put("from", s.Source)
	put("detail", s.Detail)
	if !s.At.IsZero() {
		put("at", s.At.Format("15:04:05.000"))
	}
	put("session", s.Session)
	put("turn", s.Turn)
	put("agent", s.Agent)
	put("side", s.Side)
	put("origin", s.Origin)
	put("cause", s.Cause)
	put("reason", s.Reason)
	put("outcome", string(s.Outcome))
	put("error", string(s.Error))
	if u := s.Usage; u != nil {
		fmt.Fprintf(&b, " used=%d", u.Used)
		put("call", u.ID)
		put("request", u.Request)
		number("input", u.Input)
		number("cache_read", u.CacheRead)
		number("cache_write", u.CacheWrite)
		number("output", u.Output)
		number("reasoning", u.Reasoning)
		if u.Estimate {
			b.WriteString(" estimate")
		}
	}
	if c := s.Compaction; c != nil {
		put("half", c.Half)
		put("in_turn", c.InTurn)
		put("trigger", c.Trigger)
		if c.Before != nil {
			fmt.Fprintf(&b, " before=%d", *c.Before)
		}
		if c.After != nil {
			fmt.Fprintf(&b, " after=%d", *c.After)
		}
	}
	put("tool", s.Tool)
	put("name", s.ToolName)
	put("args", shortSized(s.Args))
	put("result", shortSized(s.Result))
	put("tool_error", s.ToolError)
	put("model", s.Model)
	number("window", s.Window)
	put("by", s.WindowSource)
	put("path", s.Path)
	put("origin", s.From)
	put("dir", s.Dir)
	put("version", s.Version)
	if p := s.Process; p != nil {
		fmt.Fprintf(&b, " process=%d/%d", p.PID, p.Start)
	}
	if !s.Until.IsZero() {
		put("until", s.Until.Format("15:04:05.000"))
	}
	return b.String()
}

// shortSized returns the size of a text and the beginning of its digest.
func shortSized(s *telemetry.Sized) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d/%s", s.Size, strings.TrimPrefix(s.Digest, "sha256:")[:8])
}

// Golden compares got with a golden list, or writes the list with -update.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if got != string(want) {
		t.Errorf("signals differ from %s\ngot:\n%swant:\n%s", file, got, want)
	}
}

// Records splits a recording into lines.
func Records(t testing.TB, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// HookLines writes a hook call and its signals, one per line.
func HookLines(call telemetry.HookCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", call.Event)
	if call.Slot != "" {
		fmt.Fprintf(&b, " slot=%s capacity=%d", call.Slot, call.Capacity)
	}
	b.WriteByte('\n')
	for _, s := range call.Signals {
		fmt.Fprintf(&b, "  %s\n", Line(s))
	}
	return b.String()
}

// A Story is a list of records and the signals that they give, one line each.
type Story = struct {
	Name          string
	Records, Want []string
}

// RunStories decodes each story with a new decoder.
func RunStories(t *testing.T, newDecoder func() telemetry.Decoder, stories []Story) {
	for _, s := range stories {
		t.Run(s.Name, func(t *testing.T) {
			require.Equal(t, s.Want, Decoded(t, newDecoder, s.Records...))
		})
	}
}
