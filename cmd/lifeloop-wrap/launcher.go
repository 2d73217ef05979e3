package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lifeloop/attempt"
	"lifeloop/control"
	"lifeloop/harness"
	"lifeloop/instructions"
	"lifeloop/internal/config"
	"lifeloop/internal/overlay"
	"lifeloop/internal/proven"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/supervisor"
	"lifeloop/synth"
)

// A launcher prepares the launches of one session, one after another.
type launcher struct {
	session      *session
	terminal     *harness.Terminal
	ways         []way // the command in the command line and its fallbacks, indexed by effect.Launch.Profile
	policy       attempt.Policy
	profiles     []profile.Profile // the active renewal profiles
	activity     []profiles.Source
	hooks        profiles.Injection
	otlp         bool
	gate         *gatekeeper // nil without a policy
	approvalWait time.Duration
	force        bool // accept --timeout-inter even if silence cannot be distinguished from waiting for the user

	first   *supervisor.Plan // the plan of the first launch, prepared before the kernel was created
	exports *supervisor.Exports
	asking  *instructions.Server
	newest  atomic.Pointer[way] // the way of the newest launch
}

// kernel returns the kernel of a new or a recovered session.
func (s *session) kernel(l *launcher, argv []string, resumed bool) (*kernel.Kernel, error) {
	if resumed {
		return s.replay(l, argv)
	}
	plan, err := l.plan(effect.Launch{Number: 1})
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
func (l *launcher) Prepare(e effect.Launch) (supervisor.Plan, error) {
	if plan := l.first; plan != nil {
		l.first = nil
		return *plan, nil
	}
	if err := l.terminal.Prepare(nil); err != nil { // the guard starts in the background while files are written
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
	if l.asking != nil {
		l.asking.Close()
	}
	l.exports, l.asking = nil, nil
}

func (l *launcher) plan(e effect.Launch) (supervisor.Plan, error) {
	w := l.ways[e.Profile]
	l.newest.Store(&w)
	endpoint := ""
	if l.otlp {
		l.close()
		exports, err := supervisor.NewExports(uuid.NewString(), l.session.log)
		if err != nil {
			return supervisor.Plan{}, refused(lifeloop.InternalError, "%v", err)
		}
		l.exports, endpoint = exports, exports.Endpoint()
	}
	l.listen(w)
	launch, err := l.ask(w, e, endpoint)
	if err != nil {
		return supervisor.Plan{}, err
	}
	if err := l.guarded(w, launch); err != nil {
		return supervisor.Plan{}, err
	}
	key := ""
	if launch.Hooks || launch.Plugin || launch.Guards {
		// Each launch has a new key, so a process that is left from an earlier launch
		// has no valid key.
		key = rand.Text()
		launch.Files = append(launch.Files, profiles.File{Path: l.keyFile(e), Data: []byte(key)})
	}
	if err := l.write(w, launch); err != nil {
		return supervisor.Plan{}, err
	}
	if l.exports != nil {
		if err := prepareExports(l.exports, &launch, w.manifest.AdapterID); err != nil {
			return supervisor.Plan{}, err
		}
	}
	h := &supervisor.Harness{Terminal: l.terminal, Log: l.session.log,
		Spec: harness.Spec{Argv: launch.Argv, Env: launch.Env, OSC: launch.OSC, Text: l.policy.Reads(), SameInput: l.relaunches()}}
	if launch.OSCDecoder != nil {
		h.OSC = launch.OSCDecoder()
	}
	keys, clears := l.keys(w, launch)
	h.Spec.Line, h.Spec.Cursor = clears || len(l.profiles) > 0, keys.Cursor
	sources, err := l.sources(w, launch, h)
	if err != nil {
		return supervisor.Plan{}, err
	}
	start := func(post func(input.Input), settle func()) (supervisor.Child, error) {
		if l.session.ledger != nil {
			l.session.folder.SaveGuards(l.terminal.Guards())
		}
		return h.Start(post, settle)
	}
	containment := ""
	if l.terminal.Cgroup() != nil {
		containment = "cgroup"
	}
	plan := supervisor.Plan{Setup: l.setup(w, launch), Start: start, Containment: containment, Sources: sources, Key: key, Callers: l.callers(e, launch), Answer: w.profile.Answer,
		DecodeHook: w.profile.DecodeHook, Refuse: w.profile.Refuse(), ToolTime: toolTime(l.approvalWait), Keys: typed(keys, launch.Threads), Resets: launch.Resets && !clears, Clear: w.profile.Clear()}
	if launch.Requests != nil {
		plan.Requests = launch.Requests()
	}
	if launch.Requests != nil && launch.Hooks && l.asking != nil {
		plan.Asking = l.asking
	}
	if launch.Overlay.Root != "" {
		// Ended is called before the last fact of the session is recorded. So the overlay of
		// an ended session has no files left that must be moved to the user's home.
		plan.Ended = l.session.giveBack
	}
	return plan, nil
}

// write makes the overlay of a launch, if there is one, and writes the launch's files. An
// overlay is a folder that replaces the user's home for one launch (package overlay).
func (l *launcher) write(w way, launch profiles.Launch) error {
	if launch.Overlay.Root != "" {
		// An earlier launch may have written files into its overlay, and its processes
		// have ended. Move these files to the user's home.
		l.session.giveBack()
		if err := overlay.Make(launch.Overlay, l.session.folder.Overlay()); err != nil {
			return refused(lifeloop.InternalError, "prepare %s: %v", w.profile.Adapter, err)
		}
	}
	for _, f := range launch.Files {
		if err := writeFile(f.Path, f.Data); err != nil {
			return refused(lifeloop.InternalError, "prepare %s: %v", w.profile.Adapter, err)
		}
	}
	abandon(launch.Locks)
	return nil
}

// toolTime returns how long the hook of a tool call can wait for its answer. wait is how
// long a person has to approve the call. If wait is 0, calls do not wait for a person, and
// toolTime returns 0.
func toolTime(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return min(wait, profiles.MaxGuardWait) + 5*time.Second // less than the hook's own time limit
}

// guarded returns an error for a launch whose tool calls cannot be checked by the
// policy, although the harness has hooks for that. Otherwise the user would believe
// that the tool calls are checked.
func (l *launcher) guarded(w way, launch profiles.Launch) error {
	if l.gate == nil || launch.Guards || w.profile.Refuse() == nil {
		return nil
	}
	why, hint := launch.Unguarded, "remove the flag or setting that disables the hooks, or run without a policy"
	if why == "" {
		why, hint = "with this command line, the harness runs no hooks that could check them", "run another command line, or run without a policy"
	}
	return refused(lifeloop.OperatorRequired, "the policy cannot guard the tool calls of %s: %s", w.profile.Adapter, why).withHint("%s", hint)
}

// listen starts the server from which the harness reads instructions before each request
// to its model. If the server cannot start, the launch continues without the server's
// URL, and the capabilities that need the URL are recorded as missing.
func (l *launcher) listen(w way) {
	if l.asking != nil {
		l.asking.Close()
		l.asking = nil
	}
	if !w.profile.Asks || l.hooks == profiles.Never {
		return
	}
	server, err := instructions.Listen()
	if err != nil {
		l.session.log.Warn().Err(err).Msg("cannot open the port for instructions")
		return
	}
	l.asking = server
}

// relaunches reports whether one launch may follow another.
func (l *launcher) relaunches() bool { return l.policy.Relaunches() || len(l.profiles) > 0 }

// keyFile returns the path of the file with the key for the hooks of a launch.
func (l *launcher) keyFile(e effect.Launch) string {
	return filepath.Join(string(l.session.folder), fmt.Sprintf("hook-key-%d", e.Number))
}

// callers returns the Callers that distinguish the hook calls of a launch's harness from
// those of other processes; nil if only the harness can call the hooks.
func (l *launcher) callers(e effect.Launch, launch profiles.Launch) supervisor.Callers {
	if !launch.Inherited {
		return nil
	}
	// The last two elements of the path identify the launch. They need no quotes in a shell
	// command, so the arguments of a shell that runs a hook contain them unchanged.
	return control.NewCallers(filepath.Join(filepath.Base(string(l.session.folder)), filepath.Base(l.keyFile(e))))
}

// ask lets the profile of w prepare a launch, and changes no files.
func (l *launcher) ask(w way, e effect.Launch, otlp string) (profiles.Launch, error) {
	host, err := surroundings()
	if err != nil {
		return profiles.Launch{}, refused(lifeloop.InternalError, "%v", err)
	}
	s := l.session
	host.RunDir, host.Socket, host.SessionID, host.NewID = string(s.folder), s.door.Path(), s.id, uuid.NewString()
	host.Key = l.keyFile(e)
	host.Hook = append(host.Hook, "--key="+host.Key)
	if l.asking != nil {
		host.Instructions = l.asking.URL()
	}
	host.Guards, host.GuardWait = l.gate != nil, l.approvalWait
	host.Terminal, host.Hooks, host.Guarded = l.terminal.Pty(), l.hooks, guarded
	host.Needs = needsHooks(s.cfg, w.profile.Adapter)
	host.OTLP, host.Number, host.Resume, host.Fresh = otlp, e.Number, e.Resume, e.Fresh
	launch, err := w.profile.Prepare(w.argv, host)
	if err != nil {
		return launch, refused(lifeloop.AdapterUnavailable, "prepare %s: %v", w.profile.Adapter, err)
	}
	return launch, nil
}

// sources returns the sources to read during a launch. Records older than the
// launch are ignored. If the sources need the telemetry signals that h decodes from the
// terminal's OSC sequences, h.Shown is set to pass the signals to the sources.
func (l *launcher) sources(w way, launch profiles.Launch, h *supervisor.Harness) (supervisor.Sources, error) {
	files := supervisor.Files{Fixed: slices.Concat(launch.Sources, l.activity), Named: w.profile.Transcript,
		Since: time.Now().Truncate(time.Millisecond), Log: l.session.log}
	switch {
	case launch.Typing.Lines != nil:
		files.Sessions = &supervisor.Switches{Typing: launch.Typing, First: launch.SessionID, Since: files.Since}
	case launch.Chats.Dir != "":
		files.Sessions = &supervisor.Moves{Chats: launch.Chats, First: launch.SessionID, Since: files.Since}
	}
	read, err := supervisor.NewFiles(files)
	if err != nil {
		return nil, refused(lifeloop.InternalError, "%v", err)
	}
	if launch.Typing.WorkDir != "" {
		h.Shown = read.Shown
	}
	if launch.Export.Decoder != nil {
		return supervisor.Join(read, l.exports), nil
	}
	return read, nil
}

// keys returns the keystrokes that make the harness of a launch begin a fresh session,
// and whether there are any. There are none if no renewal profile is active or the
// command line starts no session.
func (l *launcher) keys(w way, launch profiles.Launch) (profiles.Keys, bool) {
	if len(l.profiles) == 0 || launch.Plain {
		return profiles.Keys{}, false
	}
	return w.profile.Clears(w.argv, l.terminal.Pty())
}

// typed converts the keys of a profile to the supervisor's type.
func typed(k profiles.Keys, threads string) supervisor.Keys {
	strokes := func(list []profiles.Stroke) (out []harness.Stroke) {
		for _, s := range list {
			out = append(out, harness.Stroke(s))
		}
		return out
	}
	return supervisor.Keys{Reset: strokes(k.Reset), Aside: strokes(k.Aside), Back: strokes(k.Back), Threads: threads}
}

// setup describes a launch to the kernel.
func (l *launcher) setup(w way, launch profiles.Launch) setup.Launch {
	s := setup.Launch{Manifest: w.manifest, Injected: setup.Injected{Hooks: launch.Hooks, HookAtPrompt: launch.HookAtPrompt}, HarnessSession: launch.SessionID, Cause: launch.Cause,
		NoTelemetry: launch.Plain || !launch.Hooks && !launch.Plugin && len(launch.Sources) == 0 && launch.OSCDecoder == nil, Synth: synthConfig(l.session.cfg, w.profile, launch),
		Versions: setup.Versions{Tested: w.profile.Tested, Proven: proven.Read(l.session.cfg.StateDir).Of(w.profile.Adapter), Installed: packaged(w.profile, launch)}, Quit: w.profile.Quit, Ends: ends(l.session.cfg.Attempts, w.profile, launch), Resumes: launch.Resumes, Fresh: l.fresh(w, launch), Interactive: l.terminal.Pty()}
	if launch.Hooks && launch.HooksShow {
		s.HooksFor = cmp.Or(needsHooks(l.session.cfg, w.profile.Adapter), map[bool]string{true: "a policy guards the tool calls"}[l.gate != nil && l.hooks != profiles.Always], "the user asked for hooks")
	}
	s.Rests = profiles.RestsOf(w.profile.Adapter).Reading(w.profile.Reads(launch)...)
	if launch.Hooks && w.profile.NamesTranscript() {
		s.Expected = []string{w.profile.Transcript.Name} // a hook names the transcript, which then reports every turn
	}
	if launch.Statusline {
		s.Expected = append(s.Expected, "statusline")
	}
	if l.session.ledger == nil {
		s.Weak = append(s.Weak, setup.Weakness{Capability: "receipts.receipt_ledger", Reason: "the user asked for no ledger"})
	}
	for _, w := range launch.Weak {
		s.Weak = append(s.Weak, setup.Weakness(w))
	}
	return s
}

// packaged returns the version of the npm package that contains the harness's program;
// empty if the profile names no package, or if the program is in no such package.
func packaged(p profiles.Profile, launch profiles.Launch) string {
	if p.Package == "" || launch.Plain || len(launch.Argv) == 0 { // Argv is empty until the first launch of a recovered session is prepared
		return ""
	}
	program, err := exec.LookPath(launch.Argv[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return ""
	}
	return p.PackageVersion(realPath(program), readSettings)
}

// fresh says how a launch can be given a fresh harness session.
func (l *launcher) fresh(w way, launch profiles.Launch) (f setup.Fresh) {
	_, f.Renews = w.profile.Fresh(w.argv, l.terminal.Pty())
	keys, clears := l.keys(w, launch)
	switch {
	case clears:
		f.Clears, f.KeepsLine = true, keys.Aside != nil
	case launch.Resets:
		f.Clears, f.Means, f.KeepsLine = true, renewal.ByPlugin, true
	case launch.Clears && len(l.profiles) > 0:
		f.Clears, f.Means, f.KeepsLine = true, renewal.ByHook, true
	}
	return f
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
// launch records that and continues without the export.
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
		return refused(lifeloop.InternalError, "%v", err).withHint("run without --otlp")
	}
	return nil
}

// hookWords returns the command that a harness runs as a hook: lifeloop-hook if that
// program is in the folder of exe, otherwise exe itself, which starts more slowly.
//
// The version of lifeloop-hook is not checked, because lifeloop-wrap would have to start
// lifeloop-hook for that before each launch of a harness. The two programs are installed
// together. If their versions differ, the protocol ignores unknown members and refuses
// unknown operations. A hook
// whose operation is refused prints nothing and the harness continues; only a hook that
// guards a tool call then denies that call.
func hookWords(exe string) []string {
	small := filepath.Join(filepath.Dir(exe), "lifeloop-hook")
	// A symbolic link is not used: it may point to some other program. The operating
	// system has already resolved the links of exe.
	if info, err := os.Lstat(small); err == nil && info.Mode().IsRegular() {
		if _, err := exec.LookPath(small); err == nil { // reports whether the file is executable
			return []string{small}
		}
	}
	return []string{exe, "hook"}
}

// activityFiles returns the sources for the files of --activity, which need not
// exist yet.
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
