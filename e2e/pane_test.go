//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// A screenStory is one turn, with what the screen shows after it.
type screenStory struct {
	story
	turn, quit func(p *pane)
	shows      string
	signalled  bool // quit sends a signal, after which a wrapped run may have another exit code
}

// terminated is the same story, but SIGTERM ends the harness while the prompt has unsent
// text.
func (s screenStory) terminated() screenStory {
	s.signalled = true
	s.quit = func(p *pane) {
		p.tmux("send-keys", "-t", "e2e", "-l", "unsent")
		p.picture("unsent")
		shell, err := strconv.Atoi(strings.TrimSpace(p.tmux("display-message", "-p", "-t", "e2e", "#{pane_pid}")))
		require.NoError(p.t, err)
		send(p.t, childOf(shell), syscall.SIGTERM)
	}
	return s
}

// TestScreen compares the screens of a bare and a wrapped run in a real terminal:
// every cell with its colours, the cursor, the title and the modes.
func TestScreen(t *testing.T) {
	for name, s := range map[string]screenStory{
		"claude":            claudeScreen(),
		"claude, SIGTERM":   claudeScreen().terminated(),
		"opencode, SIGTERM": opencodeScreen().terminated(),
		"gemini, SIGTERM":   geminiScreen().terminated(),
		"claude after a compaction": {
			story: story{harness: claude, argv: claudeArgs()},
			turn: func(p *pane) {
				p.await("Claude Code to be ready", func() bool { return claudeRegistry().Status == "idle" })
				p.claudeTurn("hello", 1)
				p.claudeTurn("hello again", 2)
				p.tmux("send-keys", "-t", "e2e", "-l", "/compact")
				p.picture("/compact")
				p.tmux("send-keys", "-t", "e2e", "Enter")
				p.await("the compaction", func() bool {
					return p.transcripts(claudeCompacted) == 1 && claudeRegistry().Status == "idle"
				})
			},
			quit:  claudeExits,
			shows: "Compacted",
		},
		"codex": codexScreen(),
		"codex after a compaction": {
			story: story{harness: codex, argv: codexArgs("--no-daemon", "run it"), replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("It says hi.")}},
			turn: func(p *pane) {
				p.await("the turn", func() bool { return p.turnsOver() == 1 })
				p.codexSends("/compact")
				p.await("the compaction", func() bool { return p.turnsOver() == 2 })
			},
			shows: "ontext compacted",
			quit:  func(p *pane) { p.codexSends("/quit") },
		},
		"opencode": opencodeScreen(),
		"gemini":   geminiScreen(),
		// There is no story of Codex with SIGTERM. A bare Codex then does not restore
		// the terminal, but the wrapper does, so the screens differ.
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				if _, err := exec.LookPath("tmux"); err != nil {
					t.Skip("there is no tmux, which shows what a terminal would")
				}
				type pictures struct{ turn, end string }
				take := func(wrapped bool) pictures {
					p := newPane(t, s.story, wrapped)
					s.turn(p)
					turn := p.picture(s.shows)
					s.quit(p)
					if s.signalled {
						return pictures{turn, shellsWord.ReplaceAllString(p.picture("<the shell: "), "<the shell>")}
					}
					return pictures{turn, p.picture("<the shell: 0>")}
				}
				// A harness does not paint every run alike: two bare runs differ now and
				// then on a busy machine. So a difference counts if it is always there.
				var differ string
				for range 3 {
					bare, wrapped := take(false), take(true)
					if bare == wrapped {
						return
					}
					differ = fmt.Sprintf("after the turn, bare:\n%s\nwrapped:\n%s\nat the end, bare:\n%s\nwrapped:\n%s",
						bare.turn, wrapped.turn, bare.end, wrapped.end)
					t.Log("this pair of runs differs; " + differ)
				}
				t.Error("three pairs of runs differ; the last: " + differ)
			})
		})
	}
}

// claudeScreen is a turn of Claude Code, with a tool.
func claudeScreen() screenStory {
	return screenStory{
		story: story{harness: claude, argv: claudeArgs("--allowedTools", "Bash"), replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("It says hi.")}},
		turn: func(p *pane) {
			p.await("Claude Code to be ready", func() bool { return claudeRegistry().Status == "idle" })
			p.claudeTurn("run it", 1)
		},
		quit:  claudeExits,
		shows: "It says hi.",
	}
}

// codexScreen is a turn of Codex, with a tool. Without the first flag Codex shows a
// warning that it runs without its daemon; the wrapper always adds the flag.
func codexScreen() screenStory {
	return screenStory{
		story: story{harness: codex, argv: codexArgs("--no-daemon", "run it"), replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("It says hi.")}},
		turn: func(p *pane) {
			p.await("the turn", func() bool { return p.turnsOver() == 1 })
		},
		shows: "It says hi.",
		quit:  func(p *pane) { p.codexSends("/quit") },
	}
}

// opencodeScreen is a turn of OpenCode, with a tool.
func opencodeScreen() screenStory {
	return screenStory{
		story: story{harness: opencode, argv: opencodeArgs(), replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("It says hi.")}},
		turn: func(p *pane) {
			p.picture("anything…") // one word of the hint in the empty prompt; marks of colours separate the words
			p.tmux("send-keys", "-t", "e2e", "-l", "run it (p1)")
			p.picture("(p1)")
			p.tmux("send-keys", "-t", "e2e", "Enter")
			p.await("the turn", func() bool { return p.modelAsked() == 2 && p.modelRests() && opencodeIdle() })
		},
		shows: "hi.",
		quit: func(p *pane) {
			p.tmux("send-keys", "-t", "e2e", "-l", "/exit")
			p.picture("/exit")
			p.tmux("send-keys", "-t", "e2e", "Enter")
		},
	}
}

// geminiScreen is a turn of Gemini CLI, with a tool. Hooks would show in its status row,
// so none is injected. If a command ends right after its output, Gemini CLI may not show
// the output. So the command sleeps for a second before it ends.
func geminiScreen() screenStory {
	return screenStory{
		story: story{harness: gemini, argv: geminiArgs(), flags: []string{"--hooks", "never"}, replies: []mock.Reply{mock.Runs("echo hi; sleep 1"), mock.Says("It says hi.")}},
		turn: func(p *pane) {
			p.picture("getting started") // the header, which appears when prompts are no longer queued
			p.picture("message")         // one word of the hint in the empty prompt; marks of colours separate the words
			p.geminiSends("run-it-(p1)")
			p.await("the turn", func() bool { return p.modelAsked() == 2 && p.modelRests() })
		},
		shows: "hi.",
		quit:  func(p *pane) { p.geminiSends("/quit") },
	}
}

// claudeTurn sends a prompt and waits until the number of finished turns is turns.
func (p *pane) claudeTurn(prompt string, turns int) {
	p.t.Helper()
	p.tmux("send-keys", "-t", "e2e", "-l", prompt)
	p.tmux("send-keys", "-t", "e2e", "Enter")
	p.await("the turn of "+prompt, func() bool {
		return p.transcripts(claudeTurnOver) == turns && claudeRegistry().Status == "idle"
	})
}

func claudeExits(p *pane) {
	p.t.Helper()
	p.tmux("send-keys", "-t", "e2e", "-l", "/exit")
	p.picture("the CLI") // wait for the menu of commands
	p.tmux("send-keys", "-t", "e2e", "Enter")
}

func (p *pane) codexSends(line string) {
	p.t.Helper()
	p.tmux("set-buffer", line)
	p.tmux("paste-buffer", "-p", "-t", "e2e")
	p.picture(line) // an Enter right after a paste counts as part of it
	p.tmux("send-keys", "-t", "e2e", "Enter")
}

// geminiSends types a line and enters it. An Enter right after text counts as part of
// the text.
func (p *pane) geminiSends(line string) {
	p.t.Helper()
	p.tmux("send-keys", "-t", "e2e", "-l", line)
	p.picture(line)
	p.tmux("send-keys", "-t", "e2e", "Enter")
}

// A pane is a harness in a terminal whose screen can be captured.
type pane struct{ *world }

func newPane(t *testing.T, s story, wrapped bool) *pane {
	t.Helper()
	p := &pane{newWorld(t, s)}
	// Without focus events Claude Code shows a hint about them at some time.
	require.NoError(t, os.WriteFile(p.path("tmux.conf"), []byte("set -g focus-events on\n"), 0o600))
	cmd := exec.Command("tmux", append([]string{"-S", p.path("tmux"), "-f", p.path("tmux.conf"), "new-session", "-d", "-s", "e2e",
		"-x", "100", "-y", "30", "/bin/sh", "-c", shell, "sh"}, p.command(s, wrapped)...)...)
	cmd.Dir, cmd.Env = project, p.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", p.path("tmux")}, args...)...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, string(out))
	return string(out)
}

// picture waits until the screen shows a text and no longer changes.
func (p *pane) picture(text string) string {
	p.t.Helper()
	look := func() string {
		return cells(p.tmux("capture-pane", "-p", "-e", "-t", "e2e")) + p.tmux("display-message", "-p", "-t", "e2e",
			"cursor #{cursor_x} #{cursor_y} #{cursor_flag} alternate #{alternate_on} mouse #{mouse_any_flag} keypad #{keypad_flag} title #{pane_title}")
	}
	shown, since := "", time.Now()
	if !poll(patience, func() bool {
		if now := look(); now != shown {
			shown, since = now, time.Now()
		}
		return strings.Contains(shown, text) && time.Since(since) > 700*time.Millisecond
	}) {
		p.t.Fatalf("the screen keeps changing, or does not show %q:\n%s", text, shown)
	}
	shown = geminiMeasures.ReplaceAllString(shown, "${1}MEASURED")
	return blank(titleColour.ReplaceAllString(musing.ReplaceAllString(shown, "${1}MUSED"), "Mock title"))
}

// musing is the random word with which a harness shows the duration of a turn.
var musing = regexp.MustCompile(`(✻(?:\{[^}]*\}| )*)\p{L}+ for \d+s( · done \d+:\d\d [AP]M)?|Worked for \S+ • \d\d:\d\d|▣[^\n]*`)

// geminiMeasures are the durations and the coloured session id that Gemini CLI shows at
// its end.
var geminiMeasures = regexp.MustCompile(`((?:Wall Time|Agent Active|API Time|Tool Time):|esume this session:)[^│\n]*`)

// titleColour differs between threads of Codex.
var titleColour = regexp.MustCompile(`\{[^}]*\}Mock title`)

// cells renders a captured screen with a mark where the attributes of a cell differ
// from those of the cell before. Invisible differences are left out: the text colour of a
// blank, and whether the blank end of a line was ever painted. A repainted screen may
// differ in both.
func cells(captured string) string {
	var out strings.Builder
	var now, marked looks
	unseen := 0 // blanks that are added only if other text follows in the line
	for rest := captured; rest != ""; {
		if m := sgr.FindStringSubmatch(rest); m != nil {
			now.apply(strings.Split(m[1], ";"))
			rest = rest[len(m[0]):]
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		cell := now
		if unicode.IsSpace(r) {
			if cell = cell.ofBlank(); r == ' ' && cell == (looks{}) && marked.ofBlank() == (looks{}) {
				unseen++
				continue
			}
		}
		if r != '\n' {
			out.WriteString(strings.Repeat(" ", unseen))
		}
		unseen = 0
		if seen := cell != (looks{}) || marked.ofBlank() != (looks{}); cell != marked && (seen || !unicode.IsSpace(r)) {
			fmt.Fprintf(&out, "{%s}", cell)
			marked = cell
		}
		out.WriteRune(r)
	}
	return out.String()
}

var sgr = regexp.MustCompile(`^\x1b\[([\d;]*)m`)

// looks are the attributes of a cell.
type looks struct {
	foreground, background string
	on                     [10]bool // the index is the code that switches the attribute on
}

func (l looks) String() string {
	text := l.foreground
	if l.background != "" {
		text += " on " + l.background
	}
	for i, on := range l.on {
		if on {
			text += fmt.Sprintf(" +%d", i)
		}
	}
	return strings.TrimSpace(text)
}

const underlined, inverse, struck = 4, 7, 9

// ofBlank are the attributes that are visible on a blank.
func (l looks) ofBlank() looks {
	seen := looks{background: l.background}
	for _, i := range []int{underlined, inverse, struck} {
		seen.on[i] = l.on[i]
	}
	return seen
}

// apply applies the codes of one escape sequence.
func (l *looks) apply(codes []string) {
	for len(codes) > 0 {
		n, _ := strconv.Atoi(codes[0]) // an empty code is 0
		used := 1
		switch {
		case n == 0:
			*l = looks{}
		case n < 10:
			l.on[n] = true
		case n == 22:
			l.on[1], l.on[2] = false, false
		case n > 22 && n < 30:
			l.on[n-20] = false
		case n == 38 || n == 48:
			used = 3
			if len(codes) > 1 && codes[1] == "2" {
				used = 5
			}
			used = min(used, len(codes))
			if colour := strings.Join(codes[1:used], ";"); n == 38 {
				l.foreground = colour
			} else {
				l.background = colour
			}
		case n == 39:
			l.foreground = ""
		case n == 49:
			l.background = ""
		case n >= 30 && n < 38 || n >= 90 && n < 98:
			l.foreground = codes[0]
		case n >= 40 && n < 48 || n >= 100 && n < 108:
			l.background = codes[0]
		}
		codes = codes[used:]
	}
}
