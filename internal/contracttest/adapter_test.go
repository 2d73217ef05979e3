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
	info string // what stands behind the language
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
	require.False(t, open, "%s: a block without an end", file)
	return out
}

// insert adds the lines of a diff that begin with "+" behind the others, which
// must stand in the text, together and once.
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
		return "", errors.New("nothing says where the lines belong")
	}
	from, to := strings.Join(old, "\n")+"\n", strings.Join(new, "\n")+"\n"
	if n := strings.Count(text, from); n != 1 {
		return "", fmt.Errorf("its context is there %d times, want once", n)
	}
	return strings.Replace(text, from, to, 1), nil
}

// TestAddingAnAdapter does what docs/adding-an-adapter.md says, and nothing
// else: the files and lines it shows, laid over this source tree as the go
// command can, give a program that knows the new harness, and the tests of the
// three packages hold for it.
func TestAddingAnAdapter(t *testing.T) {
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	overlay := map[string]string{}
	lay := func(path, text string) {
		laid := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		require.NoError(t, os.WriteFile(laid, []byte(text), 0o600))
		overlay[filepath.Join(repository, path)] = laid
	}
	var fixture, expected string
	changed := []string{}
	for _, b := range blocks(t, filepath.Join(root, "docs", "adding-an-adapter.md")) {
		path, isFile := strings.CutPrefix(b.info, "file=")
		switch {
		case isFile && b.lang == "diff":
			was, err := os.ReadFile(filepath.Join(repository, path))
			require.NoError(t, err)
			is, err := insert(string(was), b.text)
			require.NoError(t, err, "the block at line %d, for %s", b.line, path)
			lay(path, is)
		case isFile:
			require.NoFileExists(t, filepath.Join(repository, path))
			lay(path, b.text)
		case b.info == "fixture":
			fixture = b.text
			continue
		case b.info == "expected":
			expected = b.text
			continue
		default:
			t.Errorf("line %d: a block that nobody tries", b.line)
			continue
		}
		changed = append(changed, path)
	}
	slices.Sort(changed)
	require.Equal(t, []string{"manifests/pebble.json", "manifests/registry.go", "profiles/pebble.go", "profiles/registry.go",
		"telemetry/decoder.go", "telemetry/pebble_log.go"}, changed, "a manifest, a profile, a decoder, and nothing elsewhere")

	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, list, 0o600))
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local", "PEBBLE_HOME="+dir)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), &stdout, &stderr)
		return stdout.String()
	}

	program := filepath.Join(dir, "lifeloop-wrap")
	run(goTool, "build", "-overlay", overlayFile, "-o", program, "./cmd/lifeloop-wrap")
	log := filepath.Join(dir, "71.jsonl")
	require.NoError(t, os.WriteFile(log, []byte(fixture), 0o600))

	told := records(t, run(program, "observe", "--adapter", "pebble", "--once", log))
	var got strings.Builder
	for _, e := range told {
		data, err := json.Marshal(e.Data)
		require.NoError(t, err)
		frame := "-"
		if e.FrameContext != nil {
			frame = e.FrameContext.FrameID
		}
		fmt.Fprintf(&got, "%s  %-26s %-2s  %s\n", clock(t, e.At), e.Event, frame, data)
	}
	require.Equal(t, expected, got.String())

	// The same of a session of our own, which finds the log by itself. The
	// records have no times here: those of long ago would be no news.
	harness, events := filepath.Join(dir, "pebble"), filepath.Join(dir, "events")
	script := "#!/bin/sh\nmkdir -p $PEBBLE_HOME/log\ncat >$PEBBLE_HOME/log/$$.jsonl <<END\n" +
		regexp.MustCompile(`"at":"[^"]*",?`).ReplaceAllString(fixture, "") + "END\n"
	require.NoError(t, os.WriteFile(harness, []byte(script), 0o700))
	run(program, "run", "--no-ledger", "--pty", "never", "--events", events, "--", harness)
	lines, err := os.ReadFile(events)
	require.NoError(t, err)
	wrapped := records(t, string(lines))
	require.Equal(t, names(told), names(wrapped))
	if id := wrapped[len(wrapped)-1].HarnessSessionID; id == nil || *id != "p-71" {
		t.Errorf("the wrapped session ended as that of %v", id)
	}

	run(goTool, "test", "-overlay", overlayFile, "-run", "^Test(Registry|Infer|DecodersExist|EveryShipped|EveryFile|IDs|Unread|TelemetryOnly|Failure)", "./manifests", "./profiles")
}

// records are the lifecycle events among the lines; the others are receipts.
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
		" d\n+x\n": "there 0 times",
		"+x\n":     "nothing says where",
		" a\n-b\n": `line "-b" is neither`,
		"":         `line "" is neither`,
	} {
		_, err := insert("a\nb\n", diff)
		require.ErrorContains(t, err, want, "%q", diff)
	}
	_, err = insert("a\na\n", " a\n+x\n")
	require.ErrorContains(t, err, "there 2 times")
}

func clock(t *testing.T, at string) string {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, at)
	require.NoError(t, err)
	return parsed.UTC().Format(time.TimeOnly)
}
