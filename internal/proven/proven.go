// Package proven stores which capabilities worked with versions of a harness that
// we have not tested. Without this package, every session with a newer version would
// begin with partial support, and would report the partial support each time.
//
// Each user has one file, proven.json in the state folder. It holds names, numbers
// and dates, and no content of a session. It may be removed at any time: the next
// session then begins with partial support. A file that cannot be read counts as
// empty.
//
// Package kernel decides what proves a capability, not this package. This package does
// not remove a capability that stops working; each session detects the failure itself.
//
//	known := proven.Read(stateDir)
//	setup.Proven = known.Of("claude")
//	…
//	err := proven.Add(stateDir, time.Now(), "claude", "2.1.400", []string{"frame.opening"})
package proven

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"lifeloop/internal/durable"
)

const (
	fileName = "proven.json"
	lockName = "proven.lock"
	// maxFile limits the bytes that are read; maxVersions is how many of the most
	// recently used versions of one harness are kept.
	maxFile     = 1 << 20
	maxVersions = 32
)

// Seen says how often and when a capability worked.
type Seen struct {
	Sessions int       `json:"sessions"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// Versions holds the capabilities by adapter and version.
type Versions map[string]map[string]map[string]Seen

// Read returns the content of proven.json; empty if it cannot be read.
func Read(stateDir string) Versions {
	v := Versions{}
	data, err := durable.ReadLinked(filepath.Join(stateDir, fileName), maxFile)
	if err != nil || json.Unmarshal(data, &v) != nil {
		return Versions{}
	}
	return v
}

// Of returns the capabilities of each version of one adapter, sorted.
func (v Versions) Of(adapter string) map[string][]string {
	out := map[string][]string{}
	for version, seen := range v[adapter] {
		out[version] = slices.Sorted(maps.Keys(seen))
	}
	return out
}

// Add counts one session in which these capabilities worked.
func Add(stateDir string, at time.Time, adapter, version string, capabilities []string) error {
	if len(capabilities) == 0 || version == "" {
		return nil
	}
	lock, err := lock(filepath.Join(stateDir, lockName))
	if err != nil {
		return err
	}
	defer lock.Unlock()
	v := Read(stateDir)
	if v[adapter] == nil {
		v[adapter] = map[string]map[string]Seen{}
	}
	if v[adapter][version] == nil {
		v[adapter][version] = map[string]Seen{}
	}
	at = at.UTC().Truncate(time.Second)
	for _, c := range capabilities {
		s := v[adapter][version][c]
		if s.Sessions++; s.First.IsZero() {
			s.First = at
		}
		s.Last = at
		v[adapter][version][c] = s
	}
	v.forget(adapter)
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.Cache(filepath.Join(stateDir, fileName), append(data, '\n'), 0o600)
}

// lockTime limits the wait for other sessions that end at the same time. A session holds
// the lock for about a millisecond, unless a signal stops its process.
const lockTime = time.Second

func lock(path string) (*durable.FileLock, error) {
	for end := time.Now().Add(lockTime); ; time.Sleep(5 * time.Millisecond) {
		lock, err := durable.Lock(path)
		if _, held := errors.AsType[*durable.LockedError](err); !held || time.Now().After(end) {
			return lock, err
		}
	}
}

// forget removes all versions of an adapter except the maxVersions most recently used.
func (v Versions) forget(adapter string) {
	versions := v[adapter]
	last := func(version string) (at time.Time) {
		for _, s := range versions[version] {
			if s.Last.After(at) {
				at = s.Last
			}
		}
		return at
	}
	names := slices.SortedFunc(maps.Keys(versions), func(a, b string) int { return last(b).Compare(last(a)) })
	for i := maxVersions; i < len(names); i++ {
		delete(versions, names[i])
	}
}
