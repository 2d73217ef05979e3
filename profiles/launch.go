package profiles

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// start returns the basis of every launch: the user's command line, and the
// environment without variables that would mislead the harness.
func start(argv []string, h Host, scrub []string) (Launch, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Launch{}, errors.New("prepare launch: empty command line; name the program to run")
	}
	return Launch{Argv: slices.Clone(argv), Env: environ(h, slices.Concat(scrub, inherited(h.Env)))}, nil
}

// outers has an entry for each harness that sets harmful variables (names) for its
// tools. If the wrapper runs in such a tool, the variables would mislead its launch, or
// let the launch act in the outer session. For example, a nested Claude Code writes no
// transcript, and any program could use the message socket.
//
// If one of marks is set, a launch of any program gets none of names. Only the harness
// sets marks. Some names that are not marks are general: without a harness around the
// wrapper, the user may have set them. Variables that change nothing (GEMINI_CLI,
// OPENCODE) are not removed.
var outers = []struct{ marks, names []string }{
	{[]string{"CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN"}, claudeScrub},
	{[]string{"CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID"}, codexScrub},
}

// inherited returns the names of the variables in env that a harness around the wrapper
// set for its tools.
func inherited(env []string) (names []string) {
	for _, o := range outers {
		if slices.ContainsFunc(o.marks, func(name string) bool { return variable(env, name) != "" }) {
			names = append(names, o.names...)
		}
	}
	return names
}

// export sets l.Export, which describes the telemetry that the harness sends to the
// wrapper, and sets the variables that make the harness send this telemetry.
func (l *Launch) export(x Export, env map[string]string) {
	l.Export = x
	for _, name := range slices.Sorted(maps.Keys(env)) {
		l.setenv(name, env[name])
	}
}

// setenv sets a variable of the launch.
func (l *Launch) setenv(name, value string) {
	l.Env = append(slices.DeleteFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }), name+"="+value)
}

// environ returns the wrapper's environment without the names in scrub, with the
// variables of this session. If the variables of an outer wrapper are set, they
// are replaced, because otherwise the hooks of the inner harness would call the
// outer session.
func environ(h Host, scrub []string) []string {
	var env []string
	for _, kv := range h.Env {
		name, _, _ := strings.Cut(kv, "=")
		if name != "LIFELOOP_SESSION_ID" && name != "LIFELOOP_SOCKET" && !slices.Contains(scrub, name) {
			env = append(env, kv)
		}
	}
	if h.SessionID != "" {
		env = append(env, "LIFELOOP_SESSION_ID="+h.SessionID)
	}
	if h.Socket != "" {
		env = append(env, "LIFELOOP_SOCKET="+h.Socket)
	}
	return env
}

// again reports whether this launch begins a new harness session and is not the
// first launch of the session.
func (h Host) again() bool { return h.Number > 1 && h.Resume == "" }

// file returns the path of a file that only this launch uses.
func (h Host) file(name, extension string) string {
	if h.Number > 1 {
		name += "-" + strconv.Itoa(h.Number)
	}
	return filepath.Join(h.RunDir, name+extension)
}

func (h Host) getenv(name string) string { return variable(h.Env, name) }

// variable returns the value of a variable; empty if it is not set.
func variable(env []string, name string) string {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// read calls ReadFile. Without a ReadFile, it finds no file.
func (h Host) read(path string) ([]byte, bool) {
	if h.ReadFile == nil || path == "" {
		return nil, false
	}
	data, err := h.ReadFile(path)
	return data, err == nil
}

// abs makes a path from the user's command line or environment absolute, as the harness
// does.
func (h Host) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(h.Dir, path)
}

// home returns the folder that the given environment variable names. If that variable is
// not set, the result is filepath.Join($HOME, below). The result is empty if HOME is not
// set either.
func (h Host) home(variable, below string) string {
	if dir := h.getenv(variable); dir != "" {
		return h.abs(dir)
	}
	if dir := h.getenv("HOME"); dir != "" {
		return filepath.Join(dir, below)
	}
	return ""
}

// lack records capabilities that the launch cannot have, and the reason.
func (l *Launch) lack(reason string, capabilities ...string) {
	for _, c := range capabilities {
		l.Weak = append(l.Weak, Weakness{Capability: c, Reason: reason})
	}
}

// observedOnly is the reason why a launch does not read the session store of a harness.
const observedOnly = "only `lifeloop-wrap observe` reads the harness's session store"

// lackSources records that the sources in lost are not read. It also records as missing
// each capability that needs a source, if none of the sources in read provides it.
func (l *Launch) lackSources(adapter, reason string, lost []string, read ...string) {
	for _, source := range lost {
		l.lackOnce(reason, telemetryPrefix+source)
	}
	l.lackOnce(reason, RestsOf(adapter).Without(read...)...)
}

// lackOnce is like lack, but skips capabilities that are already recorded as
// missing.
func (l *Launch) lackOnce(reason string, capabilities ...string) {
	for _, c := range capabilities {
		if !slices.ContainsFunc(l.Weak, func(w Weakness) bool { return w.Capability == c }) {
			l.lack(reason, c)
		}
	}
}
