package ledger

import (
	"fmt"
	"os"

	"lifeloop/internal/durable"
)

// Settle makes durable what can be read of the ledger in dir at this moment,
// for a reader who passes it on to others: what an owner of the folder has
// written is seen before it is synced, and a crash of the machine could take
// back what others were told. Nothing is changed, and nobody is waited for.
//
// The last segment is enough. A writer syncs each before it begins the next.
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
