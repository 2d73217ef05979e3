package signaltext_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/signaltext"
	"lifeloop/telemetry"
)

func parse(text string) ([]telemetry.Signal, error) {
	var words []signaltext.Word
	for _, w := range strings.Fields(text) {
		key, value, _ := strings.Cut(w, "=")
		words = append(words, signaltext.Word{Key: key, Value: value})
	}
	return signaltext.Parse(telemetry.Signal{Source: "hook"}, time.Unix(100, 0), words)
}

func TestParse(t *testing.T) {
	before := int64(90)
	for _, c := range []struct {
		text string
		want []telemetry.Signal
	}{
		{"in=S1 live=S2 cause=startup prompt=p1 ago=1s", []telemetry.Signal{
			{Kind: telemetry.SessionLive, Source: "hook", Session: "S2", Cause: "startup"},
			{Kind: telemetry.Prompt, Source: "hook", Session: "S1", Turn: "p1", At: time.Unix(99, 0)}}},
		{"stop=p1 outcome=failed error=quota", []telemetry.Signal{{Kind: telemetry.TurnStop, Source: "hook", Turn: "p1", Outcome: telemetry.Failed, Error: telemetry.ErrQuota}}},
		{"usage=7 call=m:5:2 window=200:table", []telemetry.Signal{{Kind: telemetry.UsageSeen, Source: "hook", Window: 200, WindowSource: "table",
			Usage: &telemetry.Usage{ID: "m", Used: 7, Input: 5, Output: 2}}}},
		{"window=200:table", []telemetry.Signal{{Kind: telemetry.WindowSeen, Source: "hook", Window: 200, WindowSource: "table"}}},
		{"compacted=hook:auto:90", []telemetry.Signal{{Kind: telemetry.Compacted, Source: "hook", Compaction: &telemetry.Compaction{Half: "hook", Trigger: "auto", Before: &before}}}},
		{"gap=3-5 limit limit=20", []telemetry.Signal{{Kind: telemetry.Gap, Source: "hook", Missing: &[2]uint64{3, 5}},
			{Kind: telemetry.LimitWait, Source: "hook"}, {Kind: telemetry.LimitWait, Source: "hook", Until: time.Unix(120, 0)}}},
		{"tool=t1 name=read tool-end=t1 tool-error=failed", []telemetry.Signal{{Kind: telemetry.ToolStart, Source: "hook", Tool: "t1", ToolName: "read"},
			{Kind: telemetry.ToolEnd, Source: "hook", Tool: "t1", ToolError: "failed"}}},
	} {
		got, err := parse(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"turn=p1":         `no signal before the word "turn"`,
		"prompt=p1 foo":   `unknown signal word "foo"`,
		"prompt=p1 call":  `the word "call" belongs to a usage`,
		"usage=7 call=m":  `call: want ID:INPUT:OUTPUT, found "m"`,
		"compacted=hook":  `compacted: want HALF:TRIGGER, found "hook"`,
		"prompt=p ago=1y": `time: unknown unit "y" in duration "1y"`,
	} {
		_, err := parse(text)
		require.EqualError(t, err, want)
	}
}
