package profiles

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// This file finds out, before a launch of Gemini CLI, whether hooks will run in the
// launch. In case of doubt, hooks count as disabled: with --policy, hooks check the tool
// calls, so a launch must be refused if it is not certain that its hooks will run.

// A geminiLayer is one settings file. The names of its members are kept as written,
// because Gemini CLI distinguishes upper and lower case in them.
type geminiLayer struct {
	path    string
	members settings
	project bool // a file of the working directory, which is read only in a trusted folder
	system  bool // a file of the administrator, which is ignored if other users can write it
}

// geminiSystem returns the paths of the administrator's two settings files: the one that
// overrides the user's settings, and the one with defaults for them.
func geminiSystem(h Host) (system, defaults string) {
	if system = h.getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"); system == "" {
		system = "/etc/gemini-cli/settings.json"
	}
	if defaults = h.getenv(geminiDefaults); defaults == "" {
		defaults = filepath.Join(filepath.Dir(system), "system-defaults.json")
	}
	return h.abs(system), h.abs(defaults)
}

// geminiLayers reads all settings files, or returns why their content is not known. Gemini
// CLI does not read every one of them: it ignores those of the system that other users
// can write, and those of a project in a folder that is not trusted.
func geminiLayers(home string, h Host) (layers []geminiLayer, reason string) {
	system, defaults := geminiSystem(h)
	for _, l := range []geminiLayer{{path: defaults, system: true}, {path: filepath.Join(home, ".gemini", "settings.json")},
		{path: filepath.Join(h.Dir, ".gemini", "settings.json"), project: true}, {path: system, system: true}} {
		data, exists := h.read(l.path)
		if !exists {
			continue
		}
		var ok bool
		if l.members, ok = commented(data); !ok {
			return nil, l.path + " is not a JSON object, so it is not known whether hooks run"
		}
		layers = append(layers, l)
	}
	return layers, ""
}

// commented parses settings that may have comments.
func commented(data []byte) (settings, bool) {
	plain, err := hujson.Standardize(bytes.ToValidUTF8(append(slices.Clone(data), '\n'), []byte("\ufffd"))) // the newline ends a comment on the last line
	if err != nil {
		return nil, false
	}
	return parseSettings(plain)
}

// member returns a member of a group of settings, such as hooksConfig.enabled. known is
// false if the group is not a JSON object.
func (l geminiLayer) member(group, name string) (value json.RawMessage, known bool) {
	raw, has := l.members[group]
	if !has {
		return nil, true
	}
	members, ok := parseSettings(raw)
	return members[name], ok
}

// geminiTitled reports whether the terminal's title is certain to show the beginning and
// the end of each turn of Gemini CLI. It returns false if a setting hides or changes the
// title, or if the settings are not known.
func geminiTitled(home string, h Host) bool {
	layers, reason := geminiLayers(home, h)
	if reason != "" {
		return false
	}
	for _, l := range layers {
		hidden, known := l.member("ui", "hideWindowTitle")
		dynamic, _ := l.member("ui", "dynamicWindowTitle")
		if !known || hidden != nil && string(hidden) != "false" || dynamic != nil && string(dynamic) != "true" {
			return false
		}
	}
	return true
}

// geminiHooksOff returns the setting by which the user or the administrator disabled our
// hooks, or "".
func geminiHooksOff(layers []geminiLayer) string {
	for _, l := range layers {
		enabled, known := l.member("hooksConfig", "enabled")
		disabled, _ := l.member("hooksConfig", "disabled")
		var names []string
		switch {
		case string(enabled) == "false":
			return "hooksConfig.enabled is false in " + l.path
		case !known || enabled != nil && string(enabled) != "true" || disabled != nil && json.Unmarshal(disabled, &names) != nil:
			return "hooksConfig has an unknown form in " + l.path
		case slices.Contains(names, geminiHookName):
			return "hooksConfig.disabled names " + geminiHookName + " in " + l.path
		}
	}
	return ""
}

// geminiSandboxed returns the reason why Gemini CLI runs itself again in a container,
// where our hooks are not found, or "".
func geminiSandboxed(line commandLine, home string, layers []geminiLayer, h Host) string {
	const runs = " makes Gemini CLI run itself in a sandbox, without our hooks"
	if h.getenv("SANDBOX") != "" { // Gemini CLI already runs in a sandbox
		return ""
	}
	if option, given := line.find("--sandbox"); given && !(option.attached && option.value == "false") {
		return "--sandbox" + runs
	}
	if slices.ContainsFunc(line, func(p part) bool { return hasFlag(p.name, "s") }) {
		return "the command line combines short options in one word, as in -ds; one of them may be -s, which" + runs
	}
	switch set := strings.ToLower(strings.TrimSpace(h.getenv("GEMINI_SANDBOX"))); set {
	case "":
		if path := geminiEnvFile(home, h); path != "" {
			return "GEMINI_SANDBOX in " + path + runs
		}
	case "0", "false":
		return ""
	default:
		return "GEMINI_SANDBOX" + runs
	}
	if line.has("--sandbox", "--no-sandbox") { // --sandbox=false and --no-sandbox override the settings
		return ""
	}
	for _, l := range layers {
		raw, known := l.member("tools", "sandbox")
		if object, ok := parseSettings(raw); ok {
			raw = object["enabled"]
		}
		switch strings.ToLower(strings.TrimSpace(string(raw))) {
		case "", "false", "null", "0", `""`, `"0"`, `"false"`:
			if known {
				continue
			}
		}
		return "tools.sandbox in " + l.path + runs
	}
	return ""
}

// hasFlag reports whether a word combines several one-letter options, as in -ds, and
// letter is one of them.
func hasFlag(word string, letter string) bool {
	return len(word) > 2 && word[0] == '-' && strings.Contains(word, letter) && !strings.ContainsFunc(word[1:], func(r rune) bool { return !alphanumeric(r) })
}

// setsVariable reports whether a file of variables sets the named variable to a value
// other than "", 0 or false.
func setsVariable(file []byte, name string) bool {
	text := strings.TrimPrefix(string(file), "\ufeff")
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if rest, exported := strings.CutPrefix(line, "export"); exported && strings.TrimLeft(rest, " \t") != rest {
			line = strings.TrimSpace(rest)
		}
		rest, sets := strings.CutPrefix(line, name)
		rest = strings.TrimSpace(rest)
		if !sets || rest == "" || rest[0] != '=' && rest[0] != ':' {
			continue
		}
		switch strings.ToLower(strings.Trim(rest[1:], " \t\"'`")) {
		case "", "0", "false":
		default:
			return true
		}
	}
	return false
}

// geminiEnvFile returns a .env file that sets GEMINI_SANDBOX, or "". It searches the
// working directory, each folder above, and the home folder. Gemini CLI reads only the
// first .env file that it finds. This file is not known for certain, so every file counts.
func geminiEnvFile(home string, h Host) string {
	dirs := []string{h.Dir}
	for dir := h.Dir; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	for _, dir := range append(dirs, home) {
		for _, path := range []string{filepath.Join(dir, ".gemini", ".env"), filepath.Join(dir, ".env")} {
			if data, _ := h.read(path); setsVariable(data, "GEMINI_SANDBOX") {
				return path
			}
		}
	}
	return ""
}

// geminiTrusted reports whether Gemini CLI is certain to trust the working directory,
// unless an editor that is connected to Gemini CLI decides otherwise.
func geminiTrusted(line commandLine, home string, layers []geminiLayer, h Host) bool {
	switch set := h.getenv("GEMINI_CLI_TRUST_WORKSPACE"); {
	case h.getenv("GEMINI_RESTRICTED_MODE") == "true" || set == "false" && !line.has("--skip-trust"):
		return false
	case set == "true" || line.has("--skip-trust"): // the option sets the variable
		return true
	}
	off := false
	for _, l := range layers {
		raw, _ := l.member("security", "folderTrust")
		if raw == nil || l.project {
			continue
		}
		trust, _ := parseSettings(raw)
		if string(trust["enabled"]) != "false" {
			return geminiTrustFile(home, h)
		}
		off = off || !l.system || h.Guarded(l.path)
	}
	return off || geminiTrustFile(home, h)
}

// geminiTrustFile reports whether the file of trusted folders trusts the working
// directory. If several rules apply to this directory, the one with the longest path
// decides.
func geminiTrustFile(home string, h Host) (trusted bool) {
	path := h.getenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
	if path == "" {
		path = filepath.Join(home, ".gemini", "trustedFolders.json")
	}
	data, _ := h.read(h.abs(path))
	rules, ok := commented(data)
	real := func(path string) string { return filepath.Clean(path) }
	if h.Real != nil {
		real = h.Real
	}
	longest := -1
	for folder, raw := range rules {
		level := string(raw)
		below := folder
		if level == `"TRUST_PARENT"` {
			below = filepath.Dir(folder)
		}
		below = strings.TrimSuffix(real(below), "/") + "/"
		if len(folder) < longest || !strings.HasPrefix(real(h.Dir)+"/", below) {
			continue
		}
		is := level == `"TRUST_FOLDER"` || level == `"TRUST_PARENT"`
		trusted = is && (len(folder) > longest || trusted) // if paths have the same length, all must be trusted, because any rule may win
		longest = len(folder)
	}
	return ok && trusted
}

// geminiExtensionOff returns why Gemini CLI would not load our extension, or "".
func geminiExtensionOff(line commandLine, home string, layers []geminiLayer, h Host) string {
	for _, l := range layers {
		if raw, known := l.member("security", "allowedExtensions"); !known || raw != nil && string(raw) != "[]" {
			return "security.allowedExtensions in " + l.path + " does not allow our extension"
		}
	}
	if list, given := line.find("--extensions"); given {
		if !slices.Contains(strings.Split(list.value, ","), geminiHookName) {
			return "--extensions does not name our extension, " + geminiHookName
		}
		return ""
	}
	path := filepath.Join(home, ".gemini/extensions/extension-enablement.json")
	data, exists := h.read(path)
	var rules map[string]struct{ Overrides []string }
	if exists && json.Unmarshal(data, &rules) != nil {
		return "" // with an invalid file, Gemini CLI reports an error and enables every extension
	}
	enabled := true
	for _, rule := range rules[geminiHookName].Overrides {
		dir, disables := strings.CutPrefix(rule, "!")
		dir, subfolders := strings.CutSuffix(dir, "*")
		if h.Dir+"/" == dir || subfolders && strings.HasPrefix(h.Dir+"/", strings.TrimSuffix(dir, "/")+"/") || strings.Contains(dir, "*") && disables {
			enabled = !disables
		}
	}
	if !enabled {
		return "the extension " + geminiHookName + " is disabled in " + path
	}
	return ""
}
