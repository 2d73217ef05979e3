//go:build unix

// Package fakeharness is a harness that follows a script: it prints, runs
// hooks, writes a transcript, reports usage, forks, ignores signals and dies,
// without a model and without a network. Under the name claude, codex or gemini it
// accepts the flags of that program and writes the same records. Tests and the
// demonstration use it.
//
// It is simple: hooks of one event run one after another, prompts get the
// script's answers, and with an invalid script it exits with code 2 before the
// first step.
//
//	args := []string{"claude", "--story", "claude-demo"}
//	code := fakeharness.Run(args, os.Environ(), os.Stdin, os.Stdout)
//
// A script is JSON Lines, one step per line. It is selected by --script FILE,
// --script-json TEXT or --story NAME, or by the environment variables
// FAKEHARNESS_SCRIPT, FAKEHARNESS_SCRIPT_JSON and FAKEHARNESS_STORY. If several scripts
// are given, --launches FILE or FAKEHARNESS_LAUNCHES counts the launches in a file, and
// each launch runs the next script. After the last script, each launch runs the last
// script again. If launches are not counted, each launch runs the first script.
package fakeharness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Run executes the script that args and env select and returns the exit code. It
// must run in a separate process, because steps change signal dispositions and
// one step replaces the process.
func Run(args, env []string, stdin, stdout *os.File) int {
	h := &harness{env: map[string]string{}, began: time.Now()}
	var steps []step
	if err := try(func() { steps = h.prepare(args, env, stdin, stdout) }); err != nil {
		fmt.Fprintln(os.Stderr, "fakeharness:", err)
		return 2
	}
	defer h.term.close()
	err := try(func() { h.play(steps) })
	var code exitCode
	if errors.As(err, &code) {
		return int(code) // leave the terminal as it is, as after a crash
	}
	h.term.restore()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeharness:", err)
		return 1
	}
	return 0
}

// exitCode is an error that ends the script with this exit code.
type exitCode int

func (c exitCode) Error() string { return "exit " + strconv.Itoa(int(c)) }

// A stop carries an error from the function must to the function try: must panics with
// the stop, and try recovers it. No function between these two handles the error.
type stop struct{ error }

// try runs f until its end or its first error.
func try(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case stop:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// must ends the function that try runs, if err is not nil. try then returns err.
func must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// got calls must with err, and returns v.
func got[T any](v T, err error) T {
	must(err)
	return v
}

// A harness is one run of the program.
type harness struct {
	args  arguments
	env   map[string]string
	dir   string // working folder
	term  *terminal
	hooks hooks
	kind  dialect  // claude, codex or gemini; nil if the program has another name
	given []string // additional context that hooks returned, oldest first
	began time.Time

	unawaited sync.WaitGroup // asynchronous hooks that run
}

// A dialect implements the records, hooks and terminal output of one harness.
type dialect interface {
	start(startStep)
	turn(turnStep)
	compact(compactStep)
	clear()
	end(reason string)
	// base returns the members that every hook of the event reads on stdin.
	base(event string) object
	record(object)
	statusline(object)
	registry(object)
	// fatal reports whether a signal ends the program gracefully, and its exit code.
	fatal(sig os.Signal) (code int, graceful bool)
}

type object = map[string]any

func (h *harness) prepare(args, env []string, stdin, stdout *os.File) []step {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		h.env[name] = value
	}
	h.args = got(parseArguments(args, h.env))
	h.dir = got(os.Getwd())
	steps := h.script()
	switch h.args.name {
	case "claude":
		h.hooks, h.kind = claudeHooks(h), newClaude(h)
	case "codex":
		h.hooks, h.kind = got(codexHooks(h.args.configs, h.args.bypassTrust)), newCodex(h)
	case "gemini":
		h.hooks, h.kind = geminiHooks(h), newGemini(h)
	}
	h.term = openTerminal(stdin, stdout)
	if h.kind != nil {
		h.term.catch()
	}
	return steps
}

// arguments is the parsed command line: the flags of the fake harness, and
// those flags of claude, codex and gemini that have an effect here.
type arguments struct {
	name     string // claude, codex, gemini or another
	scripts  []source
	launches string
	speed    float64

	sessionID, resume, settings, model string
	configs                            []string // the values of codex's -c
	bypassTrust, print                 bool
}

// A source selects a script. The field how is script, script-json or story. The field
// what is the path of the script, the script itself, or the name of the story.
type source struct{ how, what string }

// valueFlags are the flags that take a value.
var valueFlags = []string{
	"--script", "--script-json", "--story", "--launches", "--as", "--speed",
	"--session-id", "--resume", "--settings", "--model", "-m", "-c", "--config",
	// Flags of claude and codex that have no effect here.
	"--permission-mode", "--append-system-prompt", "--append-system-prompt-file", "--output-format",
	"--input-format", "--name", "--add-dir", "--mcp-config", "--fallback-model", "--max-turns", "-a",
	"--ask-for-approval", "-s", "--sandbox", "--profile", "-C", "--cd", "--enable", "--disable",
	"-p", // --profile for codex; for claude, -p is --print
}

func parseArguments(args []string, env map[string]string) (arguments, error) {
	var a arguments
	if len(args) == 0 {
		return a, errors.New("no program name")
	}
	a.name = filepath.Base(args[0])
	for words := args[1:]; len(words) > 0; {
		flag, value, inline := words[0], "", false
		words = words[1:]
		if strings.HasPrefix(flag, "--") {
			flag, value, inline = strings.Cut(flag, "=")
		}
		switch {
		case flag == "-p" && a.name != "codex" || flag == "--print":
			a.print = true
			continue
		case flag == "--dangerously-bypass-hook-trust":
			a.bypassTrust = true
			continue
		case !slices.Contains(valueFlags, flag) || flag == "-c" && a.name == "claude":
			continue // a prompt, or a flag without effect here
		case !inline && len(words) == 0:
			return a, fmt.Errorf("%s needs a value", flag)
		case !inline:
			value, words = words[0], words[1:]
		}
		switch flag {
		case "--script", "--script-json", "--story":
			a.scripts = append(a.scripts, source{flag[2:], value})
		case "--launches":
			a.launches = value
		case "--as":
			a.name = value
		case "--speed":
			if err := a.setSpeed(flag, value); err != nil {
				return a, err
			}
		case "--session-id":
			a.sessionID = value
		case "--resume":
			a.resume = value
		case "--settings":
			a.settings = value // the last --settings flag counts, as in Claude Code
		case "--model", "-m":
			a.model = value
		case "-c", "--config":
			a.configs = append(a.configs, value)
		}
	}
	return a, a.readEnvironment(env)
}

func (a *arguments) setSpeed(name, value string) (err error) {
	if a.speed, err = strconv.ParseFloat(value, 64); err != nil || a.speed <= 0 {
		return fmt.Errorf("%s: expected a number above 0, found %q", name, value)
	}
	return nil
}

// readEnvironment sets scripts, launches and speed from env, if no flag has set them.
func (a *arguments) readEnvironment(env map[string]string) error {
	if len(a.scripts) == 0 {
		for _, how := range []string{"script", "script-json", "story"} {
			name := "FAKEHARNESS_" + strings.ReplaceAll(strings.ToUpper(how), "-", "_")
			v := env[name]
			if how == "story" { // v may contain the names of several stories
				for _, story := range strings.Fields(v) {
					a.scripts = append(a.scripts, source{how, story})
				}
			} else if v != "" {
				a.scripts = append(a.scripts, source{how, v})
			}
		}
	}
	a.launches = cmp.Or(a.launches, env["FAKEHARNESS_LAUNCHES"])
	if a.speed > 0 {
		return nil
	}
	return a.setSpeed(speedVariable, cmp.Or(env[speedVariable], "1"))
}

// script reads the script of this launch.
func (h *harness) script() []step {
	scripts := h.args.scripts
	if len(scripts) == 0 {
		must(errors.New("no script: give --script FILE, --script-json TEXT or --story NAME"))
	}
	n := 0
	if h.args.launches != "" {
		n = countLaunch(h.args.launches)
	}
	s := scripts[min(n, len(scripts)-1)]
	switch s.how {
	case "story":
		return got(story(s.what))
	case "script-json":
		return got(parseScript("script", strings.NewReader(s.what)))
	}
	f := got(os.Open(s.what))
	defer f.Close()
	return got(parseScript(s.what, f))
}

// countLaunch adds a byte to the file at path, and returns the previous size of the file.
func countLaunch(path string) int {
	f := got(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer f.Close()
	at := got(f.Seek(0, io.SeekEnd))
	got(f.WriteString("."))
	return int(at)
}
