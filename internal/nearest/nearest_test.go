package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	states := []string{"RUNNING", "PAUSED", "ABORTING", "ABORTED"}
	for _, c := range []struct{ name, want string }{
		{"PAUSED", "PAUSED"},
		{"PAUSE", "PAUSED"},
		{"ABORTIN", "ABORTING"},
		{"RUNING", "RUNNING"},
		{"UASPED", "PAUSED"},
		{"", "PAUSED"},                               // the shortest
		{strings.Repeat("ABORTED", 1000), "ABORTED"}, // cut, or it would take long
	} {
		if got := Word(c.name, states); got != c.want {
			t.Errorf("%.20q: nearest is %q, want %q", c.name, got, c.want)
		}
	}
	if got := Word("a", []string{"b", "c"}); got != "b" {
		t.Errorf("of equals the first: got %q", got)
	}
	if got := Word("a", nil); got != "" {
		t.Errorf("of none: got %q", got)
	}
}
