package profiles

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Installation says which hooks of ours belong into a harness's own files
// for people who start it themselves. It is what `host apply` lays down.
type Installation struct {
	// Path is the JSON file with the member "hooks", or a file of our own,
	// absolute.
	Path string
	// Shared says that the file belongs to a project, and others may read it.
	Shared bool
	// Hooks are wanted, one for an event, in the order of writing.
	Hooks []InstalledHook
	// Whole is the text of a file of our own, into which nothing is merged;
	// empty where there are hooks.
	Whole string
	// Mark is what such a file begins with, also when somebody edited it since.
	Mark string
	// Ours recognises by its shape, whatever version wrote it, a command of
	// ours, or the text of a whole file.
	Ours func(text string) bool
	// Trust is nil where the harness runs what stands in its files unasked.
	Trust *Trust
}

// An InstalledHook is one command hook.
type InstalledHook struct {
	Event   string
	Command string
	Timeout int // in the harness's own unit
}

// Trust says how a harness records that its user agreed to a hook.
type Trust struct {
	Path   string   // a TOML file, absolute
	Table  []string // the table that holds a table for each hook
	Member string   // of a hook's table, a string
	Prefix string   // what the names of all tables for hooks of Installation.Path begin with
	// Key names the table of the hook that stands at this place of the JSON
	// file, empty when the harness knows no such event.
	Key func(event string, group, handler int) string
	// Value is what Member must hold for that hook.
	Value func(h InstalledHook) string
}

var errNoHome = errors.New("HOME is not set, so nobody can tell where the harness keeps its settings")

// installation is what all harnesses have in common; hooks has no commands yet.
func installation(adapter, path string, project bool, hooks []InstalledHook, h Host) (Installation, error) {
	if !utf8.ValidString(h.Exe) || !utf8.ValidString(path) {
		return Installation{}, errors.New("a path that is not UTF-8 cannot be written into settings")
	}
	for i := range hooks {
		hooks[i].Command = quote(h.Exe) + " hook --host " + adapter + " " + hooks[i].Event
	}
	return Installation{Path: path, Shared: project, Hooks: hooks, Ours: func(command string) bool {
		exe, ok := hostCommand(adapter, command)
		return ok && (strings.HasPrefix(filepath.Base(exe), "lifeloop-wrap") || filepath.Base(exe) == filepath.Base(h.Exe))
	}}, nil
}

// hostCommand takes a shell line apart that is `'EXE' hook --host ADAPTER
// [FLAG…] EVENT` and nothing else. A line that somebody made longer, by a pipe
// say, is theirs.
func hostCommand(adapter, command string) (exe string, ok bool) {
	exe, rest, ok := unquote(command)
	if !ok {
		return "", false
	}
	words := strings.Fields(rest)
	for _, w := range words {
		if name, tail := word(strings.NewReplacer("-", "_", "=", "_", ".", "_").Replace(w)); name == "" || tail != "" {
			return "", false
		}
	}
	return exe, len(words) >= 4 && rest[0] == ' ' && slices.Equal(words[:3], []string{"hook", "--host", adapter})
}

// unquote is the inverse of quote at the beginning of s.
func unquote(s string) (text, rest string, ok bool) {
	for {
		body, found := strings.CutPrefix(s, "'")
		if !found {
			return "", "", false
		}
		part, after, closed := strings.Cut(body, "'")
		if !closed {
			return "", "", false
		}
		text += part
		if s, found = strings.CutPrefix(after, `\'`); !found {
			return text, after, text != ""
		}
		text += "'"
	}
}

// real is a path without symbolic links, where the host can tell.
func (h Host) real(path string) string {
	if h.Real == nil {
		return path
	}
	return h.Real(path)
}

// repository is the nearest folder above Dir, or Dir itself, that holds a git
// repository or a working tree of one; Dir where there is none.
func (h Host) repository() string {
	for dir := h.Dir; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		_, tree := h.read(git) // a file, in a working tree of its own
		_, whole := h.read(filepath.Join(git, "HEAD"))
		if tree || whole {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return h.Dir
		}
	}
}
