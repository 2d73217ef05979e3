package profiles

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Installation is what `host apply` adds to a harness's own files, for runs
// without the wrapper.
type Installation struct {
	// Path is the absolute path of a JSON file with the member "hooks", or of a file
	// that contains only Whole.
	Path string
	// Shared is true if the file belongs to a project and others may read it.
	Shared bool
	// Hooks are the hooks to add, at most one per event, in the order of writing.
	Hooks []InstalledHook
	// Whole is the text of a file that this program writes as a whole; empty if Hooks
	// are added to a file.
	Whole string
	// Mark is the beginning of Whole, by which the file is recognized even if the user
	// has edited the rest; empty if Whole is.
	Mark string
	// Ours reports whether text is a command, or a whole file, that some version
	// of this program wrote.
	Ours func(text string) bool
	// Trust is nil if the harness runs the hooks in its files without asking the user.
	Trust *Trust
}

// An InstalledHook is one command hook.
type InstalledHook struct {
	Event   string
	Command string
	Timeout int // in the unit that the harness uses
}

// Trust describes how a harness records the user's consent to a hook.
type Trust struct {
	Path   string   // a TOML file, absolute
	Table  []string // the path of the table in the file; it has a subtable for each hook
	Member string   // the key, in a hook's subtable, of the string that records the consent
	Prefix string   // the beginning of the subtables' names for hooks in Installation.Path
	// Key returns the name of the subtable for the hook at this place of the JSON file,
	// or "" if the harness has no such event.
	Key func(event string, group, handler int) string
	// Value returns the value of Member for the hook h.
	Value func(h InstalledHook) string
}

var errNoHome = errors.New("cannot locate the harness's settings: HOME is not set")

// renewalSeconds is how much longer an installed hook may take if it runs the
// programs of a renewal profile.
const renewalSeconds = 30

// installation returns an Installation that adds command hooks to a JSON file. It sets
// each hook's Command, and leaves Trust nil. second is one second in the unit that the
// harness uses for timeouts.
func installation(adapter, path string, project bool, hooks []InstalledHook, second int, h Host) (Installation, error) {
	if !utf8.ValidString(h.Exe) || !utf8.ValidString(path) {
		return Installation{}, errors.New("the path of this program or of the harness's settings is not UTF-8, so no hook can be written into them")
	}
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(hook InstalledHook) bool { return slices.Contains(silentAlone, hook.Event) })
	flag := ""
	if h.Profile != "" {
		flag = "--profile " + h.Profile + " "
	}
	for i := range hooks {
		hooks[i].Command = quote(h.Exe) + " hook --host " + adapter + " " + flag + hooks[i].Event
		// Each hook that delays the exit of the harness has a timeout below 5 s, and gets
		// no more time.
		if h.Profile != "" && hooks[i].Timeout >= 5*second {
			hooks[i].Timeout += renewalSeconds * second
		}
	}
	return Installation{Path: path, Shared: project, Hooks: hooks, Ours: func(command string) bool {
		exe, ok := hostCommand(adapter, command)
		return ok && (strings.HasPrefix(filepath.Base(exe), "lifeloop-wrap") || filepath.Base(exe) == filepath.Base(h.Exe))
	}}, nil
}

// silentAlone are the hooks that report no lifecycle event. Without the wrapper they have
// no use: no process stores the activity that they report, and none holds a payload that
// could be added to a tool's result.
var silentAlone = []string{"PostToolUse", "PermissionRequest", "Notification"}

// hostCommand parses a shell line of the form `'EXE' hook --host ADAPTER
// [FLAG…] EVENT`. It rejects a line that the user extended, for example by a
// pipe.
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

// unquote parses a word in the form that the function quote returns, at the beginning of
// s. It returns the word without the quotes, and the rest of s. ok is false if there is
// no such word, or if the word is empty.
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

// repository returns Dir or the nearest folder above it with a git repository or
// working tree. Without one it returns Dir.
func (h Host) repository() string {
	for dir := h.Dir; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		_, tree := h.read(git) // in an additional working tree, .git is a file
		_, whole := h.read(filepath.Join(git, "HEAD"))
		if tree || whole {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return h.Dir
		}
	}
}
