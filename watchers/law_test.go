package watchers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLawEachLineOnce checks that the lines delivered are the lines written, in
// order, each once. The sizes of the writes, the rotations, and the moments at
// which one run ends and the next begins are random.
func TestLawEachLineOnce(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { eachOnce(t, rt, mode.polling, Lines, drawLine) })
		})
	}
}

// TestLawEachValueOnce checks the law of TestLawEachLineOnce for values, written over
// any number of lines and with any white space between them.
func TestLawEachValueOnce(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { eachOnce(t, rt, mode.polling, Values, drawValue) })
		})
	}
}

// drawLine draws a line, and its bytes in the file.
func drawLine(rt *rapid.T) (text, written string) {
	line := rapid.StringMatching(`[ -~é]{0,60}`).Draw(rt, "line")
	if rapid.IntRange(0, 19).Draw(rt, "long") == 0 {
		line = strings.Repeat(line+"x", 4000)
	}
	return line, line + "\n"
}

// drawValue draws a value, and its bytes in the file.
func drawValue(rt *rapid.T) (text, written string) {
	s := rapid.StringMatching(`[ -~é\n"\\{}\[\]]{0,20}`).Draw(rt, "text")
	if rapid.IntRange(0, 19).Draw(rt, "long") == 0 {
		s = strings.Repeat(s+"x", 6000)
	}
	value := any(map[string]any{"a": s, "b": []any{1.5, nil, true, map[string]any{}, []any{}, s}, s: map[string]any{"c": s}})
	if rapid.IntRange(0, 4).Draw(rt, "list") == 0 {
		value = []any{value, value}
	}
	var b []byte
	if rapid.Bool().Draw(rt, "indented") {
		b, _ = json.MarshalIndent(value, "", "  ") // encoding this value cannot fail
	} else {
		b, _ = json.Marshal(value)
	}
	return string(b), string(b) + rapid.SampledFrom([]string{"", "\n", "\r\n", "\n\n", " "}).Draw(rt, "between")
}

// eachOnce checks the law for one form. draw returns a line or value twice: as it
// is delivered, and as it is written to the file.
func eachOnce(t *testing.T, rt *rapid.T, polling bool, form Form, draw func(*rapid.T) (text, written string)) {
	r := newRig(t, polling)
	path := filepath.Join(r.dir, "log")
	n := name{"s", path}
	var want []string // the whole lines written
	var rest []byte   // the part of the current line that is not in the file yet
	var got []string
	begin := func() {
		r.start()
		s := Spec{Source: "s", Path: path, Form: form}
		if pos, ok := r.cursor[n]; ok {
			s.From = &pos
		}
		r.w.Add(s)
	}
	collect := func() {
		for _, x := range r.got {
			if strings.HasPrefix(x.what, `"`) {
				got = append(got, x.what[:strings.LastIndex(x.what, " @")])
			}
		}
		r.got = nil
	}
	seen := true // the watcher has read the file that the path leads to
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
				text, written := draw(rt)
				want = append(want, fmt.Sprintf("%q", text))
				rest = []byte(written)
			}
			write(rapid.IntRange(1, len(rest)).Draw(rt, "size"))
		},
		"rotate": func(rt *rapid.T) {
			if !seen {
				r.sync() // the watcher may miss a file that exists only between two checks of the path
			}
			write(len(rest))
			appendTo(t, path, "") // the file may not exist yet
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
			rt.Fatalf("%d lines delivered of %d, wrong from number %d on:\ndelivered %.200s\nwritten   %.200s",
				len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

// TestLawEveryPositionResumes checks that a run from any delivered position
// delivers exactly the lines after it.
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

// FuzzSplit writes content in two pieces and reads it through a buffer that is
// smaller than most lines. It compares the lines with those of bytes.Split.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("one\ntwo\nhalf"), uint16(5), uint8(8), uint8(4))
	f.Add([]byte("\n\n\x00\xff\n"), uint16(1), uint8(1), uint8(0))
	f.Add([]byte(strings.Repeat("long", 100)+"\nx\n"), uint16(300), uint8(3), uint8(200))
	f.Fuzz(func(t *testing.T, content []byte, cut uint16, room, limit uint8) {
		content = content[:min(len(content), 2*headSize)] // limit the content, because a buffer of one byte is slow
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
			t.Errorf("delivered %q, want %q", got, want)
		}
		if gotLong != wantLong {
			t.Errorf("%d lines reported as too long, want %d", gotLong, wantLong)
		}
	})
}

// FuzzValues writes content in two pieces, and then a last value, and reads them through
// a tiny buffer. For any content, the place of the cut and the size of the buffer make no
// difference. Content without brackets and braces does not hide the last value. If the
// content is only whole values, with the exceptions below, the watcher delivers the values
// that encoding/json finds.
func FuzzValues(f *testing.F) {
	f.Add([]byte("{\n  \"a\": [1, \"\\\"}\"]\n}\n{\n  \"b\": {}\n}\n"), uint16(7), uint8(8))
	f.Add([]byte("{\n  \"a\": {\n    \"b\": 1,{\n  \"c\": 2\n}\n{\n  \"d\": 3\n}\n"), uint16(20), uint8(0))
	f.Add([]byte("{\n  \"a\": [\n{\n  \"c\": 2\n}\n"), uint16(20), uint8(3))
	f.Add([]byte("\"to\\\\\" 1 -2.5e3 true[]null{}\n"), uint16(4), uint8(1))
	f.Add([]byte("{\"a\":\"torn\n{\"b\":1}{\"c\":2}]{\"d\":3}\n"), uint16(9), uint8(200))
	f.Fuzz(func(t *testing.T, content []byte, cut uint16, room uint8) {
		content = content[:min(len(content), headSize)] // limit the content, because a buffer of one byte is slow
		cut = uint16(min(int(cut), len(content)))
		const last = `{"last":"value"}`
		pieces := [][]byte{content[:cut], content[cut:], []byte("\n" + last + "\n")}
		got := deliveredValues(t, 1+int(room), pieces...)
		if want := deliveredValues(t, chunk, bytes.Join(pieces, nil)); !slices.Equal(got, want) {
			t.Errorf("delivered %q in pieces and %q at once", got, want)
		}
		if !bytes.ContainsAny(content, "[{") && (len(got) == 0 || got[len(got)-1] != last) {
			t.Errorf("delivered %q: the last value is missing", got)
		}
		var want []string
		for d := json.NewDecoder(bytes.NewReader(content)); ; {
			var v json.RawMessage
			err := d.Decode(&v)
			if err == io.EOF {
				break
			}
			// The decoder accepts words without a space between them; the watcher
			// does not. For the watcher a container that begins a line is the next
			// value.
			if err != nil || isWord(v[0]) || bytes.Contains(v, []byte("\n{")) || bytes.Contains(v, []byte("\n[")) {
				return
			}
			want = append(want, string(v))
		}
		if want = append(want, last); !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
	})
}

// deliveredValues appends the pieces to a file, one after another, and returns the
// values delivered through a buffer of room bytes.
func deliveredValues(t *testing.T, room int, pieces ...[]byte) (got []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	var off int64
	w, err := New(Config{
		Deliver: func(l Line) {
			got = append(got, string(l.Text))
			if l.Pos.Offset <= off {
				t.Errorf("position %d delivered after %d", l.Pos.Offset, off)
			}
			off = l.Pos.Offset
		},
		Trouble: func(x Trouble) {
			if x.What != Broken {
				t.Errorf("trouble: %+v", x)
			}
		},
	})
	require.NoError(t, err)
	w.buf = make([]byte, room)
	tl := newTail(Spec{Source: "s", Path: path, Form: Values})
	for _, piece := range pieces {
		appendTo(t, path, string(piece))
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
	return got
}
