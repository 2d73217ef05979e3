//go:build unix

package fakeharness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// interact reads prompts from the keyboard. It returns after /exit, /quit, Ctrl-D, two
// Ctrl-C or the end of stdin, and after s.Clears commands /clear or /new. Enter is a
// carriage return; all bytes of a bracketed paste are text.
func (h *harness) interact(s interactStep) {
	kind := h.dialect()
	h.term.raw()
	var k keys
	_, k.stashes = kind.(*claude)
	turns, cleared := 0, 0
	for {
		b, err := h.read()
		if errors.Is(err, io.EOF) {
			kind.end("other")
			return
		}
		must(err)
		if _, claude := kind.(*claude); claude {
			h.write(printable(b))
		}
		lines := k.feed(b)
		if k.line == "/clear" {
			h.write("\r\n" + listed(kind) + "\r\n")
		}
		for _, line := range lines {
			given := len(h.given)
			switch line {
			case "/exit", "/quit":
				kind.end("prompt_input_exit")
				return
			case "/clear", "/new":
				kind.clear()
				if cleared++; cleared == s.Clears {
					h.showSince(given, s.ShowContext)
					return
				}
			case "/compact":
				kind.compact(compactStep{Trigger: "manual"})
			case "":
			default:
				t := turnStep{Prompt: line, Answer: cmp.Or(s.Answer, "Done."), MS: s.MS}
				if len(s.Used) > 0 {
					t.Used = s.Used[min(turns, len(s.Used)-1)]
				}
				turns++
				kind.turn(t)
			}
			h.showSince(given, s.ShowContext)
		}
	}
}

// listed returns the entry for /clear in the list of commands that a harness displays
// while the user types /clear; empty for a harness whose list is not imitated.
func listed(kind dialect) string {
	switch kind.(type) {
	case *claude:
		return "/clear   Start a new session with empty context; previous session stays on disk"
	case *codex:
		return "› /clear  clear the terminal and start a new chat"
	}
	return ""
}

// keys collects the bytes of a keyboard into lines.
type keys struct {
	line, seen string
	stashes    bool   // Ctrl-S stores the line and empties it; the next Enter restores the line, as in Claude Code
	stash      string // the line that Ctrl-S stored
	paste      bool
	interrupts int
}

const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// feed returns the lines that Enter completed. Ctrl-C clears the line; a second
// Ctrl-C directly after the first means /exit, and so does Ctrl-D on an empty line.
func (k *keys) feed(b []byte) []string {
	var lines []string
	k.seen += string(b)
	for k.seen != "" {
		// A marker may arrive in pieces: wait for the rest of it.
		if k.seen[0] == 0x1b && len(k.seen) < len(pasteBegins) && (strings.HasPrefix(pasteBegins, k.seen) || strings.HasPrefix(pasteEnds, k.seen)) && len(k.seen) > 1 {
			return lines
		}
		if rest, ok := strings.CutPrefix(k.seen, pasteBegins); ok {
			k.paste, k.seen = true, rest
			continue
		}
		if rest, ok := strings.CutPrefix(k.seen, pasteEnds); ok {
			k.paste, k.seen = false, rest
			continue
		}
		c := k.seen[0]
		k.seen = k.seen[1:]
		if c != 3 {
			k.interrupts = 0
		}
		switch {
		case k.paste:
			k.line += string(c)
		case c == '\r':
			lines = append(lines, strings.TrimSpace(k.line))
			k.line, k.stash = k.stash, ""
		case c == 19 && k.stashes: // Ctrl-S
			k.line, k.stash = k.stash, k.line
		case c == 3:
			k.interrupts++
			if k.line == "" && k.interrupts > 1 {
				lines = append(lines, "/exit")
			}
			k.line = ""
		case c == 4 && k.line == "":
			lines = append(lines, "/exit")
		case c == 21: // Ctrl-U
			k.line = ""
		case c == 127 && k.line != "":
			k.line = k.line[:len(k.line)-1]
		case c >= ' ' && c != 127 || c == '\n':
			k.line += string([]byte{c})
		}
	}
	return lines
}

// printable returns b without the control characters of ASCII.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 127 {
			return -1
		}
		return r
	}, string(b))
}

// shell runs a command for the model in a new session (setsid) and returns its output.
func (h *harness) shell(command string) (out string, failed bool) {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env = h.hookEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		must(fmt.Errorf("run %q: %w", command, err))
	}
	return strings.TrimSuffix(string(data), "\n"), err != nil
}
