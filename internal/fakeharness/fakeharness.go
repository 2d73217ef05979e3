//go:build unix

// Package fakeharness is a harness that follows a script: it prints, runs
// hooks, writes a transcript, reports usage, forks, ignores signals and dies,
// without a model and without a network. Called by the name of claude or codex
// it takes the flags of that program and leaves the same records behind. The
// tests are full of it, and so is the demonstration.
//
// It refuses to be clever: hooks of one event run one after another, prompts
// get the answers of the script, and a script it does not understand ends it
// with code 2 before anything happens.
//
//	args := []string{"claude", "--story", "claude-demo"}
//	code := fakeharness.Run(args, os.Environ(), os.Stdin, os.Stdout)
//
// A script is JSON Lines, one [Step] a line. It is chosen by --script FILE,
// --script-json TEXT or --story NAME, or by the same words in the environment:
// FAKEHARNESS_SCRIPT, FAKEHARNESS_SCRIPT_JSON, FAKEHARNESS_STORY. A list of
// them, with --launches FILE to count in, gives each launch the next one.
package fakeharness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run plays the script that args and env choose and returns the exit code. It
// belongs to a process of its own: steps change signal dispositions, and one
// replaces the process.
func Run(args, env []string, stdin, stdout *os.File) int {
	h, steps, err := prepare(args, env, stdin, stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeharness:", err)
		return 2
	}
	defer h.term.close()
	err = h.play(steps)
	var code exitCode
	switch {
	case err == nil:
		h.term.restore()
		return 0
	case errors.As(err, &code):
		return int(code) // the terminal stays as it is: who crashes restores nothing
	}
	h.term.restore()
	fmt.Fprintln(os.Stderr, "fakeharness:", err)
	return 1
}

// exitCode ends the script.
type exitCode int

func (c exitCode) Error() string { return "exit " + strconv.Itoa(int(c)) }

// A harness is one run of the program.
type harness struct {
	args  arguments
	env   map[string]string
	dir   string // working folder
	term  *terminal
	hooks hooks
	kind  dialect  // claude or codex; nil for a program of no kind
	given []string // additional context that hooks gave, oldest first
	speed float64
	began time.Time
}

// A dialect is what one kind of harness writes and calls.
type dialect interface {
	start(startStep) error
	turn(turnStep) error
	compact(compactStep) error
	clear() error
	end(reason string) error
	// base is what every hook of the event is told.
	base(event string) map[string]any
	record(map[string]any) error
	statusline(map[string]any) error
	registry(map[string]any) error
	// fatal says whether a signal ends the program gracefully, and with what code.
	fatal(sig os.Signal) (code int, graceful bool)
}

func prepare(args, env []string, stdin, stdout *os.File) (*harness, []Step, error) {
	h := &harness{env: map[string]string{}, speed: 1, began: time.Now()}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		h.env[name] = value
	}
	var err error
	if h.args, err = parseArguments(args, h.env); err != nil {
		return nil, nil, err
	}
	if h.dir, err = os.Getwd(); err != nil {
		return nil, nil, err
	}
	if h.args.speed > 0 {
		h.speed = h.args.speed
	}
	steps, err := h.script()
	if err != nil {
		return nil, nil, err
	}
	if h.term, err = openTerminal(stdin, stdout); err != nil {
		return nil, nil, err
	}
	switch h.args.name {
	case "claude":
		h.hooks, err = claudeHooks(h)
		h.kind = newClaude(h)
	case "codex":
		h.hooks, err = codexHooks(h.args.configs, h.args.bypassTrust)
		h.kind = newCodex(h)
	}
	if err != nil {
		h.term.close()
		return nil, nil, err
	}
	if h.kind != nil {
		h.term.catch()
	}
	return h, steps, nil
}

// arguments is the command line: our own flags, and what we understand of
// those of the program that we are called by the name of.
type arguments struct {
	name     string // claude, codex or neither
	scripts  []source
	launches string
	speed    float64

	sessionID, resume, settings string
	configs                     []string // codex -c
	bypassTrust, print          bool
	model, prompt               string
}

// A source is where a script comes from.
type source struct{ how, what string }

// valueFlags are flags of the two programs whose value is no prompt.
var valueFlags = []string{
	"--permission-mode", "--append-system-prompt", "--append-system-prompt-file", "--output-format",
	"--input-format", "--name", "--add-dir", "--mcp-config", "--fallback-model", "--max-turns", "-a",
	"--ask-for-approval", "-s", "--sandbox", "--profile", "-C", "--cd", "--enable", "--disable",
	"-p", // codex's profile; claude's -p is taken before
}

func parseArguments(args []string, env map[string]string) (arguments, error) {
	var a arguments
	if len(args) == 0 {
		return a, errors.New("no program name")
	}
	a.name = filepath.Base(args[0])
	words := args[1:]
	// value takes the next word, or what follows `=`.
	next := func(inline string, has bool, flag string) (string, error) {
		if has {
			return inline, nil
		}
		if len(words) == 0 {
			return "", fmt.Errorf("%s needs a value", flag)
		}
		v := words[0]
		words = words[1:]
		return v, nil
	}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if !strings.HasPrefix(word, "-") || word == "-" {
			if a.prompt == "" && word != "exec" && word != "resume" {
				a.prompt = word
			}
			continue
		}
		flag, inline, has := word, "", false
		if strings.HasPrefix(word, "--") {
			flag, inline, has = strings.Cut(word, "=")
		}
		var to *string
		var text string
		switch {
		case flag == "--script" || flag == "--script-json" || flag == "--story":
			to = &text
		case flag == "--launches":
			to = &a.launches
		case flag == "--as":
			to = &a.name
		case flag == "--speed":
			to = &text
		case flag == "--session-id":
			to = &a.sessionID
		case flag == "--resume":
			to = &a.resume
		case flag == "--settings":
			to = &a.settings // the last one holds, as with the real program
		case flag == "--model" || flag == "-m":
			to = &a.model
		case flag == "-c" && a.name != "claude" || flag == "--config":
			to = &text
		case flag == "-p" && a.name != "codex" || flag == "--print":
			a.print = true
			continue
		case flag == "--dangerously-bypass-hook-trust":
			a.bypassTrust = true
			continue
		case slices.Contains(valueFlags, flag):
			to = &text
		default:
			continue
		}
		v, err := next(inline, has, flag)
		if err != nil {
			return a, err
		}
		*to = v
		switch flag {
		case "--script", "--script-json", "--story":
			a.scripts = append(a.scripts, source{strings.TrimPrefix(flag, "--"), v})
		case "-c", "--config":
			a.configs = append(a.configs, v)
		case "--speed":
			if a.speed, err = strconv.ParseFloat(v, 64); err != nil || a.speed <= 0 {
				return a, fmt.Errorf("--speed: expected a number above 0, found %q", v)
			}
		}
	}
	if len(a.scripts) == 0 {
		for _, how := range []string{"script", "script-json", "story"} {
			name := "FAKEHARNESS_" + strings.ReplaceAll(strings.ToUpper(how), "-", "_")
			if v := env[name]; v != "" {
				a.scripts = append(a.scripts, source{how, v})
			}
		}
	}
	if a.launches == "" {
		a.launches = env["FAKEHARNESS_LAUNCHES"]
	}
	if v := env[speedVariable]; v != "" && a.speed == 0 {
		var err error
		if a.speed, err = strconv.ParseFloat(v, 64); err != nil || a.speed <= 0 {
			return a, fmt.Errorf("%s: expected a number above 0, found %q", speedVariable, v)
		}
	}
	return a, nil
}

// script reads the script of this launch.
func (h *harness) script() ([]Step, error) {
	scripts := h.args.scripts
	if len(scripts) == 0 {
		return nil, errors.New("no script: give --script FILE, --script-json TEXT or --story NAME")
	}
	n := 0
	if h.args.launches != "" {
		var err error
		if n, err = countLaunch(h.args.launches); err != nil {
			return nil, err
		}
	}
	s := scripts[min(n, len(scripts)-1)]
	switch s.how {
	case "story":
		return story(s.what)
	case "script-json":
		return parseScript("script", strings.NewReader(s.what))
	}
	f, err := os.Open(s.what)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseScript(s.what, f)
}

// countLaunch adds a byte to the file and returns how many were there.
func countLaunch(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(".")
	return int(at), err
}
