package ledger

import (
	"fmt"
	"os"

	"lifeloop/internal/durable"
)

// Settle makes the present entries of the ledger in dir durable. A reader that
// passes entries on calls it first: entries can be read before their writer syncs
// them, and a crash of the machine could remove what was passed on. It changes
// nothing and waits for no lock.
//
// It syncs the last segment only: a writer syncs a segment before it creates the
// next.
func Settle(dir string) error {
	all, err := segments(dir)
	if err != nil {
		return fmt.Errorf("settle ledger %s: %w", dir, err)
	}
	if len(all) == 0 {
		return nil
	}
	f, err := os.Open(segmentPath(dir, all[len(all)-1]))
	if err != nil {
		return fmt.Errorf("settle ledger %s: %w", dir, err)
	}
	defer f.Close()
	if err := durable.Datasync(f); err != nil {
		return fmt.Errorf("settle ledger %s: %w", dir, err)
	}
	return nil
}
