// Package probe plays a short session with a harness that is installed on this
// machine. Some capabilities depend on the harness's version: the probe reports which of
// them worked. The probe needs no account: the model is a server on loopback that answers
// from a script. The harness is isolated: it has a home and an environment of its own, a
// fake key and, where the system permits it, a network that has only loopback.
//
// The session is one turn with two tool calls. This program wraps the harness as
// in any other session, with a client that adds a note to the prompt. The recorded
// events decide which capabilities are proven, by the rule that applies to every session
// (kernel.Proves).
//
//	result, err := probe.Play(ctx, probe.Config{Profile: p, Program: path, …})
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"lifeloop/harness"
	"lifeloop/internal/mock"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
	"lifeloop/profiles"
	"lifeloop/view"
)

// A Config is what Play needs.
type Config struct {
	Profile profiles.Profile
	Program string // absolute path of the harness
	Wrapper string // absolute path of this program
	// Client is a client that answers frame.opening with Note as its payload.
	Client []string
	Note   string
	Path   string // PATH of the harness
	Dir    string // an empty folder for all files of the session
	// Alone is true if the network has only loopback.
	Alone bool
}

// A Result holds the observations of one session.
type Result struct {
	AdapterID string `json:"adapter_id"`
	// Version is the version that the harness's own records report; empty if they
	// report none.
	Version string  `json:"version,omitempty"`
	Proven  []Proof `json:"proven"`
	Lacks   []Lack  `json:"not_proven"`
	// Problems are the points in which the session failed or differed from the script.
	Problems []string `json:"problems"`
	Calls    int      `json:"model_calls"` // the number of model calls in the conversation
	ExitCode int      `json:"exit_code"`
	Alone    bool     `json:"network_alone"`
	Seconds  float64  `json:"seconds"`
}

// A Proof is a proven capability, with the source of the event that proves the capability.
type Proof struct {
	Capability string `json:"capability"`
	Source     string `json:"source"`
	Detail     string `json:"detail"`
}

// A Lack is a capability that was not proven, with the reason.
type Lack struct {
	Capability string `json:"capability"`
	Reason     string `json:"reason"`
}

// command is what the harness's tool runs.
const command = "echo lifeloop-probe"

// Play plays the session. When ctx ends, so does the session.
func Play(ctx context.Context, c Config) (*Result, error) {
	began := time.Now()
	model, url, err := serve()
	if err != nil {
		return nil, fmt.Errorf("start the model server: %w", err)
	}
	defer model.Close()
	trial := c.Profile.Trial(url, filepath.Join(c.Dir, "home", "project"))
	answers := mock.New(mock.Runs(command), mock.Runs(command).Using(max(trial.Fills, 20_000)), mock.Says("done"))
	go func() { _ = model.serve(answers) }() // serve returns when model is closed
	cmd, err := c.command(ctx, trial)
	if err != nil {
		return nil, err
	}
	// The wrapper gets SIGTERM when the thread that started it ends, so this goroutine
	// keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	harness.EndWithParent(cmd)
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return nil, fmt.Errorf("run the wrapper: %w", err)
	}
	r := &Result{AdapterID: c.Profile.Adapter, Proven: []Proof{}, Lacks: []Lack{}, Problems: []string{}, ExitCode: cmd.ProcessState.ExitCode(), Alone: c.Alone}
	if err := r.read(store.Open(filepath.Join(c.Dir, "state")), c.Profile); err != nil {
		return nil, fmt.Errorf("%w; the run printed: %s", err, said.text())
	}
	r.examine(answers.Calls(), c.Note, trial)
	switch {
	case ctx.Err() != nil:
		r.failed("the session did not end in time")
	case r.ExitCode != 0:
		r.failed(fmt.Sprintf("the run ended with exit code %d, and printed: %s", r.ExitCode, said.text()))
	}
	r.Seconds = time.Since(began).Round(10 * time.Millisecond).Seconds()
	return r, nil
}

// A server is the model server with its socket.
type server struct {
	net.Listener
	http.Server
}

func serve() (*server, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return &server{l, http.Server{ReadHeaderTimeout: time.Minute}}, "http://" + l.Addr().String(), nil
}

func (s *server) serve(h http.Handler) error {
	s.Handler = h
	return s.Serve(s.Listener)
}

func (s *server) Close() error { return errors.Join(s.Server.Close(), s.Listener.Close()) }

// command makes the folders and files of the session, and returns its command.
func (c Config) command(ctx context.Context, trial profiles.Trial) (*exec.Cmd, error) {
	home := filepath.Join(c.Dir, "home")
	for _, dir := range []string{"home/project", "state", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	config, err := json.Marshal(map[string]any{"hook_patience": "4s", "clients": []any{
		map[string]any{"id": "probe", "events": []string{"*"}, "command": c.Client}}})
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(c.Dir, "config.yaml") // JSON is YAML
	for _, f := range append(slices.Clone(trial.Files), profiles.File{Path: settings, Data: config}) {
		if !filepath.IsAbs(f.Path) {
			f.Path = filepath.Join(home, f.Path)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o700), os.WriteFile(f.Path, f.Data, 0o600)); err != nil {
			return nil, err
		}
	}
	args := []string{"--config", settings, "--state-dir", filepath.Join(c.Dir, "state"), "run", "--hooks", "always", "--adapter", c.Profile.Adapter, "--", c.Program}
	cmd := exec.CommandContext(ctx, c.Wrapper, append(args, trial.Args...)...)
	cmd.Dir = filepath.Join(home, "project")
	cmd.Env = append([]string{"PATH=" + c.Path, "HOME=" + home, "TMPDIR=" + filepath.Join(c.Dir, "tmp"), "XDG_RUNTIME_DIR=" + filepath.Join(c.Dir, "run"),
		"TERM=xterm-256color", "LANG=C.UTF-8", "SHELL=/bin/sh"}, trial.Env...)
	// The wrapper ends its harness on TERM. A wrapper that has not ended after grace is
	// killed; then its guard ends the harness.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd, nil
}

// grace is how long the wrapper may take to end its harness.
const grace = 15 * time.Second

// read reads what the session recorded.
func (r *Result) read(sessions store.Store, p profiles.Profile) error {
	id, err := sessions.Find("last")
	if err != nil {
		return fmt.Errorf("no session was recorded: %w", err)
	}
	manifest, _ := manifests.Get(p.Adapter)
	seen, proof := map[lifeloop.Event]string{}, map[lifeloop.Event]Proof{}
	for e, err := range sessions.Folder(id).Facts(0) {
		if err != nil {
			return err
		}
		if f, is := e.Fact.(kernel.VersionSeen); is && r.Version == "" {
			r.Version = f.Version
		}
		record, is := view.Event(e.Fact)
		if !is {
			continue
		}
		if len(record.Evidence) == 0 {
			continue
		}
		ev := record.Evidence[0]
		if kernel.Proves(record.Event, record.Evidence, record.Data, p.Hooks != nil) {
			if _, known := proof[record.Event]; !known {
				proof[record.Event] = Proof{string(record.Event), ev.Source, ev.Detail}
			}
		} else {
			seen[record.Event] = "the session has the event, but this event does not prove the capability; the event's source is the " + ev.Source + ": " + ev.Detail
		}
	}
	for _, event := range kernel.Provable() {
		capability := string(event)
		claim := negotiate.Support(manifest, capability)
		needed := event != lifeloop.ContextCompacted && event != lifeloop.ContextPressureObserved
		switch one, ok := proof[event]; {
		case ok:
			r.Proven = append(r.Proven, one)
		case !claim.Stronger(lifeloop.Partial):
			r.Lacks = append(r.Lacks, Lack{capability, "the manifest claims it as " + string(claim) + ", which needs no proof"})
		case seen[event] != "":
			r.lack(capability, seen[event], needed)
		default:
			r.lack(capability, "the session has no such event", needed)
		}
	}
	return nil
}

// lack adds a capability that was not proven. If needed is true, every session of the
// probe should prove the capability, so lack also adds a problem.
func (r *Result) lack(capability, reason string, needed bool) {
	r.Lacks = append(r.Lacks, Lack{capability, reason})
	if needed {
		r.Problems = append(r.Problems, capability+" was not proven: "+reason)
	}
}

// failed adds a problem of the whole session and removes all proofs: a session that did
// not follow the script proves nothing.
func (r *Result) failed(problem string) {
	r.Problems = append(r.Problems, problem)
	r.unprove(func(string) bool { return true }, "the session has the event, but the session failed: "+problem)
}

// unprove moves capabilities from r.Proven to r.Lacks, with the reason. It moves each
// capability for which some(capability) is true.
func (r *Result) unprove(some func(capability string) bool, reason string) {
	r.Proven = slices.DeleteFunc(r.Proven, func(one Proof) bool {
		gone := some(one.Capability)
		if gone {
			r.Lacks = append(r.Lacks, Lack{one.Capability, reason})
		}
		return gone
	})
}

// examine compares the result with the requests that the model received.
func (r *Result) examine(calls []mock.Call, note string, trial profiles.Trial) {
	results, notes, compacted := false, 0, false
	for _, c := range calls {
		compacted = compacted || c.Kind == mock.Compaction
		if c.Kind != mock.Main {
			continue
		}
		r.Calls++
		results = results || r.Calls > 1 && bytes.Contains(c.Body, []byte("lifeloop-probe"))
		if r.Calls == 1 {
			notes = bytes.Count(c.Body, []byte(note))
		}
	}
	// frame.opening is proven only if the model got the client's payload exactly once.
	if r.Calls > 0 && notes != 1 {
		text := fmt.Sprintf("the client's payload for the prompt appears %d times in the first request to the model, not exactly once", notes)
		r.Problems = append(r.Problems, text)
		r.unprove(func(capability string) bool { return capability == string(lifeloop.FrameOpening) }, text)
	}
	switch {
	case r.Calls == 0:
		r.failed("the harness did not ask the model")
	case !results:
		r.failed("the model did not get the result of the tool that it called")
	}
	for _, event := range kernel.Provable() {
		lack := slices.IndexFunc(r.Lacks, func(l Lack) bool { return l.Capability == string(event) })
		switch {
		case lack < 0:
		case event == lifeloop.ContextCompacted && trial.Fills == 0:
			r.Lacks[lack].Reason = "the probe does not make this harness compact its context"
		case event == lifeloop.ContextCompacted && !compacted:
			r.Lacks[lack].Reason = "the harness did not compact its context"
		}
	}
}

// A tail is the last output of the wrapper and its harness, for a report of a failure.
type tail struct{ bytes.Buffer }

const maxTail = 600

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	t.Buffer.Write(b)
	if over := t.Len() - maxTail; over > 0 {
		t.Next(over)
	}
	return n, nil
}

func (t *tail) text() string { return strings.Join(strings.Fields(t.String()), " ") }
