package ledger

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// receiptBody is a receipt of ordinary size. Its members are in the order of a Go
// struct.
const receiptBody = `{"schema_version":"lifeloop.v0.2","receipt_id":"rcp_0000000000000001","client_id":"notes","adapter_id":"generic","event":"frame.opening","event_id":"evt_000000000001","sequence":17,"parent_receipt_id":null,"status":"delivered","at_epoch_s":1763716440,"harness_session_id":"2f4c5f0e-9f64-4a55-8c7e-0d2f6f3f2a11","failure_class":null,"retry_class":null}`

// BenchmarkAppend compares one Append with a write and fdatasync of the same bytes.
// The two operations alternate, so that a slow moment of the disk affects both.
func BenchmarkAppend(b *testing.B) {
	canonical, err := canon.Transform([]byte(receiptBody))
	require.NoError(b, err)
	for _, c := range []struct {
		name  string
		batch int
		body  []byte
	}{
		{"one", 1, canonical},
		{"batch of 64", 64, canonical},
		{"batch of 64, not canonical", 64, []byte(receiptBody)},
	} {
		b.Run(c.name, func(b *testing.B) {
			log, err := Create(b.TempDir(), Options{})
			require.NoError(b, err)
			defer log.Close()
			records := make([]Record, c.batch)
			for i := range records {
				records[i] = Record{"receipt_issued", time.Unix(1763716440, 123), c.body}
			}
			_, err = log.Append(records, true)
			require.NoError(b, err)
			lines := make([]byte, log.size)

			raw, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			require.NoError(b, err)
			defer raw.Close()

			var ours, bare time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if _, err := log.Append(records, true); err != nil {
					b.Fatal(err)
				}
				between := time.Now()
				if _, err := raw.Write(lines); err != nil {
					b.Fatal(err)
				}
				if err := durable.Datasync(raw); err != nil {
					b.Fatal(err)
				}
				ours += between.Sub(start)
				bare += time.Since(between)
			}
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "append-ns")
			b.ReportMetric(float64(bare.Nanoseconds())/float64(b.N), "raw-ns")
			b.ReportMetric(float64(bare)/float64(ours), "ratio-to-raw")
		})
	}
}

// BenchmarkAppendUnsynced measures an Append without a sync.
func BenchmarkAppendUnsynced(b *testing.B) {
	log, err := Create(b.TempDir(), Options{})
	require.NoError(b, err)
	defer log.Close()
	records := []Record{{"receipt_issued", time.Unix(1763716440, 123), json.RawMessage(receiptBody)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := log.Append(records, false); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(log.size / int64(max(log.last.seq, 1)))
}

// BenchmarkVerify measures reading and hashing.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	log, err := Create(dir, Options{})
	require.NoError(b, err)
	for range 10000 {
		_, err := log.Append([]Record{{"receipt_issued", time.Unix(1763716440, 123), json.RawMessage(receiptBody)}}, false)
		require.NoError(b, err)
	}
	b.SetBytes(log.size)
	require.NoError(b, log.Close())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify(dir); err != nil {
			b.Fatal(err)
		}
	}
}
