package profiles

import (
	"bytes"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
)

// This file makes one launch of OpenCode ask the gate before each tool call. The gate
// (package gate) decides whether the call is allowed. Only a plugin of OpenCode's server
// can refuse a call. Before OpenCode loads such a plugin, it installs a package into its
// configuration folders. If there is no network, the installation takes over a minute, so
// the launch sets a variable that makes the package manager use no network. If OpenCode
// is killed during the installation, a lock remains, and the next start of OpenCode would
// wait for the lock (see Launch.Locks).

//go:embed opencode_guard.js
var opencodeGuard []byte

// npmOffline is the variable that makes the package installation end at once.
const npmOffline = "npm_config_offline"

// guardOpencode injects the plugin that asks the gate whether a tool call is allowed, or
// returns the reason why the plugin cannot be injected. The plugin is in the last layer
// of the configuration, so it sees the arguments of a call after the user's plugins have
// changed them.
func (l *Launch) guardOpencode(line commandLine, mode opencodeMode, h Host) (reason string) {
	if reason := opencodeInjectable(line, h); reason != "" {
		return reason
	}
	switch {
	case mode == opencodeAttached:
		return "the server is already running, so it does not load our plugin"
	case mode == opencodeOther:
		return "this command serves several OpenCode clients, or has an interface without plugins"
	case opencodePure(line, h):
		return "--pure turns plugins off"
	}
	content, plugins := settings{}, []json.RawMessage{}
	if text := variable(l.Env, opencodeContent); text != "" {
		var ok bool
		if content, ok = parseSettings([]byte(text)); !ok {
			return opencodeContent + " is not JSON to which our plugin can be added"
		}
	}
	if raw, has := content["plugin"]; has && json.Unmarshal(raw, &plugins) != nil {
		return "the plugins in " + opencodeContent + " are not a list"
	}
	theirs := map[string]*string{}
	for _, name := range []string{npmOffline, opencodeConfig, opencodeContent, opencodeSettings, opencodeMeta} {
		theirs[name] = nil
		if old := h.getenv(name); old != "" {
			theirs[name] = &old
		}
	}
	plugin, text := h.file("opencode-guard", ".js"), opencodeGuard
	for name, value := range map[string]any{`"SOCKET"`: h.Socket, `"KEY"`: h.Key, `"LIMIT"`: json.Number(guardLimit(h.GuardWait)), `"THEIRS"`: theirs} {
		text = bytes.Replace(text, []byte(name), encode(value), 1)
	}
	l.Files = append(l.Files, File{plugin, text})
	content["plugin"] = encode(append(plugins, encode(fileURL(plugin))))
	l.setenv(opencodeContent, string(encode(content)))
	l.setenv(npmOffline, "true")
	l.Locks = opencodeLocks(h)
	return ""
}

// opencodeLocks returns the lock folders of the package installation, one for each folder
// that may configure a launch.
func opencodeLocks(h Host) (locks []string) {
	config, state := h.home("XDG_CONFIG_HOME", ".config"), h.home("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if config == "" || state == "" {
		return nil
	}
	folders := []string{filepath.Join(config, "opencode"), filepath.Join(h.getenv("HOME"), ".opencode")}
	if dir := h.getenv("OPENCODE_CONFIG_DIR"); dir != "" {
		folders = append(folders, dir)
	}
	for dir := h.Dir; ; dir = filepath.Dir(dir) {
		folders = append(folders, filepath.Join(dir, ".opencode"))
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		name := sha1.Sum([]byte("npm-install:" + folder))
		locks = append(locks, filepath.Join(state, "opencode", "locks", hex.EncodeToString(name[:])+".lock"))
	}
	return locks
}
