package profiles

import (
	"cmp"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lifeloop/attempt"
	"lifeloop/canon"
	"lifeloop/telemetry/codex"
)

// codexProfile is the profile of Codex, as observed with the tested versions.
func codexProfile() Profile {
	return Profile{
		Adapter:    "codex",
		Programs:   []string{"codex"},
		Tested:     []string{"0.169.0", "0.171.0"},
		Estimates:  true,
		Hooks:      codex.Hooks{},
		Transcript: Source{Name: "rollout", Decoder: codex.Rollout},
		Kinds: []Source{
			{Name: "exec", Decoder: codex.Exec},
			{Name: "app-server", Decoder: codex.AppServer},
			{Name: "notify", Decoder: codex.Notify},
			{Name: "history", Decoder: codex.History},
			{Name: "otlp", Decoder: codex.OTLP, Form: Values},
		},
		// After INT, `codex exec` ends its turn and calls its hooks. TERM kills it at
		// once. In a terminal both signals kill Codex at once.
		Quit: sigINT,
		// Codex exits with 2 if it rejects its command line.
		ExitCodes: map[int]attempt.Cause{2: attempt.Fatal},
		// If the user has begun a prompt, /clear would become a part of it. Ctrl-U would
		// put aside only one line of the prompt, so the reset waits until the user has sent
		// it. An Enter in the same write as /clear would be a line break. Even an Enter in
		// its own write may add a line break, which the stroke's Undo deletes. The text in
		// Shows is a part of the list of commands, which appears only if /clear was typed
		// into the composer, and not into another field.
		Keys: Keys{
			Reset: []Stroke{{Then: 300 * time.Millisecond}, {Keys: "\x1b[200~/clear\x1b[201~", Shows: "/clear clear the terminal", Then: 400 * time.Millisecond, Undo: strings.Repeat("\x7f", len("/clear"))},
				{Keys: "\r", Undo: "\x7f"}},
			Cursor: true,
		},
		resume: resumeCodex,
		prints: func(args []string) bool {
			l, _ := parseCodex(args)
			return l.command == "exec" || l.command == "review"
		},
		anySession: anyUUID,
		sessions:   stored{"CODEX_HOME", ".codex", Place{Dir: "sessions", Pattern: "*/*/*/rollout-*.jsonl", Whose: codex.Owner}},

		Prepare: prepareCodex,
		Trial:   trialCodex,
		Install: installCodex,
	}
}

// codexScrub are variables that Codex sets for its tools, and that a launch does not
// inherit: the ids of the outer session and of the tool call, a mark that a tool is
// running, and Codex's version. A launch inherits CODEX_HOME, which the user sets, and
// CODEX_SANDBOX*, which describes the sandbox in which the wrapper runs.
var codexScrub = []string{
	"CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI", "CODEX_VERSION",
}

// A codexHook is one hook to inject.
type codexHook struct {
	event   string // the event's name, in the option -c and in the hook's input
	seconds int
	feeds   []string // the capabilities that need this hook
}

// codexHooks are the hooks of a launch. SessionEnd and Interrupt delay the exit,
// so they get less time. Codex limits them to 3 s.
var codexHooks = []codexHook{
	{"SessionStart", 5, []string{"placement.pre_session"}},
	{"SessionEnd", 2, []string{"telemetry.hooks"}},
	{"UserPromptSubmit", 5, []string{"frame.opening", "placement.pre_frame_trailing"}},
	{"PreCompact", 5, []string{"telemetry.hooks"}},
	{"PostCompact", 5, []string{"telemetry.hooks"}},
	{"PostToolUse", 5, []string{"placement.tool_result"}},
	{"PermissionRequest", 5, []string{"approval_surface"}},
	{"Stop", 5, []string{"frame.ending"}},
	{"Interrupt", 2, []string{"telemetry.hooks"}},
}

func prepareCodex(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, codexScrub)
	if err != nil {
		return Launch{}, err
	}
	line, _ := parseCodex(argv[1:])
	if codexPlain(line) {
		l.Plain = true
		return l, nil
	}
	l.OSC, l.OSCDecoder = []int{7501}, codex.OSC
	l.Cause = codexCause(line)
	if home := h.home("CODEX_HOME", ".codex"); home != "" {
		l.Threads = filepath.Join(home, "thread-writer-locks")
	}

	// Our arguments come before the user's. There they cannot be mistaken for the
	// value of an option, they apply to every subcommand, and the user's own -c
	// overrides them.
	var ours []string
	// Without --no-daemon, Codex's terminal interface runs the session in a background
	// daemon, which gets neither our overrides nor our environment. exec and review
	// never use the daemon.
	if line.command != "exec" && line.command != "review" && !line.has("--no-daemon") && !line.has("--remote") {
		ours = append(ours, "--no-daemon")
	}

	if h.OTLP != "" {
		override, export, noExport := codexExport(line, h)
		if noExport == "" {
			ours = append(ours, "-c", override)
			l.export(export, nil)
		} else {
			l.lack(noExport, exportCapability)
		}
	}

	if reason := codexHookless(line, h); reason != "" {
		// Without hooks, the path of the rollout is unknown, so only the terminal can
		// be read.
		read := []string{"terminal"}
		if line.command == "exec" || line.command == "review" {
			read = nil // these commands have no terminal interface that reports a state
		}
		l.Unguarded = reason
		l.lackSources("codex", reason, []string{"hooks", "rollout"}, read...)
		l.Argv = slices.Concat(argv[:1], ours, argv[1:])
		return l, nil
	}
	var state []string
	hooks := codexHooks
	if h.Guards {
		hooks = append(slices.Clone(hooks), codexHook{"PreToolUse", guardTimeout(h.GuardWait), nil})
	}
	l.Guards = h.Guards
	for _, hook := range hooks {
		if line.overrides("hooks." + hook.event) {
			if hook.event == "PreToolUse" {
				l.Guards, l.Unguarded = false, "the command line sets hooks.PreToolUse"
			}
			l.lack("the command line sets hooks."+hook.event+", so this hook cannot be injected", hook.feeds...)
			continue
		}
		command := hookCommand(h.Hook, hook.event)
		if hook.event == "PreToolUse" {
			command = guardCommand(h.Hook, hook.event, h.GuardWait)
		}
		ours = append(ours, "-c", fmt.Sprintf("hooks.%s=[{hooks=[{type=\"command\",command=%s,timeout=%d}]}]",
			hook.event, tomlString(command), hook.seconds))
		state = append(state, fmt.Sprintf("%s={trusted_hash=%s}",
			tomlString(codexTrustKey("/<session-flags>/config.toml", codexSnake(hook.event), 0, 0)),
			tomlString(trustHash(codexSnake(hook.event), command, hook.seconds))))
	}
	l.Hooks, l.HookAtPrompt = len(state) > 0, !line.prompts()
	if l.Hooks {
		ours = append(ours, "-c", "hooks.state={"+strings.Join(state, ",")+"}")
	}
	l.Argv = slices.Concat(argv[:1], ours, argv[1:])
	return l, nil
}

// prompts reports whether the command is exec or review and begins a turn without
// further input. Codex calls its first hook at the first prompt. If the result is
// false, the first prompt may come late: from the user, or in standard input.
func (l codexLine) prompts() bool {
	named := 1 // the number of operands that are not prompts: one, the id of a thread
	if l.sub == "" || l.has("--last") {
		named = 0
	}
	switch {
	case l.command == "review", l.sub == "review":
		return true
	case l.command != "exec" || l.others <= named:
		return false
	}
	words := l.operands()
	return words[len(words)-1] != "-"
}

// codexCause returns how the session begins, as far as the command line shows it (see
// Launch.Cause). If a session is continued in the terminal, no other source shows this
// before the first prompt.
func codexCause(line codexLine) string {
	verb := line.command
	if verb == "exec" {
		verb = line.sub
	}
	switch {
	case verb != "resume" && verb != "fork":
		return ""
	case line.others == 0 && !line.has("--last"):
		return "unknown" // in the list that Codex shows, the user can also choose a new session
	}
	return verb
}

// codexPlain reports whether a command line starts no session, as with --help or a
// subcommand such as login.
func codexPlain(line codexLine) bool {
	if line.has("--help") || line.has("--version") || line.sub == "help" {
		return true
	}
	return !slices.Contains([]string{"", "exec", "review", "resume", "fork"}, line.command)
}

// codexHookless returns the reason why none of our hooks can run, or "".
func codexHookless(line codexLine, h Host) string {
	switch {
	case h.Hooks == Never:
		return "`--hooks never` or `--no-hooks` turns hooks off"
	case line.has("--remote"):
		return "the session runs in the app server given with --remote, which accepts no hooks from a launch"
	case line.overrides("hooks"):
		return "the command line sets the whole table \"hooks\""
	case line.overrides("hooks.state"):
		return "the command line sets hooks.state, which would leave our hooks untrusted"
	case len(h.Hook) == 0:
		return "there is no program for hooks to call"
	case !utf8.ValidString(hookCommand(h.Hook, "")):
		return "the path of this program or of the session's folder is not UTF-8 and cannot be written into a -c option"
	case codexHooksOff(line, h):
		return "the user turned off the feature \"hooks\" of Codex"
	}
	return ""
}

// overrides reports whether a -c sets this key or one below it.
func (l codexLine) overrides(key string) bool {
	return slices.ContainsFunc(l.configs, func(o override) bool {
		if key == "hooks" { // ignore keys below the table hooks, because the caller checks them one by one
			return o.key == key
		}
		return o.key == key || strings.HasPrefix(o.key, key+".")
	})
}

// inlineHooksOff reads the member named "hooks" of the inline table "features", such
// as `{hooks = false}`. If the member occurs twice, false has priority: if hooks were
// expected but disabled, the session would notice that only late. set is false if the
// table does not set the member to true or false.
func inlineHooksOff(table string) (off, set bool) {
	for _, member := range strings.FieldsFunc(table, func(r rune) bool { return r == '{' || r == ',' }) {
		key, val, _ := strings.Cut(member, "=")
		key = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(key), `"`), `"`)
		if key != "hooks" {
			continue
		}
		switch val, _ = word(strings.TrimSpace(val)); val {
		case "false":
			return true, true
		case "true":
			set = true
		}
	}
	return false, set
}

// codexHooksOff reports whether the feature "hooks" of Codex is off. --enable and
// --disable override every -c. The last -c overrides the file that --profile names, and
// that file overrides config.toml.
func codexHooksOff(line codexLine, h Host) bool {
	if on, set := line.toggles["hooks"]; set {
		return !on
	}
	for _, o := range slices.Backward(line.configs) {
		if o.key == "features.hooks" {
			return o.value == "false"
		}
		if o.key == "features" { // this option replaces the whole table, with all that earlier options set in it
			if off, set := inlineHooksOff(o.value); set {
				return off
			}
			break
		}
	}
	for _, path := range slices.Backward(codexConfigs(line, h)) {
		data, _ := h.read(path)
		if off, set := featureOff(string(data)); set {
			return off
		}
	}
	return false
}

// codexConfigs lists the user's configuration files, the weakest first.
func codexConfigs(line codexLine, h Host) []string {
	dir := h.home("CODEX_HOME", ".codex")
	if dir == "" || line.has("--ignore-user-config") {
		return nil
	}
	files := []string{filepath.Join(dir, "config.toml")}
	if name := line.last("--profile"); name != "" {
		files = append(files, filepath.Join(dir, name+".config.toml"))
	}
	return files
}

// tomlPairs lists the keys of a TOML file, such as features.hooks, each with the text of
// its value on the same line. It also lists the names of tables, each with an empty text.
// It is not a TOML parser.
func tomlPairs(text string) iter.Seq2[string, string] {
	return func(yield func(key, val string) bool) {
		table := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			key, val, isPair := strings.Cut(line, "=")
			switch {
			case strings.HasPrefix(line, "["):
				table, _, _ = strings.Cut(line, "#")
				table = strings.Trim(table, "[] \t")
				key, val = table, ""
			case !isPair || strings.HasPrefix(line, "#"):
				continue
			default:
				key = strings.NewReplacer(`"`, "", " ", "").Replace(strings.TrimSpace(key))
				if table != "" {
					key = table + "." + key
				}
			}
			if !yield(key, strings.TrimSpace(val)) {
				return
			}
		}
	}
}

// featureOff reads features.hooks from a TOML file: as a dotted key, in the table
// [features], or in an inline table. It does not find a setting in another form. The
// session then reports later that the expected hooks were not called.
func featureOff(text string) (off, set bool) {
	for key, val := range tomlPairs(text) {
		switch {
		case key == "features.hooks" && val != "":
			return strings.HasPrefix(val, "false"), true
		case key == "features":
			if off, set := inlineHooksOff(val); set {
				return off, true
			}
		}
	}
	return false, false
}

// codexTrustKey identifies a hook by its place in the configuration.
func codexTrustKey(path, snake string, group, handler int) string {
	return fmt.Sprintf("%s:%s:%d:%d", path, snake, group, handler)
}

// trustHash returns the digest with which Codex records that the user trusts a
// hook. It is computed from the hook's definition in canonical JSON, with the
// effective timeout.
func trustHash(snake, command string, seconds int) string {
	definition, err := canon.Marshal(map[string]any{"event_name": snake, "hooks": []any{map[string]any{
		"async": false, "command": command, "timeout": effectiveTimeout(snake, seconds), "type": "command"}}})
	if err != nil { // encoding strings and numbers cannot fail
		panic("profiles: " + err.Error())
	}
	return string(canon.Sum(definition))
}

// effectiveTimeout returns the timeout, in seconds, that Codex uses for a hook.
// seconds is the configured timeout; 0 means that none is configured.
func effectiveTimeout(snake string, seconds int) int {
	if snake == "session_end" || snake == "interrupt" {
		return min(cmp.Or(seconds, 1), 3)
	}
	return cmp.Or(seconds, 600)
}

func installCodex(project bool, h Host) (Installation, error) {
	home := h.home("CODEX_HOME", ".codex")
	if home == "" {
		return Installation{}, errNoHome
	}
	// Codex identifies a hook by the path of its file. It resolves symbolic links
	// in a path from CODEX_HOME, but not in the default path.
	if h.getenv("CODEX_HOME") != "" && h.Real != nil {
		home = h.Real(home)
	}
	dir := home
	if project {
		dir = filepath.Join(h.repository(), ".codex")
	}
	path := filepath.Join(dir, "hooks.json")

	var hooks []InstalledHook
	for _, hook := range codexHooks {
		hooks = append(hooks, InstalledHook{Event: hook.event, Timeout: hook.seconds})
	}
	in, err := installation("codex", path, project, hooks, 1, h)
	in.Trust = &Trust{
		Path: filepath.Join(home, "config.toml"), Table: []string{"hooks", "state"}, Member: "trusted_hash", Prefix: path + ":",
		Key: func(event string, group, handler int) string {
			return codexTrustKey(path, codexSnake(event), group, handler)
		},
		Value: func(h InstalledHook) string { return trustHash(codexSnake(h.Event), h.Command, h.Timeout) },
	}
	return in, err
}

// codexSnake returns an event's name in the form that Codex uses when it records that
// the user trusts a hook: session_start for SessionStart.
func codexSnake(event string) string {
	var b strings.Builder
	for i, r := range event {
		if i > 0 && 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}
