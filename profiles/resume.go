package profiles

import (
	"slices"
	"strings"
)

// This file makes of a user's command line one that goes on with a session by
// its id. It is stricter than what reads a command line for a launch: there an
// option that nobody knows costs a guess, here its value could be taken for a
// prompt. What is not understood to the last word is not resumed.

// anyUUID has the form of a session id where those are UUIDs.
const anyUUID = "00000000-0000-4000-8000-000000000000"

// A part is one thing that a command line says: an option with its values, or
// an operand.
type part struct {
	option // without a name for an operand
	words  []string
	value  string // the last one
}

func (p part) is(names ...string) bool { return slices.Contains(names, p.name) }

// A commandLine is the words behind a program's name, in parts.
type commandLine []part

// parts cuts a command line up as commander and clap read it, or as yargs does,
// to which nothing that looks like an option is a value. It reports whether
// every option is one of the table.
func parts(args []string, table map[string]option, yargs bool) (l commandLine, ok bool) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			for _, a := range args {
				l = append(l, part{words: []string{a}, value: a})
			}
			return l, true
		}
		if !looksLikeOption(arg) {
			l = append(l, part{words: []string{arg}, value: arg})
			continue
		}
		if !yargs { // flags in one word, -cp, are a word each
			for len(arg) > 2 && arg[1] != '-' && table[arg[:2]].name != "" && table[arg[:2]].arity == flag {
				if _, whole := table[arg]; whole { // -d2e is one option
					break
				}
				l = append(l, part{option: table[arg[:2]], words: []string{arg[:2]}})
				arg = "-" + arg[2:]
			}
		}
		o, val, attached, known := lookup(table, arg, map[string]string{})
		if _, whole := table[arg]; !known || yargs && !whole && !strings.HasPrefix(arg, "--") {
			return nil, false // what yargs makes of letters in one word depends on what they are
		}
		p := part{option: o, words: []string{arg}, value: strings.TrimPrefix(val, "=")}
		if n := o.values(args, yargs); !attached && n > 0 {
			p.words, p.value = append(p.words, args[:n]...), args[n-1]
			args = args[n:]
		} else if !attached && (o.arity == value || o.arity == variadic) {
			return nil, false // it lacks one
		}
		l = append(l, p)
	}
	return l, true
}

// values is how many of the words behind an option are its values.
func (o option) values(next []string, yargs bool) int {
	n := 0
	if len(next) > 0 && (!looksLikeOption(next[0]) || !yargs && o.takes(next[0])) && o.arity != flag {
		n = 1
	}
	for o.arity == variadic && 0 < n && n < len(next) && !looksLikeOption(next[n]) {
		n++
	}
	return n
}

// find returns the last option of that name.
func (l commandLine) find(name string) (part, bool) {
	for _, p := range slices.Backward(l) {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

func (l commandLine) has(names ...string) bool {
	return slices.ContainsFunc(l, func(p part) bool { return p.name != "" && p.is(names...) })
}

// operands are the words that are no option's.
func (l commandLine) operands() (words []string) {
	for _, p := range l {
		if p.name == "" {
			words = append(words, p.value)
		}
	}
	return words
}

// without leaves out the operands, and the options of these names.
func (l commandLine) without(names ...string) commandLine {
	return slices.DeleteFunc(slices.Clone(l), func(p part) bool { return p.name == "" || p.is(names...) })
}

// words puts the line together again, with operands behind it that no option
// can take for its own.
func (l commandLine) words(operands ...string) (words []string) {
	for _, p := range l {
		words = append(words, p.words...)
	}
	open := slices.ContainsFunc(operands, looksLikeOption)
	if len(l) > 0 {
		last := l[len(l)-1]
		open = open || last.arity == variadic || last.arity == optional && len(last.words) == 1
	}
	if open && len(operands) > 0 {
		words = append(words, "--")
	}
	return append(words, operands...)
}

// resumeClaude goes on with a session of Claude Code. It finds one only from
// the folder that it began in, so a launch that makes itself another one is
// left alone.
func resumeClaude(argv []string, session string, terminal bool) ([]string, bool) {
	if len(argv) == 0 || Infer(argv[0]) != "claude" || sessionUUID(session) == "" {
		return nil, false
	}
	l, ok := parts(argv[1:], claudeOptions(), false)
	if !ok || claudePlain(argv[1:], parseClaude(argv[1:]), Host{}) || l.has(claudeElsewhere...) {
		return nil, false
	}
	// What is read from standard input is read once.
	if in, _ := l.find("--input-format"); in.value == "stream-json" {
		return nil, false
	}
	prompt := l.operands()
	switch printed := l.has("--print") || !terminal; {
	case !printed:
		prompt = nil
	case len(prompt) == 0:
		return nil, false
	}
	l = l.without("--resume", "--continue", "--fork-session", "--session-id")
	return slices.Concat(argv[:1], []string{"--resume", session}, l.words(prompt...)), true
}

// claudeElsewhere are options of sessions that are not this folder's, not kept,
// or not begun at their end.
var claudeElsewhere = []string{
	"--cloud", "--from-pr", "--init-only", "--no-session-persistence", "--remote", "--remote-control", "--rc", "--resume-session-at",
	"--rewind-files", "--sdk-url", "--teleport", "--worktree",
}

// resumeCodex goes on with a thread of Codex. Options stand before the word
// resume, where all of them are understood.
func resumeCodex(argv []string, session string, _ bool) ([]string, bool) {
	if len(argv) == 0 || Infer(argv[0]) != "codex" || sessionUUID(session) == "" {
		return nil, false
	}
	l, ok := parts(argv[1:], codexOptions(), false)
	line := parseCodex(argv[1:])
	if !ok || codexPlain(line) || l.has("--ephemeral", "--image", "--remote", "--worktree") {
		return nil, false
	}
	operands := l.operands()
	if line.command != "" {
		// A subcommand is one behind a prompt, too. Nobody writes that.
		if len(operands) == 0 || operands[0] != line.command && operands[0] != "e" {
			return nil, false
		}
		operands = operands[1:]
	}
	drop := []string{"--all", "--include-non-interactive", "--last"}
	switch line.command {
	case "", "resume", "fork":
		return slices.Concat(argv[:1], l.without(drop...).words(), []string{"resume", session}), true
	case "exec":
	default:
		return nil, false
	}
	switch line.sub {
	case "":
	case "resume", "fork":
		named := 2 // its own name, and an id
		if l.has("--last") {
			named = 1
		}
		operands = operands[min(named, len(operands)):]
	default:
		return nil, false
	}
	if len(operands) != 1 || operands[0] == "-" {
		return nil, false // its prompt came from standard input
	}
	at := slices.IndexFunc(l, func(p part) bool { return p.name == "" })
	return slices.Concat(argv[:1], l[:at].without(drop...).words(), []string{"exec"}, l[at:].without(drop...).words(),
		[]string{"resume", session}, commandLine{}.words(operands...)), true
}

// resumeGemini goes on with a session of Gemini CLI.
func resumeGemini(argv []string, session string, terminal bool) ([]string, bool) {
	if len(argv) == 0 || Infer(argv[0]) != "gemini" || sessionUUID(session) == "" {
		return nil, false
	}
	l, ok := parts(argv[1:], geminiOptions(), true)
	if !ok || parseGemini(argv[1:]).command != "" || l.ambiguous() || l.has("--acp", "--delete-session", "--experimental-acp", "--help",
		"--list-extensions", "--list-sessions", "--session-file", "--version", "--worktree") {
		return nil, false
	}
	drop := []string{"--resume", "--session-id"}
	query := l.operands()
	given, headless := l.find("--prompt")
	switch printed := headless || !terminal; {
	case !printed:
		drop, query = append(drop, "--prompt-interactive"), nil
	case given.value == "" && len(query) == 0:
		return nil, false
	}
	if slices.ContainsFunc(query, looksLikeOption) {
		return nil, false // behind "--" it is not read
	}
	return slices.Concat(argv[:1], []string{"--resume", session}, l.without(drop...).words(query...)), true
}

// ambiguous says that a flag stands before a word that yargs may take for its
// truth.
func (l commandLine) ambiguous() bool {
	for i, p := range l[:max(len(l)-1, 0)] {
		if next := l[i+1]; p.name != "" && p.arity == flag && next.name == "" && (next.value == "true" || next.value == "false") {
			return true
		}
	}
	return false
}

// resumeOpencode goes on with a session of OpenCode.
func resumeOpencode(argv []string, session string, _ bool) ([]string, bool) {
	if len(argv) == 0 || Infer(argv[0]) != "opencode" || !opencodeSession(session) {
		return nil, false
	}
	run := slices.Contains(argv[1:], "run")
	l, ok := parts(argv[1:], opencodeOptions(run), true)
	operands := l.operands()
	if !ok || l.ambiguous() || l.has("--help", "--version", "--attach", "--interactive") {
		return nil, false
	}
	on := []string{"--session", session}
	drop := []string{"--continue", "--fork", "--prompt", "--session"}
	if !run {
		// One operand is the folder to begin in, unless it is a command.
		if len(operands) > 1 || len(operands) == 1 && slices.Contains(opencodeCommands, operands[0]) {
			return nil, false
		}
		return slices.Concat(argv[:1], on, l.without(drop...).words(operands...)), true
	}
	if len(operands) == 0 || operands[0] != "run" || len(operands) == 1 && !l.has("--command") {
		return nil, false // its message came from standard input
	}
	return slices.Concat(argv[:1], []string{"run"}, on, l.without(drop...).words(operands[1:]...)), true
}

// opencodeSession says that a word is a session's id.
func opencodeSession(id string) bool {
	id, found := strings.CutPrefix(id, "ses_")
	name, rest := word(id)
	return found && name != "" && rest == ""
}

// opencodeOptions are the options of OpenCode 1.18.33, of its terminal and of
// `run`.
func opencodeOptions(run bool) map[string]option {
	lists := map[arity]string{
		flag:     `-h,--help -v,--version --print-logs --pure --mdns -c,--continue --fork --auto --mini --no-replay`,
		value:    `--log-level --port --hostname --mdns-domain -m,--model -s,--session --prompt --agent --replay-limit`,
		variadic: `--cors`,
	}
	if run {
		lists = map[arity]string{
			flag: `-h,--help -v,--version --print-logs --pure -c,--continue --fork --share --thinking -i,--interactive --auto`,
			value: `--log-level --command -s,--session -m,--model --agent --format --title --attach -p,--password
			-u,--username --dir --port --variant`,
			variadic: `-f,--file`,
		}
	}
	return optionTable(lists)
}

// opencodeCommands are the first operands that are no folder.
var opencodeCommands = []string{
	"completion", "acp", "mcp", "attach", "run", "debug", "providers", "auth", "agent", "upgrade", "uninstall", "serve", "web",
	"models", "stats", "export", "import", "github", "pr", "session", "plugin", "plug", "db",
}
