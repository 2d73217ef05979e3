package contracttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// A block is a fenced block of a document.
type block struct {
	line int
	lang string
	info string // the words after the language
	text string
}

func blocks(t *testing.T, file string) []block {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var out []block
	open := false
	scan := bufio.NewScanner(f)
	for line := 1; scan.Scan(); line++ {
		info, fence := strings.CutPrefix(scan.Text(), "```")
		switch {
		case fence && !open:
			lang, rest, _ := strings.Cut(info, " ")
			out = append(out, block{line: line, lang: lang, info: rest})
			open = true
		case fence:
			open = false
		case open:
			out[len(out)-1].text += scan.Text() + "\n"
		}
	}
	require.NoError(t, scan.Err())
	require.False(t, open, "%s: a block is not closed", file)
	return out
}

// insert applies a diff that only adds lines. Its context lines must occur in
// the text, together and exactly once.
func insert(text, diff string) (string, error) {
	var old, new []string
	for _, l := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n") {
		mark, rest := "", ""
		if l != "" {
			mark, rest = l[:1], l[1:]
		}
		switch mark {
		case " ":
			old, new = append(old, rest), append(new, rest)
		case "+":
			new = append(new, rest)
		default:
			return "", fmt.Errorf("line %q is neither context nor added", l)
		}
	}
	if len(old) == 0 {
		return "", errors.New("the diff has no context lines")
	}
	from, to := strings.Join(old, "\n")+"\n", strings.Join(new, "\n")+"\n"
	if n := strings.Count(text, from); n != 1 {
		return "", fmt.Errorf("its context occurs %d times, want once", n)
	}
	return strings.Replace(text, from, to, 1), nil
}

// An overlay is a change of this source tree that is passed to the go command
// with -overlay and not written to the tree.
type overlay struct {
	*testing.T
	dir        string // the folder for the changed files and for outputs
	repository string
	files      map[string]string // the path of each changed file, by the path that it replaces
	changed    []string          // the changed paths, relative to the repository
}

func newOverlay(t *testing.T) *overlay {
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	return &overlay{t, t.TempDir(), repository, map[string]string{}, nil}
}

// add applies a block of the document. The block is a new file, or a diff of the file at
// path.
func (o *overlay) add(b block, path string) {
	o.Helper()
	text := b.text
	if b.lang == "diff" {
		was, err := os.ReadFile(filepath.Join(o.repository, path))
		require.NoError(o, err)
		text, err = insert(string(was), b.text)
		require.NoError(o, err, "the block at line %d, for %s", b.line, path)
	} else {
		require.NoFileExists(o, filepath.Join(o.repository, path))
	}
	file := filepath.Join(o.dir, strings.ReplaceAll(path, "/", "_"))
	require.NoError(o, os.WriteFile(file, []byte(text), 0o600))
	o.files[filepath.Join(o.repository, path)] = file
	o.changed = append(o.changed, path)
}

// write writes the file for the flag -overlay and returns its path.
func (o *overlay) write() string {
	o.Helper()
	list, err := json.Marshal(map[string]any{"Replace": o.files})
	require.NoError(o, err)
	path := filepath.Join(o.dir, "overlay.json")
	require.NoError(o, os.WriteFile(path, list, 0o600))
	return path
}

// run runs a program in the repository and returns its output.
func (o *overlay) run(name string, args ...string) string {
	o.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = o.repository
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local", "PEBBLE_HOME="+o.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(o, err, "%s %s\n%s%s", name, strings.Join(args, " "), &stdout, &stderr)
	return stdout.String()
}

// TestAddingAnAdapter follows docs/adding-an-adapter.md and does nothing else.
// With the files and lines from that page added to this source tree, the program must
// support the new harness, and tests of the packages manifests and profiles must pass.
func TestAddingAnAdapter(t *testing.T) {
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	o := newOverlay(t)
	var fixture, expected string
	for _, b := range blocks(t, filepath.Join(root, "docs", "adding-an-adapter.md")) {
		path, isFile := strings.CutPrefix(b.info, "file=")
		switch {
		case isFile:
			o.add(b, path)
		case b.info == "fixture":
			fixture = b.text
		case b.info == "expected":
			expected = b.text
		default:
			t.Errorf("line %d: this test does not use the block", b.line)
		}
	}
	slices.Sort(o.changed)
	require.Equal(t, []string{"manifests/pebble.json", "manifests/registry.go", "profiles/pebble.go", "profiles/registry.go",
		"telemetry/pebble/log.go"}, o.changed, "only a manifest, a profile and a decoder")
	overlayFile, program := o.write(), filepath.Join(o.dir, "lifeloop-wrap")
	o.run(goTool, "build", "-overlay", overlayFile, "-o", program, "./cmd/lifeloop-wrap")

	log := filepath.Join(o.dir, "71.jsonl")
	require.NoError(t, os.WriteFile(log, []byte(fixture), 0o600))
	observed := records(t, o.run(program, "observe", "--adapter", "pebble", "--once", log))
	require.Equal(t, expected, summary(t, observed))
	wrapped := records(t, runPebble(o, program, fixture))
	require.Equal(t, names(observed), names(wrapped))
	if id := wrapped[len(wrapped)-1].HarnessSessionID; id == nil || *id != "p-71" {
		t.Errorf("the last event of the wrapped session has harness_session_id %v, want p-71", id)
	}
	// vet is off, because it would enter the decoder's folder, which exists only
	// in the overlay.
	o.run(goTool, "test", "-vet=off", "-overlay", overlayFile, "-run", "^Test(Registry|Infer|SourcesAreWhole|EveryShipped|EveryFile|IDs|Unread|TelemetryOnly|Failure)", "./manifests", "./profiles")
}

// runPebble wraps a script that writes the fixture to Pebble's log, and returns
// the events. It removes the times from the records, because the wrapper would
// drop old records.
func runPebble(o *overlay, program, fixture string) string {
	o.Helper()
	harness, events := filepath.Join(o.dir, "pebble"), filepath.Join(o.dir, "events")
	script := "#!/bin/sh\nmkdir -p $PEBBLE_HOME/log\ncat >$PEBBLE_HOME/log/$$.jsonl <<END\n" +
		regexp.MustCompile(`"at":"[^"]*",?`).ReplaceAllString(fixture, "") + "END\n"
	require.NoError(o, os.WriteFile(harness, []byte(script), 0o700))
	o.run(program, "run", "--no-ledger", "--pty", "never", "--events", events, "--", harness)
	lines, err := os.ReadFile(events)
	require.NoError(o, err)
	return string(lines)
}

// summary returns one line per event: time, name, frame and data.
func summary(t *testing.T, events []lifeloop.EventRecord) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		at, err := time.Parse(time.RFC3339Nano, e.At)
		require.NoError(t, err)
		data, err := json.Marshal(e.Data)
		require.NoError(t, err)
		frame := "-"
		if e.FrameContext != nil {
			frame = e.FrameContext.FrameID
		}
		fmt.Fprintf(&b, "%s  %-26s %-2s  %s\n", at.UTC().Format(time.TimeOnly), e.Event, frame, data)
	}
	return b.String()
}

// records decodes the lines that are lifecycle events; other lines are receipts.
func records(t *testing.T, lines string) []lifeloop.EventRecord {
	t.Helper()
	var out []lifeloop.EventRecord
	for line := range strings.Lines(lines) {
		if strings.Contains(line, `"receipt_id":`) {
			continue
		}
		var e lifeloop.EventRecord
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		out = append(out, e)
	}
	return out
}

func names(events []lifeloop.EventRecord) []lifeloop.Event {
	var out []lifeloop.Event
	for _, e := range events {
		out = append(out, e.Event)
	}
	return out
}

func TestInsert(t *testing.T) {
	got, err := insert("a\nb\nc\n", " b\n+x\n c\n+y\n")
	require.NoError(t, err)
	require.Equal(t, "a\nb\nx\nc\ny\n", got)
	for diff, want := range map[string]string{
		" d\n+x\n": "occurs 0 times",
		"+x\n":     "no context lines",
		" a\n-b\n": `line "-b" is neither`,
		"":         `line "" is neither`,
	} {
		_, err := insert("a\nb\n", diff)
		require.ErrorContains(t, err, want, "%q", diff)
	}
	_, err = insert("a\na\n", " a\n+x\n")
	require.ErrorContains(t, err, "occurs 2 times")
}
