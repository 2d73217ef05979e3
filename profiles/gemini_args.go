package profiles

import (
	"slices"
	"strings"
)

// geminiOptions is the option table of Gemini CLI 0.61.0. An option that is not
// listed is taken for a flag.
func geminiOptions() map[string]option {
	return optionTable(map[arity]string{
		flag: `-d,--debug --skip-trust -s,--sandbox -y,--yolo --acp --experimental-acp -l,--list-extensions --list-sessions
		--screen-reader --raw-output --accept-raw-output-risk -v,--version -h,--help`,
		value: `-m,--model -p,--prompt -i,--prompt-interactive --approval-mode --policy --admin-policy
		--allowed-mcp-server-names --allowed-tools -e,--extensions --session-file --session-id --delete-session
		--include-directories -o,--output-format`,
		optional: `-r,--resume -w,--worktree`,
	})
}

// geminiCommands are the first operands that are not a prompt.
var geminiCommands = []string{"mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"}

// geminiLine is a command line as Gemini CLI parses it.
type geminiLine struct {
	values  map[string]string // of the options seen, by name; a flag's is empty
	command string            // the subcommand, if it is one
	given                     // the places of all values
}

func (l geminiLine) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := l.values[n]; return ok })
}

func parseGemini(args []string) geminiLine {
	l := geminiLine{values: map[string]string{}, given: given{}}
	options := geminiOptions()
	operands := 0
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			break // what follows is the prompt
		}
		if !looksLikeOption(arg) {
			if operands == 0 && slices.Contains(geminiCommands, arg) {
				l.command = arg
			}
			operands++
			continue
		}
		name, val, attached := strings.Cut(arg, "=")
		o, known := options[name]
		if !known {
			continue
		}
		next := i+1 < len(args) && !looksLikeOption(args[i+1])
		if !attached && next && (o.arity == value || o.arity == optional) {
			i++
			val = args[i]
		}
		l.values[o.name] = val
		l.given[o.name] = append(l.given[o.name], place{i, attached})
	}
	return l
}

// resumeGemini continues a session of Gemini CLI.
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
		return nil, false // after "--" Gemini CLI ignores it
	}
	return slices.Concat(argv[:1], []string{"--resume", session}, l.without(drop...).words(query...)), true
}
