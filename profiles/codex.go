package profiles

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"lifeloop/attempt"
	"lifeloop/canon"
	"lifeloop/telemetry/codex"
)

// codexProfile is the profile of Codex, as seen on 0.169.0.
func codexProfile() Profile {
	return Profile{
		Adapter:    "codex",
		Programs:   []string{"codex"},
		Tested:     []string{"0.169.0"},
		Hooks:      codex.Hooks{},
		Transcript: Source{Name: "rollout", Decoder: codex.Rollout},
		Kinds: []Source{
			{Name: "exec", Decoder: codex.Exec},
			{Name: "app-server", Decoder: codex.AppServer},
			{Name: "notify", Decoder: codex.Notify},
			{Name: "history", Decoder: codex.History},
			{Name: "otlp", Decoder: codex.OTLP, Form: Values},
		},
		// exec ends its turn and tells its hooks; TERM is its death, and in a
		// terminal either is.
		Quit: sigINT,
		// A command line that it does not understand.
		ExitCodes:  map[int]attempt.Cause{2: attempt.Fatal},
		Resume:     resumeCodex,
		anySession: anyUUID,

		places:  codexPlaces,
		Prepare: prepareCodex,
		Install: installCodex,
	}
}

// codexScrub are variables that Codex gives to the tools it runs: the ids of
// the outer session and its call, and the mark that a tool is running.
// CODEX_HOME is the user's and CODEX_SANDBOX* tells the truth about a sandbox
// that we are in: both stay.
var codexScrub = []string{
	"CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI", "CODEX_VERSION",
}

// A codexHook is one hook that we ask for.
type codexHook struct {
	event   string // as -c takes it and the hook is told
	snake   string // as trust is recorded
	seconds int
	feeds   []string // the capabilities that live on it
}

// codexHooks are the hooks of a launch. SessionEnd and Interrupt delay the
// exit, so they get less; Codex would clamp more than 3 s anyway.
var codexHooks = []codexHook{
	{"SessionStart", "session_start", 5, []string{"placement.pre_session"}},
	{"SessionEnd", "session_end", 2, []string{"telemetry.hooks"}},
	{"UserPromptSubmit", "user_prompt_submit", 5, []string{"frame.opening", "placement.pre_frame_trailing"}},
	{"PreCompact", "pre_compact", 5, []string{"telemetry.hooks"}},
	{"PostCompact", "post_compact", 5, []string{"telemetry.hooks"}},
	{"PostToolUse", "post_tool_use", 5, []string{"placement.tool_result"}},
	{"PermissionRequest", "permission_request", 5, []string{"approval_surface"}},
	{"Stop", "stop", 5, []string{"frame.ending"}},
	{"Interrupt", "interrupt", 2, []string{"telemetry.hooks"}},
}

func prepareCodex(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, codexScrub)
	if err != nil {
		return Launch{}, err
	}
	line := parseCodex(argv[1:])
	if codexPlain(line) {
		l.Plain = true
		return l, nil
	}
	l.OSC, l.OSCDecoder = []int{7501}, codex.OSC
	l.Cause = codexCause(line)

	// Ours stand before the user's words, where they are nobody's value and
	// count for every subcommand; a later -c of the user's wins.
	var ours []string
	// Without it the terminal is a client of a background daemon that outlives
	// it, and neither our overrides nor our environment reach the session.
	// exec and review never use the daemon.
	if line.command != "exec" && line.command != "review" && !line.has("--no-daemon") && !line.has("--remote") {
		ours = append(ours, "--no-daemon")
	}

	if h.OTLP != "" {
		override, export, apart := codexExport(line, h)
		if apart == "" {
			ours = append(ours, "-c", override)
			l.export(export, nil)
		} else {
			l.lack(apart, exportCapability)
		}
	}

	if reason := codexHookless(line, h); reason != "" {
		// Hooks would tell where the rollout lies, and with it the id and every
		// turn. What is left is the terminal.
		l.lack(reason, hookCapabilities...)
		l.lack(reason, "telemetry.rollout", "session_identity.harness_session_id", "frame.opened", "frame.ended",
			"context.pressure_observed", "context_pressure", "context.compacted", "receipt.gap_detected")
		if line.command == "exec" || line.command == "review" {
			l.lack(reason, "session.started") // they have no terminal that reports it
		}
		l.Argv = slices.Concat(argv[:1], ours, argv[1:])
		return l, nil
	}
	var state []string
	for _, hook := range codexHooks {
		if line.overrides("hooks." + hook.event) {
			l.lack("the command line sets hooks."+hook.event+", so that hook is not ours", hook.feeds...)
			continue
		}
		command := hookCommand(h.Hook, hook.event)
		ours = append(ours, "-c", fmt.Sprintf("hooks.%s=[{hooks=[{type=\"command\",command=%s,timeout=%d}]}]",
			hook.event, tomlString(command), hook.seconds))
		state = append(state, fmt.Sprintf("%s={trusted_hash=%s}",
			tomlString(codexTrustKey("/<session-flags>/config.toml", hook.snake, 0, 0)),
			tomlString(trustHash(hook.snake, command, hook.seconds))))
	}
	l.Hooks = len(state) > 0
	if l.Hooks {
		ours = append(ours, "-c", "hooks.state={"+strings.Join(state, ",")+"}")
	}
	l.Argv = slices.Concat(argv[:1], ours, argv[1:])
	return l, nil
}

// codexCause says why the session begins. Of a session that goes on in the
// terminal nothing else tells it before the first prompt.
func codexCause(line codexLine) string {
	verb := line.command
	if verb == "exec" {
		verb = line.sub
	}
	switch {
	case verb != "resume" && verb != "fork":
		return ""
	case line.operands == 0 && !line.has("--last"):
		return "unknown" // the list that it shows also begins new sessions
	}
	return verb
}

// codexPlain says that a command line is not a session of this process.
func codexPlain(line codexLine) bool {
	if line.has("--help") || line.has("--version") || line.sub == "help" {
		return true
	}
	return !slices.Contains([]string{"", "exec", "review", "resume", "fork"}, line.command)
}

// codexHookless says why no hook of ours can run, empty when they can.
func codexHookless(line codexLine, h Host) string {
	switch {
	case h.NoHooks:
		return "the user asked for no hooks"
	case line.has("--remote"):
		return "the session runs in the app server given with --remote, which takes no hooks from here"
	case line.overrides("hooks"):
		return "the command line sets hooks as a whole"
	case line.overrides("hooks.state"):
		return "the command line sets hooks.state, which would leave our hooks untrusted"
	case len(h.Hook) == 0:
		return "there is no program for hooks to call"
	case !utf8.ValidString(hookCommand(h.Hook, "")):
		return "this program's path is not UTF-8 and cannot be written into an override"
	case codexHooksOff(line, h):
		return "the user has turned the feature hooks off"
	}
	return ""
}

// overrides says that a -c sets this key, or something below it.
func (l codexLine) overrides(key string) bool {
	return slices.ContainsFunc(l.configs, func(o override) bool {
		if key == "hooks" { // only as a whole; what lies below is asked for one by one
			return o.key == key
		}
		return o.key == key || strings.HasPrefix(o.key, key+".")
	})
}

// inlineHooksOff looks in the inline table features for its member hooks,
// `{hooks = false}`. Where it is said twice, off wins: of hooks that are
// expected and never heard a session learns too late.
func inlineHooksOff(table string) (off, said bool) {
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
			said = true
		}
	}
	return false, said
}

// codexHooksOff finds out whether the feature is off. A switch on the command
// line outdoes every -c, the last -c the profile, and that the configuration.
func codexHooksOff(line codexLine, h Host) bool {
	if on, said := line.toggles["hooks"]; said {
		return !on
	}
	for _, o := range slices.Backward(line.configs) {
		if o.key == "features.hooks" {
			return o.value == "false"
		}
		if o.key == "features" { // the whole table: it replaces what came before it
			if off, said := inlineHooksOff(o.value); said {
				return off
			}
			break
		}
	}
	dir := h.home("CODEX_HOME", ".codex")
	if dir == "" || line.has("--ignore-user-config") {
		return false
	}
	files := []string{filepath.Join(dir, "config.toml")}
	if name := line.seen["--profile"]; name != "" {
		files = append([]string{filepath.Join(dir, name+".config.toml")}, files...)
	}
	for _, path := range files {
		data, _ := h.read(path)
		if off, said := featureOff(string(data)); said {
			return off
		}
	}
	return false
}

// featureOff looks in a TOML file for features.hooks in the three ways in
// which people write it. It is no TOML reader: what it misses is noticed in the
// session, where the hooks are then not heard.
func featureOff(text string) (off, said bool) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(strings.TrimSpace(strings.SplitN(line, "#", 2)[0]), "[] \t")
			continue
		}
		key, val, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		key = strings.ReplaceAll(strings.TrimSpace(key), `"`, "")
		if table != "" {
			key = table + "." + key
		}
		switch key {
		case "features.hooks":
			return strings.HasPrefix(strings.TrimSpace(val), "false"), true
		case "features":
			if off, said := inlineHooksOff(val); said {
				return off, true
			}
		}
	}
	return false, false
}

// codexTrustKey names a hook by where it is configured.
func codexTrustKey(path, snake string, group, handler int) string {
	return fmt.Sprintf("%s:%s:%d:%d", path, snake, group, handler)
}

// trustHash is the digest under which Codex records that the user trusts a
// hook: of its definition as canonical JSON, keys sorted, with the time-out
// that will hold.
func trustHash(snake, command string, seconds int) string {
	definition, err := canon.Marshal(map[string]any{"event_name": snake, "hooks": []any{map[string]any{
		"async": false, "command": command, "timeout": heldTimeout(snake, seconds), "type": "command"}}})
	if err != nil { // strings and numbers always encode
		panic("profiles: " + err.Error())
	}
	return string(canon.Sum(definition))
}

// heldTimeout is the time-out that Codex makes of the configured one; 0 is none.
func heldTimeout(snake string, seconds int) int {
	if snake != "session_end" && snake != "interrupt" {
		if seconds == 0 {
			return 600
		}
		return seconds
	}
	if seconds == 0 {
		return 1
	}
	return min(seconds, 3)
}

func codexPlaces(h Host, rollout Source) []Place {
	dir := h.home("CODEX_HOME", ".codex")
	if dir == "" {
		return nil
	}
	type record struct {
		Type    string `json:"type"`
		Payload struct {
			ID  string `json:"id"`
			Cwd string `json:"cwd"`
		} `json:"payload"`
	}
	return []Place{{Source: rollout, Dir: filepath.Join(dir, "sessions"), Pattern: "*/*/*/rollout-*.jsonl",
		Whose: byRecords(func(r record, dir string) (session string, here, done bool) {
			if r.Type != "session_meta" {
				return "", false, true // a rollout begins with it
			}
			return r.Payload.ID, r.Payload.Cwd == dir, true
		})}}
}

func installCodex(project bool, h Host) (Installation, error) {
	home := h.home("CODEX_HOME", ".codex")
	if home == "" {
		return Installation{}, errNoHome
	}
	// The harness names a hook by its file's path. It takes the links out of
	// CODEX_HOME, and leaves those of the usual place in.
	if h.getenv("CODEX_HOME") != "" {
		home = h.real(home)
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
	in, err := installation("codex", path, project, hooks, h)
	in.Trust = &Trust{
		Path: filepath.Join(home, "config.toml"), Table: []string{"hooks", "state"}, Member: "trusted_hash", Prefix: path + ":",
		Key: func(event string, group, handler int) string {
			return codexTrustKey(path, codexSnake(event), group, handler)
		},
		Value: func(h InstalledHook) string { return trustHash(codexSnake(h.Event), h.Command, h.Timeout) },
	}
	return in, err
}

// codexSnake is an event's name where trust is recorded.
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
