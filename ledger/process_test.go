package ledger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/durable"
)

// writeUntilKilled is the second process. It appends batches to the ledger in dir
// and prints the last seq of each once it is durable.
func writeUntilKilled(dir string) error {
	o := Options{SegmentBytes: 32 << 10}
	log, _, err := Open(dir, o)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for {
		seq, _ := log.Last()
		records := make([]Record, 1+random.IntN(8))
		for i := range records {
			records[i] = record("written", int(seq)+1+i)
			records[i].Body = json.RawMessage(fmt.Sprintf(`{"n":%d,"pad":%q}`, seq, strings.Repeat("x", random.IntN(2000))))
		}
		entries, err := log.Append(records, true)
		if err != nil {
			return err
		}
		fmt.Println(entries[len(entries)-1].Seq)
	}
}

// seedVariable is the environment variable that sets the seed of a random test.
const seedVariable = "LIFELOOP_TEST_SEED"

// testSeed returns the seed of a random test, from the variable or a new one. It
// logs the seed, so that a failing test prints it.
func testSeed(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// A writer is a running writeUntilKilled.
type writer struct {
	cmd  *exec.Cmd
	acks *bufio.Scanner
}

func startWriter(t *testing.T, dir string, seed uint64) writer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEDGER_TEST_WRITER="+dir, fmt.Sprintf("%s=%d", seedVariable, seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return writer{cmd, bufio.NewScanner(out)}
}

// ack waits for the next acknowledged seq; ok is false at the writer's end.
func (w writer) ack(t *testing.T) (seq uint64, ok bool) {
	t.Helper()
	if !w.acks.Scan() {
		return 0, false
	}
	seq, err := strconv.ParseUint(w.acks.Text(), 10, 64)
	require.NoError(t, err)
	return seq, true
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, create(t, dir, Options{}).Close())
	other := startWriter(t, dir, testSeed(t))
	_, ok := other.ack(t)
	require.True(t, ok, "the other process wrote nothing")

	var locked *durable.LockedError
	_, _, err := Open(dir, Options{})
	require.ErrorAs(t, err, &locked)
	if locked.PID != other.cmd.Process.Pid {
		t.Errorf("locked by %d, want %d", locked.PID, other.cmd.Process.Pid)
	}
	_, err = Create(dir, Options{})
	require.ErrorAs(t, err, &locked)
	_, err = Recover(dir)
	require.ErrorAs(t, err, &locked)
	if !Locked(dir) {
		t.Error("Locked reports no lock")
	}

	// The lock does not exclude readers.
	var read uint64
	for e, err := range Read(dir) {
		if err != nil {
			require.ErrorIs(t, err, ErrTornTail)
			break
		}
		read = e.Seq
	}
	if read == 0 {
		t.Error("no entries read while the writer runs")
	}
}

func TestKilledWriterLosesNothingItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, create(t, dir, Options{}).Close())
	random := rand.New(rand.NewPCG(testSeed(t), 0))
	before := []Entry{}
	for round := range 12 {
		w := startWriter(t, dir, random.Uint64())
		var acked uint64
		for range 1 + random.IntN(20) {
			seq, ok := w.ack(t)
			require.True(t, ok, "the writer ended in round %d without a kill", round)
			acked = seq
		}
		require.NoError(t, w.cmd.Process.Kill())
		for {
			seq, ok := w.ack(t)
			if !ok {
				break
			}
			acked = seq
		}
		w.cmd.Wait()

		if Locked(dir) {
			t.Fatal("the lock of a dead process is still held")
		}
		log, rec := open(t, dir)
		if rec.Entries < acked {
			t.Fatalf("round %d: %d entries, but %d were acknowledged", round, rec.Entries, acked)
		}
		grow(t, log, 1)
		require.NoError(t, log.Close())

		now, err := readAll(dir)
		require.NoError(t, err)
		require.Equal(t, before, now[:len(before):len(before)], "earlier entries changed")
		before = now
	}
	report, err := Verify(dir)
	require.NoError(t, err)
	if report.Segments < 2 {
		t.Errorf("%d segments; this test needs kills near the end of a segment", report.Segments)
	}
}
