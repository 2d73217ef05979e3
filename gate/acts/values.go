package acts

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file finds the commands that run when a shell or a program uses a variable.

// prompts are the variables whose values a shell expands or runs: a $(…) in PS1 runs at each
// prompt, and so does the value of PROMPT_COMMAND. programVars are the variables with
// command lines that other programs run.
const (
	prompts     = "PS0 PS1 PS2 PS4 PROMPT_COMMAND BASH_ENV NULLCMD READNULLCMD"
	programVars = "GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_PROXY_COMMAND EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE"
)

// value adds the commands that a value of a variable may run when it is used: as a prompt,
// in arithmetic, or by a program such as git.
func (s *shell) value(name string, a arg) {
	s.gitFolder(name, a)
	switch {
	case indexRuns(a.text),
		hasWord(prompts, name) && (!a.known || substitutes(a.text) || hasWord("PROMPT_COMMAND NULLCMD READNULLCMD", name)),
		name == "ENV" && substitutes(a.text),
		hasWord("PERL5OPT RUBYOPT NODE_OPTIONS", name) && (strings.ContainsAny(a.form+a.text, ";(") || strings.Contains(strings.ToLower(a.form+a.text), "data:") || a.unknowns(loadsPart)):
		s.undecidable("command")
	case !a.known:
		if strings.HasPrefix(name, "GIT_") && hasWord(programVars, name) && !startsSSH(a) {
			s.undecidable("command")
		}
	case hasWord(programVars, name):
		if line := strings.TrimLeft(a.text, "|- "); strings.ContainsAny(line, " \t\n;&|$`<>(") && !isOnlySSH(line) {
			inner := s.newShell(s.dirs)
			inner.depth = s.depth
			inner.line(line)
		}
	}
}

// isOnlySSH reports whether a command line calls ssh alone, without an option such as
// ProxyCommand that runs another program on this machine.
func isOnlySSH(line string) bool {
	return strings.HasPrefix(line, "ssh ") && !strings.ContainsAny(line, ";&|$`<>()\n") && !strings.Contains(strings.ToLower(line), "command")
}

// startsSSH is like isOnlySSH, for a command line that is not known. Each unknown part must
// belong to the value of a flag, as in ssh -i "$KEY". After -o, the part must follow a =,
// because $X in ssh -o $X may name a program.
func startsSSH(line arg) bool {
	return isOnlySSH(line.begin) && isOnlySSH(line.form) && !line.unknowns(func(before string) bool { return !endsInValue(before) }) &&
		!slices.ContainsFunc(line.texts(), func(text string) bool { return strings.HasPrefix(text, "ssh ") && !isOnlySSH(text) })
}

// endsInValue reports whether text that follows line, the beginning of a command line of
// ssh, belongs to the value of a flag. After the flag -o, only text after = counts.
func endsInValue(line string) bool {
	before, last := lastWords(line)
	valued := func(word string) string { // the first flag with a value in a word such as -vi, and what follows it
		flags, is := strings.CutPrefix(word, "-")
		if flags = strings.TrimLeft(flags, "46AaCfGgKkMNnqsTtVvXxYy"); !is {
			return ""
		}
		return flags
	}
	switch flag, value := valued(before), valued(last); {
	case flag == "o" || strings.HasPrefix(value, "o"):
		return strings.Contains(last, "=")
	case strings.HasPrefix(last, "-"):
		return value != ""
	default:
		return len(flag) == 1
	}
}

// loadsPart reports whether text that follows list, the beginning of a list of flags, may
// name a program that perl, ruby or node loads, or may complete a flag other than -I.
func loadsPart(list string) bool {
	const loads = "-r --require --import --loader --experimental-loader"
	before, last := lastWords(list)
	name, _, is := strings.Cut(last, "=")
	return last == "" && hasWord(loads, before) || is && hasWord(loads, name) || !is && strings.HasPrefix(last, "-") && !strings.HasPrefix(last, "-I")
}

// lastWords returns the last two words of a text. If the text ends with a blank, last is
// empty.
func lastWords(text string) (before, last string) {
	end := strings.LastIndexAny(text, " \t\n") + 1
	if words := strings.Fields(text[:end]); len(words) > 0 {
		before = words[len(words)-1]
	}
	return before, text[end:]
}

// substitutes reports whether a text runs a command when a shell expands it.
func substitutes(text string) bool {
	return strings.Contains(text, "$(") || strings.Contains(text, "`")
}

// setsBraces reports whether an argument of set or setopt may make zsh expand {ab} to a and b.
func setsBraces(name string, args []arg) bool {
	args = optionsOf(name, args)
	for i, a := range args {
		if optionName(a.text) == "braceccl" || !a.known && namesOption(name, args, i) && strings.HasPrefix("braceccl", optionName(a.begin)) {
			return true
		}
	}
	return false
}

// optionName returns the name of an option of zsh, which ignores case and underscores.
func optionName(text string) string { return strings.ToLower(strings.ReplaceAll(text, "_", "")) }

// optionsOf returns the arguments of set without the positional parameters, which follow
// -- or -, or begin at a word that is neither a flag nor the value of -o. For another
// command, optionsOf returns all arguments.
func optionsOf(name string, args []arg) []arg {
	for i, a := range args {
		text := a.start()
		flag := a.loose && text == "" || text != "" && (text[0] == '-' || text[0] == '+')
		value := i > 0 && (!args[i-1].known || strings.Contains(args[i-1].text, "o") && strings.Trim(args[i-1].text[:1], "-+") == "")
		if name == "set" && (a.known && hasWord("-- -", text) || !flag && !value) {
			return args[:i]
		}
	}
	return args
}

// namesOption reports whether the argument at the index i may be the name of an option.
// For set, only an argument after a flag such as -o may be a name; for setopt, every argument.
func namesOption(name string, args []arg, i int) bool {
	return name != "set" || i > 0 && args[i-1].flag() && strings.HasSuffix(args[i-1].text, "o")
}

// charRange reports whether an unquoted text has a sequence in braces that only zsh
// expands, such as {-../}.
func charRange(p syntax.WordPart) bool {
	lit, is := p.(*syntax.Lit)
	for i := 0; is && i+6 <= len(lit.Value); i++ {
		if seq := lit.Value[i : i+6]; seq[0] == '{' && seq[2:4] == ".." && seq[5] == '}' && (!strings.Contains(nameLetters, seq[1:2]) || !strings.Contains(nameLetters, seq[4:5])) {
			return true
		}
	}
	return false
}
