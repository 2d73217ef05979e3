package harness

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/internal/vt"
)

// wanted are the numbers of the OSC commands for titles (0 and 2) and for Codex's state.
var wanted = []int{0, 2, 7501}

func scanned(s string) *tracker {
	t := &tracker{wanted: wanted}
	t.scan([]byte(s))
	return t
}

func TestUndo(t *testing.T) {
	for _, c := range []struct{ name, sent, want string }{
		{"plain text", "hello\r\n\x1b[1;31mred\x1b[0m", ""},
		{"bracketed paste", "\x1b[?2004h", "\x1b[?2004l"},
		{"set and reset", "\x1b[?2004h...\x1b[?2004l", ""},
		{"several in one", "\x1b[?1000;1006h", "\x1b[?1000l\x1b[?1006l"},
		{"hidden cursor", "\x1b[?25l", "\x1b[?25h"},
		{"shown cursor", "\x1b[?25h", ""},
		{"no wrap", "\x1b[?7l", "\x1b[?7h"},
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"old alternate screen", "\x1b[?47h", "\x1b[?47l"},
		{"entered twice, left once", "\x1b[?1049h\x1b[?1047h\x1b[?1049l", ""},
		{"two kitty pushes, one pop", "\x1b[>7u\x1b[>1u\x1b[<u", "\x1b[<1u"},
		{"more pops than pushes", "\x1b[>7u\x1b[<9u", ""},
		{"kitty set without push", "\x1b[=5u", "\x1b[=0;1u"},
		{"kitty bits set and cleared", "\x1b[=5;2u\x1b[=5;3u", ""},
		{"kitty stacks belong to a screen", "\x1b[>1u\x1b[?1049h\x1b[>7u", "\x1b[<1u\x1b[?1049l\x1b[<1u"},
		{"leaving a screen leaves its keyboard", "\x1b[?1049h\x1b[>7u\x1b[?1049l", ""},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[>4m"},
		{"modifyOtherKeys off", "\x1b[>4;2m\x1b[>4;0m", ""},
		{"modifyCursorKeys is another", "\x1b[>1;2m", ""},
		{"application keypad", "\x1b=", "\x1b>"},
		{"application keypad and back", "\x1b=\x1b>", ""},
		{"scroll region", "\x1b[3;20r", "\x1b7\x1b[r\x1b8"},
		{"scroll region reset", "\x1b[3;20r\x1b7\x1b[r\x1b8", ""},
		{"cursor style", "\x1b[6 q", "\x1b[0 q"},
		{"full reset", "\x1b[?1049h\x1b[>7u\x1b[?25l\x1bc", ""},
		{"soft reset shows the cursor, keeps the mouse", "\x1b[?25l\x1b[?1003h\x1b[2;4r\x1b[!p", "\x1b[?1003l"},
		{"queries change nothing", "\x1b[?u\x1b[c\x1b[6n\x1b[>0q\x1b]10;?\x07\x1b[?2026$p", ""},
		{"restore cursor is not kitty", "\x1b[u", ""},
		{"unknown modes are left alone", "\x1b[?12h\x1b[?31337h", ""},
		{"a mode named in a title", "\x1b]0;\x1b\\[?1049h", ""},
		{"a mode inside a device string", "\x1bPq[?1049h\x1b\\", ""},
		{"an escape abandons a string", "\x1b]0;half\x1b[?1049h", "\x1b[?1049l"},
		{"cancelled", "\x1b[?1049\x18h", ""},
		{"a line feed inside a sequence acts and does not end it", "\x1b[?10\n49h", "\x1b[?1049l"},
		{"a marker in the wrong place", "\x1b[1?49h", ""},
		{"as many parameters as any terminal reads", "\x1b[?" + strings.Repeat("31337;", 255) + "2004h", "\x1b[?2004l"},
		{"absurdly long", "\x1b[?" + strings.Repeat("1;", 2000) + "25l", ""},
		{"saved, reset and restored", "\x1b[?2004h\x1b[?2004s\x1b[?2004l\x1b[?2004r", "\x1b[?2004l"},
		{"several saved and restored", "\x1b[?25l\x1b[?1003h\x1b[?1003;25;1006s\x1b[?1003l\x1b[?25h\x1b[?25;1003r", "\x1b[?1003l\x1b[?25h"},
		{"restored to the default, if the terminal knows that", "\x1b[?2004;7;25s\x1b[?2004h\x1b[?7;25l\x1b[?2004;7;25r", "\x1b[?2004l\x1b[?7h\x1b[?25h"},
		{"saved and restored, not changed", "\x1b[?2004;25;1049s\x1b[?2004;25;1049r", ""},
		{"restored twice", "\x1b[?2004h\x1b[?2004s\x1b[?2004r\x1b[?2004l\x1b[?2004r", "\x1b[?2004l"},
		{"saved twice", "\x1b[?2004h\x1b[?2004s\x1b[?2004l\x1b[?2004s\x1b[?2004r", ""},
		{"restored after a full reset", "\x1b[?2004h\x1b[?2004s\x1bc\x1b[?2004r", "\x1b[?2004l"},
		{"restored without a save", "\x1b[?25l\x1b[?2004s\x1b[?25;7;1049r", "\x1b[?25h"},
		{"the alternate screen is saved and restored", "\x1b[?1049h\x1b[?1049s\x1b[?1049l\x1b[?1047r", "\x1b[?1047l"},
		{"the main screen is saved and restored, if the terminal knows that", "\x1b[?1049s\x1b[?1049h\x1b[?1049r", "\x1b[?1049l"},
		{"application keypad is saved by number", "\x1b=\x1b[?66s\x1b>\x1b[?66r", "\x1b[?66l"},
		{"modes of ECMA-48 are not saved", "\x1b[?4s\x1b[4h\x1b[?4r", ""},
		{"what claude sends at start", "\x1b7\x1b[r\x1b8\x1b[?25h\x1b[?25l\x1b[?2004h\x1b[?1004h\x1b[?2031h\x1b[>0q\x1b]0;x\x07",
			"\x1b[?1004l\x1b[?2004l\x1b[?2031l\x1b[?25h"},
		{"what codex sends at start", "\x1b[?2004h\x1b[>4;0m\x1b[>7u\x1b[?1004h\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?2026h",
			"\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b[<1u"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scanned(c.sent).modes.undo(false); got != c.want {
				t.Errorf("after %q\n got %q\nwant %q", c.sent, got, c.want)
			}
		})
	}
}

func TestOperatingSystemCommands(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		want       []oscText
	}{
		{"ended by BEL", "a\x1b]7501;state=idle\x07b", []oscText{{7501, "state=idle"}}},
		{"ended by ST", "\x1b]7501;state=working\x1b\\\x1b]7501;x\x07", []oscText{{7501, "state=working"}, {7501, "x"}}},
		{"another number", "\x1b]8;;http://localhost\x07link\x1b]8;;\x07\x1b]1;icon\x07", nil},
		{"titles", "\x1b]0;⠂ größer\x07\x1b]2;✳ 日本語 ; with a semicolon\x1b\\", []oscText{{0, "⠂ größer"}, {2, "✳ 日本語 ; with a semicolon"}}},
		{"ended by ST in C1 form", "\x1b]0;a\u009cb\x07", []oscText{{0, "a"}}},
		{"bytes that end a string elsewhere are part of letters here", "\x1b]0;Ü ✜ А\x07", []oscText{{0, "Ü ✜ А"}}},
		{"a title is taken away", "\x1b]0;\x07", []oscText{{0, ""}}},
		{"one that does not end gives way to the next sequence", "\x1b]0;half a title\x1b]2;whole\x07", []oscText{{2, "whole"}}},
		{"or to a move of the cursor", "\x1b]0;half\x1b[2J\x1b[?25ltext\x07\x1b]0;whole\x07", []oscText{{0, "whole"}}},
		{"no text", "\x1b]7501\x07", []oscText{{7501, ""}}},
		{"no number", "\x1b];x\x07", nil},
		{"abandoned", "\x1b]7501;half\x18", nil},
		{"too long", "\x1b]7501;" + strings.Repeat("x", 5000) + "\x07\x1b]7501;ok\x07", []oscText{{7501, "ok"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := scanned(c.sent).texts
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// Modes that an exiting program may leave set on purpose are undone after a death
// by signal.
func TestUndoAfterASignal(t *testing.T) {
	for _, c := range []struct{ name, sent, want string }{
		{"bracketed paste and insert mode", "\x1b[?2004h\x1b[4h", "\x1b[?2004l\x1b[4l"},
		{"several modes of ECMA-48 in one", "\x1b[2;4;20h", "\x1b[2l\x1b[4l\x1b[20l"},
		{"insert mode and back", "\x1b[4h\x1b[4l", ""},
		{"no autorepeat, another backspace", "\x1b[?8l\x1b[?67h", "\x1b[?8h\x1b[?67l"},
		{"modifyCursorKeys", "\x1b[>1;2m", "\x1b[>1m"},
		{"every key option and back", "\x1b[>1;2m\x1b[>4;1m\x1b[>m", ""},
		{"a disabled key option", "\x1b[>1n", "\x1b[>1m"},
		{"line drawing", "\x1b(0", "\x1b(B"},
		{"sets with longer names", "\x1b(&4\x1b)\"?\x1b*%5", "\x1b(B\x1b)B\x1b*B"},
		{"one whose last byte is that of ASCII", "\x1b(\"B", "\x1b(B"},
		{"sets with longer names and back", "\x1b(&4\x1b)\"?\x1b(B\x1b)B", ""},
		{"sets with 96 characters", "\x1b-A\x1b/B", "\x1b)B\x1b+B"},
		{"sets with several bytes for each character", "\x1b$B\x1b$)C\x1b$-A\x1b$*B", "\x1b(B\x1b)B\x1b*B"},
		{"other sequences with intermediate bytes", "\x1b#8\x1b F\x1b%/G\x1b#(0", ""},
		{"not UTF-8 any more", "\x1b%@", "\x1b%G"},
		{"UTF-8 again", "\x1b%@\x1b%G", ""},
		{"UTF-8 already", "\x1b%G", ""},
		{"not UTF-8 any more, and a full reset", "\x1b%@\x1bc", "\x1b%G"},
		{"C1 controls without UTF-8", "\x1b%@\x9b4h\x1b%G\x9b20h", "\x1b[4l"},
		{"line drawing in G1, and shifted", "\x1b)0\x0elqqk", "\x1b)B\x0f"},
		{"shifted and back", "\x1b)0a\x0eb\x0fc\x1b)B", ""},
		{"a shift in a title is text", "\x1b]0;\x0e\x07", ""},
		{"locking shifts", "\x1bo\x1b~", "\x0f\x1b}"},
		{"ESC 8 restores the character set", "\x1b7\x1b(0\x1b8", ""},
		{"the alternate screen brings back the character set", "\x1b(0\x1b[?1049h\x1b(B", "\x1b[?1049l\x1b(B"},
		{"leaving it does so too", "\x1b(0\x1b[?1049h\x1b(B\x1b[?1049l", "\x1b(B"},
		{"it brings back ASCII", "\x1b[?1049h\x1b(0\x1b[?1049l", ""},
		{"the older alternate screen saves nothing", "\x1b(0\x1b[?1047h\x1b(B\x1b[?1047l", ""},
		{"mode 1048 saves the character set", "\x1b(0\x1b[?1048h\x1b(B\x1b[?1048l", "\x1b(B"},
		{"so does CSI s", "\x1b(0\x1b[s\x1b(B\x1b[u", "\x1b(B"},
		{"a progress bar", "\x1b]9;4;1;50\x07", "\x1b]9;4;0\x1b\\"},
		{"a progress bar that ended", "\x1b]9;4;3\x07\x1b]9;4;0\x1b\\", ""},
		{"a notification", "\x1b]9;done\x07", ""},
		{"the cursor's colour", "\x1b]12;red\x07", "\x1b]112\x1b\\"},
		{"the palette and three colours", "\x1b]4;1;red\x07\x1b]10;#fff;#000;#f00\x07", "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"},
		{"queries of colours", "\x1b]4;1;?\x07\x1b]11;?\x1b\\\x1b]10;?;?\x07", ""},
		{"colours that were reset", "\x1b]4;1;red;2;blue\x07\x1b]104\x07\x1b]12;red\x07\x1b]112\x07", ""},
		{"one colour of the palette that was reset", "\x1b]4;1;red\x07\x1b]104;2\x07", "\x1b]104\x1b\\"},
		{"a full reset", "\x1b[4h\x1b(0\x0e\x1b[>1;2mx\x1bc", ""},
		{"a soft reset", "\x1b[4h\x1b(0\x0ex\x1b[!p", ""},
		{"a shift after a soft reset", "\x1b(0\x1b[!p\x0etext", ""},
		{"C1 controls in UTF-8", "\u009b?2004h\u009d12;red\x07\u009b4h", "\x1b[?2004l\x1b[4l\x1b]112\x1b\\"},
		{"strings that end in C1 form", "\u009d4;1;red\u009c\x1b]12;red\u009c\u0090q\u009c\u009b4h", "\x1b[4l\x1b]104\x1b\\\x1b]112\x1b\\"},
		{"letters with the bytes of C1 controls", "\u00a04h ✛?2004h ⠛4h", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scanned(c.sent).modes.undo(true); got != c.want {
				t.Errorf("after %q\n got %q\nwant %q", c.sent, got, c.want)
			}
		})
	}
	raw := &tracker{raw: true}
	raw.scan([]byte("\x9b?25l\xc2\x9b?2004h"))
	raw.scan([]byte("\x1b%@\x1b%G"))
	require.Equal(t, "\x1b[?2004l\x1b[?25h", raw.modes.undo(true), "a terminal that is not in UTF-8")
}

// A console of Linux has sequences that a terminal elsewhere reads as the beginning of
// a string.
func TestUndoOnAConsole(t *testing.T) {
	for sent, want := range map[string]string{
		"\x1b]P1ff0000text":                        "\x1b]R",
		"\x1b]P1FF0000\x1b]P2abcdef\x1b[4h":        "\x1b[4l\x1b]R",
		"\x1b]P1ff0000\x1b]Rtext":                  "",
		"\x1b]P1ff0000\x1b\\\x1bc":                 "\x1b]R",
		"\x1b]P1ff00\x1b]0;P1ff0000\x07\x1b]P1x00": "",
		"\x1b]P1\n\x07ff0000":                      "\x1b]R",
		"\x1b]0;a title\x07\x1b]9;4;1\x1b\\":       "\x1b]9;4;0\x1b\\",
	} {
		tr := &tracker{parser: vt.Parser{Console: true}}
		tr.scan([]byte(sent))
		require.Equal(t, want, tr.modes.undo(true), "after %q", sent)
		require.Empty(t, tr.modes.undo(false), "after %q", sent)
	}
	require.Empty(t, scanned("\x1b]P1ff0000\x07").modes.undo(true), "not on a console")
}

// The table of modes in docs/promises.md agrees with the code.
func TestPromisedModes(t *testing.T) {
	doc, err := os.ReadFile("../docs/promises.md")
	require.NoError(t, err)
	bytesOf := strings.NewReplacer("ESC", "\x1b", "CSI", "\x1b[", "OSC ", "\x1b]", "SP", "!space!", "ST", "\x1b\\", "SO", "\x0e", "SI", "\x0f")
	plain := func(cell string) string {
		return strings.ReplaceAll(strings.ReplaceAll(bytesOf.Replace(strings.Trim(cell, "` ")), " ", ""), "!space!", " ")
	}
	var seen modes
	rows, looks := 0, 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[2], " `") {
			continue
		}
		rows++
		set, undo := plain(cells[2]), plain(cells[3])
		got := scanned(set)
		if got.look != 0 {
			looks++
			require.Equal(t, resetLook, undo)
			continue
		}
		require.Equal(t, undo, got.modes.undo(true), line)
		require.Equal(t, strings.Contains(cells[4], "always"), got.modes.undo(false) != "", line)
		seen = union(seen, got.modes)
	}
	require.Positive(t, rows)
	require.Equal(t, 1, looks)
	all := everything()
	for i, p := range switches {
		if p.number == 1007 {
			all.flipped |= 1 << i
		}
	}
	require.Equal(t, union(all, modes{}), seen, "each mode has its row")
}

// union returns the modes that are set in a or in b, in the fields that the test
// compares. It combines bits and flags. Any other of these fields that is set in a or in
// b becomes 1, because the test does not compare its value.
func union(a, b modes) modes {
	u := modes{flipped: a.flipped | b.flipped, colours: a.colours | b.colours, keypad: a.keypad || b.keypad, latin: a.latin || b.latin, progress: a.progress || b.progress}
	for _, m := range []modes{a, b} {
		if m.alternate != 0 {
			u.alternate = 1
		}
		for i, k := range m.keys {
			if k != "" {
				u.keys[i] = "1"
			}
		}
		u.region, u.cursorStyle = max(u.region, m.region[:min(1, len(m.region))]), max(u.cursorStyle, m.cursorStyle[:min(1, len(m.cursorStyle))])
		for i, c := range m.charsets.sets {
			u.charsets.sets[i] = max(u.charsets.sets[i], min(c, 1))
		}
		u.charsets.left, u.charsets.side = max(u.charsets.left, min(m.charsets.left, 1)), max(u.charsets.side, min(m.charsets.side, 1))
		u.keyboard[0].base, u.keyboard[0].depth = max(u.keyboard[0].base, min(m.keyboard[0].base, 1)), max(u.keyboard[0].depth, min(m.keyboard[0].depth, 1))
	}
	for _, at := range []*string{&u.region, &u.cursorStyle} {
		if *at != "" {
			*at = "1"
		}
	}
	return u
}

func TestLook(t *testing.T) {
	for sent, changed := range map[string]bool{
		"\x1b[31mred": true, "\x1b[31mred\x1b[39m": false, "\x1b[1;4;38;5;12mx\x1b[0m": false, "\x1b[1;4;38;5;12mx\x1b[22;24m": true,
		"\x1b[38;2;1;22;39m": true, "\x1b[38;2;1;22;39;39m": false, "\x1b[38:2::1:2:39;39m": false, "\x1b[48;5;7;49;58;5;1;59m": false,
		"\x1b[4:3mx": true, "\x1b[4:3mx\x1b[4:0m": false, "\x1b[7m\x1b[27m\x1b[9m\x1b[29m\x1b[3m\x1b[23m\x1b[53m\x1b[55m": false,
		"\x1b[2m": true, "\x1b[2m\x1b[22m": false, "\x1b[1;m": false, "\x1b[0;91m": true, "\x1b[>4;2m\x1b[?4m": false,
		"\x1b7\x1b[1m\x1b8": false, "\x1b[1m\x1b7\x1b[0m\x1b8": true, "\x1b[1m\x1bc": false, "\x1b[1m\x1b[!p": false, "\x1b[38m": true, "\x1b[38;5m": true,
		"\x1b[31m\x1b[?1049h\x1b[0m": true, "\x1b[31m\x1b[?1049h\x1b[0m\x1b[?1049l": true, "\x1b[?1049h\x1b[31m\x1b[?1049l": false,
		"\x1b[31m\x1b[?1047h\x1b[0m": false, "\x1b[31m\x1b[?1049h\x1b[0m\x1bc": false, "\x1b[31m\x1b[0;32m\x1b[?1048h\x1b[0m\x1b[?1048l": true,
		"\x1b[31m\x1b[s\x1b[0m\x1b[u": true, "\x1b[31m\x1b[5s\x1b[0m\x1b[>1u": false,
		"\x1b[9223372036854775808m": false, "\x1b[18446744073709551647m": false, "\x1b[31;18446744073709551616m": true, "\x1b[0000000000000000000031m": true,
		"\x1b[31m\x1b[#{\x1b[0m\x1b[#}": true, "\x1b[31m\x1b[#p\x1b[0m\x1b[#q": true, "\x1b[31m\x1b[30;31#{\x1b[0m\x1b[#}": true,
		"\x1b[31m\x1b[#{\x1b[0m": false, "\x1b[#{\x1b[#}": false, "\x1b[#}": false, "\x1b[31m\x1b[#{\x1b[#}\x1b[0m\x1b[#}": false,
		"\x1b[31m\x1b[#{\x1b[0m\x1b[#{\x1b[#}": false, "\x1b[31m\x1b[#{\x1b[0m\x1b[#{\x1b[#}\x1b[#}": true, "\x1b[31m\x1b[#{\x1b[0m\x1b[1#}": true,
		"\x1b[31m\x1b[#{\x1b[0m" + strings.Repeat("\x1b[#{", 50) + strings.Repeat("\x1b[#}", 50): false,
		"\x1b[31m\x1b[#{\x1b[0m" + strings.Repeat("\x1b[#{", 50) + strings.Repeat("\x1b[#}", 51): true,
		"\x1b[107m": true, "\x1b[40;49m": false, "\x1b[5m\x1b[25m\x1b[8m\x1b[28m": false,
	} {
		if got := !scanned(sent).plain(); got != changed {
			t.Errorf("after %q the look is %b", sent, scanned(sent).look)
		}
	}
}

// pieces are the parts from which the tests build random terminal output.
var pieces = []string{
	"\x1b", "[", "]", "?", ">", "<", "=", "!", ";", " ", "h", "l", "u", "m", "r", "p", "q", "c", "P", "\\", "\x07", "\x18", "\n", "text",
	"1", "25", "47", "1049", "1047", "2004", "1006", "7", "4", "\x1b[", "\x1b[?", "\x1b[>", "\x1b]7501;", "\x1b]0;⠂ ", "\x1b]2;", "é", "\x1b\\",
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[?25l", "\x1b[?2004;1006h", "\x1b[?2004;25s", "\x1b[?25;2004r", "\x1b[?1049s", "\x1b[?1049r", "\x1b[>5u", "\x1b[=3;2u", "\x1b[<2u", "\x1b[>4;1m", "\x1b[2;9r", "\x1b[4 q", "\x1b=", "\x1bc", "\x1b[!p",
	"\x1b[4h", "\x1b[2;20h", "\x1b[?8l", "\x1b[>1;2m", "\x1b[>1n", "\x1b(0", "\x1b)0", "\x1b(&4", "\x1b%@", "\x1b%G", "\x1b$)B", "\x1b(B", "\x0e", "\x0f", "\x1bn", "\x1b}", "\x1b|", "\x1b7", "\x1b8", "\x1b[#{", "\x1b[#}",
	"\x1b]9;4;1;3\x07", "\x1b]12;red\x07", "\x1b]4;1;red\x07", "\x1b]104\x07", "\x1b]P1ff0000", "\x1b]P", "\x1b]R", "\x1b]10;a;b\x07", "\u009b", "\u009c", "\u009d", "\xc2", "\x9b", "\x9c", "\x1b[38;5;1m", "\x1b[0m", "\x1b[1;39m",
}

// checkLaws checks the laws that hold for any output, cut at any place.
func checkLaws(t interface{ Fatalf(string, ...any) }, sent string, cut int) {
	for _, p := range []vt.Parser{{}, {Console: true}} {
		checkLawsWith(t, p, sent, cut)
	}
}

func checkLawsWith(t interface{ Fatalf(string, ...any) }, p vt.Parser, sent string, cut int) {
	whole, split := &tracker{wanted: wanted, parser: p}, &tracker{wanted: wanted, parser: p}
	whole.scan([]byte(sent))
	changed := split.scan([]byte(sent[:cut]))
	if split.scan([]byte(sent[cut:])) {
		changed = true
	}
	if split.modes != whole.modes || split.look != whole.look || split.under != whole.under || split.kept != whole.kept || split.pushed != whole.pushed || !slices.Equal(split.texts, whole.texts) {
		t.Fatalf("cut at %d, %q reads differently:\n%+v\n%+v", cut, sent, split, whole)
	}
	if !changed && whole.modes != (modes{}) {
		t.Fatalf("%q changed modes unannounced: %+v", sent, whole.modes)
	}
	undo := whole.modes.undo(true)
	if (undo == "") != (whole.modes == modes{}) {
		t.Fatalf("%q: modes %+v, undo %q", sent, whole.modes, undo)
	}
	after := &tracker{modes: whole.modes, parser: p}
	if after.scan([]byte(undo)); after.modes != (modes{}) {
		t.Fatalf("%q: undo %q leaves %+v", sent, undo, after.modes)
	}
	again := &tracker{modes: whole.modes, parser: p}
	again.scan([]byte(whole.modes.undo(false)))
	again.scan([]byte(whole.modes.redo()))
	if whole.modes.alternate == 1049 { // undo restores the character sets of the main screen, and redo does not change them
		again.modes.charsets, again.modes.under = whole.modes.charsets, whole.modes.under
	}
	if again.modes != whole.modes {
		t.Fatalf("%q: undo %q and redo %q bring %+v, not %+v", sent, whole.modes.undo(false), whole.modes.redo(), again.modes, whole.modes)
	}
	if len(undo) > 1024 {
		t.Fatalf("an undo string of %d bytes", len(undo))
	}
}

func TestModeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
		checkLaws(t, sent, rapid.IntRange(0, len(sent)).Draw(t, "cut"))
	})
}

func FuzzModes(f *testing.F) {
	f.Add("\x1b[?1049h\x1b[>7u\x1b]7501;state=idle\x07\x1b[?25l", 5)
	f.Add("\x1b[?1049\n;25;7lx\x1bPq\x1b\x1b\\", 9)
	f.Fuzz(func(t *testing.T, sent string, cut int) {
		if cut < 0 || cut > len(sent) {
			cut = len(sent) / 2
		}
		checkLaws(t, sent, cut)
	})
}

func BenchmarkScan(b *testing.B) {
	for name, chunk := range map[string]string{
		"plain": strings.Repeat("x", 4095),
		"tui":   strings.Repeat("\x1b[38;5;12mword\x1b[0m and \x1b[12;40Hmore ", 120)[:4095],
		// The worst case is a title with every redraw. No harness sends so many titles.
		"titles": strings.Repeat("\x1b]0;⠂ A title of a session\x07"+strings.Repeat("\x1b[38;5;12mword\x1b[0m and \x1b[12;40Hmore ", 30), 4)[:4095],
	} {
		b.Run(name, func(b *testing.B) {
			t := &tracker{wanted: wanted}
			p := []byte(chunk)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				t.scan(p)
				t.texts = t.texts[:0]
			}
		})
	}
}
