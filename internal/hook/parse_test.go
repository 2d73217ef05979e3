package hook

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]command{
		"":                                     {},
		"Stop":                                 {event: "Stop"},
		"--new-flag Stop later":                {event: "Stop"},
		"StatusLine --then date":               {event: "StatusLine", then: "date", hasThen: true},
		"--then date StatusLine":               {event: "StatusLine", then: "date", hasThen: true},
		"--then=date":                          {then: "date", hasThen: true},
		"Stop --then":                          {event: "Stop"},
		"--key=/k Stop":                        {keyFile: "/k", event: "Stop"},
		"--key=/k StatusLine --then --key=/no": {keyFile: "/k", event: "StatusLine", then: "--key=/no", hasThen: true},
		"Stop --key":                           {event: "Stop"},
	} {
		if got := parse(strings.Fields(args)); got != want {
			t.Errorf("%q: %+v, want %+v", args, got, want)
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
