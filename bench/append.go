//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/ledger"
)

// receipt is the body of the ledger entries that are measured: a receipt of ordinary size.
const receipt = `{"adapter_id":"generic","at_epoch_s":1763716440,"client_id":"notes","event":"frame.opening","event_id":"evt_000000000001","failure_class":null,"harness_session_id":"2f4c5f0e-9f64-4a55-8c7e-0d2f6f3f2a11","parent_receipt_id":null,"receipt_id":"rcp_0000000000000001","retry_class":null,"schema_version":"lifeloop.v0.2","sequence":17,"status":"delivered"}`

// appends compares one durable ledger entry with a write and a sync of the same
// number of bytes.
func appends(b *bench) []row {
	log := got(ledger.Create(filepath.Join(b.dir, "ledger"), ledger.Options{}))
	defer log.Close()
	raw := got(os.OpenFile(b.program("raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	defer raw.Close()
	records := []ledger.Record{{Kind: "receipt_issued", At: time.Unix(1763716440, 0), Body: []byte(receipt)}}
	line := []byte(strings.Repeat("x", len(receipt)+240) + "\n") // as long as an entry, which has about 240 bytes around its body

	t := inTurn(b.rounds*50, func(int) time.Duration {
		began := time.Now()
		got(raw.Write(line))
		must(unix.Fdatasync(int(raw.Fd())))
		return time.Since(began)
	}, func(int) time.Duration {
		began := time.Now()
		got(log.Append(records, true))
		return time.Since(began)
	})
	return []row{t.pairs(0, 1).ratioRow("time to append one durable entry, compared with write and fdatasync").atMost(1.1)}
}
