package hosts

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"lifeloop/profiles"
)

// small returns an installation of three hooks with short values.
func small() profiles.Installation {
	in := profiles.Installation{Path: "/home/dev/settings.json", Ours: func(c string) bool { return strings.HasPrefix(c, "OURS ") }}
	for _, event := range []string{"Start", "Stop", "End"} {
		in.Hooks = append(in.Hooks, profiles.InstalledHook{Event: event, Command: "OURS " + event, Timeout: 5})
	}
	return in
}

// TestSettings runs testdata/settings.txt. The input of a command is a settings
// file, its output is the file after the command.
//
//	apply       add our hooks, and check that they can be removed
//	remove      remove them
//	status      print the status
//
// In a file, ␍ is a carriage return and ␂ a byte order mark. A file that ends
// with ⏎ has no final line end.
func TestSettings(t *testing.T) {
	datadriven.RunTest(t, "testdata/settings.txt", func(t *testing.T, d *datadriven.TestData) string {
		text := strings.NewReplacer("␍", "\r", "␂", byteOrderMark).Replace(d.Input + "\n")
		text = strings.TrimSuffix(text, "⏎\n")
		before := note{}
		for _, arg := range d.CmdArgs { // the content of the note
			for _, v := range arg.Vals {
				if before.Was == nil {
					before.Was = earlier{}
				}
				before.Was[arg.Key] = v
			}
		}
		show := func(text string) string {
			text = strings.NewReplacer("\r", "␍", byteOrderMark, "␂").Replace(text)
			if !strings.HasSuffix(text, "\n") {
				text += "⏎\n"
			}
			return text
		}
		in := small()
		switch d.Cmd {
		case "apply":
			out, now, err := withHooks(&text, in, before)
			if err != nil {
				return err.Error() + "\n"
			}
			if r, flaw := inspect(&out, nil, in); flaw != nil || r.State != Installed {
				d.Fatalf(t, "status after apply: %v, %v:\n%s", r, flaw, out)
			}
			again, _, err := withHooks(&out, in, now)
			if err != nil || again != out {
				d.Fatalf(t, "a second apply changed the file, %v:\n%s", err, again)
			}
			for _, name := range slices.Sorted(maps.Keys(now.Was)) {
				out += fmt.Sprintf("remembered: %s was %s\n", name, now.Was[name])
			}
			return show(out)
		case "remove":
			out, flaw := withoutHooks(text, in, before)
			if flaw != nil {
				return flaw.Error() + "\n"
			}
			return show(*out)
		case "status":
			r, flaw := inspect(&text, nil, in)
			if flaw != nil {
				return flaw.Error() + "\n"
			}
			return fmt.Sprintf("%s missing=%v differing=%v\n", r.State, r.Missing, r.Differing)
		}
		d.Fatalf(t, "no such command")
		return ""
	})
}

// A writer writes random values in the style of a person, a formatter or a program.
type writer struct {
	t             *rapid.T
	b             strings.Builder
	newline, unit string // the line end and indentation of the style
	odd           bool   // random space between tokens
}

func (w *writer) gap(depth int) {
	switch {
	case w.odd:
		w.b.WriteString(rapid.SampledFrom([]string{"", " ", "\n", "\t", "  ", w.newline + w.unit, " \r\n\t", w.newline + w.newline, "\r"}).Draw(w.t, "gap"))
	case w.unit != "":
		w.b.WriteString(w.newline + strings.Repeat(w.unit, depth))
	}
}

func (w *writer) container(open, closing string, n, depth int, item func(i int)) {
	w.b.WriteString(open)
	for i := range n {
		if i > 0 {
			w.b.WriteString(",")
		}
		w.gap(depth + 1)
		item(i)
		if w.odd {
			w.gap(depth)
		}
	}
	if n > 0 || w.odd {
		w.gap(depth)
	}
	w.b.WriteString(closing)
}

func (w *writer) key(name string) {
	if w.odd && rapid.IntRange(0, 3).Draw(w.t, "escape the key") == 0 {
		var b strings.Builder
		for _, r := range name {
			if r < 0x80 && r != '"' && r != '\\' && r >= 0x20 {
				fmt.Fprintf(&b, "\\u%04x", r)
			} else {
				b.WriteString(strings.Trim(encode(string(r)), `"`))
			}
		}
		name = `"` + b.String() + `"`
	} else {
		name = encode(name)
	}
	w.b.WriteString(name)
	if w.odd {
		w.gap(1)
	}
	w.b.WriteString(":")
	if w.odd {
		w.gap(1)
	} else if w.unit != "" {
		w.b.WriteString(" ")
	}
}

var words = rapid.SampledFrom([]string{"", "model", "opus", "héllo", "日本語", "\u2028", "a\"b\\c", "line\nbreak", "😀", "\x00", "hooks", "OURSELVES", "[", "{}", "//", "env"})

func (w *writer) value(depth int) {
	kind := rapid.IntRange(0, 6).Draw(w.t, "kind")
	if depth > 5 {
		kind %= 5
	}
	switch kind {
	case 0:
		w.b.WriteString(encode(words.Draw(w.t, "string")))
	case 1:
		w.b.WriteString(rapid.SampledFrom([]string{"0", "-0.0", "1e300", "123456789012345678901234567890", "-1.5E-7"}).Draw(w.t, "number"))
	case 2:
		w.b.WriteString(rapid.SampledFrom([]string{"true", "false", "null"}).Draw(w.t, "word"))
	case 3:
		w.b.WriteString(`"\ud800\/\u00e9"`)
	case 4:
		w.b.WriteString(rapid.SampledFrom([]string{"{}", "[]", "[ ]", "{ }"}).Draw(w.t, "empty"))
	case 5:
		w.container("[", "]", rapid.IntRange(0, 3).Draw(w.t, "n"), depth, func(int) { w.value(depth + 1) })
	case 6:
		w.container("{", "}", rapid.IntRange(0, 3).Draw(w.t, "n"), depth, func(int) {
			w.key(words.Draw(w.t, "key")) // may be a duplicate
			w.value(depth + 1)
		})
	}
}

// call writes one of the user's hooks, or one of ours as some version wrote it.
func (w *writer) call(depth int, ours bool) {
	command := rapid.SampledFrom([]string{"echo hi", "'/x/OURS' hook", "OURSELVES", ""}).Draw(w.t, "command")
	if ours {
		command = rapid.SampledFrom([]string{"OURS Stop", "OURS old Stop", "OURS Start"}).Draw(w.t, "our command")
	}
	names := []string{"type", "command", "timeout", "if"}[:rapid.IntRange(2, 4).Draw(w.t, "members")]
	w.container("{", "}", len(names), depth, func(i int) {
		w.key(names[i])
		w.b.WriteString(map[string]string{"type": `"command"`, "command": encode(command), "timeout": "30", "if": `"x"`}[names[i]])
	})
}

func (w *writer) groups(depth int, ours bool) {
	w.container("[", "]", rapid.IntRange(0, 3).Draw(w.t, "groups"), depth, func(int) {
		if rapid.IntRange(0, 9).Draw(w.t, "nonsense") == 0 {
			w.value(depth + 1)
			return
		}
		names := rapid.SampledFrom([][]string{{"hooks"}, {"matcher", "hooks"}, {"hooks", "matcher"}, {"matcher"}}).Draw(w.t, "group")
		w.container("{", "}", len(names), depth+1, func(i int) {
			w.key(names[i])
			if names[i] == "matcher" {
				w.b.WriteString(`"Bash|Edit"`)
				return
			}
			w.container("[", "]", rapid.IntRange(0, 3).Draw(w.t, "calls"), depth+2, func(int) {
				w.call(depth+3, ours && rapid.Bool().Draw(w.t, "ours"))
			})
		})
	})
}

// settings generates a random settings file. If ours is true, the file
// may have hooks of ours, of any version and in any place.
func settings(ours bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		w := &writer{t: t, newline: "\n"}
		switch rapid.IntRange(0, 3).Draw(t, "style") {
		case 1:
			w.unit = rapid.SampledFrom([]string{"  ", "    ", "\t", " "}).Draw(t, "unit")
		case 2:
			w.unit, w.newline = "  ", "\r\n"
		case 3:
			w.odd = true
		}
		w.b.WriteString(rapid.SampledFrom([]string{"", "", "", byteOrderMark, "\n", " "}).Draw(t, "begin"))
		names := []string{"model", "hooks", "env", "permissions", "statusLine", "日本"}
		names = rapid.Permutation(names).Draw(t, "order")[:rapid.IntRange(0, len(names)).Draw(t, "members")]
		w.container("{", "}", len(names), 0, func(i int) {
			w.key(names[i])
			if names[i] != "hooks" {
				w.value(1)
				return
			}
			if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				w.b.WriteString("null")
				return
			}
			events := rapid.Permutation([]string{"Start", "Stop", "End", "PreToolUse", "Ünknown"}).Draw(t, "events")[:rapid.IntRange(0, 5).Draw(t, "events")]
			w.container("{", "}", len(events), 1, func(i int) {
				w.key(events[i])
				if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
					w.b.WriteString("null")
					return
				}
				w.groups(2, ours)
			})
		})
		w.b.WriteString(rapid.SampledFrom([]string{"", "\n", "\n", "\r\n", "\n\n", " "}).Draw(t, "end"))
		return w.b.String()
	})
}

// decoded is the value of a settings file as encoding/json reads it.
func decoded(t interface{ Fatalf(string, ...any) }, text string) map[string]any {
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, byteOrderMark)))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return m
}

// TestLaws checks three laws with random files. None of the user's settings is
// lost or moves. Removing undoes adding. Adding twice equals adding once.
func TestLaws(t *testing.T) {
	in := small()
	rapid.Check(t, func(t *rapid.T) {
		text := settings(rapid.IntRange(0, 2).Draw(t, "with ours") == 0).Draw(t, "text")
		base, flaw := strip(text, in.Ours, nil)
		if flaw != nil {
			t.Fatalf("%v in\n%q", flaw, text)
		}
		if d, _ := open(text); len(d.ours(in.Ours)) == 0 && base != text {
			t.Fatalf("a file without hooks of ours changed:\n%q\n%q", text, base)
		}
		out, now, err := withHooks(&text, in, note{})
		if err != nil {
			t.Fatalf("%v in\n%q", err, text)
		}
		if back, flaw := withoutHooks(out, in, now); flaw != nil || *back != base {
			t.Fatalf("removing does not undo adding, %v:\n%q\n%q", flaw, base, *back)
		}
		if again, _, err := withHooks(&out, in, now); err != nil || again != out {
			t.Fatalf("adding twice changed the file, %v:\n%q\n%q", err, out, again)
		}
		if r, flaw := inspect(&out, nil, in); flaw != nil || r.State != Installed {
			t.Fatalf("%v, %v:\n%q", r, flaw, out)
		}

		// Check with another JSON decoder: the user's members exist, the user's
		// groups come first in each list, and one group of ours is the last.
		was, is := decoded(t, base), decoded(t, out)
		theirs, _ := was["hooks"].(map[string]any)
		all := is["hooks"].(map[string]any)
		for event, v := range theirs {
			list, ok := v.([]any)
			if got, isList := all[event].([]any); ok && isList && len(got) >= len(list) && (len(list) == 0 || reflect.DeepEqual(got[:len(list)], list)) {
				continue
			}
			if v != nil || all[event] == nil && event != "Start" && event != "Stop" && event != "End" {
				if !reflect.DeepEqual(v, all[event]) {
					t.Fatalf("hooks of %s were %v and are %v", event, v, all[event])
				}
			}
		}
		for _, h := range in.Hooks {
			old, _ := theirs[h.Event].([]any)
			if got := all[h.Event].([]any); len(got) != len(old)+1 {
				t.Fatalf("hooks of %s: %d became %d", h.Event, len(old), len(got))
			}
		}
		delete(was, "hooks")
		delete(is, "hooks")
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("the other members were %v and are %v", was, is)
		}
	})
}

// TestEditsInBetween checks that removing our hooks keeps exactly the changes that
// the user made while they were installed.
func TestEditsInBetween(t *testing.T) {
	in := small()
	rapid.Check(t, func(t *rapid.T) {
		text := settings(false).Draw(t, "text")
		out, now, err := withHooks(&text, in, note{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		// Make the same edits in the file without our hooks and in the file with them:
		// add a member at the beginning of the file, and a group at the beginning or
		// end of each of the user's lists.
		d, flaw := open(text)
		if flaw != nil {
			t.Fatalf("%v in %q", flaw, text)
		}
		var lists []string
		for _, e := range d.events() {
			if list, _ := children(e.Value); len(list) > 0 {
				lists = append(lists, nameOf(e))
			}
		}
		first := rapid.Bool().Draw(t, "first")
		edited := func(text string) string {
			d, flaw := open(text)
			if flaw != nil {
				t.Fatalf("%v in %q", flaw, text)
			}
			const theirs = `{"hooks":[{"type":"command","command":"late"}]}`
			start := d.root.StartOffset + 1
			edits := []edit{{start, start, `"added":[1],`}}
			for _, e := range d.events() {
				if !slices.Contains(lists, nameOf(e)) {
					continue
				}
				list, _ := children(e.Value)
				begin, end := list[0].Value.StartOffset, list[len(list)-1].Value.EndOffset
				if first {
					edits = append(edits, edit{begin, begin, theirs + ","})
				} else {
					edits = append(edits, edit{end, end, "," + theirs})
				}
			}
			return change(text, edits)
		}
		if nothing(text) { // no member follows the added one, so the comma of the edit is wrong
			return
		}
		want := edited(text)
		if back, flaw := withoutHooks(edited(out), in, now); flaw != nil || *back != want {
			t.Fatalf("%v: want\n%q, got\n%q", flaw, want, *back)
		}
	})
}

// FuzzParse checks that parse accepts what encoding/json accepts, and that
// removing undoes adding.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2.5e-7,"\u00e9\ud800",true,null]}`, `{"a":1,}`, `// no`, ` [ ] `, `"`, `01`, `-`, `{"a" 1}`, "\"\x01\"", byteOrderMark + "{}"} {
		f.Add(seed)
	}
	in := small()
	f.Fuzz(func(t *testing.T, text string) {
		_, flaw := parse(text)
		valid := json.Valid([]byte(strings.TrimPrefix(text, byteOrderMark)))
		if (flaw == nil) != valid && strings.ToValidUTF8(text, "") == text {
			t.Fatalf("%q: valid %v, but %v", text, valid, flaw)
		}
		out, now, err := withHooks(&text, in, note{})
		if err != nil {
			return
		}
		base, _ := strip(text, in.Ours, nil)
		if back, flaw := withoutHooks(out, in, now); flaw != nil || *back != base {
			t.Fatalf("%v: %q became %q", flaw, base, *back)
		}
	})
}

func encode(s string) string {
	text, _ := json.Marshal(s) // encoding a string cannot fail
	return string(text)
}
