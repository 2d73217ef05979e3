package hosts

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"
)

// A Change is the change of one file, made or planned. A nil text means that
// there is no file.
type Change struct {
	Path          string
	Before, After *string
	// Backup is the path of a copy of Before. It is empty if there is no copy.
	Backup string
}

// Diff returns the change as a unified diff.
func (c Change) Diff() string {
	side := func(s *string) (string, []byte) {
		if s == nil {
			return "/dev/null", nil
		}
		return c.Path, []byte(*s)
	}
	from, before := side(c.Before)
	to, after := side(c.After)
	_, unified, _ := bytes.Cut(diff.Diff(from, before, to, after), []byte("\n")) // cut the first line, "diff FROM TO"
	return string(unified)
}
