package profiles

import (
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"
)

// This file injects hooks into one launch of Gemini CLI. There are two ways:
//
//   - A file of system defaults, the weakest layer of settings. Gemini CLI accepts
//     it only if no user but root can write it, so this works only for root. Gemini
//     CLI runs hooks of settings only in a trusted folder.
//   - A folder that replaces the user's home for this launch. It has one more
//     extension, ours; everything else in it is a link to the user's files.
//
// With both ways the user sees the hooks: while a hook runs, and for 3 s after it, the
// status row shows the hook's name. So hooks are injected only if something needs them.

// geminiHookName is the name of our hooks, which the status row shows, and of our
// extension.
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
		return "`--hooks never` or `--no-hooks` turns hooks off"
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
	layers, reason := geminiLayers(home, h)
	if reason != "" {
		return reason
	}
	for _, off := range []string{geminiHooksOff(layers), geminiSandboxed(line, home, layers, h)} {
		if off != "" {
			return off
		}
	}
	path := h.file("gemini-defaults", ".json")
	switch {
	case h.Guarded == nil || !h.Guarded(h.RunDir):
	case geminiTrusted(line, home, layers, h):
		return l.geminiDefaults(path, h)
	case h.Dir == home:
		return "hooks in a settings file might not run, because it is not certain that Gemini CLI trusts the working directory; our extension cannot be added, because this directory is the home folder"
	}
	return l.geminiOverlay(line, home, layers, h)
}

// geminiDefaults copies the administrator's defaults to a file, adds our hooks,
// and makes this launch read that file instead.
func (l *Launch) geminiDefaults(path string, h Host) (reason string) {
	_, theirs := geminiSystem(h)
	var base settings
	if data, ok := h.read(theirs); ok && h.Guarded(theirs) { // Gemini CLI ignores a file of defaults that other users can write
		base, _ = commented(data) // geminiLayers has parsed this file without an error
	}
	merged, err := mergeHooks(base, geminiGroups(h.Hook, h.Guards, h.GuardWait))
	if err != nil {
		return theirs + " cannot be merged: " + err.Error()
	}
	l.Files = append(l.Files, File{path, append(encode(merged), '\n')})
	l.setenv(geminiDefaults, path)
	return ""
}

// geminiWritten are the files that Gemini CLI creates in ~/.gemini. The folder that
// replaces the user's home (see geminiOverlay) gets a link to each file, even if the
// file does not exist yet.
var geminiWritten = append([]string{"projects.json", "settings.json", "google_accounts.json", "installation_id",
	"state.json", "GEMINI.md"}, geminiCredentials...)

// geminiCredentials are the files of ~/.gemini that Gemini CLI removes when its user signs
// out of an account or of an MCP server.
var geminiCredentials = []string{"oauth_creds.json", "gemini-credentials.json", "mcp-oauth-tokens.json", "a2a-oauth-tokens.json"}

// geminiOverlay gives a launch another home folder: one with our extension, and with
// links to all files of the user's home folder. If it cannot, it returns the reason.
func (l *Launch) geminiOverlay(line commandLine, home string, layers []geminiLayer, h Host) (reason string) {
	if h.Dir == home {
		return "hooks need a folder that replaces the home folder for this launch, which is not possible if the home folder is the working directory"
	}
	if reason := geminiExtensionOff(line, home, layers, h); reason != "" {
		return reason
	}
	if _, exists := h.read(filepath.Join(home, ".gemini/extensions", geminiHookName, "gemini-extension.json")); exists {
		return "the user already has an extension with the same name as ours, " + geminiHookName
	}
	root := h.file("gemini-home", "")
	ours := filepath.Join(root, ".gemini/extensions", geminiHookName)
	config := filepath.Join(home, ".gemini")
	l.Overlay = Overlay{Root: root, Merge: []string{"projects.json"}, Folders: []OverlayFolder{
		{Path: ".", Real: home},
		{Path: ".gemini", Real: config, Files: geminiWritten, Dirs: []string{"tmp"}, Removes: geminiCredentials},
		{Path: ".gemini/extensions", Real: filepath.Join(config, "extensions"), Ours: []string{geminiHookName}},
	}}
	hooks, _ := mergeHooks(nil, geminiGroups(h.Hook, h.Guards, h.GuardWait)) // no error is possible: the settings to merge with are empty
	l.Files = append(l.Files,
		File{filepath.Join(ours, "gemini-extension.json"), encode(map[string]string{"name": geminiHookName, "version": "0.0.1"})},
		File{filepath.Join(ours, "hooks", "hooks.json"), encode(hooks)})
	l.setenv("GEMINI_CLI_HOME", root)
	// Set the path of the real file, not of our link to this file. Gemini CLI writes a new
	// file and renames it to the path in the variable. With the link's path, the new file
	// would replace the link, and the real file would not change.
	if h.getenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH") == "" {
		l.setenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH", filepath.Join(config, "trustedFolders.json"))
	}
	return ""
}
