//go:build linux

package control

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// The lines that are written and read by hand are the JSON that encoding/json
// would have written and read.
func TestLinesAreJSON(t *testing.T) {
	event := rapid.OneOf(rapid.StringMatching(`[A-Za-z_.-]{1,12}`), rapid.String())
	failure := rapid.OneOf(rapid.Just(""), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		asked := request{
			Op:    rapid.SampledFrom([]string{opHook, opTell}).Draw(t, "op"),
			Event: event.Draw(t, "event"),
			Bytes: rapid.IntRange(0, MaxBody).Draw(t, "bytes"),
		}
		line, err := asked.line()
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		if string(line) != string(want)+"\n" {
			t.Fatalf("asked with %q, want %q", line, want)
		}

		answered := reply{Error: failure.Draw(t, "error"), Bytes: rapid.Int().Draw(t, "size")}
		if line, err = json.Marshal(answered); err != nil {
			t.Fatal(err)
		}
		var read reply
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if got, err := parseReply(append(line, '\n')); err != nil || got != read {
			t.Fatalf("%s is read as %+v, %v", line, got, err)
		}
	})
	for _, line := range []string{"", "\n", "{}x\n", `{"bytes":}` + "\n", `{"bytes":1` + "\n", `{"bytes":1}}` + "\n", `{"bytes":1.5}` + "\n"} {
		if got, err := parseReply([]byte(line)); err == nil {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}
