package gemini

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

func typedAt(second int) time.Time { return time.Date(2026, 11, 21, 8, 0, second, 0, time.UTC) }

func TestTypedLines(t *testing.T) {
	lines, whole := TypedLines([]byte(`[
		{"sessionId":"s","messageId":0,"type":"user","message":"say \"hi\"","timestamp":"2026-11-21T08:00:01.000Z"},
		{"sessionId":"s","messageId":1,"type":"user","message":"/clear","timestamp":"2026-11-21T08:00:02.000Z"},
		{"sessionId":"r","messageId":0,"type":"user","message":"/resume now","timestamp":"2026-11-21T08:00:03.000Z"},
		{"sessionId":"r","messageId":1,"type":"user","message":"/clearance","timestamp":"2026-11-21T08:00:04.000Z"},
		{"sessionId":"r","messageId":2,"type":"other","message":"x","timestamp":"2026-11-21T08:00:05.000Z"},
		{"sessionId":"","messageId":2,"type":"user","message":"x","timestamp":"2026-11-21T08:00:05.000Z"},
		{"sessionId":"r","messageId":2,"type":"user","message":"x"},
		{"sessionId":"r","messageId":2,"type":"user","message":"","timestamp":"2026-11-21T08:00:05.000Z"}]`))
	require.True(t, whole)
	text := func(s string) uint64 { return scan.Hash([]byte(s)) }
	require.Equal(t, []telemetry.Typed{
		{Session: "s", At: typedAt(1), Text: text(`say \"hi\"`)},
		{Session: "s", At: typedAt(2), Text: text("/clear"), Begins: "clear"},
		{Session: "r", At: typedAt(3), Text: text("/resume now"), Begins: "resume"},
		{Session: "r", At: typedAt(4), Text: text("/clearance")},
	}, lines)

	lines, whole = TypedLines([]byte(`[{"sessionId":"s","type":"user","message":"a","timestamp":"2026-11-21T08:00:01.000Z"},{"sessionId"`))
	require.False(t, whole)
	require.Len(t, lines, 1)
}

// TestTypedPrompt checks for which records TypedPrompt returns the same text as the list
// of typed lines.
func TestTypedPrompt(t *testing.T) {
	lines, _ := TypedLines([]byte(`[{"sessionId":"s","type":"user","message":"say \"hi\"","timestamp":"2026-11-21T08:00:01.000Z"}]`))
	for name, c := range map[string]struct {
		record string
		same   bool
	}{
		"typed":                      {typed(2, "p", `say \"hi\"`), true},
		"another text":               {typed(2, "p", `say \"ho\"`), false},
		"with a file's content":      {chatLine(2, "p", "user", `"content":[{"text":"say \"hi\""},{"text":"the file"}]`), true},
		"displayed":                  {chatLine(2, "p", "user", `"content":[{"text":"Greet."}],"displayContent":[{"text":"say \"hi\""}]`), true},
		"displayed otherwise":        {chatLine(2, "p", "user", `"content":[{"text":"say \"hi\""}],"displayContent":[{"text":"/greet"}]`), false},
		"said by the model":          {chatLine(2, "p", "gemini", `"content":[{"text":"say \"hi\""}]`), false},
		"beside a tool's result":     {chatLine(2, "p", "user", `"content":[{"text":"say \"hi\""},{"functionResponse":{"id":"t"}}]`), false},
		"the beginning of a history": {chatLine(2, "p", "user", `"content":[{"text":"say \"hi\""},{"text":"<session_context>x</session_context>"}]`), false},
		"a header":                   {chatHead, false},
		"not whole":                  {`{"id":"p","type":"user"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := TypedPrompt([]byte(c.record))
			require.Equal(t, c.same, ok && p.Text == lines[0].Text)
			if c.same {
				require.Equal(t, typedAt(2), p.At)
			}
		})
	}
}

// FuzzTyped checks that each returned line has a time, and that each line of a list also
// has a session.
func FuzzTyped(f *testing.F) {
	f.Add([]byte(`[{"sessionId":"s","type":"user","message":"a","timestamp":"2026-11-21T08:00:01.000Z"}]`))
	f.Add([]byte(typed(1, "p", "a")))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, _ := TypedLines(b)
		for _, l := range lines {
			require.NotZero(t, l.At)
			require.NotEmpty(t, l.Session)
		}
		if p, ok := TypedPrompt(b); ok {
			require.NotZero(t, p.At)
		}
	})
}
