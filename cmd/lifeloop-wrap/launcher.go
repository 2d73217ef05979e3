package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"lifeloop/attempt"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/synth"
)

// A launcher prepares the launches of one session, one after another.
type launcher struct {
	session       *session
	terminal      *harness.Terminal
	ways          []way // by profile
	policy        attempt.Policy
	activity      []profiles.Source
	noHooks, otlp bool
	force         bool // accept a timeout even if silence cannot be distinguished from waiting

	first   *supervisor.Plan // prepared before the kernel existed
	exports *supervisor.Exports
	newest  way
}

// kernel returns the kernel of a new or a recovered session.
func (s *session) kernel(l *launcher, argv []string, resumed bool) (*kernel.Kernel, error) {
	if resumed {
		return s.replay(l, argv)
	}
	plan, err := l.plan(kernel.Launch{Number: 1})
	if err != nil {
		return nil, err
	}
	l.first = &plan
	cfg := s.kernelConfig(l, plan.Setup, argv)
	if s.ledger != nil {
		if cfg.Began.TokenDigest, err = s.folder.IssueToken(); err != nil {
			return nil, refused(lifeloop.InternalError, "store the session's token: %v", err)
		}
	}
	return kernel.New(cfg), nil
}

// Prepare prepares a launch.
func (l *launcher) Prepare(e kernel.Launch) (supervisor.Plan, error) {
	if plan := l.first; plan != nil {
		l.first = nil
		return *plan, nil
	}
	if err := l.terminal.Prepare(nil); err != nil { // the guard starts while files are written
		return supervisor.Plan{}, err
	}
	return l.plan(e)
}

// Release restores the terminal.
func (l *launcher) Release() { l.terminal.Restore() }

// close releases what was allocated for a launch that may never have started.
func (l *launcher) close() {
	if l.exports != nil {
		l.exports.Close()
	}
}

func (l *launcher) plan(e kernel.Launch) (supervisor.Plan, error) {
	w := l.ways[e.Profile]
	l.newest = w
	endpoint := ""
	if l.otlp {
		l.close()
		exports, err := supervisor.NewExports(uuid.NewString(), l.session.log)
		if err != nil {
			return supervisor.Plan{}, refused(lifeloop.InternalError, "%v", err)
		}
		l.exports, endpoint = exports, exports.Endpoint()
	}
	launch, err := l.ask(w, e, endpoint)
	if err != nil {
		return supervisor.Plan{}, err
	}
	for _, f := range launch.Files {
		if err := os.WriteFile(f.Path, f.Data, 0o600); err != nil {
			return supervisor.Plan{}, refused(lifeloop.InternalError, "prepare %s: %v", w.profile.Adapter, err)
		}
	}
	if l.exports != nil {
		if err := prepareExports(l.exports, &launch, w.manifest.AdapterID); err != nil {
			return supervisor.Plan{}, err
		}
	}
	h := &supervisor.Harness{Terminal: l.terminal, Log: l.session.log,
		Spec: harness.Spec{Argv: launch.Argv, Env: launch.Env, OSC: launch.OSC, Text: l.policy.Reads(), SameInput: l.policy.Relaunches()}}
	if launch.OSCDecoder != nil {
		h.OSC = launch.OSCDecoder()
	}
	sources, err := l.sources(w, launch)
	if err != nil {
		return supervisor.Plan{}, err
	}
	start := func(post func(kernel.Input), settle func()) (supervisor.Child, error) {
		if l.session.ledger != nil {
			l.session.folder.SaveGuards(l.terminal.Guards())
		}
		return h.Start(post, settle)
	}
	return supervisor.Plan{Setup: l.setup(w, launch), Start: start, Sources: sources, Answer: w.profile.Answer,
		DecodeHook: w.profile.DecodeHook}, nil
}

// ask asks the profile how to launch. It changes nothing.
func (l *launcher) ask(w way, e kernel.Launch, otlp string) (profiles.Launch, error) {
	host, err := surroundings()
	if err != nil {
		return profiles.Launch{}, refused(lifeloop.InternalError, "%v", err)
	}
	s := l.session
	host.RunDir, host.Socket, host.SessionID, host.NewID = string(s.folder), s.door.Path(), s.id, uuid.NewString()
	host.Terminal, host.NoHooks = l.terminal.Pty(), l.noHooks
	host.OTLP, host.Number, host.Resume = otlp, e.Number, e.Resume
	launch, err := w.profile.Prepare(w.argv, host)
	if err != nil {
		return launch, refused(lifeloop.AdapterUnavailable, "prepare %s: %v", w.profile.Adapter, err)
	}
	return launch, nil
}

// sources are what is read during a launch. Older records are ignored.
func (l *launcher) sources(w way, launch profiles.Launch) (supervisor.Sources, error) {
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: slices.Concat(launch.Sources, l.activity), Named: w.profile.Transcript,
		Since: time.Now().Truncate(time.Millisecond), Log: l.session.log})
	if err != nil {
		return nil, refused(lifeloop.InternalError, "%v", err)
	}
	if launch.Export.Decoder != nil {
		return supervisor.Join(files, l.exports), nil
	}
	return files, nil
}

// setup describes a launch to the kernel.
func (l *launcher) setup(w way, launch profiles.Launch) kernel.Setup {
	s := kernel.Setup{Manifest: w.manifest, Hooks: launch.Hooks, HarnessSession: launch.SessionID, Cause: launch.Cause,
		NoTelemetry: launch.Plain || !launch.Hooks && len(launch.Sources) == 0 && launch.OSCDecoder == nil, Synth: synthConfig(l.session.cfg, w.profile, launch),
		Tested: w.profile.Tested, Quit: w.profile.Quit, Ends: ends(l.session.cfg.Attempts, w.profile, launch), Resumes: launch.Resumes, Interactive: l.terminal.Pty()}
	s.HookAtPrompt, s.Rests = launch.HookAtPrompt, profiles.RestsOf(w.profile.Adapter).Reading(w.profile.Reads(launch)...)
	if launch.Hooks && w.profile.Transcript.Decoder != nil {
		s.Expected = []string{w.profile.Transcript.Name} // a hook names it
	}
	if launch.Statusline {
		s.Expected = append(s.Expected, "statusline")
	}
	if l.session.ledger == nil {
		s.Weak = append(s.Weak, kernel.Weakened{Capability: "receipts.receipt_ledger", Reason: "the user asked for no ledger"})
	}
	for _, w := range launch.Weak {
		s.Weak = append(s.Weak, kernel.Weakened{Capability: w.Capability, Reason: w.Reason})
	}
	return s
}

func synthConfig(cfg config.Config, p profiles.Profile, l profiles.Launch) synth.Config {
	windows := map[string]int64{}
	for _, w := range cfg.Windows {
		windows[w.Model] = int64(w.Tokens)
	}
	return synth.Config{Hooks: l.Hooks, Statusline: l.Statusline, Estimates: p.Estimates, Windows: windows, Moderate: cfg.Pressure.Moderate, High: cfg.Pressure.High,
		Critical: cfg.Pressure.Critical, Hysteresis: cfg.Pressure.Hysteresis}
}

// prepareExports applies --otlp to a launch. If its harness cannot export, the
// launch records that and continues without.
func prepareExports(e *supervisor.Exports, l *profiles.Launch, adapter string) error {
	const capability = "telemetry.otlp"
	if l.Export.Decoder == nil {
		reported := slices.ContainsFunc(l.Weak, func(w profiles.Weakness) bool { return w.Capability == capability })
		if !reported && !l.Plain {
			l.Weak = append(l.Weak, profiles.Weakness{Capability: capability, Reason: "adapter " + adapter + " exports no telemetry in a known format"})
		}
		return nil
	}
	if err := e.Prepared(l.Export); err != nil {
		return refused(lifeloop.InternalError, "%v", err).withHint("leave --otlp out")
	}
	return nil
}

// hookWords is the command that a harness runs as a hook: lifeloop-hook if it
// lies beside exe, because it starts faster, otherwise exe.
//
// Its version is not checked: that would start it once more for each run. The two
// are installed together, and a difference does no harm: the protocol ignores
// unknown members and refuses unknown operations, and a refused hook fails open.
func hookWords(exe string) []string {
	small := filepath.Join(filepath.Dir(exe), "lifeloop-hook")
	// A symbolic link is not used: it may point to some other program. The operating
	// system has already resolved the links of exe.
	if info, err := os.Lstat(small); err == nil && info.Mode().IsRegular() {
		if _, err := exec.LookPath(small); err == nil { // it is executable
			return []string{small}
		}
	}
	return []string{exe, "hook"}
}

// activityFiles are the files of --activity. They need not exist yet.
func activityFiles(paths []string) ([]profiles.Source, error) {
	var out []profiles.Source
	for _, p := range paths {
		if p == "" {
			return nil, usage("--activity: the path is empty")
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, refused(lifeloop.InternalError, "find the working directory: %v", err)
		}
		out = append(out, profiles.Activity(abs))
	}
	return out, nil
}
