package profiles

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"lifeloop/telemetry/openclaw"
)

// This file injects a plugin into one launch of OpenClaw. Our configuration includes the
// user's configuration and adds the plugin. The plugin's hooks report the turns, deliver
// payloads and ask the wrapper before each tool call. No file of the user is
// written.
//
// The hooks are called only in a process that runs the sessions itself, `openclaw agent
// --local` and `openclaw gateway run`. In a gateway the plugin also resets the session on
// request, for a renewal in place. OpenClaw's own terminal interface loads the plugin and
// calls none of its hooks (recorded with 2026.9.6).

//go:embed openclaw_plugin.js
var openclawPlugin []byte

const (
	openclawConfig   = "OPENCLAW_CONFIG_PATH"
	openclawState    = "OPENCLAW_STATE_DIR"
	openclawIncludes = "OPENCLAW_INCLUDE_ROOTS"
	openclawID       = "lifeloop-wrap" // id of the plugin
)

// openclawOptions is the option table of OpenClaw 2026.9.6: the options before the
// command, and those of `agent` or of `gateway run`.
func openclawOptions(gateway bool) map[string]option {
	lists := map[arity]string{
		flag:  `-h,--help -V,--version --dev --no-color --deliver --json --local`,
		value: `--profile --log-level --container --agent --channel -m,--message --message-file --model --reply-account --reply-channel --reply-to --session-id --session-key -t,--to --thinking --timeout --verbose`,
	}
	if gateway {
		lists = map[arity]string{
			flag: `-h,--help -V,--version --dev --no-color --allow-unconfigured --ambient-channels --claude-cli-logs
				--cli-backend-logs --compact --dev-ambient-channels --force --raw-stream --reset --verbose`,
			value: `--profile --log-level --container --auth --bind --password --password-file --port --raw-stream-path --tailscale --token --ws-log`,
		}
	}
	return optionTable(lists)
}

func prepareOpenclaw(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, nil)
	if err != nil {
		return l, err
	}
	line, sure := parse(argv[1:], openclawOptions(slices.Contains(argv, "gateway")), false)
	if line.has("--help", "--version") {
		l.Plain = true
		return l, nil
	}
	reason := openclawHookless(line, sure)
	if reason == "" {
		l.Resets = slices.Contains(line.operands(), "gateway")
		reason = l.injectOpenclaw(line, h)
	}
	sources := []string{"hooks", "transcript", "runs", "sessions", "plugin", "agent"}
	if reason != "" {
		l.Unguarded, l.Resets = reason, false
		l.lackSources("openclaw", reason, sources)
		return l, nil
	}
	l.Hooks, l.HooksShow, l.HookAtPrompt, l.Inherited = true, true, true, true
	l.lackSources("openclaw", observedOnly, sources[1:], "hooks")
	if !l.Resets {
		l.lackOnce("only a gateway can reset its sessions; wrap `openclaw gateway run`", "renewal.reset.native", "renewal.continuation.observation", "renewal.continuation.payload_delivery")
		return l, nil
	}
	l.Requests = openclaw.Requests
	return l, nil
}

// openclawHookless returns the reason why the process that a command line starts does not
// call the hooks of plugins, or "" if it calls them.
func openclawHookless(line commandLine, sure bool) string {
	words := line.operands()
	command, rest := "", words
	if len(words) > 0 {
		command, rest = words[0], words[1:]
	}
	switch {
	case line.has("--container"):
		return "the sessions are in a container"
	case command == "chat" || command == "terminal" || command == "tui":
		return "OpenClaw's terminal interface calls no plugin hooks; only `lifeloop-wrap observe` reads its sessions"
	case command == "agent" && len(rest) == 0 && line.has("--local"):
	case command == "agent" && !line.has("--local") && len(rest) == 0:
		return "the session runs in a separate gateway process; wrap `openclaw agent --local` or `openclaw gateway run`"
	case command == "gateway" && len(rest) == 1 && rest[0] == "run":
	default:
		return "hooks are supported only for `openclaw agent --local` and `openclaw gateway run`"
	}
	if !sure || line.has("--reset") {
		return "the command line has --reset or an unknown option"
	}
	return ""
}

// injectOpenclaw adds our plugin to a launch, or returns the reason for not doing so.
func (l *Launch) injectOpenclaw(line commandLine, h Host) (reason string) {
	switch {
	case h.Hooks == Never:
		return "`--hooks never` or `--no-hooks` turns hooks off"
	case h.Socket == "" || len(h.Key) == 0:
		return "the session has no socket for the plugin, or no key for the socket"
	case h.Hooks != Always && h.Needs == "" && !h.Guards:
		return "no client, policy or requirement needs hooks, and OpenClaw would print a line about them; `--hooks always` injects them"
	case !utf8.ValidString(h.RunDir) || !utf8.ValidString(h.Socket) || !utf8.ValidString(h.Key):
		return "the path of the session's folder or socket is not UTF-8 and cannot be written into a configuration"
	}
	state, config, reason := openclawFolders(line, h)
	if reason != "" {
		return reason
	}
	data, ok := h.read(config)
	if !ok {
		return "there is no configuration " + config + " to which our plugin could be added"
	}
	allows, refuses, unclear := openclawPlugins(data)
	switch {
	case refuses != "":
		return refuses
	case unclear != "" && h.Guards:
		return unclear + ", so it is not certain that OpenClaw loads our plugin"
	}
	dir := h.file("openclaw", "")
	ours := filepath.Join(dir, "openclaw.json")
	plugins := map[string]any{
		"load":    map[string]any{"paths": []string{filepath.Join(dir, "plugin")}},
		"entries": map[string]any{openclawID: map[string]any{"enabled": true, "hooks": map[string]bool{"allowConversationAccess": true, "allowPromptInjection": true}}},
	}
	if allows { // OpenClaw merges our list of allowed plugins with the user's list
		plugins["allow"] = []string{openclawID}
	}
	limit := "0"
	if l.Guards = h.Guards; h.Guards {
		limit = guardLimit(h.GuardWait)
	}
	text := openclawPlugin
	for name, value := range map[string]any{`"SOCKET"`: h.Socket, `"RESETS"`: l.Resets, `"KEY"`: h.Key, `"LIMIT"`: json.Number(limit), `"HOOK"`: h.Hook, `"LOCK"`: openclawLock(ours, state)} {
		text = bytes.Replace(text, []byte(name), encode(value), 1)
	}
	l.Files = append(l.Files,
		File{ours, encode(map[string]any{"$include": config, "plugins": plugins})},
		File{filepath.Join(dir, "plugin", "package.json"), encode(map[string]any{"name": openclawID, "version": "1.0.0", "type": "module", "openclaw": map[string]any{"extensions": []string{"./index.js"}}})},
		File{filepath.Join(dir, "plugin", "openclaw.plugin.json"), encode(map[string]any{"id": openclawID, "name": openclawID, "version": "1.0.0",
			"configSchema": map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}})},
		File{filepath.Join(dir, "plugin", "index.js"), text})
	l.setenv(openclawConfig, ours)
	l.setenv(openclawState, state)
	l.setenv(openclawIncludes, openclawRoots(config, h))
	return ""
}

// openclawLock returns, in two parts, the path of a lock file. OpenClaw creates this file
// for the configuration at the path config and never removes it. The plugin inserts the
// user id and a slash between the parts, and removes the file.
func openclawLock(config, state string) []string {
	sum := sha256.Sum256([]byte(config))
	return []string{filepath.Join(state, "tmp", "openclaw-"), "gateway." + hex.EncodeToString(sum[:4]) + ".lock.sqlite"}
}

// openclawFolders returns the state folder and the configuration of a launch. Both are
// named by variables of the user, by the profile of the command line, or by HOME.
func openclawFolders(line commandLine, h Host) (state, config, reason string) {
	profile := line.last("--profile")
	if line.has("--dev") {
		profile = "dev"
	}
	state, config = h.getenv(openclawState), h.getenv(openclawConfig)
	switch {
	case h.getenv("OPENCLAW_HOME") != "" || h.getenv("OPENCLAW_PROFILE") != "" || h.getenv("HOME") == "":
		return "", "", "OPENCLAW_HOME or OPENCLAW_PROFILE is set, or HOME is not set, so the place of the configuration is not known"
	case profile != "" && (state != "" || config != ""):
		return "", "", "the configuration is named by --profile or --dev and also by " + openclawState + " or " + openclawConfig
	case strings.HasPrefix(state, "~") || strings.HasPrefix(config, "~") || strings.ContainsAny(profile, "/."):
		return "", "", openclawState + " or " + openclawConfig + " begins with ~, or the name in --profile has a slash or a dot, so the place of the configuration is not known"
	}
	if state == "" {
		name := ".openclaw"
		if profile != "" && !strings.EqualFold(profile, "default") {
			name += "-" + profile
		}
		state = filepath.Join(h.getenv("HOME"), name)
	}
	if state = h.abs(state); config == "" {
		config = filepath.Join(state, "openclaw.json")
	}
	if config = h.abs(config); !utf8.ValidString(config) || strings.Contains(config, ":") {
		return "", "", "the path of the configuration is not UTF-8 or has a colon, so our configuration cannot include it"
	}
	return state, config, ""
}

// openclawRoots returns the folders from which a configuration may include files, with
// colons between them: those that the user has set, the folder of the user's
// configuration and, if the configuration is a link, the folder of the link's target.
func openclawRoots(config string, h Host) string {
	var roots []string
	if theirs := h.getenv(openclawIncludes); theirs != "" {
		roots = append(roots, theirs)
	}
	roots = append(roots, filepath.Dir(config))
	if h.Real != nil {
		if dir := filepath.Dir(h.Real(config)); !slices.Contains(roots, dir) {
			roots = append(roots, dir)
		}
	}
	return strings.Join(roots, ":")
}

// openclawPlugins reads the settings for plugins in the user's configuration. allows is
// true if the configuration lists the plugins that may be loaded. refuses is the reason
// why that configuration excludes our plugin. unclear is the reason why the configuration
// does not show whether our plugin can be loaded.
func openclawPlugins(data []byte) (allows bool, refuses, unclear string) {
	config, ok := parseSettings(data)
	if !ok {
		return false, "", "the user's configuration is not plain JSON"
	}
	var plugins struct {
		Enabled *bool
		Allow   []string
		Deny    []string
		Include json.RawMessage `json:"$include"`
		Entries map[string]json.RawMessage
	}
	if raw, has := config["plugins"]; has && json.Unmarshal(raw, &plugins) != nil {
		return false, "", "the plugins in the user's configuration have an unknown form"
	}
	_, taken := plugins.Entries[openclawID]
	switch {
	case plugins.Enabled != nil && !*plugins.Enabled:
		return false, "the user's configuration turns plugins off", ""
	case slices.Contains(plugins.Deny, openclawID) || taken:
		return false, "the user's configuration has settings for the plugin " + openclawID, ""
	case config["$include"] != nil || plugins.Include != nil:
		return len(plugins.Allow) > 0, "", "the user's configuration includes other files"
	}
	return len(plugins.Allow) > 0, "", ""
}
