//go:build unix

package fakeharness

import (
	"bufio"
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A step runs one object of a script: a verb with its value, and its params.
type step func(*harness)

// params are the members that some verbs have in addition to their value.
type params struct {
	Stdin   object `json:"stdin"`            // for hook: additional members on stdin
	Changes int    `json:"winsize_on_winch"` // for winsize: how many later changes of the size to print
}

// A verb decodes its value into a step.
type verb func(value json.RawMessage, p params) (step, error)

// verbs are the possible actions of a step. The map is made when a script is
// read. Making it at program start would delay every start of the wrapper, which
// contains this package.
var verbs = sync.OnceValue(func() map[string]verb {
	return map[string]verb{
		// Actions of any program.
		"print":      do((*harness).line),  // print a line of text
		"raw":        do((*harness).write), // print bytes unchanged
		"sleep_ms":   do(func(h *harness, ms int) { h.pause(time.Duration(ms) * time.Millisecond) }),
		"ignore":     do((*harness).ignore), // ignore these signals from now on
		"tool_child": do((*harness).child),  // start a child process
		"orphan":     do((*harness).orphan), // start a process in a new session (setsid); its parent ends at once
		"exit":       do(func(_ *harness, code exitCode) { must(code) }),
		"kill_self":  do(func(_ *harness, s sig) { killSelf(syscall.Signal(s)) }),

		// Actions on the terminal.
		"osc":        do(func(h *harness, text string) { h.write("\x1b]" + text + "\x1b\\") }),
		"raw_mode":   do((*harness).rawMode), // true begins raw mode, false ends it; the step prints nothing
		"wait_key":   do(func(h *harness, key string) { h.waitKey(key, false) }),
		"echo_until": do(func(h *harness, key string) { h.waitKey(key, true) }), // write back every byte until this text has arrived
		"winsize":    doWith((*harness).winsize),                                // print `winsize ROWS COLS`
		"record_out": do((*harness).recordOut),                                  // write all later output also to the file with this path
		"replay":     do((*harness).replay),                                     // print the content of the file with this path, in raw mode

		// Actions of a harness.
		"start":    act(dialect.start),
		"turn":     act(dialect.turn),
		"compact":  act(dialect.compact),
		"clear":    act(func(d dialect, _ bool) { d.clear() }),
		"end":      act(dialect.end), // end the session with this reason
		"interact": do((*harness).interact),

		// Parts of the actions above, for scripts that need only one part.
		"hook":         doWith(func(h *harness, event string, p params) { h.hook(event, p.Stdin) }),
		"statusline":   act(dialect.statusline), // run the status line command, with these members of its stdin changed
		"transcript":   act(dialect.record),     // append a record, with the usual members added
		"registry":     act(dialect.registry),   // rewrite the file with Claude Code's state, with these members changed
		"show_context": do((*harness).showContext),
	}
})

func do[T any](run func(*harness, T)) verb {
	return doWith(func(h *harness, value T, _ params) { run(h, value) })
}

// act returns a verb that only a harness called claude, codex or gemini has.
func act[T any](run func(dialect, T)) verb {
	return do(func(h *harness, value T) { run(h.dialect(), value) })
}

func doWith[T any](run func(*harness, T, params)) verb {
	return func(text json.RawMessage, p params) (step, error) {
		var value T
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		err := dec.Decode(&value)
		return func(h *harness) { run(h, value, p) }, err
	}
}

// sig is a signal whose name may begin with SIG.
type sig syscall.Signal

func (s *sig) UnmarshalText(name []byte) error {
	*s = sig(unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(string(name)), "SIG")))
	if *s == 0 {
		return fmt.Errorf("unknown signal %q", name)
	}
	return nil
}

type startStep struct {
	Source string `json:"source"` // default: startup; with --resume of claude, resume
	Model  string `json:"model"`
	Window int64  `json:"window"`
	// Version is the version that the fake Claude Code reports; default: claudeVersion.
	Version string `json:"version"`
}

// A turnStep is one prompt and its answer.
type turnStep struct {
	Prompt   string `json:"prompt"`
	Answer   string `json:"answer"`
	PromptID string `json:"prompt_id"` // the id of the turn; random by default
	Used     int64  `json:"used"`      // tokens in the context afterwards
	// Usage is given instead of Used, with the member names that the real program uses.
	Usage map[string]int64 `json:"usage"`
	Tool  string           `json:"tool"` // a command that the model runs first
	Fail  string           `json:"fail"` // the turn fails with this kind of error
	MS    int              `json:"ms"`   // thinking time in milliseconds
	// Records writes the records only: no hooks, status line or screen.
	Records bool `json:"records"`
}

// tokens returns the tokens in the context after the turn; 0 if the step does
// not give them.
func (t turnStep) tokens() int64 {
	if total, ok := t.Usage["total_tokens"]; ok { // codex
		return total
	}
	if t.Usage != nil { // claude
		return t.Usage["input_tokens"] + t.Usage["cache_read_input_tokens"] + t.Usage["cache_creation_input_tokens"]
	}
	return t.Used
}

type compactStep struct {
	Trigger string `json:"trigger"` // auto or manual
	After   int64  `json:"after"`   // tokens in the context afterwards
}

type interactStep struct {
	Used   []int64 `json:"used"`   // tokens in the context after each turn; the last value repeats
	Answer string  `json:"answer"` // the answer to every prompt
	MS     int     `json:"ms"`
	// ShowContext prints the additional context that hooks return.
	ShowContext bool `json:"show_context"`
	// Clears is the number of /clear or /new commands that end the step; 0 for no limit.
	Clears int `json:"clears"`
}

type childStep struct {
	Cmd     []string `json:"cmd"`
	Setsid  bool     `json:"setsid"`   // start the process in a session of its own
	Linger  bool     `json:"linger"`   // do not wait for the end of the process
	TTY     bool     `json:"tty"`      // the process gets the harness's stdin and stdout
	PIDFile string   `json:"pid_file"` // the path of the file for the id of the process
}

func (c *childStep) UnmarshalJSON(text []byte) error {
	type plain childStep // the same type without UnmarshalJSON, which would call itself
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*plain)(c)); err != nil || len(c.Cmd) > 0 {
		return err
	}
	return errors.New("a child needs a cmd")
}

// parseScript reads JSON Lines; empty lines and lines that begin with # are skipped.
func parseScript(name string, r io.Reader) ([]step, error) {
	var steps []step
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// A line may hold more than one object, so that a script fits into one argument.
		for dec := json.NewDecoder(strings.NewReader(line)); ; {
			s, err := parseStep(dec)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			steps = append(steps, s)
		}
	}
	return steps, lines.Err()
}

// parseStep rejects an object without exactly one verb.
func parseStep(dec *json.Decoder) (step, error) {
	var text json.RawMessage
	if err := dec.Decode(&text); err != nil {
		return nil, err
	}
	var p params
	var members map[string]json.RawMessage
	if err := cmp.Or(json.Unmarshal(text, &members), json.Unmarshal(text, &p)); err != nil {
		return nil, err
	}
	delete(members, "stdin")
	delete(members, "winsize_on_winch")
	names := slices.Sorted(maps.Keys(members))
	if len(names) != 1 {
		return nil, fmt.Errorf("a step has one action; this step has %d: %s", len(names), strings.Join(names, ", "))
	}
	decode, ok := verbs()[names[0]]
	if !ok {
		return nil, fmt.Errorf("unknown action %q", names[0])
	}
	return decode(members[names[0]], p)
}

//go:embed stories/*.jsonl
var stories embed.FS

func story(name string) ([]step, error) {
	f, err := stories.Open("stories/" + name + ".jsonl")
	if err != nil {
		entries, _ := stories.ReadDir("stories") // cannot fail, because the stories are embedded
		var names []string
		for _, e := range entries {
			names = append(names, strings.TrimSuffix(e.Name(), ".jsonl"))
		}
		return nil, fmt.Errorf("unknown story %q: use one of %s", name, strings.Join(names, ", "))
	}
	defer f.Close()
	return parseScript(name, f)
}

// play runs one step after another until one ends the script.
func (h *harness) play(steps []step) {
	for _, run := range steps {
		h.pause(0)
		run(h)
	}
}

func (h *harness) dialect() dialect {
	if h.kind == nil {
		must(errors.New("only claude, codex and gemini have this step: use --as NAME"))
	}
	return h.kind
}

func (h *harness) ignore(sigs []sig) {
	for _, s := range sigs {
		signal.Ignore(syscall.Signal(s))
	}
}

func (h *harness) rawMode(on bool) {
	if on {
		h.term.raw()
	} else {
		h.term.restore()
	}
}

// showContext prints the additional context that hooks returned.
func (h *harness) showContext(bool) { h.showSince(0, true) }

// showSince prints h.given[given:]: the additional context that hooks have returned since
// the caller read len(h.given). If show is false, it prints nothing.
func (h *harness) showSince(given int, show bool) {
	for _, text := range h.given[given:] {
		if show {
			h.line("context: " + text)
		}
	}
}
