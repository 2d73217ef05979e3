//go:build e2e && linux

package e2e

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// compareScreens compares the output of a bare and a wrapped run. With pipes both
// print the same text. Two runs never send a terminal the same bytes, so with a terminal
// it checks only that the wrapped run restored the terminal; TestScreen compares screens.
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

// hookLines are printed by codex exec whenever any hooks are configured.
var hookLines = regexp.MustCompile(`(?m)^hook: .*\n`)

// startupLines are printed by Gemini CLI by chance: when it fails to measure its start,
// and when its telemetry ends twice.
var startupLines = regexp.MustCompile(`(?m)^(\[STARTUP\] |A shutdown LoggerProvider |shutdown may only be called once ).*\n`)

// openclawLines are printed by OpenClaw by chance, when its databases or the model's
// server are slow, and because of our plugin.
var openclawLines = regexp.MustCompile(`(?m)^(\x1b\[\d+m)*\[(session-sqlite\]|sqlite/|provider-transport-fetch\]\S* \S*\[model-fetch\] response .* status=200 elapsedMs=\d{4,} |memory\]|agent/embedded\]\S* \S*\[trace:|plugins\]\S* \S*lifeloop-wrap: ).*\n`)

// took matches the duration of a tool.
var took = regexp.MustCompile(`\bin \d+ms\b`)

func said(s string) string {
	return blank(took.ReplaceAllString(startupLines.ReplaceAllString(hookLines.ReplaceAllString(openclawLines.ReplaceAllString(s, ""), ""), ""), "in TIME"))
}

var (
	privateMode = regexp.MustCompile(`\x1b\[\?([\d;]+)([hl])`)
	keyboard    = regexp.MustCompile(`\x1b\[([<>])\d*u`)
	otherKeys   = regexp.MustCompile(`\x1b\[>4(;\d+)?m`)
)

// normally are the modes that are on in a new terminal.
var normally = map[string]bool{"7": true, "25": true}

// modesLeft are the modes that differ from a new terminal after these bytes.
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
			pushed = max(0, pushed-1) // a pop without a push has no effect
		}
	}
	if pushed > 0 {
		left["kitty keyboard"] = true
	}
	// The initial value of this mode depends on the terminal, so the wrapper cannot
	// restore it. OpenCode leaves it on, also in a bare run.
	delete(left, "?2027")
	return slices.Sorted(maps.Keys(left))
}
