package profiles

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"lifeloop/telemetry"
	"lifeloop/telemetry/opencode"
)

// This file injects a URL and a plugin into one launch of OpenCode. Neither has to wait
// for the package installation that a server plugin waits for, and no file of the user is
// written.
//
//   - A configuration file of ours has a URL in its instructions. OpenCode reads the
//     URL before each request of a conversation and waits up to 5 s for the answer,
//     which becomes a part of the system prompt of that request.
//   - A settings file of the terminal interface has a plugin of ours, which sends the
//     events of the sessions to the session's socket. `opencode run` loads no such plugin.
//
// If a policy guards the launch, the server loads another plugin (opencode_guard.go).

//go:embed opencode_terminal.js
var opencodeTerminal []byte

const (
	opencodeConfig   = "OPENCODE_CONFIG"
	opencodeContent  = "OPENCODE_CONFIG_CONTENT"
	opencodeSettings = "OPENCODE_TUI_CONFIG"
	opencodeMeta     = "OPENCODE_PLUGIN_META_FILE"
)

// opencodeMode is what a command line of OpenCode starts.
type opencodeMode int

const (
	opencodePlain    opencodeMode = iota // no session
	opencodeOther                        // sessions that cannot be observed
	opencodeTUI                          // the terminal interface with a server of its own
	opencodeAttached                     // the terminal interface of a running server
	opencodeOnce                         // one turn
)

// opencodeLine parses a command line.
func opencodeLine(args []string) (commandLine, opencodeMode) {
	line, _ := parse(args, opencodeOptions(slices.Contains(args, "run")), true)
	command := ""
	if words := line.operands(); len(words) > 0 && slices.Contains(opencodeCommands, words[0]) {
		command = words[0]
	}
	switch {
	case line.has("--help", "--version"):
		return line, opencodePlain
	case command == "run" && !line.has("--attach", "--interactive", "--mini"):
		return line, opencodeOnce
	case command == "" && !line.has("--mini"):
		return line, opencodeTUI
	case command == "attach":
		return line, opencodeAttached
	case slices.Contains([]string{"", "run", "serve", "web", "acp", "github", "pr"}, command):
		return line, opencodeOther
	}
	return line, opencodePlain
}

func prepareOpencode(argv []string, h Host) (Launch, error) {
	l, err := start(argv, h, nil)
	if err != nil {
		return l, err
	}
	line, mode := opencodeLine(argv[1:])
	if mode == opencodePlain {
		l.Plain = true
		return l, nil
	}
	l.opencodeSession(line)
	none := "no source reports the harness sessions of this launch"
	switch mode {
	case opencodeTUI, opencodeAttached:
		none = l.injectOpencodeTerminal(line, mode, h)
	case opencodeOnce:
		none = l.injectOpencodeRun(line, h)
	case opencodeOther:
		none = "this command serves several OpenCode clients, or has an interface without plugins; wrap `opencode`, `opencode run` or `opencode attach`"
	}
	if h.Guards {
		l.Unguarded = l.guardOpencode(line, mode, h)
		l.Guards = l.Unguarded == ""
	}
	l.HookAtPrompt = l.Hooks
	read := l.opencodeReads()
	lost := slices.DeleteFunc(opencodeSources(), func(name string) bool { return slices.Contains(read, name) })
	l.lackSources("opencode", none, lost, read...)
	l.lackOnce("in this launch, a payload goes into the system prompt, not after the user's prompt", "placement.pre_frame_trailing")
	return l, nil
}

// opencodeSources returns the names of the sources that OpenCode itself provides, as in
// the list telemetry_sources of manifests/opencode.json.
func opencodeSources() []string { return []string{"hooks", "plugin", "log", "store", "bus", "stream"} }

// opencodeReads lists the sources that this launch reads.
func (l *Launch) opencodeReads() []string {
	var read []string
	if l.Hooks {
		read = append(read, "hooks")
	}
	if l.Plugin {
		read = append(read, "plugin")
	}
	for _, s := range l.Sources {
		read = append(read, s.Name)
	}
	return read
}

// opencodeSession reads which session the command line continues.
func (l *Launch) opencodeSession(line commandLine) {
	switch {
	case line.has("--fork"):
		l.Cause = "fork"
	case line.has("--session"):
		l.Cause = "resume"
		if id := line.last("--session"); opencodeSession(id) {
			l.SessionID = id
		}
	case line.has("--continue"):
		l.Cause = "resume"
	}
}

// injectOpencodeTerminal injects the plugin of the terminal interface and, unless the
// server is already running, the URL of our instructions. reason is why the launch reads
// no further sources.
func (l *Launch) injectOpencodeTerminal(line commandLine, mode opencodeMode, h Host) (reason string) {
	if reason := opencodeInjectable(line, h); reason != "" {
		return reason
	}
	if opencodePure(line, h) {
		return "--pure turns plugins off, so no source reports the harness sessions of this launch"
	}
	if !h.Terminal {
		return "the terminal interface was started without a terminal"
	}
	if reason := l.opencodePlugin(mode == opencodeAttached, h); reason != "" {
		return reason
	}
	asked := "the server is already running, so it does not read our instructions"
	if mode == opencodeTUI {
		_, asked = l.opencodeInstructions(h)
		l.Hooks = asked == ""
		l.Resets = l.Hooks
	}
	cause, reads := l.Cause, l.Hooks
	l.Requests = func() telemetry.Requests { return opencode.Terminal(cause, reads) }
	if !reads {
		l.lackSources("opencode", asked, []string{"hooks"}, "plugin")
	}
	return "only the plugin in the terminal interface reports the sessions of this launch"
}

// injectOpencodeRun injects the URL of our instructions into an `opencode run`.
// The launch's turn is read from OpenCode's store, which also contains the sessions of
// other launches. The log shows which session belongs to this launch. Without the log,
// the session is known only if no other session in the store got a prompt during the
// launch. reason is why the launch reads no further sources.
func (l *Launch) injectOpencodeRun(line commandLine, h Host) (reason string) {
	if reason := opencodeInjectable(line, h); reason != "" {
		return reason
	}
	file, reason := l.opencodeInstructions(h)
	if l.Hooks = reason == ""; !l.Hooks {
		return reason
	}
	cause := l.Cause
	l.Requests = func() telemetry.Requests { return opencode.OneTurn(cause) }
	data := h.home("XDG_DATA_HOME", filepath.Join(".local", "share"))
	if data == "" {
		return l.opencodeUnread("HOME is not set")
	}
	dir := filepath.Join(data, "opencode")
	if file != "" && opencodeLogs(line, h) {
		l.Sources = append(l.Sources, Source{Name: "log", Path: filepath.Join(dir, "log", "opencode.log"),
			Decoder: func() telemetry.Decoder { return opencode.Log(file, cause) }})
	}
	store := filepath.Join(dir, "opencode.db")
	if other := h.getenv("OPENCODE_DB"); filepath.IsAbs(other) {
		store = other
	} else if other != "" {
		return l.opencodeUnread("OPENCODE_DB is not an absolute path")
	}
	windows := Windows{}
	if !line.has("--dir") { // the settings of the folder in --dir are not read here
		windows.Of = opencodeWindows(Source{}, h).Of
	}
	l.Sources = append(l.Sources, Source{Name: "store", Decoder: opencode.StoreOfRun, Form: Rows, Query: opencodeEvents, Prompted: opencodePrompted, Path: store, Windows: windows})
	return "`opencode run` loads no plugin of the terminal interface"
}

// opencodeUnread records the capabilities that a launch lacks if it does not read the
// store. Only the log then shows the session: OpenCode's requests for our instructions
// do not name it.
func (l *Launch) opencodeUnread(reason string) string {
	l.lackOnce(reason, "context.compacted", "frame.ended", "frame.ending")
	if !slices.Contains(l.opencodeReads(), "log") {
		l.lackOnce(reason, "session_identity.harness_session_id")
	}
	return reason
}

// opencodeLogs reports whether the log has the lines that show a session.
func opencodeLogs(line commandLine, h Host) bool {
	level := h.getenv("OPENCODE_LOG_LEVEL")
	if line.has("--log-level") {
		level = line.last("--log-level")
	}
	switch strings.ToUpper(level) {
	case "WARN", "ERROR":
		return false
	}
	return true
}

// opencodeInjectable returns why nothing can be injected.
func opencodeInjectable(line commandLine, h Host) (reason string) {
	switch {
	case h.Hooks == Never:
		return "`--hooks never` or `--no-hooks` turns hooks off"
	case h.Socket == "" || len(h.Key) == 0:
		return "the session has no socket for the plugin, or no key for the socket"
	case !utf8.ValidString(h.RunDir) || !utf8.ValidString(h.Socket) || !utf8.ValidString(h.Key):
		return "the path of the session's folder or socket is not UTF-8 and cannot be written into a configuration"
	}
	return ""
}

// opencodePure reports whether OpenCode loads no plugin.
func opencodePure(line commandLine, h Host) bool {
	pure := h.getenv("OPENCODE_PURE")
	return line.has("--pure") || pure != "" && pure != "0"
}

// opencodeInstructions adds our URL to the instructions, or returns the reason why it
// cannot. file is the path of our configuration file; empty if the URL was added to
// OPENCODE_CONFIG_CONTENT instead.
func (l *Launch) opencodeInstructions(h Host) (file, reason string) {
	switch {
	case h.Instructions == "":
		return "", "the port from which OpenCode would read our instructions is not open: opening it failed, or this system does not show which process a connection belongs to, so other programs could read the instructions"
	case h.proxied("127.0.0.1"):
		return "", "OpenCode would read http://127.0.0.1 through the proxy of HTTP_PROXY; add 127.0.0.1 to NO_PROXY"
	}
	if h.getenv(opencodeConfig) == "" {
		file = h.file("opencode", ".json")
		l.Files = append(l.Files, File{file, encode(map[string]any{"$schema": "https://opencode.ai/config.json", "instructions": []string{h.Instructions}})})
		l.setenv(opencodeConfig, file)
		return file, ""
	}
	content, ok := settings{}, true
	if text := h.getenv(opencodeContent); text != "" {
		content, ok = parseSettings([]byte(text))
	}
	var list []string
	if raw, has := content["instructions"]; has && json.Unmarshal(raw, &list) != nil {
		ok = false
	}
	if !ok {
		return "", opencodeConfig + " is set, and " + opencodeContent + " is not JSON to which our instructions can be added"
	}
	content["instructions"] = encode(append(list, h.Instructions))
	l.setenv(opencodeContent, string(encode(content)))
	return "", ""
}

// opencodePlugin adds our plugin to the settings of the terminal interface.
func (l *Launch) opencodePlugin(attached bool, h Host) (reason string) {
	base, plugins := settings{}, []json.RawMessage{}
	if theirs := h.getenv(opencodeSettings); theirs != "" {
		data, _ := h.read(h.abs(theirs))
		var ok bool
		if base, ok = parseSettings(data); !ok {
			return theirs + ", named by " + opencodeSettings + ", is missing, or not JSON to which our plugin can be added"
		}
		if raw, has := base["plugin"]; has && json.Unmarshal(raw, &plugins) != nil || bytes.Contains(base["plugin"], []byte(`"."`)) || bytes.Contains(base["plugin"], []byte(`"./`)) || bytes.Contains(base["plugin"], []byte(`"../`)) {
			return theirs + ", named by " + opencodeSettings + ", cannot be copied: its plugins are not a list, or one of them has a relative path"
		}
	}
	attach := "no"
	if attached {
		attach = "yes"
	}
	plugin, config, meta := h.file("opencode-terminal", ".js"), h.file("opencode-terminal", ".json"), h.file("opencode-plugins", ".json")
	text := opencodeTerminal
	for name, value := range map[string]string{`"SOCKET"`: h.Socket, `"KEY"`: h.Key, `"ATTACHED"`: attach} {
		text = bytes.Replace(text, []byte(name), encode(value), 1)
	}
	base["plugin"] = encode(append(plugins, encode(fileURL(plugin))))
	l.Files = append(l.Files, File{plugin, text}, File{config, encode(base)})
	// OpenCode keeps a file with the time at which it first loaded each plugin. This
	// launch gets a copy of that file, so the user's plugins do not count as new.
	notes := h.getenv(opencodeMeta)
	if notes == "" {
		notes = filepath.Join(h.home("XDG_STATE_HOME", filepath.Join(".local", "state")), "opencode", "plugin-meta.json")
	}
	if data, ok := h.read(notes); ok {
		l.Files = append(l.Files, File{meta, data})
	}
	l.setenv(opencodeSettings, config)
	l.setenv(opencodeMeta, meta)
	l.Plugin = true
	return ""
}

// fileURL is the URL of a file.
func fileURL(path string) string {
	var url strings.Builder
	url.WriteString("file://")
	for _, b := range []byte(path) {
		if alphanumeric(rune(b)) || strings.IndexByte("/-._~", b) >= 0 {
			url.WriteByte(b)
		} else {
			fmt.Fprintf(&url, "%%%02X", b)
		}
	}
	return url.String()
}

// proxied reports whether HTTP_PROXY and NO_PROXY make programs send their requests for
// a host to a proxy.
func (h Host) proxied(host string) bool {
	either := func(name string) string { return h.getenv(name) + h.getenv(strings.ToLower(name)) }
	if either("HTTP_PROXY") == "" {
		return false
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		for entry := range strings.SplitSeq(h.getenv(name), ",") {
			if entry = strings.TrimSpace(entry); entry == host || entry == "*" {
				return false
			}
		}
	}
	return true
}
