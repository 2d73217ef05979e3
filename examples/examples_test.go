// Package examples_test runs the examples with the real program. It also checks
// the documents: the examples that they print, the tests that they name and the
// files that they link to.
package examples_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/fakeharness"
	"lifeloop/lifeloop"
)

var programs string // the folder of the programs that tests build

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "lifeloop-examples-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// build compiles one program of this module. The result is stored in the folder programs.
func build(name, pkg string) (string, error) {
	path := filepath.Join(programs, name)
	out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return path, err
}

var built = sync.OnceValues(func() (string, error) { return build("lifeloop-wrap", "lifeloop/cmd/lifeloop-wrap") })

// A world is a folder with its own state, in which the program runs.
type world struct {
	t    *testing.T
	wrap string
	dir  string
	env  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	wrap, err := built()
	require.NoError(t, err, "build lifeloop-wrap")
	dir := t.TempDir()
	return &world{t, wrap, dir, append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir)}
}

// run runs the program and returns its standard output.
func (w *world) run(args ...string) (stdout string) {
	w.t.Helper()
	cmd := exec.Command(w.wrap, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(w.t, err, "lifeloop-wrap %s: %s", strings.Join(args, " "), stderr.String())
	return string(out)
}

// receipts are those of the last session.
func (w *world) receipts() (all []lifeloop.Receipt) {
	w.t.Helper()
	for line := range strings.Lines(w.run("receipts", "last")) {
		r, err := lifeloop.Parse[lifeloop.Receipt]([]byte(line))
		require.NoError(w.t, err)
		all = append(all, r)
	}
	return all
}

func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return path
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this example needs %s: %v", tool, err)
		}
	}
}

// The dry runs in the documents show the program's real output.
func TestDryRuns(t *testing.T) {
	need(t, "sh", "jq")
	wrap, err := built()
	require.NoError(t, err)
	for _, file := range []string{"README.md", "docs/renewal.md"} {
		text, err := os.ReadFile("../" + file)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), "```\n$ lifeloop-wrap simulate ")
		require.True(t, found, file)
		block, _, _ := strings.Cut(rest, "```")
		line, printed, _ := strings.Cut(block, "\n")
		cmd := exec.Command("sh", "-c", wrap+" simulate "+line)
		cmd.Dir = ".."
		out, err := cmd.Output()
		require.NoError(t, err, file)
		require.Equal(t, printed, string(out), file)
	}
}

// The note reaches the model with every prompt, and the receipts confirm this. On a very
// busy machine the client may miss a prompt. The receipt of that prompt then reports it,
// and the session is played again.
func TestNotes(t *testing.T) {
	need(t, "python3")
	for range 10 {
		if delivered := playNotes(t); delivered == 3 {
			return
		}
	}
	t.Error("no session delivered the note with each of its three prompts")
}

// playNotes plays one session and returns the number of delivered notes.
func playNotes(t *testing.T) (delivered int) {
	t.Helper()
	const story, note = "claude-demo", "Keep the start under a second.\n\"Quotes\" and ümlauts count as bytes.\n"
	w := newWorld(t)
	w.env = append(w.env, fakeharness.Environment(story, w.dir, true)...)
	harness := filepath.Join(w.dir, fakeharness.NameOf(story))
	require.NoError(t, os.Symlink(w.wrap, harness))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "NOTES.md"), []byte(note), 0o600))

	// The client subscribes to nothing else, so that it is free when a prompt comes.
	config, err := json.Marshal(map[string]any{"clients": []any{map[string]any{
		"id": "notes", "command": []string{example(t, "notes.py")}, "events": []string{"frame.opening"}}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, ".lifeloop.yaml"), config, 0o600))
	w.run("trust")

	screen := w.run("run", "--", harness)

	receipts := w.receipts()
	require.Len(t, receipts, 3, "one for each prompt of the story")
	for _, r := range receipts {
		late := r.Status == lifeloop.Skipped || r.Status == lifeloop.Degraded || r.FailureClass != nil && *r.FailureClass == lifeloop.Timeout
		switch {
		case r.Status == lifeloop.Delivered && len(r.PayloadReceipts) == 1 && r.PayloadReceipts[0].ByteSize == int64(len(note)):
			delivered++
		case !late:
			t.Errorf("%s: %s with %+v, want one payload of %d bytes delivered; %v", r.Event, r.Status, r.PayloadReceipts, len(note), r.Warnings)
		}
	}
	// At its end the scripted harness prints the context that its model received.
	body, err := json.Marshal(note)
	require.NoError(t, err)
	if got := strings.Count(screen, `"body":`+string(body)); got != delivered {
		t.Errorf("the note reached the model %d times, want %d:\n%s", got, delivered, screen)
	}
	return delivered
}

// Every event is stored completely and in order.
func TestLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events.jsonl")
	w := newWorld(t)
	w.run("run", "--client-drain", "2m", "--client", "log=env 'EVENT_LOG="+log+"' '"+example(t, "log.sh")+"'", "--", "true")

	stored, err := os.ReadFile(log)
	require.NoError(t, err)
	var got []lifeloop.Event
	for line := range strings.Lines(string(stored)) {
		e, err := lifeloop.Parse[lifeloop.DispatchEnvelope]([]byte(line))
		require.NoError(t, err)
		got = append(got, e.Request.Event)
	}
	require.Equal(t, []lifeloop.Event{lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.SessionEnding, lifeloop.SessionEnded}, got)
	for _, r := range w.receipts() {
		if r.ClientID != "log" || r.Status != lifeloop.Observed {
			t.Errorf("%s: receipt of %s says %s", r.Event, r.ClientID, r.Status)
		}
	}
}

// The shell script and the program agree about a ledger, and the script finds a
// changed entry.
func TestVerifyLedger(t *testing.T) {
	need(t, "jq", "sed", "sha256sum")
	w := newWorld(t)
	w.run("run", "--", "true")
	folders, err := filepath.Glob(filepath.Join(w.dir, "lifeloop", "sessions", "*"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	verify := func() (string, error) {
		out, err := exec.Command(example(t, "verify-ledger.sh"), folders[0]).CombinedOutput()
		return string(out), err
	}

	printed, err := verify()
	require.NoError(t, err, printed)
	count, last, ok := strings.Cut(strings.TrimSpace(printed), ", last ")
	if ours := w.run("ledger", "verify", "last"); !ok || !strings.HasPrefix(ours, count) || !strings.HasSuffix(strings.TrimSpace(ours), last) {
		t.Errorf("the script prints %q, the program %q", printed, ours)
	}

	path := filepath.Join(folders[0], "ledger-000001.jsonl")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := bytes.Replace(whole, []byte(`"reason":"approved"`), []byte(`"reason":"improved"`), 1)
	require.NotEqual(t, whole, changed)
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	if printed, err = verify(); err == nil || printed != "line 3 is not what was written\n" {
		t.Errorf("after a change of line 3: %v, %q", err, printed)
	}
}

// The documents print the examples unchanged.
func TestDocumentsPrintTheExamples(t *testing.T) {
	for doc, names := range map[string][]string{
		"../README.md":                {"notes.py"},
		"../docs/writing-a-client.md": {"notes.py", "log.sh"},
	} {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, name := range names {
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			if !bytes.Contains(text, append([]byte("\n"), append(code, "```"...)...)) {
				t.Errorf("%s does not show %s as it is", doc, name)
			}
		}
	}
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w+)\(`)
	link     = regexp.MustCompile(`\]\(([^):#]+)\)`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
)

// Every test that a document names exists, and so does every file that it links
// to.
func TestDocumentsNameWhatExists(t *testing.T) {
	var tests, documents []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && len(d.Name()) > 2 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			for _, m := range testFunc.FindAllSubmatch(source, -1) {
				tests = append(tests, string(m[1]))
			}
			return err
		case strings.HasSuffix(path, ".md"):
			documents = append(documents, path)
		}
		return nil
	}))
	require.Contains(t, documents, "../README.md")
	for _, path := range documents {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range testName.FindAllString(string(text), -1) {
			if !slices.Contains(tests, name) {
				t.Errorf("%s names %s, and there is no such test", path, name)
			}
		}
		for _, m := range link.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
	}
}
