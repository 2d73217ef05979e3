//go:build unix

package fakeharness

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Step is one line of a script: an object with one action and its parameters.
type Step struct {
	// Actions of any program.
	Print     *string    `json:"print,omitempty"`      // a line of text
	Raw       *string    `json:"raw,omitempty"`        // bytes as they are
	SleepMS   *int       `json:"sleep_ms,omitempty"`   // signals are handled during the sleep
	Ignore    []string   `json:"ignore,omitempty"`     // signals, from here on
	ToolChild *childStep `json:"tool_child,omitempty"` // a child process
	Orphan    *childStep `json:"orphan,omitempty"`     // a process whose parent has ended, in its own session
	Exit      *int       `json:"exit,omitempty"`       // without the records of an end
	KillSelf  *string    `json:"kill_self,omitempty"`  // die by this signal

	// Actions on its terminal.
	OSC            *string `json:"osc,omitempty"`              // an OSC sequence, without ESC ] and ST
	RawMode        *bool   `json:"raw_mode,omitempty"`         // a line printed after it shows that keys can be typed
	WaitKey        *string `json:"wait_key,omitempty"`         // read, in raw mode, until this text came
	EchoUntil      *string `json:"echo_until,omitempty"`       // write back every byte until this text came
	Winsize        *bool   `json:"winsize,omitempty"`          // print `winsize ROWS COLS`
	WinsizeOnWinch *int    `json:"winsize_on_winch,omitempty"` // print it again at each of so many changes
	RecordOut      *string `json:"record_out,omitempty"`       // copy all output to this file too
	Replay         *string `json:"replay,omitempty"`           // write a file's bytes in raw mode

	// Actions of a harness.
	Start    *startStep    `json:"start,omitempty"`
	Turn     *turnStep     `json:"turn,omitempty"`
	Compact  *compactStep  `json:"compact,omitempty"`
	Clear    *bool         `json:"clear,omitempty"`
	End      *string       `json:"end,omitempty"`      // with the reason
	Interact *interactStep `json:"interact,omitempty"` // take prompts and slash commands from the keyboard

	// Parts of these, for single tests.
	Hook        *string        `json:"hook,omitempty"`         // run the hooks of this event
	Stdin       map[string]any `json:"stdin,omitempty"`        // additional members of the hooks' stdin
	Statusline  map[string]any `json:"statusline,omitempty"`   // run the status line, with these members changed
	Transcript  map[string]any `json:"transcript,omitempty"`   // append a record with the usual members added
	Registry    map[string]any `json:"registry,omitempty"`     // rewrite the registry file, with these members changed
	ShowContext *bool          `json:"show_context,omitempty"` // print the additional context from hooks
}

type startStep struct {
	Source string `json:"source"` // startup unless given
	Model  string `json:"model"`
	Window int64  `json:"window"`
}

// A turnStep is one prompt and its answer.
type turnStep struct {
	Prompt   string `json:"prompt"`
	Answer   string `json:"answer"`
	PromptID string `json:"prompt_id"` // of the turn; random by default
	Used     int64  `json:"used"`      // tokens in the context afterwards
	// Usage replaces Used with the members that the program itself reports.
	Usage map[string]int64 `json:"usage"`
	Tool  string           `json:"tool"` // a command that the model runs first
	Fail  string           `json:"fail"` // the turn fails with this kind of error
	MS    int              `json:"ms"`   // thinking time in milliseconds
	// Records writes the records only: no hooks, status line and screen.
	Records bool `json:"records"`
}

// tokens returns the tokens in the context after the turn, or 0 if unknown.
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
	After   int64  `json:"after"`   // tokens left
}

type interactStep struct {
	Used   []int64 `json:"used"`   // tokens after each turn; the last one repeats
	Answer string  `json:"answer"` // to every prompt
	MS     int     `json:"ms"`
}

type childStep struct {
	Cmd     []string `json:"cmd"`
	Setsid  bool     `json:"setsid"`   // in a session of its own
	Linger  bool     `json:"linger"`   // do not wait for it
	TTY     bool     `json:"tty"`      // it inherits stdin and stdout
	PIDFile string   `json:"pid_file"` // where its process id is written
}

// parseScript reads JSON Lines; empty lines and lines that begin with # are ignored.
func parseScript(name string, r io.Reader) ([]Step, error) {
	var steps []Step
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		// A line may contain several objects, so that a script fits into one argument.
		for {
			var s Step
			err := dec.Decode(&s)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = s.check()
			}
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			steps = append(steps, s)
		}
	}
	return steps, lines.Err()
}

// check returns an error for a step without an action or with two.
func (s Step) check() error {
	var verbs []string
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		word, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !v.Field(i).IsZero() && word != "stdin" && word != "winsize_on_winch" {
			verbs = append(verbs, word)
		}
	}
	if len(verbs) == 0 && s.WinsizeOnWinch != nil {
		return nil
	}
	if len(verbs) != 1 {
		return fmt.Errorf("a step has one action; this one has %d: %s", len(verbs), strings.Join(verbs, ", "))
	}
	for _, name := range append(slices.Clone(s.Ignore), deref(s.KillSelf)) {
		if name != "" && signum(name) == 0 {
			return fmt.Errorf("unknown signal %q", name)
		}
	}
	for _, c := range []*childStep{s.ToolChild, s.Orphan} {
		if c != nil && len(c.Cmd) == 0 {
			return errors.New("a child needs a cmd")
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func signum(name string) syscall.Signal {
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
}

//go:embed stories/*.jsonl
var stories embed.FS

// Stories lists the built-in scripts.
func Stories() []string {
	var names []string
	entries, _ := stories.ReadDir("stories") // embedded: it is there
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".jsonl"))
	}
	return names
}

func story(name string) ([]Step, error) {
	f, err := stories.Open("stories/" + name + ".jsonl")
	if err != nil {
		return nil, fmt.Errorf("unknown story %q: use one of %s", name, strings.Join(Stories(), ", "))
	}
	defer f.Close()
	return parseScript(name, f)
}

// play executes the steps until one of them ends the program.
func (h *harness) play(steps []Step) error {
	for _, s := range steps {
		if err := h.pause(0); err != nil {
			return err
		}
		if err := h.do(s); err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) do(s Step) error {
	switch {
	case s.Print != nil:
		return h.term.line(*s.Print)
	case s.Raw != nil:
		return h.term.write([]byte(*s.Raw))
	case s.SleepMS != nil:
		return h.pause(time.Duration(*s.SleepMS) * time.Millisecond)
	case s.Ignore != nil:
		for _, name := range s.Ignore {
			signal.Ignore(signum(name))
		}
		return nil
	case s.ToolChild != nil:
		return h.child(*s.ToolChild)
	case s.Orphan != nil:
		return h.orphan(*s.Orphan)
	case s.Exit != nil:
		return exitCode(*s.Exit)
	case s.KillSelf != nil:
		return killSelf(signum(*s.KillSelf))
	case s.OSC != nil:
		return h.term.write([]byte("\x1b]" + *s.OSC + "\x1b\\"))
	case s.RawMode != nil:
		if *s.RawMode {
			h.term.raw()
		} else {
			h.term.restore()
		}
		return nil
	case s.WaitKey != nil:
		return h.waitKey(*s.WaitKey, false)
	case s.EchoUntil != nil:
		return h.waitKey(*s.EchoUntil, true)
	case s.Winsize != nil || s.WinsizeOnWinch != nil:
		return h.winsize(s.Winsize != nil, s.WinsizeOnWinch)
	case s.RecordOut != nil:
		return h.term.record(*s.RecordOut)
	case s.Replay != nil:
		return h.term.replay(*s.Replay)
	case s.ShowContext != nil:
		for _, text := range h.given {
			if err := h.term.line("context: " + text); err != nil {
				return err
			}
		}
		return nil
	}
	if h.kind == nil {
		return errors.New("only claude and codex have this step: use --as")
	}
	switch {
	case s.Start != nil:
		return h.kind.start(*s.Start)
	case s.Turn != nil:
		return h.kind.turn(*s.Turn)
	case s.Compact != nil:
		return h.kind.compact(*s.Compact)
	case s.Clear != nil:
		return h.kind.clear()
	case s.End != nil:
		return h.kind.end(*s.End)
	case s.Interact != nil:
		return h.interact(*s.Interact)
	case s.Hook != nil:
		_, err := h.hook(*s.Hook, s.Stdin)
		return err
	case s.Statusline != nil:
		return h.kind.statusline(s.Statusline)
	case s.Registry != nil:
		return h.kind.registry(s.Registry)
	case s.Transcript != nil:
		return h.kind.record(s.Transcript)
	}
	return nil
}
