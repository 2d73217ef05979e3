package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Retention says which ended sessions are removed when a session ends. The zero
// value removes none.
type Retention struct {
	Age   time.Duration `yaml:"age"`   // sessions that started longer ago than this are removed; 0 means no limit
	Count int           `yaml:"count"` // how many of the newest sessions are kept; 0 means all
	Size  string        `yaml:"size"`  // the largest size of all sessions together, see [ParseSize]; empty means no limit
}

// ParseSize reads a number of bytes with a unit, such as 500MB or 2GiB.
func ParseSize(text string) (int64, error) {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}} {
		digits, found := strings.CutSuffix(text, u.name)
		if n, err := strconv.ParseUint(digits, 10, 63); found && err == nil && int64(n) <= math.MaxInt64/u.bytes {
			return int64(n) * u.bytes, nil
		}
	}
	return 0, fmt.Errorf("expected a size such as 500MB or 2GiB, found %q", text)
}

func (c checker) retention(r Retention) error {
	if _, err := ParseSize(r.Size); r.Size != "" && err != nil {
		return c.refuse("retention.size", "%v", err)
	}
	return nil
}
