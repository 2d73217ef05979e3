package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	states := []string{"RUNNING", "PAUSED", "ABORTING", "ABORTED"}
	for _, c := range []struct{ word, want string }{
		{"PAUSED", "PAUSED"},
		{"PAUSE", "PAUSED"},
		{"ABORTIN", "ABORTING"},
		{"RUNING", "RUNNING"},
		{"PASUED", "PAUSED"},
		{"STOPPED", ""},
		{"x", ""},
		{"", ""},
		{strings.Repeat("ABORTED", 1000), ""}, // a long word is cut, because comparing all of it would take long
	} {
		if got := Word(c.word, states); got != c.want {
			t.Errorf("%.20q: nearest is %q, want %q", c.word, got, c.want)
		}
	}
	if got := Word("aaa", []string{"aab", "aac"}); got != "aab" {
		t.Errorf("two words are equally near: got %q, want the first", got)
	}
	if got := Word("a", nil); got != "" {
		t.Errorf("no known words: got %q", got)
	}
}

func TestHint(t *testing.T) {
	for word, want := range map[string]string{"stauts": `; did you mean "status"?`, "foo": ""} {
		if got := Hint(word, []string{"off", "status"}); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}
