package watchers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStampedFiles checks that each change of a Stamp file is delivered: written,
// touched, replaced, removed. The file need not be readable.
func TestStampedFiles(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r := newRig(t, mode.polling)
			r.start()
			path := filepath.Join(r.dir, "alive")
			expect := func(want ...string) {
				t.Helper()
				var got []string
				for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					r.mu.Lock()
					got = nil
					for _, x := range r.got {
						got = append(got, x.what)
					}
					r.mu.Unlock()
					if len(got) >= len(want) {
						break
					}
				}
				require.Equal(t, want, got)
			}
			at := func(s string) time.Time {
				parsed, err := time.Parse(time.RFC3339, s)
				require.NoError(t, err)
				return parsed
			}
			put := func(text string, changed time.Time) { // replace the file by a rename, so that it is one change
				aside := filepath.Join(r.dir, "aside")
				require.NoError(t, os.WriteFile(aside, []byte(text), 0o200))
				require.NoError(t, os.Chtimes(aside, changed, changed))
				require.NoError(t, os.Rename(aside, path))
			}
			r.w.Add(Spec{Source: "file", Path: path, Form: Stamp})
			r.sync()
			put("one", at("2026-01-02T03:04:05Z"))
			expect(`"2026-01-02T03:04:05Z" @3`)
			touched := at("2026-01-02T03:04:06Z")
			require.NoError(t, os.Chtimes(path, touched, touched))
			expect(`"2026-01-02T03:04:05Z" @3`, `"2026-01-02T03:04:06Z" @3`)
			put("two", touched) // replace the file by one with the same time and size
			expect(`"2026-01-02T03:04:05Z" @3`, `"2026-01-02T03:04:06Z" @3`, `"2026-01-02T03:04:06Z" @3`)
			require.NoError(t, os.Remove(path))
			want := []string{`"2026-01-02T03:04:05Z" @3`, `"2026-01-02T03:04:06Z" @3`, `"2026-01-02T03:04:06Z" @3`, "gone"}
			expect(want...)
			require.NoError(t, os.Mkdir(path, 0o700))
			expect(append(want, "unreadable")...)
			r.stop()
		})
	}
}

// TestStampsBeforeTheRun checks which stamps are not delivered: with AtEnd the present
// stamp, and with From a stamp that was delivered before.
func TestStampsBeforeTheRun(t *testing.T) {
	r := newRig(t, false)
	path := filepath.Join(r.dir, "alive")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	long := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, os.Chtimes(path, long, long))

	r.start()
	r.w.Add(Spec{Source: "file", Path: path, Form: Stamp})
	r.w.Add(Spec{Source: "late", Path: path, Form: Stamp, AtEnd: true})
	r.sync()
	r.stop()
	require.Equal(t, []report{{name{"file", path}, `"2026-01-02T03:04:05Z" @1`}}, r.got)

	from := r.cursor[name{"file", path}]
	r.start()
	r.w.Add(Spec{Source: "file", Path: path, Form: Stamp, From: &from})
	r.sync()
	r.stop()
	require.Len(t, r.got, 1, "a stamp delivered before was delivered again")
}
