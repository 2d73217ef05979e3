package hook

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	cases := []struct {
		args  string
		event string
		then  string
		has   bool
	}{
		{"", "", "", false},
		{"Stop", "Stop", "", false},
		{"--new-flag Stop later", "Stop", "", false},
		{"StatusLine --then date", "StatusLine", "date", true},
		{"--then date StatusLine", "StatusLine", "date", true},
		{"--then=date", "", "date", true},
		{"Stop --then", "Stop", "", false},
	}
	for _, c := range cases {
		event, then, has := parse(strings.Fields(c.args))
		if event != c.event || then != c.then || has != c.has {
			t.Errorf("%q: event %q, then %q %v; want %q, %q %v", c.args, event, then, has, c.event, c.then, c.has)
		}
	}
}

func TestLimit(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": timeLimit, "x": timeLimit, "0": timeLimit, "-5": timeLimit, "250": 250 * time.Millisecond,
	} {
		if got := limit(value); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
