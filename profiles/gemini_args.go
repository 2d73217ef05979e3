package profiles

import "slices"

// geminiOptions is the option table of Gemini CLI 0.61.0.
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

// geminiCommands are the subcommands. Any other first operand is a prompt.
var geminiCommands = []string{"mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"}

// parseGemini parses like Gemini CLI (yargs). command is the subcommand, if there
// is one.
func parseGemini(args []string) (l commandLine, command string, sure bool) {
	l, sure = parse(args, geminiOptions(), true)
	if first := slices.IndexFunc(l, func(p part) bool { return p.name == "" }); first >= 0 && !l[first].literal && slices.Contains(geminiCommands, l[first].value) {
		command = l[first].value
	}
	return l, command, sure
}

// resumeGemini returns arguments that continue a session of Gemini CLI.
func resumeGemini(args []string, session string, terminal bool) ([]string, bool) {
	l, command, sure := parseGemini(args)
	if !sure || sessionUUID(session) == "" || command != "" || l.ambiguous() || l.has("--acp", "--delete-session", "--experimental-acp", "--help",
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
		return nil, false // the query must follow "--", and Gemini CLI ignores a query there
	}
	return slices.Concat([]string{"--resume", session}, l.without(drop...).words(query...)), true
}
