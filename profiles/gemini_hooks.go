package profiles

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// This file injects hooks into one launch of Gemini CLI. There are two ways:
//
//   - A file of system defaults, the weakest layer of settings. Gemini CLI accepts
//     it only if no user but root can write it, so this works only for root.
//   - A folder that replaces the user's home for this launch. It has one more
//     extension, ours; everything else in it is a link to the user's files.
//
// Both are visible: while a hook runs and for 3 s after, the status row shows its
// name. So hooks are injected only if something needs them.

// geminiHookName is the name that the status row shows.
const geminiHookName = "lifeloop"

// geminiDefaults is the variable for the file of system defaults.
const geminiDefaults = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"

// geminiLaunchHooks are the hooks of a launch, with timeouts in milliseconds.
// Gemini CLI's other hooks run for every model request, or for every piece of an
// answer. AfterAgent may wait for the programs of a renewal.
func geminiLaunchHooks() []InstalledHook {
	hooks := slices.Clone(geminiHooks)
	for i := range hooks {
		if hooks[i].Event == "AfterAgent" {
			hooks[i].Timeout = 10_000
		}
	}
	return append(hooks, InstalledHook{Event: "BeforeTool", Timeout: 5000}, InstalledHook{Event: "AfterTool", Timeout: 5000},
		InstalledHook{Event: "Notification", Timeout: 5000})
}

// geminiGroups returns the hooks of a launch in the form of settings.
func geminiGroups(hook []string, guards bool, wait time.Duration) map[string][]hookGroup {
	groups := map[string][]hookGroup{}
	for _, e := range geminiLaunchHooks() {
		groups[e.Event] = geminiGroup(hookCommand(hook, e.Event), e.Timeout)
	}
	if guards {
		groups["BeforeTool"] = geminiGroup(guardCommand(hook, "BeforeTool", wait), guardTimeout(wait)*1000)
	}
	return groups
}

func geminiGroup(command string, milliseconds int) []hookGroup {
	return []hookGroup{{Matcher: "*", Hooks: []hookCall{{Type: "command", Name: geminiHookName, Command: command, Timeout: milliseconds}}}}
}

// injectGemini injects hooks into a launch, or returns the reason for not doing so.
func (l *Launch) injectGemini(line commandLine, h Host) (reason string) {
	switch {
	case h.Hooks == Never:
		return "the user asked for no hooks"
	case h.Hooks != Always && h.Needs == "" && !h.Guards:
		return "no client, policy or requirement needs hooks, and they would show on the screen; `--hooks always` injects them"
	case len(h.Hook) == 0:
		return "there is no program for hooks to call"
	case !utf8.ValidString(hookCommand(h.Hook, "")) || !utf8.ValidString(h.RunDir):
		return "the path of this program or of the session's folder is not UTF-8 and cannot be written into settings"
	}
	home := h.home("GEMINI_CLI_HOME", ".")
	if home == "" {
		return "HOME is not set"
	}
	if reason := geminiHooksOff(home, h); reason != "" {
		return reason
	}
	if path := h.file("gemini-defaults", ".json"); h.Guarded != nil && h.Guarded(h.RunDir) {
		return l.geminiDefaults(path, h)
	}
	return l.geminiOverlay(line, home, h)
}

// geminiHooksOff returns the setting by which the user disabled our hooks.
func geminiHooksOff(home string, h Host) string {
	for _, path := range []string{filepath.Join(home, ".gemini", "settings.json"), filepath.Join(h.Dir, ".gemini", "settings.json"), "/etc/gemini-cli/settings.json"} {
		data, _ := h.read(path)
		var s struct {
			HooksConfig struct {
				Enabled  *bool
				Disabled []string
			}
		}
		if json.Unmarshal(data, &s) != nil {
			continue
		}
		if on := s.HooksConfig.Enabled; on != nil && !*on {
			return "hooksConfig.enabled is false in " + path
		}
		if slices.Contains(s.HooksConfig.Disabled, geminiHookName) {
			return "hooksConfig.disabled names " + geminiHookName + " in " + path
		}
	}
	return ""
}

// geminiDefaults copies the administrator's defaults to a file, adds our hooks,
// and makes this launch read that file instead.
func (l *Launch) geminiDefaults(path string, h Host) (reason string) {
	theirs := h.getenv(geminiDefaults)
	if theirs == "" {
		theirs = "/etc/gemini-cli/system-defaults.json"
	}
	var base settings
	if data, ok := h.read(theirs); ok {
		if base, ok = parseSettings(data); !ok {
			return theirs + " is not a JSON object, so our hooks cannot be added to it"
		}
	}
	merged, err := mergeHooks(base, geminiGroups(h.Hook, h.Guards, h.GuardWait))
	if err != nil {
		return theirs + " cannot be merged: " + err.Error()
	}
	l.Files = append(l.Files, File{path, append(encode(merged), '\n')})
	l.setenv(geminiDefaults, path)
	return ""
}

// geminiWritten are the files of ~/.gemini that Gemini CLI creates. Links lead to
// them even if they do not exist yet.
var geminiWritten = []string{"projects.json", "settings.json", "oauth_creds.json", "google_accounts.json", "installation_id",
	"state.json", "GEMINI.md"}

// geminiOverlay replaces the home of a launch by links to it, with an extension
// of ours.
func (l *Launch) geminiOverlay(line commandLine, home string, h Host) (reason string) {
	if h.Dir == home {
		return "to add hooks, a folder of links would have to replace the home folder, which is the working directory"
	}
	if list, given := line.find("--extensions"); given && !slices.Contains(strings.Split(list.value, ","), geminiHookName) {
		return "--extensions does not name our extension, " + geminiHookName
	}
	if _, exists := h.read(filepath.Join(home, ".gemini/extensions", geminiHookName, "gemini-extension.json")); exists {
		return "the user already has an extension with the name of ours, " + geminiHookName
	}
	root := h.file("gemini-home", "")
	ours := filepath.Join(root, ".gemini/extensions", geminiHookName)
	config := filepath.Join(home, ".gemini")
	l.Overlay = Overlay{Root: root, Merge: []string{"projects.json"}, Folders: []OverlayFolder{
		{Path: ".", Real: home},
		{Path: ".gemini", Real: config, Files: geminiWritten, Dirs: []string{"tmp"}},
		{Path: ".gemini/extensions", Real: filepath.Join(config, "extensions"), Ours: []string{geminiHookName}},
	}}
	hooks, _ := mergeHooks(nil, geminiGroups(h.Hook, h.Guards, h.GuardWait)) // no error, because there is nothing to merge with
	l.Files = append(l.Files,
		File{filepath.Join(ours, "gemini-extension.json"), encode(map[string]string{"name": geminiHookName, "version": "0.0.1"})},
		File{filepath.Join(ours, "hooks", "hooks.json"), encode(hooks)})
	l.setenv("GEMINI_CLI_HOME", root)
	if h.getenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH") == "" { // not linked, because Gemini CLI replaces this file by renaming another one
		l.setenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH", filepath.Join(config, "trustedFolders.json"))
	}
	return ""
}
