package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// The lines that this package writes without encoding/json must be readable with
// it, and the other way round. The types below are the lines of package control,
// with a member that a newer version may add.
type (
	request struct {
		Op    string `json:"op"`
		Key   string `json:"key"`
		Event string `json:"event"`
		Bytes int    `json:"bytes"`
	}
	reply struct {
		Error string `json:"error,omitempty"`
		Bytes int    `json:"bytes"`
		Later string `json:"later,omitempty"`
	}
)

func TestLinesAreJSON(t *testing.T) {
	event := rapid.OneOf(rapid.StringMatching(`[A-Za-z_.-]{1,12}`), rapid.StringMatching(`["\\\x00-\x20\x7f]{1,6}`), rapid.String())
	failure := rapid.OneOf(rapid.Just(""), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		want := request{
			Op:    rapid.SampledFrom([]string{OpCall, OpNotify}).Draw(t, "op"),
			Key:   event.Draw(t, "key"),
			Event: event.Draw(t, "event"),
			Bytes: rapid.IntRange(0, MaxBody).Draw(t, "bytes"),
		}
		line := requestLine(want.Op, want.Key, want.Event, want.Bytes)
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil || asked != want {
			t.Fatalf("%q is read as %+v, %v; want %+v", line, asked, err, want)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%q is not one line", line)
		}

		answered := reply{
			Error: failure.Draw(t, "error"),
			Bytes: rapid.OneOf(rapid.IntRange(0, MaxBody), rapid.Int()).Draw(t, "size"),
			Later: failure.Draw(t, "later"),
		}
		line, err := json.Marshal(answered)
		if err != nil {
			t.Fatal(err)
		}
		size, err := replySize(line)
		switch good := answered.Error == "" && answered.Bytes >= 0 && answered.Bytes <= MaxBody; {
		case good && (err != nil || size != answered.Bytes):
			t.Fatalf("%s is read as %d, %v", line, size, err)
		case !good && err == nil:
			t.Fatalf("%s is read as %d", line, size)
		}
	})
	for _, line := range []string{"", "{}x", `{"bytes":}`, `{"bytes":1`, `{"bytes":1.5}`, `{"bytes":"1"}`, ` {"bytes":1}`} {
		if got, err := replySize([]byte(line)); err == nil {
			t.Errorf("%q is read as %d", line, got)
		}
	}
}

// An answer that arrives in pieces is read like an answer that arrives whole.
func TestAnswersInPieces(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine)
	for _, c := range []struct{ name, sent, want, err string }{
		{"empty", "{\"bytes\":0}\n", "", ""},
		{"short", "{\"bytes\":5}\na\nb\nc", "a\nb\nc", ""},
		{"longer than a line", "{\"bytes\":12288}\n" + long, long, ""},
		{"more than announced", "{\"bytes\":2}\nabc", "ab", ""},
		{"less than announced", "{\"bytes\":4}\nabc", "", "unexpected EOF"},
		{"nothing", "", "", "EOF"},
		{"half a line", "{\"bytes\":4}", "", "EOF"},
		{"a refusal", "{\"error\":\"no\",\"bytes\":0}\n", "", `refused: {"error":"no","bytes":0}`},
		{"an endless line", long, "", "line longer than 4096 bytes"},
		{"too much", "{\"bytes\":16777217}\n", "", "body of 16777217 bytes, want at most 16777216"},
	} {
		for how, cut := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "half": iotest.HalfReader, "byte by byte": iotest.OneByteReader,
		} {
			got, err := readAnswer(cut(strings.NewReader(c.sent)))
			if err == nil {
				err = errors.New("")
			}
			if string(got) != c.want || err.Error() != c.err {
				t.Errorf("%s, %s: %d bytes, error %q; want %d and %q", c.name, how, len(got), err, len(c.want), c.err)
			}
		}
	}
}
