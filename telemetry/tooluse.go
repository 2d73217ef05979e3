package telemetry

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// A ToolUse is a tool call that is about to run, reported by a hook that can refuse
// it. It holds text of the session for the gate; no signal, fact or log may contain
// it.
type ToolUse struct {
	Tool string // the call's id; empty if the harness names none
	Name string // the harness's name of the tool
	Args *Sized
	Dir  string // the working directory of the call; empty if it is not reported

	// The commands, paths and so on that the call's arguments name.
	Commands []string // command lines for a shell
	Paths    []PathUse
	URLs     []string
	// Opaque is set if the fields above may not show all that the call does: its
	// arguments have an unknown form, or contain a program or input for one that this
	// package cannot read.
	Opaque bool
	// CanAsk says that the hook can make the harness ask its user.
	CanAsk bool
}

// A PathUse is a file or folder that a tool call touches.
type PathUse struct {
	Path string
	Op   string // read, write or delete
}

// A Decision answers a hook that asks whether a tool may run.
type Decision string

const (
	Allow Decision = "allow" // the harness decides as it would without the hook
	Deny  Decision = "deny"
	Ask   Decision = "ask" // the harness asks its user
)

// A Refuser is a Dialect that has a hook which can refuse a tool call.
type Refuser interface {
	// Refuse returns the hook's answer for a denial, or for a question to the
	// user, with its reason.
	Refuse(event string, d Decision, reason string) []byte
}

// readers are the tools that only read the paths in their arguments.
func readers() []string {
	return []string{"read", "glob", "grep", "ls", "notebookread", "lsp", "view_image", "read_file", "read_many_files", "list_directory", "list_dir", "list",
		"search_file_content", "grep_search", "grep_files"}
}

// shells are the tools that run a command.
func shells() []string {
	return []string{"bash", "powershell", "monitor", "shell", "local_shell", "shell_command", "exec", "exec_command", "run_shell_command"}
}

// Use returns the tool call that a hook asks about.
func (in HookInput) Use() *ToolUse {
	u := &ToolUse{Tool: in.tool, Name: in.ToolName, Args: SizedOf(in.toolInput), Dir: in.cwd}
	var args map[string]any
	if len(in.toolInput) > 0 && json.Unmarshal(in.toolInput, &args) != nil {
		u.Opaque = true
		return u
	}
	name := strings.ToLower(in.ToolName)
	if _, is := args["patchText"]; is || name == "apply_patch" || name == "applypatch" || name == "patch" && args["patch"] != nil {
		u.patch(args)
		return u
	}
	op := "write"
	if slices.Contains(readers(), name) {
		op = "read"
	}
	if strings.HasPrefix(name, "mcp__") && reads(name[strings.LastIndex(name, "__")+2:]) {
		op = "read"
	}
	u.arguments(args, op, 0)
	if name == "powershell" || name == "pwsh" || len(u.Commands) > 0 && otherShell(args) { // another language
		u.Commands, u.Opaque = nil, true
	}
	if types(name, args) {
		u.Opaque = true
	}
	if slices.Contains(shells(), name) && len(u.Commands) == 0 {
		u.Opaque = true
	}
	slices.SortFunc(u.Paths, func(a, b PathUse) int { return strings.Compare(a.Path+"\x00"+a.Op, b.Path+"\x00"+b.Op) })
	slices.Sort(u.Commands)
	slices.Sort(u.URLs)
	return u
}

// otherShell reports whether a call names a program for its commands that does not read the
// language of a POSIX shell.
func otherShell(args map[string]any) bool {
	shell, is := args["shell"].(string)
	name := strings.ToLower(shell[strings.LastIndexAny(shell, `/\`)+1:])
	return is && name != "" && !slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh"}, name)
}

// types reports whether a tool sends a text to a program that runs: write_stdin of Codex, and
// process of OpenClaw. What the program does with it is not known. An interrupt is no text.
func types(name string, args map[string]any) bool {
	switch name {
	case "write_stdin":
		chars, is := args["chars"].(string)
		return args["chars"] != nil && !is || strings.Trim(chars, "\x03") != ""
	case "process":
		action, _ := args["action"].(string)
		return slices.Contains([]string{"write", "send-keys", "submit", "paste"}, strings.ToLower(action))
	}
	return false
}

// reads reports whether the name of a tool, such as read_text_file, says that it only
// reads.
func reads(name string) bool {
	verbs := strings.FieldsFunc(name, func(c rune) bool { return c == '_' || c == '-' })
	for _, verb := range []string{"write", "replace", "delete", "remove", "move", "rename", "edit", "create", "update", "set", "put", "patch", "run", "exec", "execute"} {
		if slices.Contains(verbs, verb) {
			return false
		}
	}
	return len(verbs) > 0 && slices.Contains([]string{"read", "get", "list", "search", "find", "view", "show", "stat", "glob", "grep", "directory"}, verbs[0])
}

// arguments adds the commands, paths and addresses that args name, also in nested
// objects and lists.
func (u *ToolUse) arguments(args map[string]any, op string, depth int) {
	for key, v := range args {
		key = strings.ToLower(key)
		if words, is := args["args"].([]any); is && (key == "command" || key == "cmd") {
			if program, is := v.(string); is {
				v = append([]any{program}, words...)
			}
		}
		if _, is := v.(map[string]any); !is || depth == 0 {
			u.argument(key, v, op)
		}
		if depth < maxNesting {
			u.nested(v, op, depth+1)
		}
	}
}

// maxNesting limits how deep arguments are looked at.
const maxNesting = 8

func (u *ToolUse) nested(v any, op string, depth int) {
	switch v := v.(type) {
	case map[string]any:
		u.arguments(v, op, depth)
	case []any:
		for _, item := range v {
			if object, is := item.(map[string]any); is {
				u.arguments(object, op, depth)
			}
		}
	}
}

// argument adds the command, path or address that one argument names.
func (u *ToolUse) argument(key string, v any, op string) {
	switch key {
	case "command", "cmd":
		if words, ok := v.([]any); ok { // a program with its arguments
			v = quoted(words)
		}
		u.Commands = u.text(u.Commands, v)
	case "code", "script":
		u.program(v)
	case "file_path", "path", "filepath", "notebook_path", "absolute_path", "paths", "include", "file", "filename":
		for _, p := range u.text(nil, v) {
			u.Paths = append(u.Paths, PathUse{p, op})
		}
	case "glob", "include_pattern": // the files that are searched
		for _, p := range u.text(nil, v) {
			if !strings.HasPrefix(p, "!") {
				u.Paths = append(u.Paths, PathUse{p, "read"})
			}
		}
	case "source", "destination", "target", "uri":
		u.place(key, v, op)
	case "dir_path", "directory":
		if slices.Contains(shells(), strings.ToLower(u.Name)) {
			key = "workdir"
		}
		for _, p := range u.text(nil, v) {
			if key == "workdir" {
				u.Dir = p
			} else {
				u.Paths = append(u.Paths, PathUse{p, op})
			}
		}
	case "workdir", "cwd":
		for _, p := range u.text(nil, v) {
			u.Dir = p
		}
	case "url", "urls":
		u.URLs = u.text(u.URLs, v)
	}
}

// program adds an argument called code or script: a program in an unknown language. A
// single word may be something else, such as a country's code or a script's name. As a
// program it is at most the name of a shell command, so it is added as one.
func (u *ToolUse) program(v any) {
	for _, text := range u.text(nil, v) {
		if strings.ContainsFunc(text, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_", r))
		}) {
			u.Opaque = true
		} else {
			u.Commands = append(u.Commands, text)
		}
	}
}

// place adds a path or an address. Other values of these arguments, such as a text, are
// left out.
func (u *ToolUse) place(key string, v any, op string) {
	text, is := v.(string)
	file, local := strings.CutPrefix(text, "file://")
	switch {
	case !is || text == "" || strings.Contains(text, "\n"):
	case !local && strings.Contains(text, "://"):
		u.URLs = append(u.URLs, text)
	case key == "source" && op == "write" && strings.Contains(strings.ToLower(u.Name), "move"):
		u.Paths = append(u.Paths, PathUse{file, "delete"})
	case key == "source":
		u.Paths = append(u.Paths, PathUse{file, "read"})
	default:
		u.Paths = append(u.Paths, PathUse{file, op})
	}
}

// text appends a string, or the strings of a list. For any other value it sets
// Opaque.
func (u *ToolUse) text(to []string, v any) []string {
	switch v := v.(type) {
	case nil:
		return to
	case string:
		if v == "" {
			return to
		}
		return append(to, v)
	case []any:
		for _, item := range v {
			to = u.text(to, item)
		}
		return to
	}
	u.Opaque = true
	return to
}

// quoted joins the words of a command into a command line for a shell.
func quoted(words []any) any {
	var line []string
	for _, w := range words {
		text, ok := w.(string)
		if !ok {
			return false // a value of another type, for which the caller sets Opaque
		}
		line = append(line, "'"+strings.ReplaceAll(text, "'", `'\''`)+"'")
	}
	return strings.Join(line, " ")
}

// patch adds the files of a patch in the format of Codex and OpenCode.
func (u *ToolUse) patch(args map[string]any) {
	var texts []string
	for _, key := range []string{"command", "input", "patch", "patchText"} {
		texts = u.text(texts, args[key])
	}
	for _, text := range texts {
		files, whole := PatchFiles(text)
		u.Paths, u.Opaque = append(u.Paths, files...), u.Opaque || !whole
	}
	u.Opaque = u.Opaque || len(u.Paths) == 0
}

// PatchFiles returns the files that a patch in the format of Codex and OpenCode changes.
// The parsers differ: some need a blank after the colon, some leave out blanks before the
// line. Each line that one of them accepts counts. The result is whole if there are such
// lines, and no other line that looks like one.
func PatchFiles(text string) (files []PathUse, whole bool) {
	whole = true
	for line := range strings.Lines(text) {
		trimmed := trim(line)
		head, file, is := strings.Cut(trimmed, ":")
		op := map[string]string{"*** Add File": "write", "*** Update File": "write", "*** Move to": "write", "*** Delete File": "delete"}[head]
		switch file = trim(file); {
		case is && op != "" && file != "":
			files = append(files, PathUse{file, op})
		case strings.HasPrefix(line, "***") && !slices.Contains([]string{"*** Begin Patch", "*** End Patch", "*** End of File"}, trimmed):
			whole = false
		}
	}
	return files, whole && len(files) > 0
}

// trim leaves out the white space of Go and of JavaScript, which has the byte order mark.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
}

// RefuseTool returns a refusal in the form that Claude Code and Codex share.
func RefuseTool(event string, d Decision, reason string) []byte {
	type output struct {
		Event    string   `json:"hookEventName"`
		Decision Decision `json:"permissionDecision"`
		Reason   string   `json:"permissionDecisionReason"`
	}
	return render(reason, struct {
		Output output `json:"hookSpecificOutput"`
	}{output{event, d, reason}})
}

// RefusePlain returns the refusal {"decision":"deny","reason":…}.
func RefusePlain(reason string) []byte {
	return render(reason, struct {
		Decision Decision `json:"decision"`
		Reason   string   `json:"reason"`
	}{Deny, reason})
}

// IsSettings reports whether a harness reads its hooks or permissions from this
// path. A folder of such files counts too, because files can be copied to it.
func IsSettings(path string) bool {
	path = "/" + path
	for _, part := range []string{"/.claude/settings", "/.gemini/extensions/", "/.opencode/plugin", "/.config/opencode/plugin"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	for _, end := range []string{"/.claude", "/.codex", "/.gemini", "/.gemini/extensions", "/.claude.json", "/.codex/config.toml", "/.codex/hooks.json", "/.gemini/settings.json",
		"/.opencode", "/.config/opencode", "/opencode.json", "/opencode.jsonc", "/.openclaw", "/.openclaw/openclaw.json"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// HoldsLogin reports whether a harness stores the user's login at this path.
func HoldsLogin(path string) bool {
	path = "/" + path
	for _, end := range []string{"/.claude/.credentials.json", "/.codex/auth.json", "/.gemini/oauth_creds.json", "/.local/share/opencode/auth.json"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}
