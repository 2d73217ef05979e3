//go:build unix

package fakeharness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"lifeloop/profiles"
)

// The test binary is also the fake harness, under the name in the environment.
func TestMain(m *testing.M) {
	if name := os.Getenv("FAKEHARNESS_TEST_AS"); name != "" {
		args := append([]string{name}, os.Args[1:]...)
		os.Exit(Run(args, os.Environ(), os.Stdin, os.Stdout))
	}
	// nohup, or a shell in the background, may have made this process ignore a signal.
	// The harnesses of the tests must not inherit this setting.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// A place is a home and a working folder for one harness.
type place struct {
	home, dir, hookLog, hook string
}

// newPlace returns a new folder with a hook program, which logs its last argument and stdin, and
// answers an event with the variable ANSWER_<event>.
func newPlace(t *testing.T) place {
	t.Helper()
	root := t.TempDir()
	p := place{home: filepath.Join(root, "home"), dir: filepath.Join(root, "project"), hookLog: filepath.Join(root, "hooks.log"), hook: filepath.Join(root, "hook")}
	require.NoError(t, os.MkdirAll(p.home, 0o700))
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	script := `#!/bin/sh
for event; do :; done
{ printf '%s ' "$event"; tr -d '\n'; echo; } >>"` + p.hookLog + `"
eval "printf '%s' \"\$ANSWER_$event\""
`
	require.NoError(t, os.WriteFile(p.hook, []byte(script), 0o700))
	return p
}

func (p place) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{
		"FAKEHARNESS_TEST_AS=" + name, "HOME=" + p.home, "PATH=" + os.Getenv("PATH"),
		"GORACE=atexit_sleep_ms=0",  // without this, each exit takes a second with -race
		"GOCOVERDIR=" + t.TempDir(), // without this, there is a warning on stderr with -cover
	}
	return cmd
}

// settings returns the flag --settings with its value. With these settings the harness
// runs the hook program for the events, and also as the status line command.
func (p place) settings(t *testing.T, events ...string) []string {
	t.Helper()
	hooks := map[string]any{}
	for _, e := range events {
		hooks[e] = []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": p.hook + " " + e, "timeout": 5}}}}
	}
	data, err := json.Marshal(map[string]any{"hooks": hooks, "statusLine": map[string]any{"type": "command", "command": p.hook + " statusline"}})
	require.NoError(t, err)
	return []string{"--settings", string(data)}
}

// calls returns the logged hook calls: their events and inputs.
func (p place) calls(t *testing.T) (names []string, stdin []map[string]any) {
	t.Helper()
	for _, line := range lines(t, p.hookLog) {
		name, body, _ := strings.Cut(line, " ")
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &m), "%s", line)
		for _, member := range []string{"source", "trigger", "reason"} {
			if s, ok := m[member].(string); ok {
				name += ":" + s
			}
		}
		names, stdin = append(names, name), append(stdin, m)
	}
	return names, stdin
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func glob(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

var claudeEvents = []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact", "SessionEnd"}

// TestClaudeDemo plays the built-in story and reads its files with the decoders
// for the real program's files.
func TestClaudeDemo(t *testing.T) {
	p := newPlace(t)
	const id = "5e551011-0000-4000-8000-000000000001"
	cmd := p.command(t, "claude", append(p.settings(t, claudeEvents...), "--session-id", id, "--story", "claude-demo", "--speed", "100")...)
	cmd.Env = append(cmd.Env, `ANSWER_UserPromptSubmit={"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"remember the budget"}}`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if !strings.Contains(string(out), "context: remember the budget\n") {
		t.Errorf("the hook's context did not arrive:\n%s", out)
	}

	names, stdin := p.calls(t)
	var percent []any
	names = slices.DeleteFunc(names, func(n string) bool { return n == "statusline" })
	require.Equal(t, []string{
		"SessionStart:startup",
		"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
		"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
		"UserPromptSubmit", "Stop",
		"PreCompact:auto", "SessionStart:compact", "PostCompact:auto",
		"SessionEnd:prompt_input_exit",
	}, names)
	for _, m := range stdin {
		if m["session_id"] != id {
			t.Errorf("a hook call of session %v", m["session_id"])
		}
		if w, ok := m["context_window"].(map[string]any); ok {
			percent = append(percent, w["used_percentage"])
		}
	}
	require.Equal(t, []any{nil, 30.0, 60.0, 80.0, 0.0}, percent)

	transcript := glob(t, filepath.Join(p.home, ".claude/projects/*", id+".jsonl"))
	require.Equal(t, stdin[0]["transcript_path"], transcript)
	require.Equal(t, []string{
		"prompt", "usage 60000", "tool_start", "tool_end", "usage 60000", "turn_end",
		"prompt", "usage 120000", "tool_start", "tool_end", "usage 120000", "turn_end",
		"prompt", "usage 160000", "turn_end",
		"compacted auto 160000 9000",
	}, decoded(t, "claude", transcript))
	left, err := filepath.Glob(filepath.Join(p.home, ".claude/sessions/*"))
	require.NoError(t, err)
	require.Empty(t, left, "a graceful exit removes the registry file")
}

// TestCodexDemo gives the program the arguments that the profile prepares.
func TestCodexDemo(t *testing.T) {
	p := newPlace(t)
	profile, ok := profiles.For("codex")
	require.True(t, ok)
	launch, err := profile.Prepare([]string{"codex", "--story", "codex-demo", "--speed", "100"}, profiles.Host{
		Env: []string{"HOME=" + p.home}, Dir: p.dir, Hook: []string{p.hook, "hook"}, RunDir: p.dir, Socket: "/none", SessionID: "s", Terminal: true, ReadFile: os.ReadFile,
	})
	require.NoError(t, err)
	cmd := p.command(t, "codex", launch.Argv[1:]...)
	cmd.Env = append(cmd.Env, "ANSWER_SessionStart=plain words")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"context: plain words\n", "\x1b]7501;state=idle:app=codex\x1b\\", "\x1b]7501;state=clear\x1b\\"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%q", want, out)
		}
	}
	names, _ := p.calls(t)
	require.Equal(t, []string{"SessionStart:startup", "UserPromptSubmit"}, names[:2])
	require.Equal(t, []string{"UserPromptSubmit", "Stop", "SessionEnd:other"}, names[len(names)-3:])
	if at := slices.Index(names, "PreCompact:manual"); at < 0 || names[at+1] != "PostCompact:manual" || names[at+2] != "SessionStart:compact" {
		t.Errorf("no compaction, or in another order: %v", names)
	}
	require.Equal(t, []string{
		"session_live",
		"prompt", "usage 60000", "usage 60000",
		"prompt", "usage 120000", "usage 120000",
		"prompt", "usage 160000",
		"usage 160000 compaction", "compacted unknown", "usage 9000~",
		"prompt", "usage 12000",
	}, slices.DeleteFunc(decoded(t, "codex", glob(t, filepath.Join(p.home, ".codex/sessions/*/*/*/*.jsonl"))), func(s string) bool {
		return strings.HasPrefix(s, "tool") || strings.HasPrefix(s, "turn") || s == "working"
	}))
}

// TestGemini gives the program the home that the profile prepares. A hook makes the
// program clear its context. The decoder for Gemini CLI's files reads the first chat.
func TestGemini(t *testing.T) {
	p := newPlace(t)
	profile, ok := profiles.For("gemini")
	require.True(t, ok)
	script := `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":5000}}{"clear":true}{"turn":{"prompt":"q","answer":"b","used":900}}{"end":""}`
	launch, err := profile.Prepare([]string{"gemini", "--script-json", script}, profiles.Host{
		Env: []string{"HOME=" + p.home}, Dir: p.dir, Hook: []string{p.hook, "hook"}, RunDir: p.dir, Socket: "/none", SessionID: "s", NewID: "11111111-1111-4111-8111-111111111111",
		Terminal: true, Hooks: profiles.Always, ReadFile: os.ReadFile,
	})
	require.NoError(t, err)
	for _, f := range launch.Files {
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
		require.NoError(t, os.WriteFile(f.Path, f.Data, 0o600))
	}
	cmd := p.command(t, "gemini", launch.Argv[1:]...)
	cmd.Env = append(cmd.Env, "GEMINI_CLI_HOME="+launch.Overlay.Root, "ANSWER_AfterAgent="+string(profile.Clear()("AfterAgent", "because")))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "ℹ Agent execution stopped: because")
	names, stdin := p.calls(t)
	require.Equal(t, []string{"SessionStart:startup", "BeforeAgent", "AfterAgent", "SessionEnd:clear", "SessionStart:clear", "BeforeAgent", "AfterAgent", "SessionEnd:exit"}, names)
	require.Equal(t, stdin[0]["session_id"], stdin[3]["session_id"])
	require.NotEqual(t, stdin[0]["session_id"], stdin[4]["session_id"])
	chat := decoded(t, "gemini", stdin[0]["transcript_path"].(string))
	require.Equal(t, []string{"session_live", "prompt", "usage 5000", "turn_end", "cleared"}, chat[:5])
}

// TestPreparedClaude gives the program the settings that the profile
// prepares, in addition to the hooks of the user.
func TestPreparedClaude(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, os.MkdirAll(filepath.Join(p.home, ".claude"), 0o700))
	theirs := `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"` + p.hook + ` Theirs"}]}]}}`
	require.NoError(t, os.WriteFile(filepath.Join(p.home, ".claude", "settings.json"), []byte(theirs), 0o600))
	profile, ok := profiles.For("claude")
	require.True(t, ok)
	launch, err := profile.Prepare([]string{"claude", "--script-json", `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":5}}{"end":"prompt_input_exit"}`}, profiles.Host{
		Env: []string{"HOME=" + p.home}, Dir: p.dir, Hook: []string{p.hook, "hook"}, RunDir: p.home, Socket: "/none", SessionID: "s",
		NewID: "5e551011-0000-4000-8000-000000000002", Terminal: true, ReadFile: os.ReadFile,
	})
	require.NoError(t, err)
	for _, f := range launch.Files {
		require.NoError(t, os.WriteFile(f.Path, f.Data, 0o600))
	}
	out, err := p.command(t, "claude", launch.Argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	names, stdin := p.calls(t)
	for _, want := range []string{"SessionStart:startup", "UserPromptSubmit", "Stop", "Theirs", "SessionEnd:prompt_input_exit"} {
		if !slices.Contains(names, want) {
			t.Errorf("no call of %s among %v", want, names)
		}
	}
	require.Equal(t, launch.SessionID, stdin[0]["session_id"])
}

// decoded returns the signals that the transcript decoder of a profile reads
// from a file. It fails if a record is unknown.
func decoded(t *testing.T, adapter, path string) []string {
	t.Helper()
	profile, _ := profiles.For(adapter)
	d := profile.Transcript.Decoder()
	var out []string
	for _, line := range lines(t, path) {
		for _, s := range d.Decode([]byte(line)) {
			text := string(s.Kind)
			if s.Usage != nil {
				text = strings.TrimSpace(fmt.Sprintf("usage %d %s", s.Usage.Used, s.Side))
				if s.Usage.Estimate {
					text += "~"
				}
			}
			if c := s.Compaction; c != nil {
				text = "compacted " + c.Trigger
				if c.Before != nil && c.After != nil {
					text += fmt.Sprintf(" %d %d", *c.Before, *c.After)
				}
			}
			out = append(out, text)
		}
	}
	require.Empty(t, d.Unknown(), "the decoder knows every record")
	return out
}

// TestHooksMayRefuse checks a blocked prompt, a denied tool, a blocked
// compaction, and a Stop hook that makes the model continue.
func TestHooksMayRefuse(t *testing.T) {
	for _, tc := range []struct {
		name, answer, script string
		hooks                []string // the hooks that run after SessionStart
		screen               string
	}{
		{"prompt", `ANSWER_UserPromptSubmit={"decision":"block","reason":"no"}`, `{"turn":{"prompt":"p","answer":"a","used":5}}`,
			[]string{"UserPromptSubmit"}, ""},
		{"tool", `ANSWER_PreToolUse={"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}`,
			`{"turn":{"prompt":"p","answer":"a","used":5,"tool":"touch ran"}}`, []string{"UserPromptSubmit", "PreToolUse", "Stop"}, "● a"},
		{"compaction", `ANSWER_PreCompact={"continue":false}`, `{"compact":{}}`, []string{"PreCompact:auto"}, "Compaction blocked"},
		{"stop", `ANSWER_Stop={"decision":"block","reason":"go on"}`, `{"turn":{"prompt":"p","answer":"a","used":5}}`,
			[]string{"UserPromptSubmit", "Stop", "Stop"}, "● a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			cmd := p.command(t, "claude", append(p.settings(t, claudeEvents...), "--script-json", `{"start":{}}`+tc.script)...)
			cmd.Env = append(cmd.Env, tc.answer)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			names, _ := p.calls(t)
			names = slices.DeleteFunc(names, func(n string) bool { return n == "statusline" })
			require.Equal(t, append([]string{"SessionStart:startup"}, tc.hooks...), names)
			if !strings.Contains(string(out), tc.screen) {
				t.Errorf("the screen lacks %q:\n%s", tc.screen, out)
			}
			if _, err := os.Stat(filepath.Join(p.dir, "ran")); err == nil {
				t.Error("a denied tool ran")
			}
		})
	}
}

// TestUntrustedHooksDoNotRun checks that without the right digest the hooks do
// not run and a review is requested, as in Codex.
func TestUntrustedHooksDoNotRun(t *testing.T) {
	p := newPlace(t)
	hook := `hooks.Stop=[{hooks=[{type="command",command="` + p.hook + ` Stop",timeout=5}]}]`
	state := func(hash string) string {
		return `hooks.state={"/<session-flags>/config.toml:stop:0:0"={trusted_hash="` + hash + `"}}`
	}
	right := trustHash("stop", "", p.hook+" Stop", 5)
	for _, tc := range []struct {
		name string
		args []string
		runs bool
	}{
		{"no record", nil, false},
		{"another digest", []string{"-c", state("sha256:00")}, false},
		{"a later state takes the place of the first", []string{"-c", state(right), "-c", state("sha256:00")}, false},
		{"the right digest", []string{"-c", state(right)}, true},
		{"trust is bypassed", []string{"--dangerously-bypass-hook-trust"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			os.Remove(p.hookLog)
			args := append([]string{"-c", hook, "--script-json", `{"start":{}}{"turn":{"prompt":"p","answer":"a"}}`}, tc.args...)
			out, err := p.command(t, "codex", args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			_, err = os.Stat(p.hookLog)
			if ran := err == nil; ran != tc.runs {
				t.Errorf("the hook ran: %v, want %v", ran, tc.runs)
			}
			if asks := strings.Contains(string(out), "Hooks need review"); asks == tc.runs {
				t.Errorf("asks for a review: %v\n%s", asks, out)
			}
		})
	}
}

// TestTrustHash compares computed digests with recorded ones.
func TestTrustHash(t *testing.T) {
	const command = `/usr/local/bin/ll hook --run "42" & <x>`
	for event, want := range map[string]string{
		"UserPromptSubmit": "sha256:47f615d007abc9d50d21fce87fb432e0530f064d28a2b58249798cae764e5bea",
		"Stop":             "sha256:5046f87e68137baa1a00c689890354b237f725cab9766b38c0f28332da8b954e",
	} {
		if got := trustHash(snake(event), "", command, 10); got != want {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
	}
	if trustHash("session_end", "", command, 10) != trustHash("session_end", "", command, 3) {
		t.Error("the time-out of SessionEnd is not held to 3 s")
	}
}

// TestEnds checks how a process ends when it exits, is killed, or kills itself.
func TestEnds(t *testing.T) {
	const ready = `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":5}}{"print":"READY"}`
	for _, tc := range []struct {
		name, as, script string
		send             syscall.Signal
		code             int
		killed           syscall.Signal
		lastHook         string // empty if no hook runs after the turn
	}{
		{name: "steps run out", as: "tool", script: `{"print":"READY"}`},
		{name: "exit", as: "tool", script: `{"print":"READY"}{"exit":7}{"print":"never"}`, code: 7},
		{name: "crash", as: "tool", script: `{"print":"READY"}{"kill_self":"SEGV"}`, killed: unix.SIGSEGV},
		{name: "kill", as: "claude", script: ready + `{"kill_self":"KILL"}`, killed: unix.SIGKILL},
		{name: "claude TERM", as: "claude", script: ready + `{"sleep_ms":60000}`, send: unix.SIGTERM, code: 143, lastHook: "SessionEnd:other"},
		{name: "claude HUP", as: "claude", script: ready + `{"sleep_ms":60000}`, send: unix.SIGHUP, code: 129, lastHook: "SessionEnd:other"},
		{name: "claude INT while a tool runs", as: "claude", script: ready + `{"tool_child":{"cmd":["sleep","1"],"setsid":true}}{"sleep_ms":60000}`, send: unix.SIGINT, lastHook: "SessionEnd:other"},
		{name: "codex TERM", as: "codex", script: ready + `{"sleep_ms":60000}`, send: unix.SIGTERM, killed: unix.SIGTERM},
		{name: "TERM ignored", as: "claude", script: `{"ignore":["TERM","HUP"]}` + ready + `{"sleep_ms":300}{"exit":3}`, send: unix.SIGTERM, code: 3},
		{name: "a tool TERM", as: "tool", script: `{"print":"READY"}{"sleep_ms":60000}`, send: unix.SIGTERM, killed: unix.SIGTERM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			cmd := p.command(t, tc.as, append(p.settings(t, claudeEvents...), "--script-json", tc.script)...)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			text := bufio.NewScanner(out)
			for text.Scan() && !strings.HasSuffix(text.Text(), "READY") {
			}
			if tc.send != 0 {
				require.NoError(t, cmd.Process.Signal(tc.send))
			}
			for text.Scan() {
				if text.Text() == "never" {
					t.Error("a step ran after exit")
				}
			}
			status := waited(t, cmd)
			if tc.killed != 0 {
				if !status.Signaled() || status.Signal() != tc.killed {
					t.Errorf("ended by %v (code %d), want signal %v", status.Signal(), status.ExitStatus(), tc.killed)
				}
			} else if status.ExitStatus() != tc.code {
				t.Errorf("exit code %d, want %d", status.ExitStatus(), tc.code)
			}
			if tc.as != "claude" {
				return
			}
			names, _ := p.calls(t)
			last := names[len(names)-1]
			if ended := strings.HasPrefix(last, "SessionEnd"); ended != (tc.lastHook != "") || ended && last != tc.lastHook {
				t.Errorf("the last hook is %s, want %q", last, tc.lastHook)
			}
			left, err := filepath.Glob(filepath.Join(p.home, ".claude/sessions/*"))
			require.NoError(t, err)
			if stale := len(left) > 0; stale == (tc.lastHook != "") {
				t.Errorf("registry files left: %v", left)
			}
		})
	}
}

func waited(t *testing.T, cmd *exec.Cmd) syscall.WaitStatus {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// TestRecordsAlone checks that the program can write a turn to the transcript without
// running hooks, and that it writes a single record that the script gives.
func TestRecordsAlone(t *testing.T) {
	p := newPlace(t)
	script := `{"turn":{"records":true,"prompt_id":"p-1","prompt":"p","answer":"a","usage":{"input_tokens":7,"cache_read_input_tokens":1000,"cache_creation_input_tokens":30,"output_tokens":5}}}
{"transcript":{"type":"system","subtype":"turn_duration","durationMs":9,"isSidechain":true}}`
	out, err := p.command(t, "claude", "--script-json", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
	path := glob(t, filepath.Join(p.home, ".claude/projects/*/*.jsonl"))
	require.Equal(t, []string{"prompt", "usage 1037", "turn_end"}, decoded(t, "claude", path))
	all := lines(t, path)
	if last := all[len(all)-1]; !strings.Contains(last, `"durationMs":9`) || !strings.Contains(last, `"isSidechain":true`) || !strings.Contains(last, `"uuid"`) {
		t.Errorf("the record from the script: %s", last)
	}
}

// TestProcessesLeftBehind checks that a lingering tool and an orphan outlive the
// harness, and that neither is in the harness's process session (setsid).
func TestProcessesLeftBehind(t *testing.T) {
	p := newPlace(t)
	script := `{"tool_child":{"cmd":["sleep","60"],"setsid":true,"linger":true,"pid_file":"tool"}}{"orphan":{"cmd":["sleep","60"],"pid_file":"orphan"}}{"exit":0}`
	cmd := p.command(t, "tool", "--script-json", script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"tool", "orphan"} {
		data, err := os.ReadFile(filepath.Join(p.dir, name))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("the %s is gone: %v", name, err)
		}
		ours, err := unix.Getsid(0)
		require.NoError(t, err)
		sid, err := unix.Getsid(pid)
		require.NoError(t, err)
		if sid == ours || sid == cmd.Process.Pid {
			t.Errorf("the %s is in the session of its harness", name)
		}
	}
}

// TestLaunches checks that each launch plays the next script, and that further
// launches repeat the last script.
func TestLaunches(t *testing.T) {
	p := newPlace(t)
	var got []string
	for range 3 {
		cmd := p.command(t, "tool", "--launches", "count", "--script-json", `{"print":"first"}`, "--script-json", `{"print":"second"}`)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		got = append(got, strings.TrimSpace(string(out)))
	}
	require.Equal(t, []string{"first", "second", "second"}, got)
}

func TestScriptFromTheEnvironment(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(t, "claude", "--model", "some-model", "-p", "a prompt that is not a script")
	cmd.Env = append(cmd.Env, `FAKEHARNESS_SCRIPT_JSON={"start":{}}{"print":"hello"}`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "hello\n", string(out), "print mode draws nothing")
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{`{"prnt":"x"}`, `unknown action "prnt"`},
		{`{}`, "a step has one action; this step has 0"},
		{`{"print":"x","exit":1}`, "a step has one action; this step has 2: exit, print"},
		{`{"kill_self":"NOSUCH"}`, `unknown signal "NOSUCH"`},
		{`{"ignore":["NOSUCH"]}`, `unknown signal "NOSUCH"`},
		{`{"orphan":{}}`, "a child needs a cmd"},
		{`{"print":`, "unexpected EOF"},
	} {
		_, err := parseScript("s", strings.NewReader(tc.script))
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "s:1: ") {
			t.Errorf("%s: %v, want %q", tc.script, err, tc.want)
		}
	}
	for _, args := range [][]string{nil, {"--story", "nosuch"}, {"--script", "nosuch"}, {"--speed", "0"}, {"--story"}} {
		p := newPlace(t)
		cmd := p.command(t, "claude", args...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: code %d, want 2\n%s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}

func TestStoriesParse(t *testing.T) {
	files, err := stories.ReadDir("stories")
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".jsonl")
		names = append(names, name)
		if _, err := story(name); err != nil {
			t.Error(err)
		}
	}
	require.Subset(t, names, strings.Fields(DemoStories))
}

// A screen runs a harness in a terminal.
type screen struct {
	t      *testing.T
	tty    *os.File
	cmd    *exec.Cmd
	output chan []byte // closed when the terminal is closed
	seen   bytes.Buffer
}

func newScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	t.Cleanup(func() {
		tty.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &screen{t: t, tty: tty, cmd: cmd, output: make(chan []byte, 64)}
	go func() {
		defer close(s.output)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			if n > 0 {
				s.output <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// await reads until text has arrived, and discards the output up to the end of
// text.
func (s *screen) await(text string) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for {
		if i := bytes.Index(s.seen.Bytes(), []byte(text)); i >= 0 {
			s.seen.Next(i + len(text))
			return
		}
		select {
		case b, more := <-s.output:
			if !more {
				s.t.Fatalf("waiting for %q: the terminal is closed; seen %q", text, s.seen.String())
			}
			s.seen.Write(b)
		case <-deadline:
			s.t.Fatalf("waiting for %q; seen %q", text, s.seen.String())
		}
	}
}

func (s *screen) press(text string) {
	s.t.Helper()
	_, err := s.tty.WriteString(text)
	require.NoError(s.t, err)
}

// TestTerminal checks keys, echo, sizes and raw bytes with a real terminal.
func TestTerminal(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "tui"), []byte("\x1b[2J a\nb\x07 END"), 0o600))
	script := `{"record_out":"copy"}{"raw_mode":true}{"print":"keys"}{"wait_key":"q"}{"print":"echo"}{"echo_until":"."}{"raw_mode":false}
{"winsize":true,"winsize_on_winch":2}
{"osc":"7501;state=idle:app=codex"}{"raw":"\u001b[?1049h"}{"replay":"tui"}`
	s := newScreen(t, p.command(t, "tool", "--script-json", script))
	s.await("keys\r\n")
	s.press("xyq")
	s.await("echo\r\n")
	s.press("a\rb.")
	s.await("a\rb.")
	s.await("winsize 24 80\r\n")
	require.NoError(t, pty.Setsize(s.tty, &pty.Winsize{Rows: 30, Cols: 100}))
	s.await("winsize 30 100\r\n")
	require.NoError(t, pty.Setsize(s.tty, &pty.Winsize{Rows: 10, Cols: 20}))
	s.await("winsize 10 20\r\n")
	s.await("\x1b]7501;state=idle:app=codex\x1b\\\x1b[?1049h")
	s.await("\x1b[2J a\nb\x07 END") // replay uses raw mode, which adds no carriage return
	if status := waited(t, s.cmd); status.ExitStatus() != 0 {
		t.Errorf("exit code %d", status.ExitStatus())
	}
	copied, err := os.ReadFile(filepath.Join(p.dir, "copy"))
	require.NoError(t, err)
	if !bytes.HasPrefix(copied, []byte("keys\r\n")) || !bytes.HasSuffix(copied, []byte("END")) {
		t.Errorf("record_out holds %q", copied)
	}
}

// TestTheEndOfAChildIsNoSignal lets a child end while many changes of the window's size
// wait in the pipe for signals. The SIGCHLD comes after these changes. The harness
// must read the SIGCHLD as the end of the child, and not handle it as a signal.
func TestTheEndOfAChildIsNoSignal(t *testing.T) {
	h := &harness{args: arguments{speed: 1, print: true}, env: map[string]string{"HOME": t.TempDir()}}
	h.kind, h.term = newClaude(h), openTerminal(os.Stdin, os.Stdout)
	defer h.term.close()
	_, err := h.term.wakeW.Write(bytes.Repeat([]byte{byte(unix.SIGWINCH)}, 60_000))
	require.NoError(t, err)
	require.NoError(t, try(func() {
		h.child(childStep{Cmd: []string{"true"}})
		h.pause(0)
	}))
}

// TestInteractive checks typed and pasted prompts, /clear, and /exit as a renewal
// types it.
func TestInteractive(t *testing.T) {
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := newScreen(t, p.command(t, name, append(p.settings(t, claudeEvents...), "--story", "interactive", "--speed", "100")...))
			s.await("fake C")
			s.press("first prompt\r")
			s.await("Done.\r\n")
			s.press("/clear\r")
			s.await("(cleared)\r\n")
			s.press("\x1b[200~two\rlines\x1b[201~")
			s.press("\r")
			s.await("lines\r\n")
			s.await("Done.\r\n")
			s.press("/exit\r")
			s.await("session")
			if status := waited(t, s.cmd); status.ExitStatus() != 0 {
				t.Errorf("exit code %d", status.ExitStatus())
			}
			if name != "claude" {
				return
			}
			names, stdin := p.calls(t)
			var clean []string
			sessions := map[any]bool{}
			for i, n := range names {
				sessions[stdin[i]["session_id"]] = true
				if n != "statusline" {
					clean = append(clean, n)
				}
			}
			require.Equal(t, []string{"SessionStart:startup", "UserPromptSubmit", "Stop", "SessionEnd:clear", "SessionStart:clear", "UserPromptSubmit", "Stop", "SessionEnd:prompt_input_exit"}, clean)
			require.Len(t, sessions, 2)
		})
	}
}

// TestKeysInPieces checks that the bytes of a keyboard give the same lines in
// whatever pieces they arrive. The exception is a cut after an ESC, because an ESC
// that arrives alone is the Escape key.
func TestKeysInPieces(t *testing.T) {
	const typed = "one\r\x1b[200~two\rthree\x1b[201~\rfo\x7f\x7fgone\x15four\r\x03\x03"
	want := []string{"one", "two\rthree", "four", "/exit"}
	rapid.Check(t, func(t *rapid.T) {
		var k keys
		var got []string
		for rest := typed; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if rest[n-1] == 0x1b {
				n++
			}
			got = append(got, k.feed([]byte(rest[:n]))...)
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	})
}

func TestTOML(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`[{hooks=[{type="command",command="a \"b\" \\ \u00e9",timeout=60}]}]`, `[{"hooks":[{"command":"a \"b\" \\ é","timeout":60,"type":"command"}]}]`},
		{`{"a.b" = { x = 'raw \n' } , y-z=[1, -2_000,], t=true, f = false}`, `{"a.b":{"x":"raw \\n"},"f":false,"t":true,"y-z":[1,-2000]}`},
		{`[]`, `[]`},
		{`{}`, `{}`},
		{``, `error: unexpected end of JSON input`},
		{`[1 2]`, `error: invalid character '2' after array element`},
		{`[,]`, `error: invalid character ',' looking for beginning of value`},
		{`{a 1}`, `error: not a value: "a"`},
		{`{=1}`, `error: invalid character ':' looking for beginning of object key string`},
		{`{"a":1}`, `error: not a value: ":1}"`},
		{`null`, `error: not a value: "null"`},
		{`"open`, `error: not a value: "\"open"`},
		{`"\q"`, `error: invalid string "\q"`},
		{`1 2`, `error: invalid character '2' after top-level value`},
	} {
		var v any
		got := ""
		if err := decodeTOML(tc.text, &v); err != nil {
			got = "error: " + err.Error()
		} else {
			data, err := json.Marshal(v)
			require.NoError(t, err)
			got = string(data)
		}
		if got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

// FuzzArguments checks that no command line and no script causes a panic.
func FuzzArguments(f *testing.F) {
	f.Add("--settings\n{}\n-c\nhooks.Stop=[{hooks=[]}]", `{"print":"x"}`)
	f.Add("-c\nhooks.state={'a'={}}", `{"turn":{}}`)
	f.Add("--speed=2\n--session-id", "#\n\n")
	f.Fuzz(func(t *testing.T, args, script string) {
		a, err := parseArguments(append([]string{"codex"}, strings.Split(args, "\n")...), map[string]string{"FAKEHARNESS_STORY": "x"})
		if err == nil {
			_, _ = codexHooks(a.configs, a.bypassTrust)
		}
		_, _ = parseScript("s", strings.NewReader(script))
	})
}
