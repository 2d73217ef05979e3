package profiles

import (
	"slices"
	"strings"
)

// claudeOptions is the option table of the tested versions: `claude --help` and
// hidden options. An option that is not listed is treated as a flag without a
// value. If it has a value, that value is then mistaken for an operand.
func claudeOptions() map[string]option {
	return optionTable(map[arity]string{
		flag: `--allow-dangerously-skip-permissions --ax-screen-reader --bg,--background --bare --brief
		--chrome --no-chrome -c,--continue --cowork --dangerously-skip-permissions -d2e,--debug-to-stderr
		--deep-link-origin --desktop --disable-slash-commands --enable-auth-status --enable-auto-mode
		--exclude-dynamic-system-prompt-sections --fork-session --forward-subagent-text -h,--help --ide --include-hook-events
		--include-partial-messages --init --init-only --maintenance --no-session-persistence
		--plan-mode-required -p,--print --replay-user-messages --reply-on-resume --restricted --safe-mode
		--session-mirror --strict-mcp-config --tmux --verbose -v,--version --xaa`,
		value: `--advisor --agent --agent-color --agent-id --agent-name --agent-type --agents
		--append-subagent-system-prompt --append-subagent-system-prompt-file
		--append-system-prompt --append-system-prompt-file --autocompact --correlation-id --debug-file
		--deep-link-cwd-b64 --deep-link-last-fetch --deep-link-repo --effort --environment --fallback-model
		--fast-mode --input-format --json-schema
		--managed-settings --max-budget-usd --max-thinking-tokens --max-turns --metadata --model -n,--name
		--on-branch --output-format --parent-session-id --permission-mode --permission-prompt-tool --permission-prompts
		--plan-mode-instructions --plugin-dir --plugin-dir-no-mcp --plugin-url --pool --prefill --prefill-b64
		--proactivity --ref
		--remote-control-session-name-prefix --resume-session-at --rewind-files --sdk-url --session-id
		--setting-sources --settings --system-prompt --system-prompt-file --system-prompt-snapshot --task-budget --team-name
		--teammate-mode --thinking --thinking-display --workload`,
		optional: `-d,--debug --from-pr --prompt-suggestions --remote-control --rc -r,--resume
		-w,--worktree --cloud --remote --teleport`,
		variadic: `--add-dir --allowedTools,--allowed-tools --betas --channels
		--dangerously-load-development-channels --disallowedTools,--disallowed-tools --file
		--mcp-config --tools`,
	})
}

// claudeCommands are the subcommands. Any other first operand is a prompt. With -p or
// --print Claude Code has no subcommands.
var claudeCommands = []string{
	"agents", "auth", "auto-mode", "doctor", "gateway", "help", "import", "install", "mcp", "plugin", "plugins",
	"project", "purge", "rc", "remote-control", "setup-token", "ultrareview", "update", "upgrade",
}

// claudeFirst are first arguments with which Claude Code runs no session in its own
// process. For example, they start an internal server, control background jobs, or
// update Claude Code. Claude Code checks them before it parses the command line.
var claudeFirst = []string{
	"--bg-pty-host", "--bg-spare", "--chrome-native-host", "--claude-in-chrome-mcp",
	"--computer-use-mcp", "--daemon-worker", "--handle-uri", "--preload", "--update", "--upgrade", "-V",
	"attach", "bridge", "daemon", "kill", "logs", "rc", "remote", "remote-control", "respawn", "rm",
	"stop", "sync",
}

// claudeLine is a command line as Claude Code parses it.
type claudeLine struct {
	commandLine
	command string // the subcommand, if there is one
}

// parseClaude parses like Claude Code (commander, with positional options). If the
// first operand is a subcommand, the options end there.
func parseClaude(args []string) (l claudeLine, sure bool) {
	l.commandLine, sure = parse(args, claudeOptions(), false)
	first := slices.IndexFunc(l.commandLine, func(p part) bool { return p.name == "" })
	if first >= 0 && slices.Contains(claudeCommands, l.commandLine[first].value) && !slices.Contains(args, "-p") && !slices.Contains(args, "--print") {
		l.command = l.commandLine[first].value
		l.commandLine = l.commandLine[:first]
	}
	return l, sure
}

// resumeClaude returns arguments that continue a session of Claude Code. Claude
// Code finds a session only in the folder where it began, so a command line
// that selects another folder cannot be resumed.
func resumeClaude(args []string, session string, terminal bool) ([]string, bool) {
	l, sure := parseClaude(args)
	if !sure || sessionUUID(session) == "" || claudePlain(args, l, Host{}) || l.has(claudeElsewhere...) {
		return nil, false
	}
	// The prompts come from standard input, which can be read only once.
	if l.last("--input-format") == "stream-json" {
		return nil, false
	}
	prompt := l.operands()
	switch printed := l.has("--print") || !terminal; {
	case !printed:
		prompt = nil
	case len(prompt) == 0:
		return nil, false
	}
	rest := l.without("--resume", "--continue", "--fork-session", "--session-id")
	return slices.Concat([]string{"--resume", session}, rest.words(prompt...)), true
}

// askClaude returns arguments that continue a copy of the session, so that
// question and answer appear neither in the transcript nor in the context of
// the session itself.
func askClaude(args []string, session string) ([]string, bool) {
	l, _ := parseClaude(args)
	words, ok := resumeClaude(args, session, true)
	if !ok || l.has("--print") {
		return nil, false
	}
	return slices.Concat([]string{"--print", "--fork-session"}, words), true
}

// claudeElsewhere are options that prevent a resume: with them the session
// belongs to another folder, is not stored, or is not continued from its end.
var claudeElsewhere = []string{
	"--cloud", "--environment", "--from-pr", "--init-only", "--no-session-persistence", "--remote", "--remote-control", "--rc", "--resume-session-at",
	"--rewind-files", "--sdk-url", "--teleport", "--worktree",
}

// claudeHintVariable names the variable with the options for the last line that Claude
// Code prints: `claude OPTIONS --resume ID` (2.1.330 and later). Claude Code removes the
// variable from its environment. If the value is not a list of such options, Claude Code
// prints the command without options.
const claudeHintVariable = "CLAUDE_CODE_RELAUNCH_RESUME_HINT_FLAGS"

// claudeHint is the value of claudeHintVariable for the user's own options. Without the
// variable, the printed command would also have our --settings, whose file no longer
// exists by then. The function follows the rules by which Claude Code chooses the options
// for that command. If Claude Code would choose no options, the value is "none", which
// is no list of options: Claude Code then prints the command without options.
func claudeHint(line claudeLine, sure bool) string {
	const nothing = "none"
	var words []string
	for _, p := range line.commandLine {
		if p.name == "" || slices.Contains(claudeUnrepeated, p.name) {
			continue
		}
		if !sure || p.attached && !strings.HasPrefix(p.words[0], "--") {
			return nothing
		}
		for i, w := range p.words {
			if !claudeRepeats(w, i == 0) {
				return nothing
			}
		}
		words = append(words, p.words...)
	}
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, " ")
}

// claudeRepeats reports whether Claude Code repeats a word of its command line in the
// resume command that it prints at its end. name is true if the word is an option,
// possibly with =VALUE, and false if the word is a value.
func claudeRepeats(word string, name bool) bool {
	_, value, _ := strings.Cut(word, "=")
	for _, path := range []string{word, value} {
		if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
			return false
		}
	}
	others := "_-/:@=+"
	if !name {
		if others += "."; word == "" || strings.ContainsRune("-@=", rune(word[0])) {
			return false
		}
	}
	return !strings.ContainsFunc(word, func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune(others, r) })
}

// claudeUnrepeated are options that Claude Code leaves out of the resume command that it
// prints at its end (see claudeHintVariable), such as options that choose a session.
var claudeUnrepeated = []string{
	"--cloud", "--continue", "--correlation-id", "--deep-link-cwd-b64", "--deep-link-last-fetch", "--deep-link-origin", "--deep-link-repo",
	"--desktop", "--environment", "--file", "--fork-session", "--from-pr", "--init", "--init-only", "--maintenance", "--metadata", "--name",
	"--on-branch", "--pool", "--prefill", "--prefill-b64", "--ref", "--remote", "--reply-on-resume", "--resume", "--resume-session-at",
	"--rewind-files", "--session-id", "--teleport", "--tmux", "--worktree",
}
