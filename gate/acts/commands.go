package acts

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"lifeloop/gate"
	"lifeloop/telemetry"
)

// This file finds what a command runs, reads, writes and deletes.

// An arg is one word of a command. The word is known if all of its text is certain before
// the command runs, as for 'a b', or for $x after x=a. A part such as $(pwd) is not known,
// and neither is a word with such a part; text is then what follows the last unknown part,
// as /x for -o$(pwd)/x.
type arg struct {
	text  string
	known bool
	shape string // if the word is not known: its shape (see aWord); empty if a part may be any text
	begin string // if the word is not known: what precedes the first unknown part, as -o for -o$(pwd)/x
	form  string // if the word is not known: its text, with a NUL in the place of each unknown part
	loose bool   // an unknown part may become a flag or several words, as $x does, but not "$x"
	// choices holds texts that the word may have if it is not known, such as .env for
	// ${x:-.env}, each with a NUL at its end. It is empty if the line has no such text.
	choices string
	pipe    bool // the word is >(…) or <(…)
	escaped bool // the word is not known; its literal text has an escape such as \x24
	whole   bool // the word can have no other text than its choices, as $x in "for x in a b; do rm $x; done"
}

// anything reports whether no text of the word a is known and the word may become a
// flag or several words, as $x does.
func (a arg) anything() bool { return !a.known && a.loose && a.begin == "" && a.text == "" }

func (a arg) flag() bool { return a.known && len(a.text) > 1 && a.text[0] == '-' }

// flagPart reports whether the word a is a flag whose end is not known, as -$x and "--re$x".
func (a arg) flagPart() bool { return !a.known && strings.HasPrefix(a.begin, "-") }

// input reports whether the word a names the standard input or another open file.
func (a arg) input() bool {
	return a.known && (a.text == "-" || strings.HasPrefix(a.text, "/dev/stdin") || strings.HasPrefix(a.text, "/dev/fd/") ||
		strings.HasPrefix(a.text, "/dev/tty") || strings.HasPrefix(a.text, "/proc/self/fd/"))
}

// mayBeInput is like input, but also reports true for a word that is not known, unless the
// end of the word, as in $x/Makefile, shows that it names no such file.
func (a arg) mayBeInput() bool {
	if a.known {
		return a.input()
	}
	end := a.form[strings.LastIndexByte(a.form, 0)+1:]
	_, base := path.Split(end)
	return strings.Trim(base, "0123456789") == "" || hasWord("stdin tty", base) ||
		base == end && (base == "-" || strings.HasSuffix("stdin", base) || strings.HasSuffix("tty", base))
}

func (s *shell) call(call *syntax.CallExpr) {
	var args []arg
	for _, w := range call.Args {
		args = append(args, s.words(w)...)
	}
	s.command(args)
}

// command adds the targets of a command.
func (s *shell) command(args []arg) {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.undecidable("command")
		return
	}
	if len(args) == 0 {
		return
	}
	// In zsh, =NAME is the file of the command NAME, and { after repeat begins a block.
	if !args[0].known || args[0].text == "" || args[0].text[0] == '=' || hasWord("{ } !", args[0].text) {
		s.undecidable("command")
		return
	}
	name, rest := path.Base(args[0].text), args[1:]
	if name != "[" && strings.ContainsAny(args[0].text, "*?[") && (!strings.HasPrefix(args[0].text, "./") || strings.Contains(args[0].text, "..")) { // as in /bin/r?
		s.undecidable("command")
	}
	s.add(gate.Target{Kind: "other", Value: name, Operation: "exec", EndpointClass: "proc.exec"})
	s.calculates(name, rest)
	if args[0].text == name {
		s.function(name)
	}
	u := usageOf(name)
	switch u.role {
	case wraps, wrapsText:
		s.wrapper(name, u, rest)
		return
	case shells:
		s.interpreter(u, rest)
	case programs:
		s.script(u, rest)
	case opaque:
		if name != "git" && !(len(rest) == 1 && rest[0].known && hasWord("crontab-l tmuxls", name+rest[0].text)) {
			s.undecidable("command")
		}
	}
	if s.builtin(name, rest) {
		s.undecidable("command")
	}
	if setsForZsh(args) {
		s.forget()
	}
	switch name {
	case "eval":
		s.eval(rest)
		s.forget()
	case "trap":
		if rest = afterDashes(rest); len(rest) > 1 {
			s.trap(rest)
		}
	case "alias": // an alias changes the meaning of later words
		if slices.ContainsFunc(rest, func(a arg) bool { return !a.known || strings.Contains(a.text, "=") }) {
			s.undecidable("command")
		}
	case "source", ".":
		if rest = afterDashes(rest); len(rest) == 0 || !rest[0].known || rest[0].input() {
			s.undecidable("command")
		}
		s.forget()
	case "read", "mapfile", "readarray", "getopts", "unset", "export", "declare", "typeset", "local", "readonly":
		s.forget()
	case "awk", "gawk", "mawk", "nawk":
		s.awk(u, rest)
	case "find", "fd", "fdfind":
		s.find(name, rest)
	case "apply_patch", "applypatch":
		s.patch(rest)
	case "cd", "pushd":
		s.cd(rest)
		s.moved()
		return
	case "popd":
		s.dirs = nil
		s.moved()
		return
	}
	s.files(name, u, rest)
}

// builtin reports whether a builtin command runs a command that its arguments hide, and
// notes what it changes for later commands.
func (s *shell) builtin(name string, args []arg) bool {
	flag := func(letters string) bool {
		return slices.ContainsFunc(args, func(a arg) bool { return a.flagPart() || a.flag() && strings.ContainsAny(a.text, letters) })
	}
	if s.setsTable(name, args) {
		return true
	}
	switch name {
	case "jobs":
		return flag("x")
	case "compgen", "complete":
		return flag("CFW")
	case "hash": // in zsh, after hash NAME=FILE the command NAME runs FILE
		return flag("p") || slices.ContainsFunc(args, func(a arg) bool { return !a.known || strings.Contains(a.text, "=") })
	case "fc":
		return !flag("l") || slices.ContainsFunc(args, arg.flagPart)
	case "emulate":
		return flag("c") || slices.ContainsFunc(args, func(a arg) bool { return !a.known })
	case "zmodload":
		return slices.ContainsFunc(args, func(a arg) bool {
			return !a.flag() && !hasWord("zsh/datetime zsh/mathfunc zsh/regex zsh/pcre zsh/stat zsh/zutil zsh/terminfo", a.text)
		})
	case "enable":
		return flag("f")
	case "zstyle":
		return flag("e")
	case "print": // with -P, zsh expands the arguments as it expands a prompt
		return flag("P") && slices.ContainsFunc(args, func(a arg) bool { return substitutes(a.text) })
	case "bind":
		return flag("x")
	case "set", "setopt", "setopts":
		s.physical = s.physical || followsLinks(name, args)
		return slices.ContainsFunc(args, func(a arg) bool { return indexRuns(a.text) }) || setsBraces(name, args)
	case "shopt":
		if slices.ContainsFunc(args, func(a arg) bool { return !a.known || a.text == "cdable_vars" }) {
			s.count["CDPATH"]++
		}
	case "printf":
		if first, rest := next(args); len(rest) > 1 && (!first.known || strings.HasPrefix(first.text, "-v")) {
			s.forget()
			return slices.ContainsFunc(args, func(a arg) bool { return indexRuns(a.text) })
		}
	case "test", "[", "unset", "read", "mapfile", "readarray", "let", "getopts", "wait":
		return slices.ContainsFunc(args, func(a arg) bool { return indexRuns(a.text) })
	case "kill", "skill", "fuser":
		if name == "fuser" && flag("k") || name != "fuser" && !killsKnown(args) {
			s.destroys(name)
		}
	}
	return false
}

// followsLinks reports whether the arguments of set may make cd follow links before .., as
// set -P does: after it, cd link/.. enters the parent of the folder to which link leads.
func followsLinks(name string, args []arg) bool {
	args = optionsOf(name, args)
	for i, a := range args {
		switch {
		case a.anything(), !a.known && strings.HasPrefix(a.begin, "-"), a.flag() && strings.ContainsAny(a.text, "Pw"):
			return true
		case hasWord("physical chaselinks chasedots", optionName(a.text)), !a.known && namesOption(name, args, i):
			return true
		}
	}
	return false
}

// killsKnown reports whether kill sends no signal, or sends it only to jobs and to process
// ids and group ids above 1 that are written in the line. A computed id may be the pid of a
// hook process, which asks whether a tool may run.
func killsKnown(args []arg) bool {
	first, rest := next(args)
	switch {
	case first.known && hasWord("-0 -l -L", first.text):
		return true
	case first.known && hasWord("-s -n", first.text):
		_, args = next(rest)
	case first.flag():
		args = rest
	}
	for _, a := range afterDashes(args) {
		pid, err := strconv.Atoi(strings.TrimPrefix(a.text, "-"))
		if !a.known || !strings.HasPrefix(a.text, "%") && (err != nil || pid < 2) {
			return false
		}
	}
	return true
}

// wrapper analyses the command that a command such as sudo, env or xargs runs.
func (s *shell) wrapper(name string, u usage, args []arg) {
	if name == "perf" && len(args) > 0 && args[0].known && hasWord("report list annotate diff evlist version help", args[0].text) {
		return
	}
	in := u.parse(args, true)
	if in.unknown || in.hidden {
		s.undecidable("command")
		return
	}
	if in.marked('#') {
		return
	}
	before := s.dirs
	s.values(name, in)
	inner := in.operands[min(u.skip, len(in.operands)):]
	switch name {
	case "env", "sudo", "doas":
		inner = s.assigned(inner)
	case "unshare":
		if len(inner) == 0 { // without a command, unshare runs a shell
			s.undecidable("command")
		}
	case "perf": // in perf lock record COMMAND, another subcommand precedes the command
		if len(inner) > 0 && hasWord("record stat", inner[0].text) {
			s.wrapper(name, u, inner)
			return
		}
	case "xargs":
		inner = fromInput(inner, in.has("I i J replace"))
	}
	if u.role == wrapsText {
		s.apart(func() { s.eval(inner) })
	} else {
		s.command(inner)
	}
	if in.marked('/') {
		s.dirs = before
	}
}

// values adds the files and commands that the values of flags name.
func (s *shell) values(name string, in invocation) {
	for _, f := range in.flags {
		switch f.mark {
		case '~':
			s.undecidable("command")
		case '!':
			s.apart(func() { s.eval([]arg{f.value}) })
		case '/':
			s.touch(f.value, "read")
			s.dirs = s.entered(f.value)
		case '>':
			if f.value.known && f.value.text == "-" {
				continue
			}
			s.touch(f.value, "write")
		case '<':
			s.touch(f.value, "read")
		}
		if leavesOut := !f.doubt && strings.HasPrefix(f.name, "exclude") && f.mark == ':' || name == "zip" && f.name == "x" && !f.doubt || name == "rg" && strings.HasPrefix(f.value.text, "!"); !leavesOut {
			s.argument(name, f.value)
		}
	}
}

func afterDashes(args []arg) []arg {
	if len(args) > 0 && args[0].known && args[0].text == "--" {
		return args[1:]
	}
	return args
}

// assigned removes leading words of the form NAME=VALUE, and notes the variables that they
// set. It also removes a -, as in env - NAME=VALUE.
func (s *shell) assigned(args []arg) []arg {
	for len(args) > 0 && args[0].known && (args[0].text == "-" || strings.Index(args[0].text, "=") > 0) {
		name, value, _ := strings.Cut(args[0].text, "=")
		s.count[name]++
		s.value(name, arg{text: value, known: true})
		s.argument("env", arg{text: value, known: true})
		args = args[1:]
	}
	return args
}

// fromInput returns the command that xargs runs. xargs appends arguments from its input,
// so the last argument is unknown. Each argument that may contain the placeholder is
// unknown too.
func fromInput(args []arg, replaces bool) []arg {
	inner := slices.Clone(args)
	for i := range inner {
		if i > 0 && replaces || strings.Contains(inner[i].text, "{}") {
			inner[i] = arg{}
		}
	}
	if len(inner) == 0 {
		return nil
	}
	return append(inner, arg{})
}

// interpreter analyses the text in sh -c TEXT. A shell that reads its commands from
// its input is marked as undecidable.
func (s *shell) interpreter(u usage, args []arg) {
	in := u.parse(args, true)
	text, _ := next(in.operands)
	switch {
	case in.marked('#'):
	case in.unknown || in.hidden || !text.known || in.has("s") && !in.has("c"),
		slices.ContainsFunc(in.flags, func(f flag) bool { return strings.HasSuffix(f.name, "file") && (!f.value.known || f.value.input()) }):
		s.undecidable("command")
	case in.has("c"):
		s.apart(func() {
			inner := s.newShell(s.dirs)
			inner.captured, inner.substituting = s.captured, s.substituting
			inner.gitDirs = s.gitDirs
			inner.physical = in.has("P") || slices.ContainsFunc(in.flags, func(f flag) bool { return f.name == "o" && f.value.text == "physical" })
			inner.depth, inner.funcs = s.depth, maps.Clone(s.funcs) // sh -c can call the functions that are exported
			if len(s.funcs) > 0 {                                   // functions may set variables
				maps.Copy(inner.count, s.count)
			}
			for _, name := range []string{"HOME", "PWD", "CDPATH"} {
				inner.count[name] = s.count[name] + s.count[""]
			}
			inner.line(text.text)
		})
	case text.input():
		s.undecidable("command")
	}
}

func (s *shell) eval(args []arg) {
	var words []string
	for _, a := range args {
		if !a.known {
			s.undecidable("command")
			return
		}
		words = append(words, a.text)
	}
	s.line(strings.Join(words, " "))
}

// script adds an undecidable command if the program that an interpreter runs may be
// elsewhere than in a file that the arguments name: in the arguments themselves, at an
// address or on standard input.
func (s *shell) script(u usage, args []arg) {
	in := u.parse(args, true)
	program, rest := next(in.operands)
	if hasWord("bun deno", u.names) && program.known && hasWord("run test serve bench", program.text) { // flags may also follow this word
		sub := u.parse(rest, true)
		if u.names == "bun" && program.text == "run" && !sub.unknown {
			s.command(sub.operands) // bun run NAME may run the command NAME
		}
		in.hidden = in.hidden || sub.partly
		if in.unknown = in.unknown || sub.unknown && slices.ContainsFunc(rest, arg.remote); len(sub.operands) > 0 && !sub.unknown {
			program = sub.operands[0]
		}
		in.flags = append(in.flags, sub.flags...)
	}
	switch {
	case in.unknown || in.hidden || in.marked('~') || slices.ContainsFunc(in.flags, flag.loads):
		s.undecidable("command")
	case in.marked('#'):
	case in.marked('|'):
		if f := in.flags[len(in.flags)-1]; !f.value.known || f.value.input() || f.name == "m" && takesCode(f.value.text, in.operands, 0) {
			s.undecidable("command")
		} else if f.name == "m" {
			s.module(f.value.text, in.operands)
		}
	case in.hasCode(u.names):
		s.undecidable("command")
	case program.remote() || hasWord("eval repl exec", program.text):
		s.undecidable("command")
	}
}

// remote reports whether the program that the argument a names may come from elsewhere than
// a file: from the input, from an address, or, as in data:CODE, from the argument itself.
func (a arg) remote() bool {
	text := strings.ToLower(a.text)
	return !a.known || a.input() || strings.Contains(text, "://") || slices.ContainsFunc([]string{"data:", "http:", "https:", "blob:"}, func(scheme string) bool { return strings.HasPrefix(text, scheme) })
}

// loads reports whether a flag loads a program from elsewhere than a file, or is a setting
// of php that names a program, even one in a file.
func (f flag) loads() bool {
	return strings.Contains(strings.ToLower(f.value.text), "data:") || hasWord("r require import loader experimental-loader preload", f.name) && f.mark == ':' && f.value.remote() ||
		f.name == "d" && f.mark == ':' && f.value.setsProgram()
}

// setsProgram reports whether a setting of php names a program that php loads or runs.
func (a arg) setsProgram() bool {
	name, value, is := strings.Cut(strings.ToLower(a.start()), "=")
	return !a.known && !is || hasWord("auto_prepend_file auto_append_file opcache.preload sendmail_path", strings.TrimSpace(name)) ||
		strings.Contains(value, "://") || strings.Contains(value, "\n") || strings.HasSuffix(strings.TrimSpace(name), "extension") && (!a.known || strings.Contains(value, "/"))
}

// takesCode reports whether a module of Python runs code from its arguments or its input,
// or may run another module that does. depth is the number of modules that run this one.
func takesCode(module string, args []arg, depth int) bool {
	const prompts = "timeit code asyncio pdb idlelib IPython ptpython bpython _pyrepl"
	name, _, _ := strings.Cut(module, ".")
	if hasWord(prompts, name) || !hasWord("cProfile profile trace coverage runpy", name) {
		return hasWord(prompts, name)
	}
	u := profilers(name)
	in := u.parse(args, true)
	if sub, rest := next(in.operands); name == "coverage" && sub.known {
		if sub.text != "run" {
			return false
		}
		in = u.parse(rest, true)
	}
	program, rest := next(in.operands)
	switch {
	case in.partly || depth > maxDepth:
		return true
	case in.marked('|'):
		inner := in.flags[len(in.flags)-1].value
		return !inner.known || takesCode(inner.text, in.operands, depth+1)
	case program.known && !in.unknown:
		return name == "runpy" && takesCode(program.text, rest, depth+1)
	}
	for i, a := range args {
		inner, _, _ := strings.Cut(strings.TrimPrefix(a.text, "-m"), ".")
		if hasWord(prompts, inner) || !a.known && i > 0 && strings.HasPrefix(strings.TrimLeft(args[i-1].text, "-"), "m") {
			return true
		}
	}
	return false
}

// profilers returns the usage of a module of Python that runs a program or, after -m,
// another module.
func profilers(module string) usage {
	switch module {
	case "cProfile", "profile":
		return usage{short: "o>s:m|", long: "outfile> sort:"}
	case "trace":
		return usage{short: "ctTlrRsgf:C:m|", long: "count trace trackcalls listfuncs report no-report summary timing missing file: coverdir: ignore-module: ignore-dir: module|"}
	case "coverage":
		return usage{short: "apLm|", long: "append branch parallel-mode pylib timid source: omit: include: rcfile: data-file: concurrency: context: save-signal: module|"}
	}
	return usage{}
}

// hasCode reports whether the value of a flag -M or -F of perl may hold code. In -M, code
// may follow the name of a module, as in -Mstrict;CODE, but not after the = in -MMODULE=NAME.
// The value of -F is a pattern, which perl inserts into the code of a split.
func (in invocation) hasCode(names string) bool {
	return slices.ContainsFunc(in.flags, func(f flag) bool {
		return hasWord("M m", f.name) && (strings.ContainsAny(f.value.begin+f.value.text, "; \t\n(){}") || names == "perl" && !f.value.known && !strings.Contains(f.value.begin, "=")) || names == "perl" && f.name == "F" && !isPattern(f.value)
	})
}

// isPattern reports whether the pattern of perl -F is only a pattern, which runs no code.
func isPattern(a arg) bool {
	text := a.text
	if !a.known || strings.ContainsAny(text, "(;`@$") {
		return false
	}
	quoted := text != "" && strings.IndexByte(`/"'`, text[0]) >= 0
	return !quoted || strings.IndexByte(text[1:], text[0]) == len(text)-2
}

// cd adds a possible working directory. The command cd may fail, so the previous
// directories remain possible.
func (s *shell) cd(args []arg) {
	args = afterDashes(args)
	to, _ := next(args)
	switch {
	case s.dirs == nil:
		return
	case len(args) == 0:
		to = arg{text: "~", known: true}
	case len(args) > 1 && !to.flag(): // in zsh, cd OLD NEW replaces OLD by NEW in the name of the present folder
		s.dirs = nil
		return
	case to.flag() && to.text != "-L", s.count["CDPATH"]+s.count["cdpath"]+s.count[""] > 0 && !strings.HasPrefix(to.text, ".") && !path.IsAbs(to.text):
		s.dirs = nil
		return
	case to.known && to.text == "-L":
		s.cd(args[1:])
		return
	}
	s.touch(to, "read")
	below := s.below(to)
	if s.physical && (!path.IsAbs(to.text) || strings.Contains(to.text, "..")) {
		below = nil
	}
	if s.dirs = append(slices.Clone(s.dirs), below...); below == nil || len(s.dirs) > 64 {
		s.dirs = nil
	}
}

// below returns the absolute paths that a path may have, one for each possible working
// directory; nil if they are unknown. Like cd, below removes NAME/.. from a path.
func (s *shell) below(to arg) (all []string) {
	if !to.known || to.text == "-" || strings.ContainsAny(to.text, "*?[") {
		return nil
	}
	if to.text == "~" || strings.HasPrefix(to.text, "~/") {
		if s.scene.Home == "" || s.changed("HOME") {
			return nil
		}
		to.text = s.scene.Home + to.text[1:]
	}
	if strings.HasPrefix(to.text, "~") {
		return nil
	}
	if path.IsAbs(to.text) {
		return []string{path.Clean(to.text)}
	}
	for _, dir := range s.dirs {
		all = append(all, path.Join(dir, to.text))
	}
	return all
}

// patch adds the files that the text of a patch names.
func (s *shell) patch(args []arg) {
	text, ok := s.input, s.input != ""
	if len(args) > 0 {
		text, ok = args[0].text, args[0].known
	}
	files, whole := telemetry.PatchFiles(text)
	for _, f := range files {
		s.touch(arg{text: f.Path, known: true}, f.Op)
	}
	if !ok || !whole {
		s.undecidable("command")
	}
}

// entered returns the possible working directories of a program that itself changes to a
// folder, such as git -C FOLDER. If x in the path x/.. is a link, the program follows the
// link, but the command cd of a shell does not.
func (s *shell) entered(to arg) []string {
	dirs := s.below(to)
	if strings.Contains(to.text, "/..") && s.scene.Resolve != nil && dirs != nil {
		if path.IsAbs(to.text) {
			return []string{s.scene.Resolve(to.text)}
		}
		dirs = nil
		for _, dir := range s.dirs {
			dirs = append(dirs, s.scene.Resolve(dir+"/"+to.text))
		}
	}
	return dirs
}

// files adds the files that a command reads, writes and deletes.
func (s *shell) files(name string, u usage, args []arg) {
	switch name {
	case "git":
		s.git(u, args)
		return
	case "tar", "gtar", "bsdtar":
		s.tar(name, u, args)
		return
	}
	in := u.parse(args, hasWord("ssh npx pnpm yarn bundle", name))
	before := s.dirs
	defer func() { s.dirs = before }() // a flag such as go -C FOLDER changes the folder only for this command
	if u.role != programs && u.role != shells {
		s.values(name, in)
	}
	if in.hidden && u.writes() || in.partly && u.runs(name) {
		s.undecidable("command")
	}
	switch u.role {
	case deletes:
		s.each(in.operands, "delete")
		if name == "shred" || in.has("r R recursive no-preserve-root") {
			s.destroys(name)
		}
	case writes:
		s.each(in.operands, "write")
	case first:
		s.each(in.operands[:min(1, len(in.operands))], "write")
	case compresses:
		if !in.has("c l t stdout to-stdout list test") {
			s.each(in.operands, "write")
		}
	case changes:
		if in.unknown { // the unknown flag is a mode, as in chmod -x FILE, so each operand is a file
			s.each(in.operands, "write")
		} else {
			s.each(in.operands[min(1, len(in.operands)):], "write")
		}
		if in.has("R recursive") {
			s.destroys(name)
		}
	case copies, moves:
		s.copies(name, u, in)
	}
	s.tool(name, in)
	op := s.uses(name, args)
	for _, a := range s.operandsRead(name, u, in, args) {
		s.operand(name, a, op)
	}
}

// tool adds the targets of commands that need a rule of their own. The parameter name is
// the name of the command.
func (s *shell) tool(name string, in invocation) {
	switch name {
	case "sed", "gsed":
		s.sed(in)
	case "perl":
		if in.has("i") {
			s.each(in.operands, "write")
			s.backups(in)
		}
	case "make", "gmake", "ssh", "scp", "sftp":
		if slices.ContainsFunc(in.flags, func(f flag) bool { return f.runs(name) }) {
			s.undecidable("command")
		}
	case "zip":
		if i := slices.IndexFunc(in.flags, func(f flag) bool { return f.name == "T" }); i >= 0 && i+1 < len(in.flags) && in.flags[i+1].name == "T" {
			s.undecidable("command") // -TT COMMAND
		}
		if in.has("m move") && len(in.operands) > 0 {
			s.each(in.operands[1:], "delete")
		}
	case "split":
		to := arg{text: ".", known: true} // without a second operand, split writes xaa, xab and so on to the current folder
		if len(in.operands) > 1 {
			to = in.operands[1]
		}
		s.touch(to, "write")
	case "curl":
		s.uploads(in)
		if in.has("O remote-name remote-name-all") && !in.has("output-dir") {
			s.touch(arg{text: ".", known: true}, "write")
		}
	case "wget":
		if !in.has("O output-document P directory-prefix") {
			s.touch(arg{text: ".", known: true}, "write")
		}
	case "unzip":
		if len(in.operands) > 0 && !in.has("d l t p v Z z") {
			s.touch(arg{text: ".", known: true}, "write")
		}
	case "mkfs", "mke2fs", "mkswap", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "wipefs", "blkdiscard", "lvremove", "vgremove", "pvremove", "shutdown", "reboot", "poweroff", "halt", "init", "killall", "pkill":
		s.destroys(name)
	}
	if strings.HasPrefix(name, "mkfs.") {
		s.destroys(name)
	}
	s.program(name, in)
}

// printsNames are the commands that only print the names of files, or facts about them.
// usesNames are other commands that use the names and do not read the files. readsFiles
// are the commands that read the files that their operands name.
const (
	printsNames = "ls stat echo printf basename dirname realpath readlink du tree find fd fdfind"
	usesNames   = "test [ touch mkdir mkfifo tee truncate"
	readsFiles  = "< cat head tail less more bat nl od xxd hexdump strings base64 tac rev sort uniq wc cut paste fold awk sed cp mv scp rsync tar zip curl diff cmp source . dd jq openssl"
)

// uses returns what a command does with the files that its operands name.
func (s *shell) uses(name string, args []arg) string {
	switch {
	case hasWord(usesNames, name):
		return opName
	case hasWord(printsNames, name) && !s.captured && !slices.ContainsFunc(args, func(a arg) bool {
		return hasWord("-exec -execdir -ok -okdir -files0-from", a.text) || name != "find" && strings.HasPrefix(name, "fd") && s.runs(a.text) || strings.HasPrefix(a.text, "--files0-from")
	}):
		return opName
	case hasWord(readsFiles, name):
		return opContent
	}
	return "read"
}

// operandsRead returns the arguments that name files to be read. It leaves out others, such
// as the pattern of grep and the file to which cp copies.
func (s *shell) operandsRead(name string, u usage, in invocation, args []arg) []arg {
	if name == "jq" || name == "yq" || name == "gojq" {
		return in.withoutProgram(args, func(a arg) bool { return name == "yq" && s.mayExist(a) })
	}
	args = in.withoutExcluded(name, args)
	var skip arg
	switch n := len(in.operands); {
	case hasWord("grep egrep fgrep rg", name) && n > 0 && !in.partly && !in.has("e f regexp file files"):
		skip = in.operands[0]
	case u.role == copies && n > 1 && !in.unknown && !in.has("t target-directory") && hasWord("cp install", name):
		skip = in.operands[n-1]
	}
	if i := slices.Index(args, skip); skip.known && i >= 0 {
		if u.role == copies {
			i = len(args) - 1
			for args[i] != skip {
				i--
			}
		}
		return slices.Concat(args[:i], args[i+1:])
	}
	return args
}

// withoutProgram returns args without the program of jq, which is the first operand. The
// first operand of yq may be a file instead; the parameter file reports whether an argument
// may be one.
func (in invocation) withoutProgram(args []arg, file func(arg) bool) []arg {
	if in.has("f from-file L expression") {
		return args
	}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case !a.known:
			return args
		case hasWord("--arg --argjson --slurpfile --rawfile", a.text):
			i += 2
		case a.text == "--indent":
			i++
		case !a.flag() && file(a):
			return args
		case !a.flag() && !(i == 0 && hasWord("e ea eval eval-all", a.text)): // a first word such as eval is a command of yq
			return slices.Concat(args[:i], args[i+1:])
		}
	}
	return args
}

// mayExist reports whether there may be a file with the name that is in the word a.
func (s *shell) mayExist(a arg) bool {
	below := s.below(a)
	return below == nil || s.scene.Exists == nil || slices.ContainsFunc(below, s.scene.Exists)
}

// withoutExcluded leaves out the patterns of files that a command does not read.
func (in invocation) withoutExcluded(name string, args []arg) (rest []arg) {
	words, flags := 0, 0 // if the numbers differ, a word such as --exclude may be the value of another flag, or a file
	for _, a := range args {
		if strings.HasPrefix(a.start(), "--exclude") || name == "zip" && a.start() == "-x" {
			words++
		}
	}
	for _, f := range in.flags {
		if !f.doubt && (strings.HasPrefix(f.name, "exclude") || name == "zip" && f.name == "x") {
			flags++
		}
	}
	if words != flags {
		return args
	}
	for i, a := range args {
		before := ""
		if i > 0 && args[i-1].known {
			before = args[i-1].text
		}
		switch {
		case a.known && (strings.HasPrefix(a.text, "--exclude=") || strings.HasPrefix(a.text, "--exclude-dir=")),
			hasWord("--exclude --exclude-dir", before) && hasWord("grep egrep fgrep tar rsync du zip", name), name == "zip" && before == "-x",
			name == "rg" && a.known && strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(a.text, "--glob="), "-g"), "!"):
		default:
			rest = append(rest, a)
		}
	}
	return rest
}

// runs reports whether a flag may hide other commands: those of a makefile that make reads
// from its input, or that of a setting of ssh such as ProxyCommand.
func (f flag) runs(name string) bool {
	if name == "make" || name == "gmake" {
		return f.mark == '<' && f.value.mayBeInput()
	}
	return f.name == "o" && (!f.value.known || strings.Contains(strings.ToLower(f.value.text), "command"))
}

func (s *shell) each(list []arg, op string) {
	for _, a := range list {
		s.touch(a, op)
	}
}

// copies adds what a command such as cp or mv writes and deletes.
func (s *shell) copies(name string, u usage, in invocation) {
	sources, to := in.operands, []arg(nil)
	for _, f := range in.flags {
		if f.name == "t" && f.mark == '>' || f.name == "target-directory" {
			to = append(to, f.value)
		}
	}
	switch {
	case name == "install" && in.has("d directory"):
		s.each(sources, "write")
		return
	case len(to) == 0 && len(sources) > 1:
		to, sources = sources[len(sources)-1:], sources[:len(sources)-1]
		s.each(to, "write")
	}
	if u.role == moves || in.has("remove-source-files") {
		s.each(sources, "delete")
	}
	for _, f := range in.flags {
		if strings.HasPrefix(f.name, "del") {
			s.destroys(name + " --delete")
		}
	}
	links := u.role == moves || in.has("a d P R r archive recursive links no-dereference l")
	for _, source := range sources {
		for _, dir := range to { // the copy in dir may be a file or folder of settings
			for _, into := range dir.texts() {
				for _, from := range source.texts() {
					if inside := path.Join(into, path.Base(from)); telemetry.IsSettings(inside) {
						s.touch(arg{text: inside, known: true}, "write")
					}
				}
			}
			if links && name != "install" {
				s.copied(source, dir)
			}
		}
	}
}

// tar adds the files of an archive command. Its first operand may be a group of flags
// without a dash; then their values follow in order.
func (s *shell) tar(name string, u usage, args []arg) {
	if len(args) > 0 && args[0].known && args[0].text != "" && args[0].text[0] != '-' {
		group, rest := args[0].text, args[1:]
		args = nil
		for i := range len(group) {
			args = append(args, arg{text: "-" + group[i:i+1], known: true})
			if at := strings.IndexByte(u.short, group[i]); at >= 0 && at+1 < len(u.short) && strings.IndexByte(":<>~", u.short[at+1]) >= 0 && len(rest) > 0 {
				args, rest = append(args, rest[0]), rest[1:]
			}
		}
		args = append(args, rest...)
	}
	in := u.parse(args, false)
	s.values(name, in)
	if first, _ := next(args); in.hidden || !first.known && !strings.HasPrefix(first.begin, "-") { // an unknown first operand may be a group of flags
		s.undecidable("command")
	}
	creates, extracts := in.has("c r u A create append update catenate concatenate delete"), in.has("x extract get")
	reads := in.has("t d list diff compare") && !creates && !extracts
	if in.has("P absolute-names") && extracts {
		s.undecidable("path")
	}
	into := arg{text: ".", known: true}
	for _, f := range in.flags {
		switch {
		case f.name == "f" || f.name == "file":
			if !creates && (extracts || reads) || f.value.known && f.value.text == "-" {
				s.touch(f.value, "read")
			} else {
				s.touch(f.value, "write")
			}
		case f.name == "one-top-level" && f.value.text+f.value.begin != "":
			s.touch(f.value, "write")
		case f.name == "C" || f.name == "directory":
			into = f.value
			if !creates && !reads {
				s.touch(into, "write")
			}
		}
	}
	if extracts && !in.has("O") {
		s.touch(into, "write")
		s.copied(arg{}, into)
	}
	if in.has("remove-files") {
		s.each(in.operands, "delete")
	}
	for _, a := range in.operands {
		s.argument(name, a)
	}
}

// argument adds the files that one argument of any command names: of=FILE, @FILE, and
// every word that looks like a path.
func (s *shell) argument(name string, a arg) { s.operand(name, a, s.uses(name, nil)) }

// operand is like argument, but its parameter op says whether the command reads the
// files that the word a names, or uses only their names.
func (s *shell) operand(name string, a arg, op string) {
	text := a.text
	if !a.known && name == "dd" && (strings.HasPrefix("of=", a.begin) || strings.HasPrefix(a.begin, "of=") || a.loose) {
		s.destroys("dd")
		s.undecidable("path")
	}
	if !a.known {
		for _, choice := range a.texts() {
			if s.read += 1 + len(choice)/10; s.read > maxWords {
				s.undecidable("command")
				return
			}
			s.operand(name, arg{text: choice, known: true}, op)
		}
		if isSecret(text) && op != opName { // as in $(pwd)/.env
			if strings.HasPrefix(text, "/") {
				s.add(gate.Target{Kind: "path", Value: strings.TrimPrefix(text, "/"), Operation: "read", EndpointClass: "fs.read", Sensitivity: Secret})
			} else {
				s.undecidable("path")
			}
		}
		return
	}
	if v, ok := strings.CutPrefix(text, "of="); ok && name == "dd" {
		s.destroys("dd")
		s.touch(arg{text: v, known: true}, "write")
		return
	}
	if _, v, ok := strings.Cut(text, "="); ok {
		text = v
	}
	text = strings.TrimPrefix(text, "@")
	switch {
	case len(text) > 5 && strings.EqualFold(text[:5], "file:"): // curl expands patterns such as {a,b} in an address
		list, ok := alternatives(text)
		if !ok {
			s.undecidable("path")
		}
		for _, address := range list {
			use := telemetry.ToolUse{}
			use.Address(address, "read")
			for _, f := range use.Paths {
				s.touch(arg{text: f.Path, known: true}, opContent)
			}
		}
	case strings.Contains(text, "://"):
		if hasWord("curl wget git nc ssh http xh", name) {
			s.add(gate.Target{Kind: "url", Value: text, Operation: "get"})
		}
	case strings.ContainsAny(text, " \t\n|;<>$`(){}'\""), strings.HasPrefix(text, "-"):
	case strings.Contains(text, "/"), strings.HasPrefix(text, "~"), isSecret(text),
		op == opContent && (text == "credentials" || dotFiles(text)):
		s.touch(arg{text: text, known: true}, op)
	}
	if i := strings.LastIndexByte(text, ':'); i >= 0 && isSecret(text[i+1:]) { // as in HEAD:.env
		s.touch(arg{text: text[i+1:], known: true}, op)
	}
}
