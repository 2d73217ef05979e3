package profiles

import (
	"slices"
	"strings"
)

// opencodeOptions is the option table of OpenCode 1.18.33, for the terminal or
// for `run`.
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

// opencodeCommands are the commands of OpenCode. Any other first operand is a folder.
var opencodeCommands = []string{
	"completion", "acp", "mcp", "attach", "run", "debug", "providers", "auth", "agent", "upgrade", "uninstall", "serve", "web",
	"models", "stats", "export", "import", "github", "pr", "session", "plugin", "plug", "db",
}

// resumeOpencode returns arguments that continue a session of OpenCode, or false if
// the command line cannot be resumed.
func resumeOpencode(args []string, session string, _ bool) ([]string, bool) {
	run := slices.Contains(args, "run")
	l, sure := parse(args, opencodeOptions(run), true)
	operands := l.operands()
	if !sure || !opencodeSession(session) || l.ambiguous() || l.has("--help", "--version", "--attach", "--interactive") {
		return nil, false
	}
	on := []string{"--session", session}
	drop := []string{"--continue", "--fork", "--prompt", "--session"}
	if !run {
		// A single operand is the folder to start in, unless it is a command.
		if len(operands) > 1 || len(operands) == 1 && slices.Contains(opencodeCommands, operands[0]) {
			return nil, false
		}
		return slices.Concat(on, l.without(drop...).words(operands...)), true
	}
	if len(operands) == 0 || operands[0] != "run" || len(operands) == 1 && !l.has("--command") {
		return nil, false // run is not the command, or its message came from standard input
	}
	return slices.Concat([]string{"run"}, on, l.without(drop...).words(operands[1:]...)), true
}

// opencodeSession reports whether a word is a session id.
func opencodeSession(id string) bool {
	id, found := strings.CutPrefix(id, "ses_")
	name, rest := word(id)
	return found && name != "" && rest == ""
}
