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

// receipt is a receipt of ordinary size.
const receipt = `{"adapter_id":"generic","at_epoch_s":1763716440,"client_id":"notes","event":"frame.opening","event_id":"evt_000000000001","failure_class":null,"harness_session_id":"2f4c5f0e-9f64-4a55-8c7e-0d2f6f3f2a11","parent_receipt_id":null,"receipt_id":"rcp_0000000000000001","retry_class":null,"schema_version":"lifeloop.v0.2","sequence":17,"status":"delivered"}`

// appends compares one durable ledger entry with a write and a sync of the same
// number of bytes.
func appends(b *bench) ([]row, error) {
	dir := filepath.Join(b.dir, "ledger")
	log, err := ledger.Create(dir, ledger.Options{})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	raw, err := os.OpenFile(b.program("raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	records := []ledger.Record{{Kind: "receipt_issued", At: time.Unix(1763716440, 0), Body: []byte(receipt)}}
	line := []byte(strings.Repeat("x", len(receipt)+240) + "\n") // the length of an entry without its body

	var p pairs
	for range b.rounds * 50 {
		began := time.Now()
		if _, err := raw.Write(line); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(raw.Fd())); err != nil {
			return nil, err
		}
		between := time.Now()
		if _, err := log.Append(records, true); err != nil {
			return nil, err
		}
		p.add(between.Sub(began), time.Since(between))
	}
	return []row{p.ratioRow("append one durable entry / write and fdatasync").atMost(1.1, &p)}, nil
}
