package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/durable"
	"lifeloop/internal/probe"
	"lifeloop/internal/proven"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/profiles"
)

// A probe plays a session with a scripted model in a second process of this program,
// because a new process can have a network of its own. The second process is
// `doctor ADAPTER --probe --probe-in DIR`. The files of the session are in DIR, and the
// second process prints the result.

// probeTime bounds one session of a probe.
const probeTime = 2 * time.Minute

// versionTime bounds the harness's command --version, which runs before the
// session.
const versionTime = 20 * time.Second

// exitNoNetwork is the exit code of the process with --probe-in if that process cannot
// set up a loopback interface.
const exitNoNetwork = 77

// A probed is the report of `doctor --probe`.
type probed struct {
	*probe.Result
	Program string `json:"program"`
	Tested  bool   `json:"version_tested"`
	Stored  bool   `json:"stored"`
}

// probeAdapter plays the session of one harness, stores the proof and prints it.
func (g *globals) probeAdapter(cmd *cobra.Command, id, inside string) error {
	p, ok := profiles.For(id)
	if !ok {
		return noAdapter(id)
	}
	if p.Trial == nil {
		return usage("doctor --probe: there is no scripted session for %s", id).withHint("there are scripted sessions for claude, codex, gemini and opencode")
	}
	program, err := programOf(p)
	if err != nil {
		return err
	}
	ctx, stop := harness.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if inside != "" {
		if err := harness.Loopback(); err != nil {
			return exitCode(exitNoNetwork)
		}
		r, err := playProbe(ctx, p, program, inside, true)
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), r)
	}
	cfg, _, err := g.load(cmd)
	if err != nil {
		return err
	}
	store.RemoveTemps()
	temp, err := store.CreateTemp()
	if err != nil {
		return err
	}
	defer temp.Remove()
	dir := string(temp.Folder)
	// HOME is dir, because a harness may write to its home even for --version.
	version, err := harness.Version(program, versionTime, "PATH="+os.Getenv("PATH"), "HOME="+dir)
	if err != nil {
		return fmt.Errorf("%s --version: %w", program, err)
	}
	if !g.json {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s: one turn with a scripted model, without an account\n", vt.Plain(program), vt.Plain(version))
	}
	r, err := probeAlone(ctx, p, program, dir)
	if sig := harness.EndedBy(ctx); sig != nil { // the signal ended the session
		return killedBy(sig)
	}
	if err != nil {
		return err
	}
	r.Version = cmp.Or(r.Version, version)
	out := probed{Result: r, Program: program, Tested: slices.Contains(p.Tested, r.Version)}
	if out.Stored, err = storeProof(cfg.StateDir, r); err != nil {
		return err
	}
	if g.json {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		err = out.print(cmd.OutOrStdout())
	}
	if err == nil && len(r.Problems) > 0 {
		err = exitCode(exitNo)
	}
	return err
}

// storeProof stores what was proven, for later sessions.
func storeProof(stateDir string, r *probe.Result) (stored bool, err error) {
	var seen []string
	for _, one := range r.Proven {
		seen = append(seen, one.Capability)
	}
	if len(seen) == 0 {
		return false, nil
	}
	if err := durable.Private(stateDir); err != nil {
		return false, err
	}
	if err := proven.Add(stateDir, time.Now(), r.AdapterID, r.Version, seen); err != nil {
		return false, fmt.Errorf("store the proof: %w", err)
	}
	return true, nil
}

// programOf finds the program of a profile in PATH.
func programOf(p profiles.Profile) (string, error) {
	for _, name := range p.Programs {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", usage("doctor --probe: %s is not in PATH", strings.Join(p.Programs, ", "))
}

// probeAlone plays the session in a network of its own. If the system does not allow
// such a network, probeAlone plays the session in the network of the machine.
func probeAlone(ctx context.Context, p profiles.Profile, program, dir string) (*probe.Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out, failed bytes.Buffer
	inside := exec.CommandContext(ctx, exe, "doctor", p.Adapter, "--probe", "--probe-in", dir)
	inside.Stdout, inside.Stderr = &out, &failed
	inside.Cancel = func() error { return inside.Process.Signal(syscall.SIGTERM) }
	inside.WaitDelay = time.Minute // time to end the session after SIGTERM, before KILL
	runtime.LockOSThread()         // the new process gets SIGTERM when the thread that started it ends
	defer runtime.UnlockOSThread()
	harness.SeparateNetwork(inside)
	if err := inside.Start(); err != nil {
		return playProbe(ctx, p, program, dir, false)
	}
	err = inside.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitNoNetwork {
		return playProbe(ctx, p, program, dir, false)
	}
	var r probe.Result
	if err != nil || json.Unmarshal(out.Bytes(), &r) != nil {
		return nil, fmt.Errorf("the probe failed: %s", cmp.Or(strings.TrimSpace(failed.String()), fmt.Sprint(err)))
	}
	return &r, nil
}

func playProbe(ctx context.Context, p profiles.Profile, program, dir string, alone bool) (*probe.Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return probe.Play(ctx, probe.Config{Profile: p, Program: program, Wrapper: exe, Client: []string{exe, demoClient}, Note: demoNote,
		Path: os.Getenv("PATH"), Dir: dir, Alone: alone})
}

// print writes the report for people.
func (r probed) print(w io.Writer) error {
	var b strings.Builder
	line := func(word, format string, a ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", word, vt.Plain(fmt.Sprintf(format, a...)))
	}
	for _, one := range r.Proven {
		line("proven", "%-26s by the %s: %s", one.Capability, one.Source, one.Detail)
	}
	for _, one := range r.Lacks {
		line("not proven", "%-26s %s", one.Capability, one.Reason)
	}
	for _, text := range r.Problems {
		line("problem", "%s", text)
	}
	network := "loopback only"
	if !r.Alone {
		network = "the network of this machine, because the system does not let this user create a separate network"
	}
	line("network", "%s", network)
	line("time", "%.1f s, %d model calls", r.Seconds, r.Calls)
	end := "Nothing is stored."
	switch {
	case r.Stored && r.Tested:
		end = "Stored for version " + r.Version + ", which is one of the tested versions."
	case r.Stored:
		end = "Stored for version " + r.Version + ": sessions with this version start with full, not partial, support for the proven capabilities."
	}
	fmt.Fprintln(&b, vt.Plain(end))
	_, err := io.WriteString(w, b.String())
	return err
}
