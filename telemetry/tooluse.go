package telemetry

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// A ToolUse is a tool call that is about to run, reported by a hook that can refuse
// the call. A ToolUse holds text of the session, which the gate (see package gate) needs
// to decide about the call. No signal, no log and no fact (see kernel.Fact) may contain
// this text.
type ToolUse struct {
	Tool string // the call's id; empty if the harness names none
	Name string // the harness's name of the tool
	Args *Sized
	Dir  string // the working directory of the call; empty if it is not reported

	// The commands, paths and so on that the call's arguments name.
	Commands []string // command lines for a shell
	Paths    []PathUse
	URLs     []string
	// Opaque is set if the call can do something that the fields above do not show: its
	// arguments have an unknown form, contain a program that this package cannot read,
	// name two different working directories, or are input for a running program.
	Opaque bool
	// CanAsk says that the hook can make the harness ask its user.
	CanAsk bool

	moved bool // Dir was set by an argument of the call
}

// A PathUse is a file or folder that a tool call touches.
type PathUse struct {
	Path string
	Op   string // read, write, delete or match; for match, Path is a pattern, and the tool reads the files that match it
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
	// Refuse returns the hook's answer that denies the tool call or makes the harness
	// ask its user, as d says. The answer contains the reason.
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
	if name == "apply_patch" || name == "applypatch" || name == "patch" && (args["patch"] != nil || args["patchText"] != nil) {
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

// otherShell reports whether the argument "shell" says that a program other than a POSIX
// shell runs the commands of the call.
func otherShell(args map[string]any) bool {
	shell, is := args["shell"].(string)
	name := strings.ToLower(shell[strings.LastIndexAny(shell, `/\`)+1:])
	return is && name != "" && !slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh"}, name)
}

// types reports whether a call sends text to a running program. The tools "write_stdin"
// of Codex and "process" of OpenClaw can do this. The effect of the text is not known. An
// interrupt (^C) is not text.
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
	for _, verb := range []string{"write", "replace", "delete", "remove", "move", "rename", "edit", "create", "update", "set", "put", "patch", "run", "exec", "execute",
		"rm", "rmdir", "del", "unlink", "clear", "drop", "truncate", "purge", "erase", "destroy", "wipe", "reset", "mv", "cp", "mkdir", "touch", "append", "insert", "save",
		"overwrite", "upload", "modify", "restore", "revert", "add", "store", "init", "prune"} {
		if slices.Contains(verbs, verb) {
			return false
		}
	}
	return len(verbs) > 0 && slices.Contains([]string{"read", "get", "list", "search", "find", "view", "show", "stat", "glob", "grep", "directory", "query"}, verbs[0])
}

// arguments adds the commands, paths and addresses that args name, also in nested
// objects and lists.
func (u *ToolUse) arguments(args map[string]any, op string, depth int) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		key, v := strings.ToLower(name), args[name]
		words, listed := args["args"].([]any)
		program, _ := cmp.Or(args["command"], args["cmd"]).(string)
		switch {
		case !listed || program == "":
		case key == "args": // the case below adds these words together with the program
			continue
		case key == "command" || key == "cmd":
			v = append([]any{v}, words...)
		}
		if _, is := v.(map[string]any); !is || depth == 0 {
			u.argument(key, v, op)
		}
		u.nested(v, op, depth+1)
	}
}

// maxNesting is the largest depth to which nested arguments are read.
const maxNesting = 8

func (u *ToolUse) nested(v any, op string, depth int) {
	switch v := v.(type) {
	case map[string]any:
		if depth > maxNesting {
			u.Opaque = true
			return
		}
		u.arguments(v, op, depth)
	case []any:
		for _, item := range v {
			u.nested(item, op, depth)
		}
	}
}

// argument adds the command, path or address that one argument names.
func (u *ToolUse) argument(key string, v any, op string) {
	switch key {
	case "command", "cmd", "cmdline", "commandline", "command_line", "shell_command", "shellcommand", "bash", "argv":
		if words, ok := v.([]any); ok { // a program with its arguments
			v = quoted(words)
		}
		u.Commands = u.text(u.Commands, v)
	case "commands":
		u.lines(v)
	case "code", "script":
		u.program(v)
	case "patchtext": // the patch of a tool that is not listed in the method Use
		for _, text := range u.text(nil, v) {
			files, _ := PatchFiles(text)
			u.Paths = append(u.Paths, files...)
		}
	case "file_path", "path", "filepath", "notebook_path", "absolute_path", "paths", "include", "file", "filename":
		if op == "read" && (key == "include" || strings.EqualFold(u.Name, "read_many_files")) {
			op = "match"
		}
		u.paths(u.text(nil, v), op)
	case "glob", "include_pattern": // the files that are searched
		u.paths(u.text(nil, v), "match")
	case "source", "destination", "target", "uri", "from", "to":
		for _, text := range u.text(nil, v) {
			u.place(key, text, op)
		}
	case "dir_path", "directory":
		if slices.Contains(shells(), strings.ToLower(u.Name)) {
			u.folder(v)
		} else {
			u.paths(u.text(nil, v), op)
		}
	case "workdir", "cwd", "working_directory", "working_dir":
		u.folder(v)
	case "url", "urls":
		for _, text := range u.text(nil, v) {
			u.Address(text, "read")
		}
	default:
		if !u.native() {
			u.value(key, v, op)
		}
	}
}

func (u *ToolUse) paths(list []string, op string) {
	for _, p := range list {
		u.Paths = append(u.Paths, PathUse{p, op})
	}
}

// lines adds command lines. Each may be a list: a program with its arguments.
func (u *ToolUse) lines(v any) {
	list, is := v.([]any)
	if !is {
		list = []any{v}
	}
	for _, line := range list {
		if words, is := line.([]any); is {
			line = quoted(words)
		}
		if _, is := line.(map[string]any); !is { // the method nested reads the members of an object
			u.Commands = u.text(u.Commands, line)
		}
	}
}

// folder sets the working directory of the call. If the call names two different
// directories, folder sets Opaque, because it is not known which part of the call runs
// in which directory.
func (u *ToolUse) folder(v any) {
	for _, p := range u.text(nil, v) {
		u.Opaque = u.Opaque || u.moved && p != u.Dir
		u.Dir, u.moved = p, true
	}
}

// Address adds an address. For the URL of a local file it adds the file's path instead.
func (u *ToolUse) Address(text, op string) {
	scheme, rest, is := strings.Cut(text, ":")
	if !is || !strings.EqualFold(strings.TrimSpace(scheme), "file") {
		u.URLs = append(u.URLs, text)
		return
	}
	if host, is := strings.CutPrefix(rest, "//"); is {
		_, file, _ := strings.Cut(host, "/")
		rest = "/" + file
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		u.Paths, rest = append(u.Paths, PathUse{rest, op}), rest[:end]
	}
	if file, err := url.PathUnescape(rest); err != nil {
		u.Opaque = true
	} else {
		u.Paths = append(u.Paths, PathUse{file, op})
	}
}

// program reads an argument called code or script. A text that is not a single word can
// be a program in an unknown language, so program sets Opaque. A single word can be the
// name of a command, so program adds it as a command line. It cannot be a longer program,
// but it can be something else, such as a country's code or a script's name.
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

// place adds the path or address in an argument such as source, target or uri. It ignores
// a value of several lines. It also ignores an argument called "from" or "to" if the tool
// is native, or if the value has an @, such as an email address.
func (u *ToolUse) place(key, text, op string) {
	switch name := strings.ToLower(u.Name); {
	case strings.Contains(text, "\n"), (key == "from" || key == "to") && (strings.Contains(text, "@") || u.native()):
		return
	case key != "source" && key != "from" || op != "write":
	case strings.Contains(name, "move") || strings.Contains(name, "rename"):
		op = "delete"
	default:
		op = "read"
	}
	if strings.Contains(text, "://") {
		u.Address(text, op)
	} else {
		u.Paths = append(u.Paths, PathUse{text, op})
	}
}

// native reports whether the tool is built into one of the known harnesses, so that the
// meaning of its arguments is known.
func (u *ToolUse) native() bool {
	name := strings.ToLower(u.Name)
	return slices.Contains(readers(), name) || slices.Contains(shells(), name) || u.Literal() || slices.Contains([]string{
		"task", "agent", "todowrite", "todoread", "webfetch", "websearch", "bashoutput", "killshell", "killbash", "taskoutput", "taskstop", "taskcreate", "taskupdate", "taskget",
		"tasklist", "askuserquestion", "exitplanmode", "enterplanmode", "skill", "slashcommand", "toolsearch", "sendmessage", "repl", "structuredoutput", "listmcpresourcestool", "readmcpresourcetool", "croncreate", "crondelete", "cronlist", // Claude Code
		"update_plan", "write_stdin", "web_search", "request_user_input", "spawn_agent", "send_input", "wait", "wait_agent", "close_agent", "list_mcp_resources", "read_mcp_resource", // Codex
		"google_web_search", "web_fetch", "save_memory", "write_todos", "activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode", "delegate_to_agent", "complete_task", // Gemini CLI
		"codesearch", "question", "plan_enter", "plan_exit", // OpenCode
		"process", "message", "cron", "gateway", "browser", "canvas", "nodes", "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status",
		"memory_search", "agents_list", "tts", // OpenClaw
	}, name)
}

// Literal reports whether the tool is built into one of the known harnesses and takes its
// paths as they are written, not as patterns.
func (u *ToolUse) Literal() bool {
	return slices.Contains([]string{"read", "write", "edit", "multiedit", "notebookread", "notebookedit", "view_image", "read_file", "write_file", "replace", "apply_patch", "applypatch"},
		strings.ToLower(u.Name))
}

// value adds a path or an address that an argument of an unknown tool names. A value is
// a path if the argument's name says so. A value without a space or tab is also a path if
// the value begins with "/", "~/" or a dot, or contains "/.".
func (u *ToolUse) value(key string, v any, op string) {
	if list, is := v.([]any); is {
		for _, item := range list {
			u.value(key, item, op)
		}
	}
	text, is := v.(string)
	switch {
	case !is || text == "" || text == "/" && !namesPath(key) || strings.Contains(text, "\n") || prose(key):
	case strings.Contains(text, "://"):
		if !strings.ContainsAny(text, " \t") {
			u.Address(text, op)
		}
	case namesPath(key),
		!strings.ContainsAny(text, " \t") && (strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~/") || strings.HasPrefix(text, ".") || strings.Contains(text, "/.")):
		u.Paths = append(u.Paths, PathUse{text, op})
	}
}

// prose reports whether an argument of this name contains no path that the tool touches.
// Such an argument is a text for people, the content of a file, a name, an address within
// a site or page, or a pattern of files that the tool skips.
func prose(key string) bool {
	return strings.HasPrefix(key, "exclude") || strings.HasPrefix(key, "ignore") || slices.Contains([]string{"content", "contents", "text", "body", "query", "prompt", "message", "description", "title", "summary", "comment", "note", "pattern", "regex",
		"selector", "xpath", "route", "endpoint", "html", "markdown", "value", "old_string", "new_string", "old_str", "new_str", "oldstring", "newstring", "replacement",
		"oldtext", "newtext", "file_text", "insert_text", "new_source", "thought", "key", "keys", "observations", "name_path", "libraryid", "log_group_name"}, key)
}

// namesPath reports whether an argument of this name is a path, for example
// relative_path, dest or outputfile.
func namesPath(key string) bool {
	key = strings.TrimRight(key, "s0123456789")
	for _, end := range []string{"path", "file", "filename", "dir", "directory", "folder", "dest", "destination", "dst", "src"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// text appends a string, or the strings of a list. It ignores null, and sets Opaque for
// any other value.
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
			return false // false is no string, so the method text will set Opaque
		}
		line = append(line, "'"+strings.ReplaceAll(text, "'", `'\''`)+"'")
	}
	return strings.Join(line, " ")
}

// patch adds the files of a patch in the format of Codex and OpenCode.
func (u *ToolUse) patch(args map[string]any) {
	for _, key := range []string{"workdir", "cwd"} {
		u.folder(args[key])
	}
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
// The harnesses' parsers differ: some require a space after the colon, some ignore white
// space before the line. PatchFiles accepts each line that one of the parsers accepts.
// whole is false if no line was accepted, or if a line of unknown form begins with ***.
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

// trim removes white space at both ends of a text, including the byte order mark, which
// is white space in JavaScript but not in Go.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
}

// RefuseTool returns the answer d (Deny or Ask) in the form that Claude Code and Codex
// share.
func RefuseTool(event string, d Decision, reason string) []byte {
	type output struct {
		Event    string   `json:"hookEventName"`
		Decision Decision `json:"permissionDecision"`
		Reason   string   `json:"permissionDecisionReason"`
	}
	return Render(reason, struct {
		Output output `json:"hookSpecificOutput"`
	}{output{event, d, reason}})
}

// RefusePlain returns the refusal {"decision":"deny","reason":…}.
func RefusePlain(reason string) []byte {
	return Render(reason, struct {
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
		"/.opencode", "/.config/opencode", "/opencode.json", "/opencode.jsonc", "/.openclaw", "/.openclaw/openclaw.json", "/.hermes", "/.hermes/config.yaml"} {
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
