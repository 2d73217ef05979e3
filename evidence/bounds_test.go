package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/evidence/sign"
)

// deflated packs files, compressed.
func deflated(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range files {
		require.NoError(t, addEntry(w, name, zip.Deflate, []byte(content)))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// head is the beginning of a runpack's manifest.
const head = `{"schema_id":"gait.runpack.manifest","schema_version":"1.0.0","created_at":"2026-01-01T00:00:00Z","producer_version":"1",`

// A small artifact can contain much JSON, and a little JSON can need much memory. Every
// reader must allocate at most 1 GiB in total, and use at most a minute of processor time.
func TestReadersAreBounded(t *testing.T) {
	const size = 12 << 20
	list := func(item string) string { return strings.Repeat(item+",", size/(len(item)+1)) + item }
	var members strings.Builder
	for i := 0; members.Len() < 16<<20; i++ {
		fmt.Fprintf(&members, `"a%d":0,`, i)
	}
	var records bytes.Buffer // a directory of 1,500,000 entries, with its end record
	record := append([]byte(directoryMark), make([]byte, 42)...)
	for range 1_500_000 {
		records.Write(record)
	}
	end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
	binary.LittleEndian.PutUint32(end[12:], uint32(records.Len()))
	records.Write(end)

	for _, c := range []struct {
		name string
		data []byte
	}{
		{"empty structs", deflated(t, map[string]string{manifestFile: head + `"files":[` + list("{}") + `]}`})},
		{"many values", deflated(t, map[string]string{manifestFile: head + `"files":[` + strings.Repeat(`{"path":"run.json"},`+strings.Repeat(" ", 12), (60<<20)/32) + `{}]}`})},
		{"members", deflated(t, map[string]string{manifestFile: `{` + members.String() + `"b":0}`})},
		{"brackets", deflated(t, map[string]string{manifestFile: strings.Repeat("[", maxDocument+1)})},
		{"deep", deflated(t, map[string]string{manifestFile: strings.Repeat("[", 9000) + strings.Repeat("0,", 500_000) + "0" + strings.Repeat("]", 9000)})},
		{"records", deflated(t, map[string]string{manifestFile: strings.Repeat("{}\n", size/3)})},
		{"one file declared often", deflated(t, map[string]string{
			manifestFile: head + `"files":[` + strings.Repeat(`{"path":"run.json","sha256":""},`, 50_000) + `{"path":"run.json","sha256":""}]}`,
			runFile:      strings.Repeat(" ", size)})},
		{"a large directory", records.Bytes()},
	} {
		t.Run(c.name, func(t *testing.T) {
			for what, use := range map[string]func(){
				"Detect":  func() { Detect(c.data) },
				"strict":  func() { require.False(t, Verify(RunpackKind, c.data, Options{}).OK) },
				"compat":  func() { require.False(t, Verify(RunpackKind, c.data, Options{Compat: true}).OK) },
				"Inspect": func() { _, _ = Inspect("x", c.data) },
				"Diff":    func() { _, _ = Diff(c.data, c.data) },
			} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				used := processorTime(t)
				use()
				used = processorTime(t) - used
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30), what)
				require.Less(t, used, time.Minute, what)
			}
		})
	}
}

// processorTime returns how much processor time this process has used. Unlike the time on
// a clock, it does not depend on what else the machine does.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A runpack is read only once, even if many checkpoints of a chain name it.
func TestAFileOfManyCheckpointsIsReadOnce(t *testing.T) {
	var c chain
	require.NoError(t, json.Unmarshal(read(t, "session/own_ok_signed/journal_chain.json"), &c))
	for len(c.Checkpoints) < 100 {
		next := c.Checkpoints[len(c.Checkpoints)-1]
		next.Index++
		next.SequenceStart, next.SequenceEnd = next.SequenceEnd+1, next.SequenceEnd+1
		next.PrevCheckpointDigest = next.CheckpointDigest
		next.CheckpointDigest = next.digest()
		c.Checkpoints = append(c.Checkpoints, next)
	}
	doc, err := json.Marshal(c)
	require.NoError(t, err)
	for _, compat := range []bool{false, true} {
		reads := 0
		r := Verify(ChainKind, doc, Options{Compat: compat, Beside: func(name string) ([]byte, error) {
			reads++
			return beside("session/own_ok_signed")(name)
		}})
		require.Equal(t, 2, reads)
		require.Equal(t, compat, r.OK, "%v", r.Problems)
		if !compat {
			require.Contains(t, codes(r), "runpack_path")
		}
	}
}

// The evidence of a long session verifies, or the export fails because the session is too
// long.
func TestLongSessions(t *testing.T) {
	x := small(t)
	for len(x.timeline) < 360_000 {
		x.timeline = append(x.timeline, Timeline{Event: "observed", TS: x.last, Ref: "event:tool.finished"})
	}
	data, err := x.Runpack(nil, false)
	require.NoError(t, err)
	r := Verify(RunpackKind, data, Options{})
	require.True(t, r.OK, "%v", r.Problems)

	for name, files := range map[string]map[string][]byte{
		"a document": {runFile: make([]byte, maxDocument+1)},
		"values":     {runFile: bytes.Repeat([]byte("[,"), maxValues)},
		"an entry":   {resultsFile: make([]byte, maxEntry+1)},
		"all":        {"a": make([]byte, maxEntry), "b": make([]byte, maxEntry), "c": make([]byte, maxEntry)},
	} {
		_, err := writeArchive(files)
		require.ErrorContains(t, err, "the session is too long", name)
	}
}

// A report of a very bad artifact is short.
func TestReportsAreBounded(t *testing.T) {
	files := make([]string, 5000)
	for i := range files {
		files[i] = fmt.Sprintf(`{"path":"f%d","sha256":"%s"}`, i, sign.Sum(nil))
	}
	r := Verify(RunpackKind, deflated(t, map[string]string{manifestFile: head + `"run_id":"run_a","capture_mode":"raw","manifest_digest":"x","files":[` + strings.Join(files, ",") + `]}`}), Options{})
	require.Equal(t, maxProblems, len(r.Problems))

	trace := `{"schema_id":"gait.gate.trace"`
	for i := range 100 {
		trace += fmt.Sprintf(`,"unknown_%03d":1`, i)
	}
	r = Verify(TraceKind, []byte(trace+"}"), Options{})
	require.Contains(t, strings.Join(r.Notes, "\n"), "unknown_019 and 80 more")
}

// Sizes and ranges that overflow are refused.
func TestOverflow(t *testing.T) {
	// Two entries that each claim 2^63 bytes.
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for range 2 {
		_, err := w.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Store, CompressedSize64: 1 << 63})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	for _, name := range []string{"a", "b"} { // the name of the second entry; the first one is named a
		data := out.Bytes()
		data[bytes.LastIndex(data, []byte(directoryMark))+46] = name[0]
		require.False(t, Verify(RunpackKind, data, Options{}).OK)
	}

	// Checkpoints whose ranges end before they begin, or too late.
	doc := string(read(t, "session/ok_reference/journal.jsonl"))
	require.Contains(t, doc, `"sequence_end":2`)
	for _, end := range []string{"-9223372036854775808", "-1", "0", "9223372036854775807"} {
		changed := strings.Replace(doc, `"sequence_end":2`, `"sequence_end":`+end, 1)
		require.False(t, Verify(JournalKind, []byte(changed), Options{Beside: beside("session/ok_reference")}).OK, end)
	}
}
