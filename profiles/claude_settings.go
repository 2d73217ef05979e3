package profiles

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// claudeGroups returns the hooks to inject: for each event one group without a matcher,
// so that its hook is always called.
func claudeGroups(hook []string, guards bool, wait time.Duration) map[string][]hookGroup {
	hooks := map[string][]hookGroup{}
	for _, c := range claudeHooks {
		hooks[c.Event] = claudeGroup(hookCommand(hook, c.Event), c.Timeout)
	}
	if guards {
		hooks["PreToolUse"] = claudeGroup(guardCommand(hook, "PreToolUse", wait), guardTimeout(wait))
	}
	return hooks
}

func claudeGroup(command string, seconds int) []hookGroup {
	return []hookGroup{{Hooks: []hookCall{{Type: "command", Command: command, Timeout: seconds}}}}
}

// notAwaited changes our SessionStart hook so that Claude Code, when it is started with a
// new session, shows its prompt without waiting for the hook. For other causes, such as
// /clear, Claude Code waits for the hook, because a prompt may already be queued.
func notAwaited(groups []hookGroup) []hookGroup {
	call := groups[0].Hooks[0]
	call.Async = true
	return []hookGroup{{Matcher: "startup", Hooks: []hookCall{call}}, {Matcher: "^(?!startup$)", Hooks: groups[0].Hooks}}
}

// chain changes the command of the user's status line to run ours first and then
// theirs. Other members, such as the padding, are not changed.
func chain(theirs json.RawMessage, hook []string) (json.RawMessage, bool) {
	var members settings
	var line struct{ Type, Command string }
	if json.Unmarshal(theirs, &members) != nil || json.Unmarshal(theirs, &line) != nil {
		return nil, false
	}
	if line.Type != "command" || line.Command == "" {
		return nil, false
	}
	members["command"] = encode(hookCommand(hook, "Statusline") + " --then " + quote(line.Command))
	return encode(members), true
}

// userSettings are the settings that a launch finds.
type userSettings struct {
	flag    settings // the settings given with --settings
	flaw    string   // why the settings in flag cannot be copied into the injected file; empty if they can
	managed []settings
	layers  []settings // all layers of settings, the strongest first
}

func readSettings(line claudeLine, dir string, h Host) (u userSettings) {
	u.flag, u.flaw = flagSettings(line, h)
	u.managed = managedSettings(h)
	u.layers = slices.Concat(u.managed, []settings{u.flag}, fileSettings(line, dir, h))
	return u
}

// flagSettings reads the value of --settings: a path, or JSON. If the option is
// repeated, Claude Code uses the last one.
func flagSettings(line claudeLine, h Host) (settings, string) {
	text := line.last("--settings")
	if text == "" {
		return nil, ""
	}
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") {
		s, ok := parseSettings([]byte(text))
		if !ok {
			return nil, "the value of --settings is not a JSON object"
		}
		return s, ""
	}
	data, ok := h.read(h.abs(text))
	if !ok {
		return nil, "the file given with --settings cannot be read"
	}
	s, ok := parseSettings(data)
	switch {
	case !ok:
		return nil, "the file given with --settings is not a JSON object"
	case tiedToFolder(s):
		return nil, "the file given with --settings has rules relative to its own folder, so a copy elsewhere would have another meaning"
	}
	return s, ""
}

// relativeRule reports whether a permission rule is like `Read(/secrets/**)`. For
// Claude Code a path with one leading slash is relative to the folder of the
// settings file; two slashes mean the root. If such a file were copied elsewhere,
// a deny rule would protect another folder and leave the intended one readable.
func relativeRule(rule string) bool {
	tool, path := word(rule)
	if tool == "" || tool == "Bash" { // rules of Bash are commands, not paths
		return false
	}
	path, ok := strings.CutPrefix(path, "(/")
	return ok && path != "" && path[0] != '/'
}

// tiedToFolder reports whether settings change their meaning when the file is
// copied to another folder.
func tiedToFolder(s settings) bool {
	var permissions struct{ Allow, Deny, Ask []string }
	_ = json.Unmarshal(s["permissions"], &permissions)
	if slices.ContainsFunc(slices.Concat(permissions.Allow, permissions.Deny, permissions.Ask), relativeRule) {
		return true
	}
	var sandbox struct {
		Filesystem map[string]json.RawMessage `json:"filesystem"`
	}
	_ = json.Unmarshal(s["sandbox"], &sandbox)
	for _, raw := range sandbox.Filesystem {
		var paths []string
		_ = json.Unmarshal(raw, &paths)
		if slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~") }) {
			return true
		}
	}
	return false
}

// fileSettings reads the user's settings files, the strongest first.
func fileSettings(line claudeLine, dir string, h Host) []settings {
	sources := "local,project,user"
	if p, set := line.find("--setting-sources"); set {
		sources = p.value
	}
	if line.has("--restricted") { // with --restricted, Claude Code reads no settings file of the user
		sources = ""
	}
	var layers []settings
	add := func(source, path string) {
		data, _ := h.read(path)
		wanted := slices.ContainsFunc(strings.Split(sources, ","), func(s string) bool { return strings.TrimSpace(s) == source })
		if s, ok := parseSettings(data); ok && wanted {
			layers = append(layers, s)
		}
	}
	add("local", filepath.Join(h.Dir, ".claude", "settings.local.json"))
	add("project", filepath.Join(h.Dir, ".claude", "settings.json"))
	if dir != "" {
		add("user", filepath.Join(dir, "settings.json"))
	}
	return layers
}

// managedSettings reads the settings of the machine's administrator, which no
// other layer can override.
func managedSettings(h Host) []settings {
	for _, dir := range []string{"/etc/claude-code", "/Library/Application Support/ClaudeCode"} {
		data, _ := h.read(filepath.Join(dir, "managed-settings.json"))
		if s, ok := parseSettings(data); ok {
			return []settings{s}
		}
	}
	return nil
}
