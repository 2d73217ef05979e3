//go:build e2e && linux

package e2e

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// compareScreens holds what a person was shown bare and wrapped side by side.
// With pipes it is the same text. Of a terminal, which no two runs paint with
// the same bytes, it is the state that they leave it in; TestScreen compares
// the pictures.
func compareScreens(t *testing.T, bare, wrapped *run) {
	t.Helper()
	if wrapped.tty == nil {
		if b, w := said(bare.shown()), said(wrapped.shown()); b != w {
			t.Errorf("standard output: bare %q, wrapped %q", b, w)
		}
		if b, w := said(bare.stderr.String()), said(wrapped.stderr.String()); b != w {
			t.Errorf("standard error: bare %q, wrapped %q", b, w)
		}
		return
	}
	if *wrapped.after != *wrapped.before {
		t.Errorf("the terminal's attributes afterwards: %+v, want %+v", wrapped.after, wrapped.before)
	}
	if left := modesLeft(wrapped.shown()); len(left) > 0 {
		t.Errorf("the terminal's modes afterwards: %v", left)
	}
}

// hookLines are printed by codex exec whenever it has hooks, whoever's.
var hookLines = regexp.MustCompile(`(?m)^hook: .*\n`)

// startupLines are printed by Gemini CLI when a measurement of its start is not
// to be had, by chance.
var startupLines = regexp.MustCompile(`(?m)^\[STARTUP\] .*\n`)

// took is how long a tool ran.
var took = regexp.MustCompile(`\bin \d+ms\b`)

func said(s string) string {
	return blank(took.ReplaceAllString(startupLines.ReplaceAllString(hookLines.ReplaceAllString(s, ""), ""), "in TIME"))
}

var (
	privateMode = regexp.MustCompile(`\x1b\[\?([\d;]+)([hl])`)
	keyboard    = regexp.MustCompile(`\x1b\[([<>])\d*u`)
	otherKeys   = regexp.MustCompile(`\x1b\[>4(;\d+)?m`)
)

// normally are the modes that are on in a terminal that nobody has touched.
var normally = map[string]bool{"7": true, "25": true}

// modesLeft are the terminal modes in which these bytes leave a terminal,
// where they are not those of an untouched one.
func modesLeft(shown string) []string {
	left := map[string]bool{}
	for _, m := range privateMode.FindAllStringSubmatch(shown, -1) {
		for mode := range strings.SplitSeq(m[1], ";") {
			if (m[2] == "h") == normally[mode] {
				delete(left, "?"+mode)
			} else {
				left["?"+mode] = true
			}
		}
	}
	if m := otherKeys.FindAllStringSubmatch(shown, -1); len(m) > 0 {
		if last := m[len(m)-1][1]; last != "" && last != ";0" {
			left["modifyOtherKeys"] = true
		}
	}
	pushed := 0
	for _, m := range keyboard.FindAllStringSubmatch(shown, -1) {
		if m[1] == ">" {
			pushed++
		} else {
			pushed = max(0, pushed-1) // one too many is allowed for and does nothing
		}
	}
	if pushed > 0 {
		left["kitty keyboard"] = true
	}
	// Some terminals begin with clusters of characters counted as one, so nobody
	// but the user can put this back. OpenCode leaves it on, bare too.
	delete(left, "?2027")
	return slices.Sorted(maps.Keys(left))
}
