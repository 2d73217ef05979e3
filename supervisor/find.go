package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
	"lifeloop/watchers/sqlite"
)

// Found is a session that Find found in one of a harness's usual places.
type Found struct {
	Source  profiles.Source // the source, with its Path
	Session string          // the harness's id of the session
	At      time.Time       // time of the last change: of the file, or of the session in a database
}

const (
	// headSize is how many bytes from the start of a file are searched for the id of
	// its session.
	headSize = 256 << 10
	// maxHead is how many bytes are searched if the first headSize bytes do not name the
	// session. The id may come with the first prompt, and a prompt with several images is
	// longer than headSize.
	maxHead = 32 << 20
)

// Recent is the limit that Ambiguous uses for two durations: the time since the newest
// session changed, and the time between the last changes of the two newest sessions.
const Recent = 2 * time.Minute

// Ambiguous reports whether two of the sessions that Find returned could be the running
// one: the newest changed less than Recent ago, and the second newest less than Recent
// before the newest.
func Ambiguous(found []Found, now time.Time) bool {
	return len(found) > 1 && found[0].At.Sub(found[1].At) < Recent && now.Sub(found[0].At) < Recent
}

// Find lists the harness sessions of a working folder, running and ended, the newest
// first.
func Find(places []profiles.Place, dir string) ([]Found, error) {
	var found []Found
	for _, p := range places {
		files, err := matching(p.Dir, p.Pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			var here []Found
			if p.Whose != nil {
				here, _ = examine(p, path, dir)
			} else {
				here, err = ofDatabase(p, path, dir)
			}
			if err != nil {
				return nil, err
			}
			found = append(found, here...)
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int { return b.At.Compare(a.At) })
	return found, nil
}

// matching lists the files below dir that match a pattern, element by element. A
// missing or unreadable folder counts as empty.
func matching(dir, pattern string) ([]string, error) {
	first, rest, more := strings.Cut(pattern, "/")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if ok, err := filepath.Match(first, e.Name()); err != nil || !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if !more {
			out = append(out, path)
			continue
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		below, err := matching(path, rest)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// examine finds the session of a file. final is true if the result stays the same when
// the file grows.
func examine(p profiles.Place, path, dir string) (found []Found, final bool) {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return nil, false // deleted meanwhile, or not readable for this user
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	var head []byte
	for size := headSize; ; size = min(4*size, maxHead) {
		more, err := io.ReadAll(io.LimitReader(f, int64(size-len(head))))
		if err != nil {
			return nil, false
		}
		head = append(head, more...)
		session, here := p.Whose(head, dir)
		switch {
		case session != "" && here:
			s := p.Source
			s.Path = path
			return []Found{{Source: s, Session: session, At: info.ModTime()}}, true
		case session != "" || len(head) == maxHead:
			return nil, true
		case len(head) < size:
			return nil, false
		}
	}
}

// headOf reads the beginning of a file.
func headOf(f io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(f, headSize))
}

func ofDatabase(p profiles.Place, path, dir string) ([]Found, error) {
	tail, err := sqlite.Open(path, p.Sessions)
	if err != nil {
		return nil, err
	}
	s := p.Source
	s.Path = path
	var found []Found
	_, err = tail.Next(sqlite.Cursor{}, func(at sqlite.Cursor, record []byte) {
		var row struct{ ID, Dir string }
		if json.Unmarshal(record, &row) == nil && row.ID != "" && row.Dir == dir {
			found = append(found, Found{Source: s, Session: row.ID, At: time.UnixMilli(at.Row)})
		}
	})
	if errors.Is(err, sqlite.ErrNotYet) {
		return nil, nil
	}
	return found, err
}
