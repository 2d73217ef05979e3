package acts

import (
	"slices"
	"strings"
)

// program adds those effects of a command that its usage cannot describe.
func (s *shell) program(name string, in invocation) {
	first, rest := next(in.operands)
	switch name {
	case "ssh":
		if local(first) && len(in.operands) > 0 {
			s.undecidable("command") // the command that ssh runs may run on this machine
		}
	case "pnpm", "yarn", "bundle":
		at := slices.IndexFunc(rest, func(a arg) bool { return !a.flag() })
		switch {
		case at < 0:
		case first.known && first.text == "exec":
			s.command(rest[at:])
		case first.begin != "" && strings.HasPrefix("exec", first.begin):
			s.undecidable("command")
		}
	case "yq":
		if in.has("i inplace in-place") {
			if len(rest) == 0 || in.has("f from-file expression") {
				rest = in.operands
			}
			s.each(rest, "write")
		}
	case "uniq", "xxd":
		s.each(rest, "write")
	case "ffmpeg", "convert", "magick":
		s.each(in.operands[max(0, len(in.operands)-1):], "write")
	case "gcc", "cc", "g++", "c++", "clang", "clang++", "gfortran":
		s.passedOn(in)
	case "strip":
		s.each(in.operands, "write")
	case "ar":
		s.archive(in)
	case "csplit":
		if !in.has("f prefix") {
			s.touch(arg{text: ".", known: true}, "write")
		}
		if slices.ContainsFunc(in.flags, func(f flag) bool {
			return hasWord("b suffix-format", f.name) && (!f.value.known || strings.Contains(f.value.text, "/"))
		}) {
			s.undecidable("path")
		}
	case "sqlite3":
		s.sqlite(in)
	}
}

// passedOn adds the files that the linker, or another program that a compiler starts, writes
// because of a flag such as -Wl,-Map=FILE.
func (s *shell) passedOn(in invocation) {
	var passed []arg
	for _, f := range in.flags {
		if hasWord("Xlinker Xassembler Xpreprocessor", f.name) {
			passed = append(passed, f.value)
		}
		if list, is := strings.CutPrefix(f.name, "W"); is && len(list) > 1 && list[1] == ',' {
			if f.value.text != "" {
				list += "=" + f.value.text
			}
			words := strings.Split(list[2:], ",")
			for i, word := range words {
				name, file, attached := strings.Cut(strings.TrimLeft(word, "-"), "=")
				if !attached && i+1 < len(words) {
					file = words[i+1]
				}
				if hasWord(passedWrites, name) {
					s.touch(arg{text: file, known: f.value.known}, "write")
				}
			}
		}
	}
	s.passedWords(passed)
}

// passedWords adds the files that a program writes if a compiler passes words to it one by
// one, as with -Xlinker -Map=FILE. A word without a known beginning counts as no flag.
func (s *shell) passedWords(words []arg) {
	for i, word := range words {
		name, file, attached := strings.Cut(strings.TrimLeft(word.start(), "-"), "=")
		switch value, _ := next(words[i+1:]); {
		case !strings.HasPrefix(word.start(), "-"):
		case !word.known && !attached && strings.Contains(" "+passedWrites, " "+name):
			s.undecidable("command")
		case hasWord(passedWrites, name) && attached:
			s.touch(word.attached(file), "write")
		case hasWord(passedWrites, name):
			s.touch(value, "write")
		}
	}
}

// passedWrites are the flags that make the linker, or another program that a compiler
// starts, write a file.
const passedWrites = "o MD MMD MF Map out-implib"

// passesPart reports whether a flag of a compiler that begins with text, such as Wl,-M, may
// pass on a flag that writes a file. If text is W, or W and one letter, and perhaps a comma,
// any flag may follow. In any other text, what follows the last comma must be a -, or a -
// with the beginning of a name in passedWrites.
func passesPart(text string) bool {
	list, is := strings.CutPrefix(text, "W")
	words := strings.Split(list, ",")
	last := words[len(words)-1]
	switch {
	case !is || len(words[0]) > 1:
		return false
	case len(words) == 1 || len(words) == 2 && last == "":
		return true
	}
	return strings.HasPrefix(last, "-") && strings.Contains(" "+passedWrites, " "+strings.TrimLeft(last, "-"))
}

// local reports whether a host may be this machine.
func local(host arg) bool {
	_, name, is := strings.Cut(host.text, "://")
	if !is {
		name = host.text
	}
	name = strings.ToLower(name[strings.LastIndexByte(name, '@')+1:])
	name = strings.TrimPrefix(name, "[")
	return !host.known || strings.HasPrefix(name, "localhost") || strings.HasSuffix(name, ".localhost") || strings.HasPrefix(name, "ip6-") ||
		strings.HasPrefix(name, "::") || strings.Trim(name, "0.x") == "" || strings.HasPrefix(name, "127") || strings.HasPrefix(name, "0x7f") ||
		name != "" && strings.Trim(name, "0123456789") == "" // an IP address, written as one number
}

// archive adds what ar writes. With the letter a, b or i, the name of a member precedes
// that of the archive; then both are added.
func (s *shell) archive(in invocation) {
	mode, files := next(in.operands)
	letters := mode.text
	if len(in.flags) > 0 {
		letters, files = "", in.operands
		for _, f := range in.flags {
			letters += f.name
		}
	}
	switch {
	case !mode.known || strings.ContainsAny(letters, "qrdms"):
		n := 1
		if strings.ContainsAny(letters, "abi") {
			n = 2
		}
		s.each(files[:min(n, len(files))], "write")
	case strings.Contains(letters, "x"):
		s.touch(arg{text: ".", known: true}, "write")
	}
}

// sqlite adds the database that sqlite3 writes. The statements and commands of sqlite3
// may also run programs and write files.
func (s *shell) sqlite(in invocation) {
	base, texts := next(in.operands)
	for _, f := range in.flags {
		if f.name == "cmd" {
			texts = append(texts, f.value)
		}
	}
	if len(texts) == 0 && s.input != "" {
		texts = []arg{{text: s.input, known: true}}
	}
	reads := len(texts) > 0
	for _, text := range texts {
		for statement := range strings.FieldsFuncSeq(strings.ToLower(text.text), func(r rune) bool { return r == ';' || r == '\n' }) {
			word, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
			if !text.known || strings.HasPrefix(word, ".") && !hasWord(".tables .schema .indexes .databases .mode .headers .header .width .dump", word) || word == "attach" || word == "vacuum" && strings.Contains(statement, "into") ||
				strings.Contains(statement, "writefile") || strings.Contains(statement, "load_extension") || strings.Contains(statement, "edit(") {
				s.undecidable("command")
			}
			reads = reads && (word == "" || word == "select" || word == "explain" || word[0] == '.')
		}
		if !text.known {
			s.undecidable("command")
		}
	}
	// Without texts, sqlite3 reads its statements from standard input. If that is not a file
	// (see s.fed), it may be what another command prints, which is not known.
	if len(texts) == 0 && !s.fed && !in.has("version help") {
		s.undecidable("command")
	}
	if len(in.operands) > 0 && !(base.known && base.text == ":memory:") && !reads && !in.has("readonly") {
		s.touch(base, "write")
	}
}

// module adds what a module of Python writes when it is run with -m.
func (s *shell) module(name string, args []arg) {
	in := usage{short: "o>", long: "create extract output> outfile>"}.parse(args, false)
	if hasWord("cProfile profile", name) {
		in = profilers(name).parse(args, true)
	}
	first, rest := next(in.operands)
	if in.partly && hasWord("zipfile tarfile cProfile profile zipapp", name) {
		s.undecidable("command")
	}
	switch name {
	case "venv", "virtualenv", "compileall", "gzip":
		s.each(in.operands, "write")
	case "json.tool":
		s.each(rest, "write")
	case "zipfile", "tarfile":
		switch {
		case in.has("c create"):
			s.touch(first, "write")
		case in.has("e extract"):
			s.each(append(rest, arg{text: ".", known: true})[:1], "write")
		}
	case "cProfile", "profile", "zipapp":
		s.values(name, in)
	}
}
