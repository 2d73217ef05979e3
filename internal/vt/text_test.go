package vt

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"/home/ümlaut/日本 …", "/home/ümlaut/日本 …"}, {`back\slash`, `back\slash`}, {"\uFFFD", "\uFFFD"},
		{"a\nb\tc\rd", `a\nb\tc\rd`}, {"\x1b[2J\x07\x00\x7f", `\u001b[2J\u0007\u0000\u007f`},
		{"\u009b31m\u0085", `\u009b31m\u0085`}, {"\x9b31m", `\x9b31m`},
		{"user\u202etxt.exe\u2066\u200f\u061c\u2028", `user\u202etxt.exe\u2066\u200f\u061c\u2028`},
		{"👩\u200d💻", "👩\u200d💻"},
	} {
		if got := Plain(c.in); got != c.want {
			t.Errorf("Plain(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// A shell parses the output of Word to the original string.
func TestWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for _, s := range []string{"", "/plain/path", "a b", "it's", "$HOME", "a\nb", "\x1b]0;x\x07'\\", "-x", "ü"} {
		out, err := exec.Command(bash, "-c", "printf %s "+Word(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("Word(%q) = %s, which a shell reads as %q (%v)", s, Word(s), out, err)
		}
	}
}

// A filter does not change the value of a JSON document, wherever the document is cut.
// Its output contains nothing that a terminal acts on.
func TestFilterKeepsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\u009b\u202e\x7f\x1b\u0085\"\\a💻")))).Draw(t, "text")
		doc, err := json.Marshal(map[string]string{"k": text})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		f := NewFilter(&out)
		for rest := doc; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if _, err := f.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var before, after map[string]string
		if json.Unmarshal(doc, &before) != nil || json.Unmarshal(out.Bytes(), &after) != nil || before["k"] != after["k"] {
			t.Fatalf("%s became %s", doc, out.Bytes())
		}
		if Plain(out.String()) != out.String() {
			t.Fatalf("%q has a character that a terminal acts on", out.String())
		}
	})
}

func TestFilterOfBytes(t *testing.T) {
	var out bytes.Buffer
	f := NewFilter(&out)
	for _, s := range []string{"a\tb\n", "\x9b31m \xe2\x80", "", "\xae \x1b[0m", "\xf0\x9f"} {
		if n, err := f.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "a\tb\n\uFFFD31m \\u202e \\u001b[0m\uFFFD"; out.String() != want || !utf8.Valid(out.Bytes()) {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
