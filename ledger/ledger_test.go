package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// TestMain runs the tests. If LEDGER_TEST_WRITER is set, this binary is the second process
// of a test instead.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LEDGER_TEST_WRITER"); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// record returns a record whose body contains the number n.
func record(kind string, n int) Record {
	return Record{kind, epoch.Add(time.Duration(n) * time.Second), json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// grow appends n records with one Append each, and returns their entries.
func grow(t testing.TB, log *Log, n int) []Entry {
	t.Helper()
	var all []Entry
	for range n {
		seq, _ := log.Last()
		entries, err := log.Append([]Record{record("counted", int(seq)+1)}, false)
		require.NoError(t, err)
		all = append(all, entries...)
	}
	return all
}

// readAll reads dir up to its end or its first error.
func readAll(dir string) ([]Entry, error) {
	var all []Entry
	for e, err := range Read(dir) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func create(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	log, err := Create(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

func open(t testing.TB, dir string) (*Log, Recovery) {
	t.Helper()
	log, rec, err := Open(dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	return log, rec
}

func TestFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions", "s1")
	log := create(t, dir, Options{})
	_, err := log.Append([]Record{
		{"session_moved", epoch, json.RawMessage(`{"to": "PENDING", "from": ""}`)},
		{"session_moved", epoch.Add(994).In(time.FixedZone("", 3600)), json.RawMessage(`{"to":"RUNNING","f":0.50,"é":"\u00e9"}`)},
	}, true)
	require.NoError(t, err)
	require.NoError(t, log.Close())

	got, err := os.ReadFile(filepath.Join(dir, "ledger-000001.jsonl"))
	require.NoError(t, err)
	want := `{"at":"2026-01-02T03:04:05.000000006Z","body":{"from":"","to":"PENDING"},"digest":"sha256:6503ed644718e5c860dc63dda37df05aa0e4a4d608e0d43fb70c106fe34de4a1","kind":"session_moved","prev":"sha256:0000000000000000000000000000000000000000000000000000000000000000","seq":1}
{"at":"2026-01-02T03:04:05.000001000Z","body":{"f":0.5,"to":"RUNNING","é":"é"},"digest":"sha256:87bcba60b5f2b3910a052d952ad4a5615e0a5485c2966bf248435e03afe2547b","kind":"session_moved","prev":"sha256:6503ed644718e5c860dc63dda37df05aa0e4a4d608e0d43fb70c106fe34de4a1","seq":2}
`
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(got)), "\n") {
		if !canon.Is([]byte(line)) {
			t.Errorf("not canonical: %s", line)
		}
	}

	for path, mode := range map[string]fs.FileMode{
		"": fs.ModeDir | 0o700, "ledger-000001.jsonl": 0o600, "lock": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		require.NoError(t, err)
		if info.Mode() != mode {
			t.Errorf("%q has mode %v, want %v", path, info.Mode(), mode)
		}
	}
}

// TestRecipe runs the shell commands of the package comment.
func TestRecipe(t *testing.T) {
	for _, tool := range []string{"sh", "sed", "jq", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the recipe needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	log := create(t, dir, Options{})
	tricky := `{"digest":"sha256:x","z":{"digest":"sha256:x","kind":"k","prev":"p","seq":1},"s":"\"digest\":\"a\",\"kind\":\"b\",\"prev\":\"c\",\"seq\":1}"}`
	entries, err := log.Append([]Record{record("a", 1), {"b", epoch, json.RawMessage(tricky)}, record("c", 3)}, false)
	require.NoError(t, err)
	for i, e := range entries {
		script := fmt.Sprintf(`
			line=$(sed -n %dp ledger-000001.jsonl)
			printf %%s "$line" | sed -E 's/"digest":"[^"]*",("kind":"[^"]*","prev":"[^"]*","seq":[0-9]+})$/\1/' | sha256sum
			printf %%s "$line" | jq -r .digest
			printf %%s "$line" | jq -r .prev`, i+1)
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		hex := strings.TrimPrefix(string(e.Digest), "sha256:")
		want := fmt.Sprintf("%s  -\nsha256:%s\n%s\n", hex, hex, e.Prev)
		if string(out) != want {
			t.Errorf("entry %d: got\n%swant\n%s", e.Seq, out, want)
		}
	}
}

// TestAppendReturnsWhatReadersGet checks that Append returns exactly the entries that a
// reader yields.
func TestAppendReturnsWhatReadersGet(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{SegmentBytes: 1000})
	var appended []Entry
	for i, body := range []string{`{}`, `{"b":1,"a":2}`, `{"a":1}`, ` { "x" : [ 1.0 ] } `, `{"s":"<\u2028é>"}`} {
		at := epoch.Add(time.Duration(i) * time.Hour).In(time.FixedZone("west", -7*3600))
		entries, err := log.Append([]Record{{"k", at, json.RawMessage(body)}, {"K.2_x-y", time.Now(), json.RawMessage(body)}}, i%2 == 0)
		require.NoError(t, err)
		appended = append(appended, entries...)
	}
	read, err := readAll(dir)
	require.NoError(t, err)
	require.Equal(t, appended, read)

	seq, digest := log.Last()
	if last := read[len(read)-1]; seq != last.Seq || digest != last.Digest {
		t.Errorf("Last() = %d %s, want %d %s", seq, digest, last.Seq, last.Digest)
	}
	report, err := Verify(dir)
	require.NoError(t, err)
	all, err := segments(dir)
	require.NoError(t, err)
	require.Equal(t, Report{Entries: 10, Segments: len(all), First: read[0].Digest, Last: digest}, report)
	if len(all) < 2 {
		t.Errorf("the ledger has segments %v; this test needs several", all)
	}
}

func TestAppendRefusesWithoutBreaking(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{})
	grow(t, log, 1)
	good := record("good", 0)
	for _, c := range []struct {
		name string
		bad  Record
		want string
	}{
		{"no body", Record{"k", epoch, nil}, "body: canonical json: at byte 0: want a value"},
		{"a list", Record{"k", epoch, json.RawMessage(`[1]`)}, "body is not a JSON object"},
		{"a string", Record{"k", epoch, json.RawMessage(`"{}"`)}, "body is not a JSON object"},
		{"null", Record{"k", epoch, json.RawMessage(`null`)}, "body is not a JSON object"},
		{"an incomplete object", Record{"k", epoch, json.RawMessage(`{"a":1`)}, "want a comma"},
		{"two objects", Record{"k", epoch, json.RawMessage(`{}{}`)}, "unexpected data after the value"},
		{"a repeated name", Record{"k", epoch, json.RawMessage(`{"a":1,"a":1}`)}, "two members of the same name"},
		{"too large", Record{"k", epoch, json.RawMessage(`{"a":"` + strings.Repeat("x", maxLine) + `"}`)}, "more than 16777216"},
		{"no kind", Record{"", epoch, json.RawMessage(`{}`)}, "kind"},
		{"a kind with a quote", Record{`a"b`, epoch, json.RawMessage(`{}`)}, "kind"},
		{"a long kind", Record{strings.Repeat("k", 65), epoch, json.RawMessage(`{}`)}, "kind"},
		{"a year of five digits", Record{"k", epoch.AddDate(9000, 0, 0), json.RawMessage(`{}`)}, "year 11026"},
		{"a year before the first", Record{"k", epoch.AddDate(-3000, 0, 0), json.RawMessage(`{}`)}, "year -974"},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries, err := log.Append([]Record{good, c.bad, good}, true)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "record 1 (") {
				t.Errorf("got %v, %v, want an error that says %q", entries, err, c.want)
			}
			if errors.Is(err, ErrBroken) {
				t.Error("an invalid record broke the log")
			}
		})
	}
	grow(t, log, 1)
	read, err := readAll(dir)
	require.NoError(t, err)
	if len(read) != 2 {
		t.Errorf("%d entries, want the two valid ones", len(read))
	}
}

func TestNothingToAppend(t *testing.T) {
	dir := t.TempDir()
	log := create(t, dir, Options{})
	entries, err := log.Append(nil, true)
	if len(entries) != 0 || err != nil {
		t.Errorf("got %v, %v", entries, err)
	}
	if seq, digest := log.Last(); seq != 0 || digest != Genesis {
		t.Errorf("Last() = %d %s", seq, digest)
	}
	read, err := readAll(dir)
	if len(read) != 0 || err != nil {
		t.Errorf("read %v, %v", read, err)
	}
	report, err := Verify(dir)
	require.NoError(t, err)
	require.Equal(t, Report{Segments: 1}, report)
}

func TestCreateOpenAndClose(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "l")

	_, _, err := Open(dir, Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Recover(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = readAll(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)

	// An empty folder is not a ledger, and Open leaves nothing in it.
	_, _, err = Open(root, Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Verify(root)
	require.ErrorIs(t, err, fs.ErrNotExist)
	files, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, files)

	log := create(t, dir, Options{})
	if !Locked(dir) {
		t.Error("not locked while open")
	}
	_, _, err = Open(dir, Options{})
	var locked *durable.LockedError
	require.ErrorAs(t, err, &locked)
	require.NoError(t, log.Close())
	if Locked(dir) {
		t.Error("locked after Close")
	}
	_, err = Create(dir, Options{})
	require.ErrorIs(t, err, fs.ErrExist)

	_, err = log.Append([]Record{record("late", 1)}, false)
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, syncs(log), fs.ErrClosed)
	require.ErrorIs(t, log.Close(), fs.ErrClosed)
}

func TestOtherFilesInTheFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ledger-1.jsonl", "ledger-0000002.jsonl", "ledger-000002.jsonl.bak", "ledger-000000.jsonl", "ledger--00001.jsonl", "notes"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	log := create(t, dir, Options{})
	grow(t, log, 2)
	read, err := readAll(dir)
	require.NoError(t, err)
	if len(read) != 2 {
		t.Errorf("read %d entries", len(read))
	}
}

func TestSegmentsRoll(t *testing.T) {
	dir := t.TempDir()
	const limit = 1000
	log := create(t, dir, Options{SegmentBytes: limit})
	want := grow(t, log, 7)
	// One Append stays in one segment, even if it is larger than a segment.
	big := Record{"big", epoch, json.RawMessage(`{"a":"` + strings.Repeat("x", 2*limit) + `"}`)}
	entries, err := log.Append([]Record{big, record("rides.along", 9)}, true)
	require.NoError(t, err)
	want = append(want, entries...)
	want = append(want, grow(t, log, 1)...)
	require.NoError(t, log.Close())

	var lines []int
	all, err := segments(dir)
	require.NoError(t, err)
	for _, n := range all {
		text, err := os.ReadFile(segmentPath(dir, n))
		require.NoError(t, err)
		lines = append(lines, strings.Count(string(text), "\n"))
		if n != 3 && len(text) > limit {
			t.Errorf("%s has %d bytes", segmentName(n), len(text))
		}
	}
	require.Equal(t, []int{4, 3, 2, 1}, lines)

	log, rec := open(t, dir)
	require.Equal(t, Recovery{Entries: 10, Segments: 4, Last: want[9].Digest, Segment: "ledger-000004.jsonl"}, rec)
	want = append(want, grow(t, log, 1)...)
	read, err := readAll(dir)
	require.NoError(t, err)
	require.Equal(t, want, read)
}
