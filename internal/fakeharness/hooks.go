//go:build unix

package fakeharness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// hooks holds the configured hook commands, by event, and the status line
// command.
type hooks struct {
	on         map[string][]hookCommand
	statusline string
	warning    string // a warning to print at the start
}

type hookCommand struct {
	matcher string // a regular expression for a member of the input; see matches
	command string
	timeout time.Duration
	async   bool // the harness does not wait for the command
}

// group is a group of one event's hooks, in the form that all three harnesses use.
type group struct {
	Matcher string `json:"matcher"`
	Hooks   []struct {
		Type    string `json:"type"`
		Command string `json:"command"`
		Timeout int    `json:"timeout"` // seconds; in a file of Gemini CLI, milliseconds
		Async   bool   `json:"async"`
	} `json:"hooks"`
}

func (h *hooks) add(event string, groups []group) {
	for _, g := range groups {
		for _, c := range g.Hooks {
			if c.Type != "command" {
				continue
			}
			h.on[event] = append(h.on[event], hookCommand{g.Matcher, c.Command, time.Duration(cmp.Or(c.Timeout, 600)) * time.Second, c.Async})
		}
	}
}

// claudeHooks reads the layers of settings that exist: the user's, the
// project's, and those of --settings. The hooks of all layers run; the last
// status line is used.
func claudeHooks(h *harness) hooks {
	out := hooks{on: map[string][]hookCommand{}}
	var layers [][]byte
	for _, path := range []string{
		filepath.Join(h.home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"),
		filepath.Join(h.dir, ".claude", "settings.json"),
		filepath.Join(h.dir, ".claude", "settings.local.json"),
	} {
		if data, err := os.ReadFile(path); err == nil {
			layers = append(layers, data)
		}
	}
	if given := h.args.settings; strings.HasPrefix(strings.TrimSpace(given), "{") {
		layers = append(layers, []byte(given))
	} else if given != "" {
		data, err := os.ReadFile(given)
		if err != nil {
			must(fmt.Errorf("--settings: %w", err))
		}
		layers = append(layers, data)
	}
	off := false
	for _, data := range layers {
		var s struct {
			Hooks      map[string][]group `json:"hooks"`
			StatusLine *struct {
				Command string `json:"command"`
			} `json:"statusLine"`
			DisableAllHooks *bool `json:"disableAllHooks"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			must(fmt.Errorf("settings: %w", err))
		}
		for event, groups := range s.Hooks {
			out.add(event, groups)
		}
		if s.StatusLine != nil {
			out.statusline = s.StatusLine.Command
		}
		if s.DisableAllHooks != nil {
			off = *s.DisableAllHooks
		}
	}
	if off {
		return hooks{}
	}
	return out
}

// home returns the value of the environment variable. If the variable is empty, home
// joins HOME and the relative path in below.
func (h *harness) home(variable, below string) string {
	if dir := h.env[variable]; dir != "" {
		return dir
	}
	return filepath.Join(h.env["HOME"], below)
}

// An answer is the combined result of the hooks of one event.
type answer struct {
	context []string
	blocked bool
	clears  bool // the context is to be emptied
	reason  string
}

// hook runs the hooks of event, one after another. The stdin of each is a JSON object
// with the usual members; the parameter more can add and replace members. The context
// that the hooks return is added to h.given. An asynchronous hook may still run when
// this method returns. The next call of this method first waits for such hooks, so that
// a script's hooks always run in the same order.
func (h *harness) hook(event string, more object) answer {
	h.unawaited.Wait()
	stdin := h.dialect().base(event)
	maps.Copy(stdin, more)
	data := marshal(stdin)
	var all answer
	for _, c := range h.hooks.on[event] {
		if !c.matches(stdin) {
			continue
		}
		if c.async {
			h.unawaited.Go(func() { h.run(c.command, data, c.timeout) })
			continue
		}
		out, code := h.run(c.command, data, c.timeout)
		a := readAnswer(event, out, code)
		all.context = append(all.context, a.context...)
		if a.blocked {
			all.blocked, all.reason, all.clears = true, a.reason, all.clears || a.clears
		}
	}
	h.given = append(h.given, all.context...)
	return all
}

// marshal encodes v, which must contain only values that JSON can represent.
func marshal(v any) []byte { return got(json.Marshal(v)) }

// matches compares the matcher with the member of stdin that the event has: tool_name,
// source, trigger or notification_type. An event without these members matches.
func (c hookCommand) matches(stdin object) bool {
	if c.matcher == "" || c.matcher == "*" {
		return true
	}
	matcher, not := strings.CutPrefix(c.matcher, "^(?!") // Go has no lookahead
	if not {
		matcher = strings.TrimSuffix(matcher, "$)")
	}
	re, err := regexp.Compile("^(?:" + matcher + ")$")
	if err != nil {
		return false
	}
	for _, member := range []string{"tool_name", "source", "trigger", "notification_type"} {
		if s, ok := stdin[member].(string); ok {
			return re.MatchString(s) != not
		}
	}
	return true
}

// run runs one command as the harnesses do: with the shell, in a new session (setsid),
// with JSON on stdin. The output of a command that times out is dropped.
func (h *harness) run(command string, stdin []byte, timeout time.Duration) ([]byte, int) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = h.hookEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, 1
	case errors.As(err, &exit):
		return out, exit.ExitCode()
	case err != nil:
		return nil, 127
	}
	return out, 0
}

func (h *harness) hookEnv() []string {
	env := maps.Clone(h.env)
	if c, ok := h.kind.(*claude); ok {
		env["CLAUDECODE"], env["CLAUDE_CODE_CHILD_SESSION"] = "1", "1"
		env["CLAUDE_CODE_SESSION_ID"], env["CLAUDE_CODE_ENTRYPOINT"] = c.session, c.entrypoint()
		env["CLAUDE_PROJECT_DIR"] = h.dir
	}
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	return out
}

// readAnswer reads a hook's output. Plain text counts as context only for the events
// SessionStart and UserPromptSubmit, as in Claude Code and Codex. Exit code 2 blocks.
func readAnswer(event string, out []byte, code int) answer {
	if code == 2 {
		return answer{blocked: true, reason: "blocked by a hook"}
	}
	out = bytes.TrimSpace(out)
	if code != 0 || len(out) == 0 {
		return answer{}
	}
	var output struct {
		Continue *bool  `json:"continue"`
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Stop     string `json:"stopReason"`
		Specific struct {
			Clears     bool   `json:"clearContext"`
			Context    string `json:"additionalContext"`
			Permission string `json:"permissionDecision"`
			Reason     string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if out[0] != '{' || json.Unmarshal(out, &output) != nil {
		if event == "SessionStart" || event == "UserPromptSubmit" {
			return answer{context: []string{string(out)}}
		}
		return answer{}
	}
	a := answer{reason: cmp.Or(output.Reason, output.Stop, output.Specific.Reason), clears: output.Specific.Clears}
	if output.Specific.Context != "" {
		a.context = []string{output.Specific.Context}
	}
	// "ask" blocks too, because there is no user who could answer.
	a.blocked = output.Decision == "block" || slices.Contains([]string{"deny", "ask"}, output.Specific.Permission) || output.Continue != nil && !*output.Continue
	return a
}
