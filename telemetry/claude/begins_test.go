package claude

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The records with which Claude Code 2.1.197 begins a transcript after /clear, as
// observed, shortened.
const (
	mode    = `{"type":"mode","mode":"normal","sessionId":"s2"}`
	caveat  = `{"parentUuid":null,"type":"user","message":{"role":"user","content":"<local-command-caveat>Caveat</local-command-caveat>"},"isMeta":true,"uuid":"a","timestamp":"2026-11-27T13:42:43.322Z","sessionId":"s2"}`
	cleared = `{"parentUuid":"a","type":"user","message":{"role":"user","content":"<command-name>/clear</command-name>\n <command-message>clear</command-message>"},"uuid":"b","timestamp":"2026-11-27T13:42:43.322Z","sessionId":"s2"}`
	output  = `{"parentUuid":"b","type":"system","subtype":"local_command","content":"","uuid":"c","timestamp":"2026-11-27T13:42:43.330Z","sessionId":"s2"}`
	second  = `{"parentUuid":"c","promptId":"p","type":"user","message":{"role":"user","content":"second"},"uuid":"d","timestamp":"2026-11-27T13:42:46.348Z","sessionId":"s2"}`
	first   = `{"parentUuid":null,"promptId":"p","type":"user","message":{"role":"user","content":[{"type":"text","text":"hello"}]},"uuid":"d","timestamp":"2026-11-27T13:42:46.348Z","sessionId":"s2"}`
)

func TestBegins(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		cause   string
		at      string
	}{
		"nothing was written":            {nil, "", ""},
		"no record of a turn":            {[]string{mode}, "", ""},
		"the command is not written yet": {[]string{mode, caveat}, "", "13:42:43.322"},
		"/clear":                         {[]string{mode, caveat, cleared, output, second}, "clear", "13:42:43.322"},
		"the prompt is written first":    {[]string{mode, second}, "", "13:42:46.348"},
		"its parent is not written yet":  {[]string{mode, second, output}, "", "13:42:43.33"},
		"the command is written last":    {[]string{mode, second, output, cleared}, "clear", "13:42:43.322"},
		"a prompt":                       {[]string{mode, first}, "unknown", "13:42:46.348"},
		"a prompt that speaks of /clear": {[]string{mode, strings.ReplaceAll(first, "hello", "type <command-name>/clear</command-name>")}, "unknown", "13:42:46.348"},
		"a fork":                         {[]string{mode, strings.Replace(first, `"parentUuid"`, `"forkedFrom":{"sessionId":"s1"},"parentUuid"`, 1)}, "fork", "13:42:46.348"},
		"a record in a circle":           {[]string{strings.ReplaceAll(second, `"parentUuid":"c"`, `"parentUuid":"d"`)}, "", "13:42:46.348"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join(append(c.records, ""), "\n")
			at, cause := Begins([]byte(text))
			require.Equal(t, c.cause, cause)
			clock := ""
			if !at.IsZero() {
				clock = at.UTC().Format("15:04:05.999")
			}
			require.Equal(t, c.at, clock)
			for cut := range text { // a cut file gives the same cause or none
				if _, early := Begins([]byte(text[:cut])); early != "" {
					require.Equal(t, c.cause, early, "%d bytes", cut)
				}
			}
		})
	}
	at, _ := Begins([]byte(first + "\n"))
	require.Equal(t, time.Date(2026, 11, 27, 13, 42, 46, 348e6, time.UTC), at.UTC())
}
