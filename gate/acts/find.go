package acts

import (
	"slices"
	"strings"
)

// The tests, options and actions of find that have a value, except the actions that write
// a file or run a command.
const findValues = "-name -iname -path -ipath -wholename -iwholename -lname -ilname -regex -iregex -regextype -type -xtype -maxdepth -mindepth -mtime -atime -ctime -mmin -amin -cmin -used -newer -anewer -cnewer -size -perm -user -group -uid -gid -links -inum -samefile -fstype -context -printf -D"

func (s *shell) find(name string, args []arg) {
	var roots []arg
	for _, a := range args {
		if name == "find" && len(roots) == 0 && hasWord("-L -H -P", a.text) {
			continue
		}
		if a.flag() || name == "find" && hasWord("( ! ,", a.text) {
			break
		}
		roots = append(roots, a)
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !a.known:
			s.findUnknown(name, a, i)
		case a.text == "-delete":
			s.destroys("find -delete")
			if len(roots) == 0 {
				roots = []arg{{text: ".", known: true}}
			}
			for _, root := range roots {
				root.text += "/*" // some files below the root; the other arguments select them
				s.touch(root, "delete")
			}
		case hasWord("-fprint -fprint0 -fprintf -fls", a.text):
			file, _ := next(args[i+1:])
			s.touch(file, "write")
			i++
		case name == "find" && (hasWord(findValues, a.text) || strings.HasPrefix(a.text, "-newer")) && i+1 < len(args) && !args[i+1].loose:
			i++
		case hasWord("-exec -execdir -ok -okdir", a.text), name != "find" && s.runs(a.text):
			end := slices.IndexFunc(args[i:], func(a arg) bool { return a.known && (a.text == ";" || a.text == "+") })
			if end < 0 {
				end = len(args) - i
			}
			if name == "find" && hidesEnd(args[i+1:i+end]) {
				s.undecidable("command")
			}
			s.findRuns(name, a.text, args[i+1:i+end])
			i += end
		}
	}
}

// hidesEnd reports whether the command after -exec may end earlier than it seems, at a word
// that is not known, and an action of find may follow.
func hidesEnd(command []arg) bool {
	end := slices.IndexFunc(command, func(a arg) bool { return !a.known && (a.begin == "" || hasWord("; +", a.begin)) })
	return end >= 0 && slices.ContainsFunc(command[end:], func(a arg) bool {
		return hasWord("-delete -fprint -fprint0 -fprintf -fls -exec -execdir -ok -okdir", a.text)
	})
}

// findRuns analyses the command that find or fd runs for each file.
func (s *shell) findRuns(name, flag string, command []arg) {
	inner := slices.Clone(command)
	if name != "find" {
		inner = append(inner, arg{}) // fd appends the name of the found file
	}
	for j := range inner {
		if strings.Contains(inner[j].text, "{}") {
			inner[j] = arg{}
		}
	}
	if strings.HasPrefix(flag, "--exec") && strings.Contains(flag, "=") {
		inner = []arg{{}}
	}
	s.apart(func() {
		if hasWord("-execdir -okdir", flag) {
			s.dirs = nil // the command runs in the folder of each file
		}
		s.command(inner)
	})
}

// findUnknown adds an undecidable command if the argument a, which is not known, may be
// an action of find or fd; i is its index. In quotes, the first argument of find counts
// as a folder, and each argument of fd as a pattern. But "-$x" may be an action even in
// quotes, and so may "--ex$x" and "-H$x".
func (s *shell) findUnknown(name string, a arg, i int) {
	flag := strings.HasPrefix(a.begin, "-")
	if name != "find" && (a.anything() || flag && (a.loose || mayRun(a.begin) || s.runs(a.begin))) ||
		name == "find" && (flag || a.anything() || a.loose && i > 0 || i > 0 && a.begin == "") {
		s.undecidable("command")
	}
}

// mayRun reports whether a flag of fd that begins with text may be one that a command
// follows. After the letter of a flag with a value, as in -e$x, the unknown text is this
// value, and no command follows.
func mayRun(text string) bool {
	return strings.HasPrefix("--exec", text) || !strings.HasPrefix(text, "--") && !strings.ContainsAny(text, "cCdeEjoSt")
}

// runs reports whether a flag of fd is followed by a command.
func (s *shell) runs(text string) bool {
	return strings.HasPrefix(text, "--exec") || len(text) > 1 && text[0] == '-' && text[1] != '-' && strings.ContainsAny(text, "xX")
}
