package profiles

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"lifeloop/attempt"
	"lifeloop/telemetry/claude"
)

// claudeProfile is the profile of Claude Code, as observed with the tested versions.
func claudeProfile() Profile {
	return Profile{
		Adapter:    "claude",
		Programs:   []string{"claude"},
		Tested:     []string{"2.1.197", "2.1.330", "2.1.331", "2.1.332"},
		Hooks:      claude.Hooks{},
		Transcript: Source{Name: "transcript", Decoder: claude.Transcript, Unordered: true, Beside: "subagents/agent-*.jsonl"},
		Kinds: []Source{
			{Name: "registry", Decoder: claude.Registry, Form: Whole},
			{Name: "statusline", Decoder: claude.Statusline, Form: Values, Blind: true},
			{Name: "stream", Decoder: claude.Stream, Form: Values},
			{Name: "otlp", Decoder: claude.OTLP, Form: Values},
		},
		// INT also ends Claude Code cleanly in a terminal (exit code 0). With -p, no
		// SessionEnd hook runs after INT. If Claude Code was started with INT ignored, INT
		// has no effect.
		Quit: sigTERM,
		// If the user has begun a line, /clear would become a part of that line. So
		// Ctrl-S first stores the line, and Claude Code restores the line after /clear.
		Keys: Keys{
			Reset: []Stroke{{Then: 300 * time.Millisecond}, {Keys: "/clear", Shows: "Start a new session with empty context", Then: 400 * time.Millisecond, Undo: strings.Repeat("\x7f", len("/clear"))}, {Keys: "\r"}},
			Aside: []Stroke{{Keys: "\x13", Then: 300 * time.Millisecond}},
			Back:  []Stroke{{Keys: "\x13"}},
		},
		// With -p, Claude Code exits with 0 after Ctrl-C too. If the last turn was not
		// completed, exit code 0 therefore means an abort.
		ExitCodes:  map[int]attempt.Cause{0: attempt.Aborted},
		resume:     resumeClaude,
		ask:        askClaude,
		prints:     func(args []string) bool { l, _ := parseClaude(args); return l.has("--print") },
		anySession: anyUUID,
		sessions:   stored{"CLAUDE_CONFIG_DIR", ".claude", Place{Dir: "projects", Pattern: "*/*.jsonl", Whose: claude.Owner}},

		Prepare: prepareClaude,
		Trial:   trialClaude,
		Install: installClaude,
	}
}

// claudeScrub are variables that Claude Code sets for its tools and hooks. The
// wrapper itself may run below another Claude Code. If a launch inherited these
// variables, the new session would become a part of the outer one.
var claudeScrub = []string{
	"CLAUDE_CODE_CHILD_SESSION", // if it is set, Claude Code writes no transcript and no sessions/PID.json
	"CLAUDECODE",                // marks a process below Claude Code
	"CLAUDE_CODE_SESSION_ID",    // the outer session's id
	"CLAUDE_CODE_ENTRYPOINT",    // the way in which the outer session was started
	"AI_AGENT",                  // the outer agent's name and version
	"CLAUDE_PROJECT_DIR",        // the outer session's project
	"CLAUDE_ENV_FILE",           // a file that the outer session reads
	"CLAUDE_EFFORT",             // the effort level of the outer turn
	"CLAUDE_CODE_EXECPATH",      // the outer session's program

	// Claude Code has used these since 2.1.330. With the token, a process can communicate
	// with the outer session.
	"CLAUDE_CODE_MESSAGING_SOCKET",
	"CLAUDE_CODE_MESSAGING_TOKEN",
	"CLAUDE_CODE_CHILD_NOTES_DIR",
	"CLAUDE_CODE_SESSION_ATTENDED",
	"CLAUDE_PID",
	claudeHintVariable,
}

// claudeHooks are the hooks to inject, with timeouts in seconds. SessionEnd delays
// the exit, so it gets less time. PreCompact and PostCompact are left out: after
// `/compact` Claude Code shows a line for each. SessionStart reports the compaction
// too.
var claudeHooks = []InstalledHook{
	{Event: "SessionStart", Timeout: 5},
	{Event: "SessionEnd", Timeout: 2},
	{Event: "UserPromptSubmit", Timeout: 5},
	{Event: "Stop", Timeout: 5},
	{Event: "StopFailure", Timeout: 5},
	{Event: "PostToolUse", Timeout: 5},
	{Event: "PermissionRequest", Timeout: 5},
	{Event: "Notification", Timeout: 5},
}

func prepareClaude(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, claudeScrub)
	if err != nil {
		return Launch{}, err
	}
	line, sure := parseClaude(argv[1:])
	if claudePlain(argv[1:], line, h) {
		l.Plain = true
		return l, nil
	}

	l.OSC, l.OSCDecoder = []int{0}, claude.OSC
	if line.has("--resume", "--continue") {
		l.Cause = "resume" // also with --fork-session; since 2.1.330 the hook then reports fork, which overrides this
	}
	ours, user := l.claudeSession(line, argv[1:], h)

	dir := h.home("CLAUDE_CONFIG_DIR", ".claude")
	if dir != "" {
		l.Sources = append(l.Sources, Source{
			Name: "registry", Decoder: claude.Registry, Form: Whole,
			Path: filepath.Join(dir, "sessions", "{pid}.json"),
		})
	}

	settings, reason := l.claudeInjection(line, dir, h)
	if reason != "" {
		l.Unguarded = reason
		read := []string{"terminal", "transcript"}
		if dir != "" {
			read = append(read, "registry")
		}
		l.lackSources("claude", reason, []string{"hooks", "statusline"}, read...)
		l.Argv = slices.Concat(argv[:1], ours, user)
		if dir == "" {
			l.lackSources("claude", "HOME is not set, so the transcript is not found", []string{"transcript"},
				slices.DeleteFunc(read, func(s string) bool { return s == "transcript" })...)
			return l, nil
		}
		// Without hooks, no event reports the transcript's path. Claude Code's file
		// sessions/PID.json has the session's id, and the path follows from that id by
		// the rule that Claude Code uses.
		l.Chats = Chats{Dir: filepath.Join(dir, "projects"), Pattern: "*/{session}.jsonl",
			New: filepath.Join(dir, "projects", claudeSlug(h.Dir), "{session}.jsonl"), Begins: claude.Begins}
		if l.SessionID != "" {
			l.Sources = append(l.Sources, Source{
				Name: "transcript", Decoder: claude.Transcript, Unordered: true, Beside: "subagents/agent-*.jsonl",
				Path: strings.ReplaceAll(l.Chats.New, "{session}", l.SessionID),
			})
		}
		return l, nil
	}

	path := h.file("claude-settings", ".json")
	args := line.with(user, "--settings", path)
	if !line.has("--settings") {
		ours = append(ours, "--settings", path)
	}
	l.Hooks, l.Guards = true, h.Guards
	// In two cases the first hook call may come late. While the user chooses a session
	// from a list, no session has started. With --input-format stream-json, the output
	// has that format too, so claudeInjection injects no SessionStart hook, and the first
	// hook call comes with the first prompt.
	choosing := line.has("--resume", "--from-pr") && line.last("--resume") == "" && line.last("--from-pr") == "" && !line.has("--print")
	l.HookAtPrompt = choosing || line.last("--input-format") == "stream-json"
	if line.has("--print") || !h.Terminal {
		l.Evidence = ByLastTurn // the Stop hook shows which turns were completed
	}
	if h.Terminal && !line.has("--print") {
		l.setenv(claudeHintVariable, claudeHint(line, sure))
	}
	l.Statusline = settings.statusline
	l.Weak = append(l.Weak, settings.weak...)
	l.Files = []File{{Path: path, Data: settings.data}}
	l.Argv = slices.Concat(argv[:1], ours, args)
	return l, nil
}

// claudeSession decides the id of the harness session. It returns the arguments to
// add, and the user's arguments, with another id if their id is taken.
func (l *Launch) claudeSession(line claudeLine, args []string, h Host) (ours, user []string) {
	switch {
	case line.has("--session-id") && h.again() && h.NewID != "":
		// Use a new id, because Claude Code rejects an id that has a transcript.
		l.SessionID = h.NewID
		return nil, line.with(args, "--session-id", h.NewID)
	case line.has("--session-id"):
		l.SessionID = line.last("--session-id")
	case h.Resume != "":
		l.SessionID = h.Resume
	case line.has("--resume", "--continue", "--from-pr", "--teleport", "--cloud", "--environment", "--remote", "--sdk-url"):
		// The session already has an id, or gets one that we cannot choose.
	case h.NewID != "":
		l.SessionID = h.NewID
		return []string{"--session-id", h.NewID}, args
	}
	return nil, args
}

// claudeInjection returns the settings to inject, or the reason why there are
// none. If the wrapper receives telemetry (Host.OTLP), claudeInjection also
// configures Claude Code to export telemetry, where possible.
func (l *Launch) claudeInjection(line claudeLine, dir string, h Host) (s injectedSettings, reason string) {
	theirs := readSettings(line, dir, h)
	s, reason = claudeSettings(line, theirs, h, nil)
	if h.OTLP == "" {
		return s, reason
	}
	env, export, noExport := claudeExport(theirs, reason == "", h)
	if noExport == "" && reason == "" {
		// Set the variables in the injected file too: the user's settings file may set
		// them, and a settings file overrides the environment.
		var with injectedSettings
		if with, noExport = claudeSettings(line, theirs, h, env); noExport == "" {
			s = with
		}
	}
	if noExport != "" {
		l.lack(noExport, exportCapability)
		return s, reason
	}
	l.export(export, env)
	return s, reason
}

// claudePlain reports whether a command line starts a program that runs no session in its
// own process.
func claudePlain(args []string, line claudeLine, h Host) bool {
	if line.command != "" || line.has("--help", "--version", "--desktop") {
		return true
	}
	// Claude Code accepts these options anywhere, even after "--". With either one, the
	// session runs in a daemon.
	if slices.Contains(args, "--bg") || slices.Contains(args, "--background") {
		return true
	}
	// With both options, the session runs in a tmux server. The launched process only
	// displays the session.
	if line.has("--tmux") && line.has("--worktree") {
		return true
	}
	if len(args) > 0 && slices.Contains(claudeFirst, args[0]) {
		return true
	}
	return h.Terminal && claudeAgentsView(args, h)
}

// claudeAgentsView reports whether `claude` shows its agents view instead of a session.
// This is the case if the user's configuration makes the agents view the default and the
// only arguments are about debugging. Any argument that the wrapper adds would start a
// session.
func claudeAgentsView(args []string, h Host) bool {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--debug-file":
			i++
		case arg == "--debug", arg == "-d", arg == "--debug-to-stderr", arg == "-d2e",
			strings.HasPrefix(arg, "--debug="), strings.HasPrefix(arg, "--debug-file="):
		default:
			return false
		}
	}
	data, _ := h.read(filepath.Join(h.home("CLAUDE_CONFIG_DIR", "."), ".claude.json"))
	var config struct {
		AgentsView bool `json:"defaultToAgentsView"`
	}
	return json.Unmarshal(data, &config) == nil && config.AgentsView
}

// claudeSlug is the name of a project's transcript folder: its path, with a dash
// for each character that is not an ASCII letter or digit. A character is a UTF-16
// code unit, as in JavaScript. If the name is longer than 200 characters, it is cut
// there, and a dash and a hash of the whole path are added.
func claudeSlug(dir string) string {
	const most = 200
	units := utf16.Encode([]rune(dir))
	name := make([]byte, len(units))
	var hash int32
	for i, u := range units {
		name[i] = '-'
		if r := rune(u); alphanumeric(r) {
			name[i] = byte(r)
		}
		hash = hash*31 + int32(u)
	}
	if len(name) <= most {
		return string(name)
	}
	return string(name[:most]) + "-" + strconv.FormatInt(max(int64(hash), -int64(hash)), 36)
}

// injectedSettings is the settings file of one launch.
type injectedSettings struct {
	data       []byte
	statusline bool
	weak       []Weakness
}

// claudeSettings returns the settings file that replaces the user's --settings,
// or the reason for not injecting one. The file sets the variables in env.
func claudeSettings(line claudeLine, theirs userSettings, h Host, env map[string]string) (injectedSettings, string) {
	switch {
	case h.Hooks == Never:
		return injectedSettings{}, "`--hooks never` or `--no-hooks` turns hooks off"
	case line.has("--bare") || truthy(h.getenv("CLAUDE_CODE_SIMPLE")):
		return injectedSettings{}, "bare mode runs no hooks"
	case line.has("--safe-mode") || truthy(h.getenv("CLAUDE_CODE_SAFE_MODE")):
		return injectedSettings{}, "safe mode runs no hooks"
	case len(h.Hook) == 0:
		return injectedSettings{}, "there is no program for hooks to call"
	case !utf8.ValidString(hookCommand(h.Hook, "")):
		return injectedSettings{}, "the path of this program or of the session's folder is not UTF-8 and cannot be written into settings"
	case theirs.flaw != "":
		return injectedSettings{}, theirs.flaw
	}
	if off, _ := first(theirs.layers, "disableAllHooks"); string(off) == "true" {
		return injectedSettings{}, "the user's settings set disableAllHooks"
	}
	if only, _ := first(theirs.managed, "allowManagedHooksOnly"); string(only) == "true" {
		return injectedSettings{}, "the machine's managed settings allow only their own hooks"
	}

	var out injectedSettings
	hooks := claudeGroups(h.Hook, h.Guards, h.GuardWait)
	if line.has("--print") && line.last("--output-format") == "stream-json" {
		// With a SessionStart hook, the stream would begin with the hook's result,
		// but programs that read the stream expect `init` first.
		delete(hooks, "SessionStart")
		out.weak = append(out.weak, Weakness{"placement.pre_session", "a SessionStart hook would show in the stream-json output"})
	}
	// Without a prompt in the command line, Claude Code need not wait for the hook: the
	// hook ends before a user has typed a prompt. A prompt in the command line is sent at
	// once. The hook must then end first, because it reports the start of the session.
	if h.Terminal && h.Needs == "" && !h.Guards && !line.has("--print") && len(line.operands()) == 0 {
		hooks["SessionStart"] = notAwaited(hooks["SessionStart"])
	}
	merged, err := mergeHooks(theirs.flag, hooks)
	if err == nil && len(env) > 0 {
		err = mergeEnv(merged, env)
	}
	if err != nil {
		return injectedSettings{}, "the JSON given with --settings cannot be merged: " + err.Error()
	}
	if !h.Terminal || line.has("--print", "--init-only") {
		out.weak = append(out.weak, Weakness{"telemetry.statusline", "only a terminal session has a status line"})
	} else {
		ours, reason := statusline(theirs, h.Hook)
		if reason == "" {
			merged["statusLine"] = ours
			out.statusline = true
		} else {
			out.weak = append(out.weak, Weakness{"telemetry.statusline", reason})
		}
	}
	out.data = append(encode(merged), '\n')
	return out, ""
}

// statusline returns a status line command that runs ours and then the user's,
// or the reason why there is none. If the user has none, none is added: even a
// status line without output removes the hint about shortcuts from the screen.
func statusline(user userSettings, hook []string) (json.RawMessage, string) {
	if _, locked := first(user.managed, "statusLine"); locked {
		return nil, "the machine's managed settings set the status line"
	}
	theirs, ok := first(user.layers, "statusLine")
	if !ok {
		return nil, "the user has no status line, and adding one would change the screen"
	}
	ours, ok := chain(theirs, hook)
	if !ok {
		return nil, "the user's status line is not a command"
	}
	return ours, ""
}

func truthy(s string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(s)))
}

func installClaude(project bool, h Host) (Installation, error) {
	dir := filepath.Join(h.Dir, ".claude")
	if !project {
		if dir = h.home("CLAUDE_CONFIG_DIR", ".claude"); dir == "" {
			return Installation{}, errNoHome
		}
	}
	return installation("claude", filepath.Join(dir, "settings.json"), project, claudeHooks, 1, h)
}
