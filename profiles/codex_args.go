package profiles

import (
	"slices"
	"strings"
)

// codexOptions is the option table of Codex 0.169.0: `codex --help` and the help of
// exec, resume, fork and exec resume. An option has the same form in each of them.
func codexOptions() map[string]option {
	return optionTable(map[arity]string{
		flag: `--all --approve-for-me --dangerously-bypass-approvals-and-sandbox
		--dangerously-bypass-hook-trust --ephemeral -h,--help --ignore-rules --ignore-user-config
		--include-non-interactive --json --last --no-alt-screen --no-daemon --oss --search
		--skip-git-repo-check --strict-config --trust -V,--version --worktree`,
		value: `--add-dir -a,--ask-for-approval -C,--cd --color -c,--config --cyber-access-program --disable
		--enable --local-provider -m,--model -o,--output-last-message --output-schema -p,--profile
		--remote --remote-auth-token-env -s,--sandbox --thread-source`,
		variadic: `-i,--image`,
	})
}

// codexCommands are the subcommands. Any other first operand is a prompt.
var codexCommands = []string{
	"a", "agents", "app-server", "apply", "archive", "cloud", "completion", "debug", "delete",
	"doctor", "e", "exec", "exec-server", "features", "fork", "help", "login", "logout", "mcp",
	"migrate-nfs-db", "migrate-rollouts", "plugin", "queue", "remote-control", "resume", "review",
	"sandbox", "unarchive", "update",
}

// codexLine is a command line as Codex parses it.
type codexLine struct {
	commandLine
	configs []override      // -c, in order
	toggles map[string]bool // features set by --enable and --disable
	command string          // "", "exec", "review", "resume", "fork", or another subcommand
	sub     string          // the subcommand of exec: "", "resume", "fork", "review", "help"
	others  int             // the number of the other operands: prompts and session ids
}

// An override is one `-c key=value`.
type override struct{ key, value string }

func parseCodex(args []string) (l codexLine, sure bool) {
	l.toggles = map[string]bool{}
	l.commandLine, sure = parse(args, codexOptions(), false)
	for _, p := range l.commandLine {
		switch {
		case p.name != "":
			l.option(p.name, p.value)
		case !p.literal:
			l.operand(p.value)
		}
	}
	return l, sure
}

func (l *codexLine) option(name, val string) {
	switch name {
	case "--config":
		key, v, _ := strings.Cut(val, "=")
		l.configs = append(l.configs, override{strings.TrimSpace(key), strings.TrimSpace(v)})
	case "--enable":
		if _, set := l.toggles[val]; !set { // --disable has priority in any order
			l.toggles[val] = true
		}
	case "--disable":
		l.toggles[val] = false
	}
}

// operand records a subcommand. Other operands are prompts and ids, which are
// only counted.
func (l *codexLine) operand(arg string) {
	switch {
	case l.command == "" && slices.Contains(codexCommands, arg):
		l.command = arg
		if arg == "e" {
			l.command = "exec"
		}
	case l.command == "exec" && l.sub == "" && slices.Contains([]string{"resume", "fork", "review", "help"}, arg):
		l.sub = arg
	default:
		l.others++
	}
}

// resumeCodex returns arguments that continue a session of Codex. It puts
// options before the word resume, where Codex accepts all of them.
func resumeCodex(args []string, session string, _ bool) ([]string, bool) {
	line, sure := parseCodex(args)
	l := line.commandLine
	if !sure || sessionUUID(session) == "" || codexPlain(line) || l.has("--ephemeral", "--image", "--remote", "--worktree") {
		return nil, false
	}
	operands := l.operands()
	if line.command != "" {
		// Codex also accepts a subcommand after a prompt, but such a command line is
		// not resumed.
		if len(operands) == 0 || operands[0] != line.command && operands[0] != "e" {
			return nil, false
		}
		operands = operands[1:]
	}
	drop := []string{"--all", "--include-non-interactive", "--last"}
	switch line.command {
	case "", "resume", "fork":
		return slices.Concat(l.without(drop...).words(), []string{"resume", session}), true
	case "exec":
	default:
		return nil, false
	}
	switch line.sub {
	case "":
	case "resume", "fork":
		named := 2 // the number of operands to drop: the subcommand's name and an id
		if l.has("--last") {
			named = 1
		}
		operands = operands[min(named, len(operands)):]
	default:
		return nil, false
	}
	if len(operands) != 1 || operands[0] == "-" {
		return nil, false // the prompt came from standard input, or it is not certain which operand is the prompt
	}
	at := slices.IndexFunc(l, func(p part) bool { return p.name == "" })
	return slices.Concat(l[:at].without(drop...).words(), []string{"exec"}, l[at:].without(drop...).words(),
		[]string{"resume", session}, commandLine{}.words(operands...)), true
}
