//go:build unix

package fakeharness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

const geminiVersion = "0.61.0"

// gemini behaves like Gemini CLI: it writes a chat file and the title of the terminal, and
// runs hooks.
type gemini struct {
	h             *harness
	session, file string
	used          int64
	over          bool // SessionEnd was reported
}

func newGemini(h *harness) *gemini {
	g := &gemini{h: h, session: cmp.Or(h.args.resume, h.args.sessionID, uuid.NewString())}
	g.name()
	return g
}

// name sets g.file to the path of a chat file for the session. The path contains the
// current time in UTC, without the seconds.
func (g *gemini) name() {
	g.file = filepath.Join(g.h.home("GEMINI_CLI_HOME", "."), ".gemini", "tmp", "project", "chats",
		"session-"+time.Now().UTC().Format("2006-01-02T15-04")+"-"+g.session[:min(8, len(g.session))]+".jsonl")
}

// geminiHooks reads the hooks of the extensions and of the system's defaults.
func geminiHooks(h *harness) hooks {
	out := hooks{on: map[string][]hookCommand{}}
	files, _ := filepath.Glob(filepath.Join(h.home("GEMINI_CLI_HOME", "."), ".gemini", "extensions", "*", "hooks", "hooks.json"))
	if defaults := h.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"]; defaults != "" {
		files = append(files, defaults)
	}
	for _, path := range files {
		var s struct {
			Hooks map[string][]group `json:"hooks"`
		}
		if data, err := os.ReadFile(path); err == nil {
			must(json.Unmarshal(data, &s))
		}
		for event, groups := range s.Hooks {
			for _, g := range groups {
				for i := range g.Hooks {
					g.Hooks[i].Timeout /= 1000 // Gemini CLI counts milliseconds
				}
			}
			out.add(event, groups)
		}
	}
	return out
}

func (g *gemini) fatal(sig os.Signal) (int, bool) {
	return 0, sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGINT
}

func (g *gemini) base(event string) object {
	return object{"session_id": g.session, "transcript_path": g.file, "cwd": g.h.dir, "hook_event_name": event, "timestamp": now()}
}

func (g *gemini) start(startStep) {
	g.over = false
	g.h.term.raw()
	g.h.write("\x1b[?2004h")
	g.h.line("fake Gemini CLI " + geminiVersion)
	g.head()
	g.h.hook("SessionStart", object{"source": "startup"})
	g.title("◇  Ready")
}

func (g *gemini) title(text string) { g.h.write("\x1b]0;" + text + "\x07") }

// head writes the first records of a chat file.
func (g *gemini) head() {
	g.record(object{"sessionId": g.session, "projectHash": "fake", "startTime": now(), "lastUpdated": now(), "kind": "main"})
	g.record(object{"$set": object{"messages": []any{g.message("user", []any{object{"text": "<session_context>\nThis is the fake harness."}})}}})
}

func (g *gemini) message(kind string, content any) object {
	return object{"id": uuid.NewString(), "timestamp": now(), "type": kind, "content": content}
}

func (g *gemini) turn(t turnStep) {
	g.title("✦  Working…")
	g.h.line("> " + t.Prompt)
	if g.h.hook("BeforeAgent", object{"prompt": t.Prompt}).blocked {
		g.title("◇  Ready")
		return
	}
	g.record(g.message("user", []any{object{"text": t.Prompt}}))
	g.h.pause(time.Duration(t.MS) * time.Millisecond)
	g.used = cmp.Or(t.Used, g.used, 1000)
	answer := g.message("gemini", t.Answer)
	maps.Copy(answer, object{"thoughts": []any{}, "model": "gemini-2.5-pro", "tokens": object{"input": g.used, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": g.used + 10}})
	g.record(answer)
	g.h.line("✦ " + t.Answer)
	if asked := g.h.hook("AfterAgent", object{"prompt": t.Prompt, "prompt_response": t.Answer, "stop_hook_active": false}); asked.clears {
		for _, text := range []string{"Agent execution stopped: " + asked.reason, "Conversation context has been cleared."} {
			g.record(g.message("info", text))
			g.h.line("ℹ " + text)
		}
		g.name()
		g.used = 0
		g.head()
	}
	g.title("◇  Ready")
}

// compact does nothing, because no script needs a compaction of Gemini CLI.
func (g *gemini) compact(compactStep) {}

func (g *gemini) clear() {
	g.h.hook("SessionEnd", object{"reason": "clear"})
	g.session = uuid.NewString()
	g.name()
	g.head()
	g.h.hook("SessionStart", object{"source": "clear"})
	g.h.line("(cleared)")
}

func (g *gemini) end(string) {
	if g.over {
		return
	}
	g.over = true
	g.h.hook("SessionEnd", object{"reason": "exit"})
	_ = g.h.term.write("\x1b[?2004l\x1b[?25h") // fails after a hangup, which is not a failure of the script
	_ = g.h.term.line(fmt.Sprintf("To resume this session: gemini --resume %s", g.session))
	g.h.term.restore()
}

func (g *gemini) record(rec object) { appendLines(g.file, rec) }

// The methods statusline and registry do nothing, because the real program runs no status
// line command and writes no registry file.

func (g *gemini) statusline(object) {}

func (g *gemini) registry(object) {}
