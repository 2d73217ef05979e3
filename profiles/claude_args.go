package profiles

import (
	"slices"
	"strings"
)

// The option table of Claude Code 2.1.197: `claude --help` and the options
// that it hides. An option that is not here takes no value as far as we know,
// which can only make us see one operand too many.

type arity int

const (
	flag     arity = iota
	value          // takes the next argument, whatever it looks like
	optional       // takes the next argument unless it looks like an option
	variadic       // takes the next argument, and all that follow up to an option
)

type option struct {
	name  string // the long name, by which the rest of this package asks
	arity arity
}

func claudeOptions() map[string]option {
	return optionTable(map[arity]string{
		flag: `--allow-dangerously-skip-permissions --ax-screen-reader --bg,--background --bare --brief
		--chrome --no-chrome -c,--continue --cowork --dangerously-skip-permissions -d2e,--debug-to-stderr
		--deep-link-origin --disable-slash-commands --enable-auth-status --enable-auto-mode
		--exclude-dynamic-system-prompt-sections --fork-session -h,--help --ide --include-hook-events
		--include-partial-messages --init --init-only --maintenance --no-session-persistence
		--plan-mode-required -p,--print --replay-user-messages --reply-on-resume --safe-mode
		--session-mirror --strict-mcp-config --tmux --verbose -v,--version --xaa`,
		value: `--advisor --agent --agent-color --agent-id --agent-name --agent-type --agents
		--append-system-prompt --append-system-prompt-file --debug-file --deep-link-cwd-b64
		--deep-link-last-fetch --deep-link-repo --effort --fallback-model --input-format --json-schema
		--managed-settings --max-budget-usd --max-thinking-tokens --max-turns --model -n,--name
		--output-format --parent-session-id --permission-mode --permission-prompt-tool
		--plan-mode-instructions --plugin-dir --plugin-dir-no-mcp --plugin-url --prefill --prefill-b64
		--remote-control-session-name-prefix --resume-session-at --rewind-files --sdk-url --session-id
		--setting-sources --settings --system-prompt --system-prompt-file --task-budget --team-name
		--teammate-mode --thinking --thinking-display --workload`,
		optional: `-d,--debug --from-pr --prompt-suggestions --remote-control --rc -r,--resume
		-w,--worktree --cloud --remote --teleport`,
		variadic: `--add-dir --allowedTools,--allowed-tools --betas --channels
		--dangerously-load-development-channels --disallowedTools,--disallowed-tools --file
		--mcp-config --tools`,
	})
}

// optionTable reads lists of names; in `-c,--continue` the last one is the
// name. It is made for each command line: made at the start of the program, it
// would be paid for by every hook that a harness runs.
func optionTable(lists map[arity]string) map[string]option {
	table := map[string]option{}
	for a, list := range lists {
		for _, field := range strings.Fields(list) {
			names := strings.Split(field, ",")
			for _, n := range names {
				table[n] = option{name: names[len(names)-1], arity: a}
			}
		}
	}
	return table
}

// claudeCommands are the first operands that are not a prompt. A command line
// with -p or --print has none of them: Claude Code does not even register them.
var claudeCommands = []string{
	"agents", "auth", "auto-mode", "doctor", "gateway", "help", "install", "mcp", "plugin", "plugins",
	"project", "rc", "remote-control", "setup-token", "ultrareview", "update", "upgrade",
}

// claudeFirst are arguments that mean something else than a session when they
// come first: background jobs, internal servers. Claude Code looks at them
// before it parses anything.
var claudeFirst = []string{
	"--bg-pty-host", "--bg-spare", "--chrome-native-host", "--claude-in-chrome-mcp",
	"--computer-use-mcp", "--daemon-worker", "--handle-uri", "--preload", "--update", "--upgrade", "-V",
	"attach", "bridge", "daemon", "kill", "logs", "rc", "remote", "remote-control", "respawn", "rm",
	"stop", "sync",
}

// claudeLine is a command line as Claude Code would take it.
type claudeLine struct {
	values  map[string]string // of the options seen, by name; a flag's is empty
	command string            // the subcommand, if it is one
	given                     // every value of theirs
}

// given says where the values of options stand, by the option's name.
type given map[string][]place

// A place is that of one value.
type place struct {
	at       int  // the index of its word
	attached bool // in one word with the option
}

// with is the command line with another value in place of each that the user
// gave this option. The words stay where they are: an option that takes all that
// follows would else take what the removed words kept from it.
func (g given) with(args []string, name, value string) []string {
	out := slices.Clone(args)
	for _, p := range g[name] {
		out[p.at] = value
		if p.attached {
			out[p.at] = name + "=" + value
		}
	}
	return out
}

func (l claudeLine) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := l.values[n]; return ok })
}

// looksLikeOption is the parser's own test: a lone dash is an operand.
func looksLikeOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// parseClaude follows the parser that Claude Code uses (commander, with
// positional options): the first operand that names a command ends the options.
func parseClaude(args []string) claudeLine {
	l := claudeLine{values: map[string]string{}, given: given{}}
	commands := claudeCommands
	if slices.Contains(args, "-p") || slices.Contains(args, "--print") {
		commands = nil
	}
	options := claudeOptions()
	operands := 0
	open := false // an option that takes all that follows is taking
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			if operands == 0 && i+1 < len(args) && slices.Contains(commands, args[i+1]) {
				l.command = args[i+1]
			}
			return l
		}
		if !looksLikeOption(arg) {
			if open {
				continue
			}
			if operands == 0 && slices.Contains(commands, arg) {
				l.command = arg
				return l
			}
			operands++
			continue
		}

		opt, val, attached, ok := lookup(options, arg, l.values)
		open = ok && opt.arity == variadic
		if !ok {
			continue
		}
		if !attached && i+1 < len(args) && opt.takes(args[i+1]) {
			i++
			val = args[i]
		}
		l.values[opt.name] = val
		l.given[opt.name] = append(l.given[opt.name], place{i, attached})
	}
	return l
}

// takes says that an option takes the word behind it as its value.
func (o option) takes(next string) bool {
	switch o.arity {
	case value, variadic:
		return true
	case optional:
		return !looksLikeOption(next)
	}
	return false
}

// lookup finds the option that one argument names, with the value attached to
// it: `--name=value`, `-nvalue`, and `-cp` for two flags, all but the last of
// which it notes in seen.
func lookup(table map[string]option, arg string, seen map[string]string) (opt option, val string, attached, ok bool) {
	if opt, ok = table[arg]; ok {
		return opt, "", false, true
	}
	if strings.HasPrefix(arg, "--") {
		name, val, cut := strings.Cut(arg, "=")
		opt, ok = table[name]
		return opt, val, true, ok && cut && opt.arity != flag
	}
	for len(arg) > 2 {
		opt, ok = table[arg[:2]]
		if !ok {
			return option{}, "", false, false
		}
		if opt.arity != flag {
			return opt, arg[2:], true, true
		}
		seen[opt.name] = ""
		arg = "-" + arg[2:]
	}
	opt, ok = table[arg]
	return opt, "", false, ok
}
