package profiles

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// start is the launch that every profile begins with: the user's command line,
// and the environment without what would mislead the harness.
func start(argv []string, h Host, scrub []string) (Launch, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Launch{}, errors.New("prepare launch: the command line is empty; name the program to run")
	}
	return Launch{Argv: slices.Clone(argv), Env: environ(h, scrub)}, nil
}

// export notes what is exported to us, and sets the variables that make it so.
func (l *Launch) export(x Export, env map[string]string) {
	l.Export = x
	for _, name := range slices.Sorted(maps.Keys(env)) {
		l.Env = slices.DeleteFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		l.Env = append(l.Env, name+"="+env[name])
	}
}

// environ copies the wrapper's environment without the names in scrub, and
// tells the harness's children where this session's door is. A wrapper around
// this one has told its own: those are replaced, or the inner harness's hooks
// would call the outer session.
func environ(h Host, scrub []string) []string {
	var env []string
	for _, kv := range h.Env {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "LIFELOOP_SESSION_ID", name == "LIFELOOP_SOCKET", slices.Contains(scrub, name):
			continue
		}
		env = append(env, kv)
	}
	if h.SessionID != "" {
		env = append(env, "LIFELOOP_SESSION_ID="+h.SessionID)
	}
	if h.Socket != "" {
		env = append(env, "LIFELOOP_SOCKET="+h.Socket)
	}
	return env
}

// again says that this is not the first launch of the session, and not one
// that goes on with a harness session: what was begun before is begun anew.
func (h Host) again() bool { return h.Number > 1 && h.Resume == "" }

// file is the path of a file of this launch alone.
func (h Host) file(name, extension string) string {
	if h.Number > 1 {
		name += "-" + strconv.Itoa(h.Number)
	}
	return filepath.Join(h.RunDir, name+extension)
}

func (h Host) getenv(name string) string {
	for _, kv := range h.Env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// read is ReadFile without its absence: no reader, nothing there.
func (h Host) read(path string) ([]byte, bool) {
	if h.ReadFile == nil || path == "" {
		return nil, false
	}
	data, err := h.ReadFile(path)
	return data, err == nil
}

// abs resolves a path of the user's command line as the harness would.
func (h Host) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(h.Dir, path)
}

// home is a harness's configuration folder: what the variable says, or the
// folder below HOME. Empty when neither is known.
func (h Host) home(variable, below string) string {
	if dir := h.getenv(variable); dir != "" {
		return h.abs(dir)
	}
	if dir := h.getenv("HOME"); dir != "" {
		return filepath.Join(dir, below)
	}
	return ""
}

// hookCapabilities are what a harness with hooks cannot do without them.
var hookCapabilities = []string{
	"telemetry.hooks",
	"frame.opening",
	"frame.ending",
	"placement.pre_session",
	"placement.pre_frame_trailing",
	"placement.tool_result",
	"approval_surface",
}

// lack records capabilities that the launch cannot have, for one reason.
func (l *Launch) lack(reason string, capabilities ...string) {
	for _, c := range capabilities {
		l.Weak = append(l.Weak, Weakness{Capability: c, Reason: reason})
	}
}

// withoutHooks starts a harness that has hooks, but none for this launch, and
// tells what lives on them.
func withoutHooks(argv []string, h Host, reason string, capabilities ...string) (Launch, error) {
	l, err := start(argv, h, nil)
	l.lack(reason, capabilities...)
	return l, err
}
