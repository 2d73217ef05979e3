package watchers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The law of the tail: whatever the sizes in which a writer appends, however
// often he rotates, and wherever a run ends and the next begins, the lines told
// are the lines written, in order, each once.
func TestLawEachLineOnce(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { eachLineOnce(t, rt, mode.polling) })
		})
	}
}

func eachLineOnce(t *testing.T, rt *rapid.T, polling bool) {
	r := newRig(t, polling)
	path := filepath.Join(r.dir, "log")
	n := name{"s", path}
	var want []string // the whole lines written
	var rest []byte   // of the line begun, what is not in the file yet
	var got []string
	begin := func() {
		r.start()
		s := Spec{Source: "s", Path: path}
		if pos, ok := r.cursor[n]; ok {
			s.From = &pos
		}
		r.w.Add(s)
	}
	collect := func() {
		for _, x := range r.told {
			if strings.HasPrefix(x.what, `"`) {
				got = append(got, x.what[:strings.LastIndex(x.what, " @")])
			}
		}
		r.told = nil
	}
	seen := true // whoever is under the path now was looked at
	write := func(size int) {
		if _, err := os.Stat(path); err != nil {
			seen = false
		}
		appendTo(t, path, string(rest[:size]))
		rest = rest[size:]
	}
	begin()
	rotations := 0
	rt.Repeat(map[string]func(*rapid.T){
		"append": func(rt *rapid.T) {
			if len(rest) == 0 {
				line := rapid.StringMatching(`[ -~é]{0,60}`).Draw(rt, "line")
				if rapid.IntRange(0, 19).Draw(rt, "long") == 0 {
					line = strings.Repeat(line+"x", 4000)
				}
				want = append(want, fmt.Sprintf("%q", line))
				rest = []byte(line + "\n")
			}
			write(rapid.IntRange(1, len(rest)).Draw(rt, "size"))
		},
		"rotate": func(rt *rapid.T) {
			if !seen {
				r.sync() // a file that came and went unseen is beyond the law
			}
			write(len(rest))
			appendTo(t, path, "") // there may be none yet
			require.NoError(t, os.Rename(path, fmt.Sprintf("%s.%d", path, rotations)))
			if rapid.Bool().Draw(rt, "at once") {
				appendTo(t, path, "")
			}
			rotations++
			seen = false
		},
		"sync": func(*rapid.T) {
			r.sync()
			seen = true
		},
		"restart": func(*rapid.T) {
			r.stop()
			collect()
			begin()
			seen = false
		},
	})
	write(len(rest))
	r.stop()
	collect()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			rt.Fatalf("told %d lines of %d, wrong from number %d on:\ntold    %.200s\nwritten %.200s",
				len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

// Every position told is a good place to go on: what follows is exactly what
// was told after it.
func TestLawEveryPositionResumes(t *testing.T) {
	var content strings.Builder
	for i := range 60 {
		fmt.Fprintf(&content, "line %d %s\n", i, strings.Repeat("x", i))
	}
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(content.String()+"half"), 0o600))
	lines := func(from *Position) (all []Line) {
		w, err := New(Config{Deliver: func(l Line) {
			l.Text = bytes.Clone(l.Text)
			all = append(all, l)
		}, Trouble: func(x Trouble) { t.Errorf("trouble: %+v", x) }})
		require.NoError(t, err)
		w.Add(Spec{Source: "s", Path: path, From: from})
		w.finish()
		w.close()
		return all
	}
	all := lines(nil)
	require.Len(t, all, 60)
	require.Equal(t, int64(content.Len()), all[59].Pos.Offset)
	for i, l := range all {
		require.Equal(t, all[i+1:], append([]Line{}, lines(&l.Pos)...), "from line %d", i)
	}
}

// FuzzSplit writes content in two pieces and reads it through a tiny buffer,
// so that every line is longer than it once. The reference splits the content.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("one\ntwo\nhalf"), uint16(5), uint8(8), uint8(4))
	f.Add([]byte("\n\n\x00\xff\n"), uint16(1), uint8(1), uint8(0))
	f.Add([]byte(strings.Repeat("long", 100)+"\nx\n"), uint16(300), uint8(3), uint8(200))
	f.Fuzz(func(t *testing.T, content []byte, cut uint16, room, limit uint8) {
		content = content[:min(len(content), 2*headSize)] // a buffer of one byte is slow
		path := filepath.Join(t.TempDir(), "log")
		pieces := [][]byte{content[:min(int(cut), len(content))], content[min(int(cut), len(content)):]}
		maxLine := 1 + int(limit)
		var got, want [][]byte
		var gotLong, wantLong int
		w, err := New(Config{
			MaxLine: maxLine,
			Deliver: func(l Line) {
				got = append(got, bytes.Clone(l.Text))
				if end := content[:l.Pos.Offset]; !bytes.HasSuffix(end, append(bytes.Clone(l.Text), '\n')) {
					t.Errorf("position %d does not end the line %q", l.Pos.Offset, l.Text)
				}
				if head := content[:min(l.Pos.Offset, headSize)]; l.Pos.Prefix != digest(head) {
					t.Errorf("prefix %s at %d, want %s", l.Pos.Prefix, l.Pos.Offset, digest(head))
				}
			},
			Trouble: func(x Trouble) {
				if x.What != LineTooLong {
					t.Errorf("trouble: %+v", x)
				}
				gotLong++
			},
		})
		require.NoError(t, err)
		w.buf = make([]byte, 1+int(room))
		tl := newTail(Spec{Source: "s", Path: path})
		for _, piece := range pieces {
			out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			require.NoError(t, err)
			_, err = out.Write(piece)
			require.NoError(t, err)
			require.NoError(t, out.Close())
			if tl.file == nil {
				file, id, err := open(path)
				require.NoError(t, err)
				w.replace(tl, file, id)
			}
			if w.read(tl, false) {
				t.Error("a few bytes took more than one turn")
			}
		}
		tl.close()
		parts := bytes.Split(content, []byte("\n"))
		for i, part := range parts {
			switch {
			case len(part) > maxLine:
				wantLong++
			case i < len(parts)-1:
				want = append(want, part)
			}
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("told %q, want %q", got, want)
		}
		if gotLong != wantLong {
			t.Errorf("%d lines told as too long, want %d", gotLong, wantLong)
		}
	})
}
