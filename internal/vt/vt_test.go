package vt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parse passes the pieces to one parser and returns the results as one string:
// text unchanged, a sequence in angle brackets.
func parse(pieces ...string) string { return parseWith(&Parser{}, pieces...) }

func parseWith(p *Parser, pieces ...string) string {
	var b strings.Builder
	for _, piece := range pieces {
		for rest := []byte(piece); len(rest) > 0; {
			var text []byte
			var seq *Sequence
			text, seq, rest = p.Next(rest)
			b.Write(text)
			if seq != nil {
				fmt.Fprintf(&b, "<%s%s>", [...]string{"escape", "control", "command", "string"}[seq.Kind], describe(seq))
			}
		}
	}
	return b.String()
}

func describe(seq *Sequence) string {
	var b strings.Builder
	if seq.Kind == Escape && seq.First != seq.Inter {
		b.WriteString(" " + string(rune(seq.First)))
	}
	for _, c := range []byte{seq.Marker, seq.Inter, seq.Final} {
		if c != 0 {
			b.WriteString(" " + string(rune(c)))
		}
	}
	if len(seq.Body) > 0 {
		fmt.Fprintf(&b, " %q", seq.Body)
	}
	return b.String()
}

func TestNext(t *testing.T) {
	long := strings.Repeat("x", maxText)
	for _, c := range []struct{ name, sent, want string }{
		{"text with control characters", "a\tb\r\n\x07", "a\tb\r\n\x07"},
		{"colours", "\x1b[1;31mred\x1b[0m", `<control m "1;31">red<control m "0">`},
		{"colours with colons", "\x1b[38:5:1m", `<control m "38:5:1">`},
		{"a private mode", "\x1b[?2004h", `<control ? h "2004">`},
		{"a control with an intermediate byte", "\x1b[6 q", `<control   q "6">`},
		{"a control character inside a control", "\x1b[?10\n49h", `<control ? h "1049">`},
		{"a marker in the wrong place", "\x1b[1?49hx", "x"},
		{"two markers", "\x1b[?>1hx", "x"},
		{"parameters over the bound", "\x1b[" + strings.Repeat("1", maxParameters+1) + "hx", "x"},
		{"parameters at the bound", "\x1b[" + strings.Repeat("1", maxParameters) + "h", `<control h "` + strings.Repeat("1", maxParameters) + `">`},
		{"cancelled", "\x1b[?1049\x18h", "h"},
		{"an ESC inside a control begins anew", "\x1b[1\x1b[2m", `<control m "2">`},
		{"an escape", "\x1b=\x1b7", `<escape =><escape 7>`},
		{"an escape with an intermediate byte", "\x1b(Bx", `<escape ( B>x`},
		{"an escape with two intermediate bytes", "\x1b(\n&4\x1b(Bx", "<escape ( & 4><escape ( B>x"},
		{"ESC twice", "\x1b\x1b[m", "<control m>"},
		{"a command ended by BEL", "\x1b]0;title\x07x", `<command "0;title">x`},
		{"a command ended by ST", "\x1b]0;title\x1b\\x", `<command "0;title">x`},
		{"a command in UTF-8", "\x1b]0;\u009c ✜\x07", "<command \"0;\\u009c ✜\">"},
		{"a command abandoned by another", "\x1b]0;half\x1b]2;whole\x07", `<command "2;whole">`},
		{"a cancelled command", "\x1b]0;half\x1ax", "x"},
		{"a command at the bound", "\x1b]" + long + "\x07", `<command "` + long + `">`},
		{"a command over the bound", "\x1b]" + long + "x\x07x", "x"},
		{"a device string", "\x1bPq[?1049h\x07\x1b\\x", "<string>x"},
		{"a device string abandoned", "\x1bPq\x1b[mx", "<control m>x"},
		{"unfinished", "x\x1b[?10", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parse(c.sent); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.sent, got, c.want)
			}
			if got := parse(strings.Split(c.sent, "")...); got != c.want {
				t.Errorf("%q byte by byte\n got %s\nwant %s", c.sent, got, c.want)
			}
		})
	}
}

// On a Linux console, OSC R and OSC P with seven digits are complete without BEL or ESC \.
// The result is the same wherever the input is cut in two.
func TestConsole(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{"\x1b]P1ff0000a\x1b]Rb\x1b]0;t\x07c\x1b]PAbCdEf0\x1b\\", `<command "P1ff0000">a<command "R">b<command "0;t">c<command "PAbCdEf0"><escape \>`},
		{"\x1b]P1ff\n0000a", `<command "P1ff0000">a`},
		{"\x1b]P1fgtext\x1b]P1\x18text", "texttext"},
		{"\x1b]P1\x1b]P1ff0000a", `<command "P1ff0000">a`},
		{"\x1b]P1é", "\xa9"},
	} {
		for cut := range len(c.sent) + 1 {
			p := Parser{Console: true}
			if got := parseWith(&p, c.sent[:cut], c.sent[cut:]); got != c.want {
				t.Errorf("%q, cut at %d\n got %s\nwant %s", c.sent, cut, got, c.want)
			}
		}
	}
}

// checkCuts checks that a cut of a stream changes neither the text nor the
// sequences.
func checkCuts(t interface{ Fatalf(string, ...any) }, sent string, cut int) {
	whole := parse(sent)
	if got := parse(sent[:cut], sent[cut:]); got != whole {
		t.Fatalf("%q cut at %d\n got %s\nwant %s", sent, cut, got, whole)
	}
	bytewise := make([]string, len(sent))
	for i := range len(sent) {
		bytewise[i] = sent[i : i+1]
	}
	if got := parse(bytewise...); got != whole {
		t.Fatalf("%q byte by byte\n got %s\nwant %s", sent, got, whole)
	}
}

var pieces = []string{
	"\x1b", "[", "]", "?", ">", "<", "=", "!", ";", ":", " ", "h", "m", "c", "P", "X", "\\", "\x07", "\x18", "\x1a", "\n", "text", "1", "2004",
	"\x1b[", "\x1b[?25l", "\x1b[1;31m", "\x1b[4 q", "\x1b]0;title", "\x1b]0;⠂\x07", "\x1b\\", "\x1bPq", "\x1b(B", "\x1b(&", "\x9b", "é",
	strings.Repeat("1", maxParameters), strings.Repeat("x", maxText-2),
}

func TestCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		checkCuts(t, sent, rapid.IntRange(0, len(sent)).Draw(t, "cut"))
	})
}

func FuzzCuts(f *testing.F) {
	f.Add("\x1b[?1049h\x1b[>7u\x1b]7501;state=idle\x07\x1b[?25l", 5)
	f.Add("\x1b[?1049\n;25;7lx\x1bPq\x1b\x1b\\", 9)
	f.Fuzz(func(t *testing.T, sent string, cut int) {
		if cut < 0 || cut > len(sent) {
			cut = len(sent) / 2
		}
		checkCuts(t, sent, cut)
	})
}

func TestNextDoesNotAllocate(t *testing.T) {
	var p Parser
	sent := []byte("plain\x1b[1mbold\x1b]0;title\x07\x1b[?25l\x1b(B\x1bPq\x1b\\\x1b[?10")
	feed := func() {
		for b := sent; len(b) > 0; {
			_, _, b = p.Next(b)
		}
	}
	feed()
	if n := testing.AllocsPerRun(100, feed); n != 0 {
		t.Errorf("%v allocations per stream", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, unit := range map[string]string{
		"plain":  "words without any sequence ",
		"tui":    "\x1b[38;5;12mword\x1b[0m and \x1b[12;40Hmore ",
		"titles": "\x1b]0;⠂ A title of a session\x07 and text ",
	} {
		b.Run(name, func(b *testing.B) {
			var p Parser
			sent := bytes.Repeat([]byte(unit), 4096/len(unit))
			b.SetBytes(int64(len(sent)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := sent; len(rest) > 0; {
					_, _, rest = p.Next(rest)
				}
			}
		})
	}
}

// If the caller enables them, C1 controls are parsed like ESC and a letter,
// wherever the stream is cut. Otherwise the same bytes are text.
func TestC1(t *testing.T) {
	for _, c := range []struct {
		c1         C1
		sent, want string
	}{
		{C1None, "a\u009b4hb", ""},
		{C1UTF8, "a\u009b4hb\u009d0;t\x07\u0090q\x1b\\\u0084", "4h|0;t||D"},
		{C1UTF8, "\u00a0\x1b[1mÂ\u009b2m ✛⠛", "1m|2m"},
		{C1UTF8, "\u009d0;ü✜\u009ca\x1b]1;t\u009cb\x1bPqÂ\u009c\u009b4h", "0;ü✜|1;t||4h"},
		{C1Raw, "a\x9b4h\x9d0;t\x07\x1b[1m", "4h|1m"},
	} {
		for cut := range len(c.sent) + 1 {
			p := Parser{C1: c.c1}
			var got []string
			for _, b := range [][]byte{[]byte(c.sent[:cut]), []byte(c.sent[cut:])} {
				for len(b) > 0 {
					var seq *Sequence
					if _, seq, b = p.Next(b); seq != nil {
						got = append(got, string(seq.Body)+strings.Trim(string(seq.Final), "\x00"))
					}
				}
			}
			if got := strings.Join(got, "|"); got != c.want {
				t.Errorf("%q, cut at %d: got %q, want %q", c.sent, cut, got, c.want)
			}
		}
	}
}
