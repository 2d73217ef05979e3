package acts

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"lifeloop/gate"
)

// This file describes how common commands use their arguments.

// An arg is one word of a command, if it is known.
type arg struct {
	text  string
	known bool
}

func (a arg) flag() bool { return a.known && len(a.text) > 1 && a.text[0] == '-' }

// short reports whether a is a group of short flags with one of these letters.
func (a arg) short(letters string) bool {
	return a.flag() && a.text[1] != '-' && strings.ContainsAny(a.text[1:], letters)
}

func (s *shell) call(call *syntax.CallExpr) {
	if len(call.Args) == 0 {
		return
	}
	var args []arg
	for _, w := range call.Args {
		text, known := s.word(w)
		args = append(args, arg{text, known})
	}
	s.command(args)
}

// command adds the targets of a command.
func (s *shell) command(args []arg) {
	if s.depth++; s.depth > maxDepth {
		s.undecidable("command")
		return
	}
	defer func() { s.depth-- }()
	if len(args) == 0 {
		return
	}
	if !args[0].known || args[0].text == "" {
		s.undecidable("command")
		return
	}
	name, rest := path.Base(args[0].text), args[1:]
	s.add(gate.Target{Kind: "other", Value: name, Operation: "exec", EndpointClass: "proc.exec"})
	if inner, wraps := wrapped(name, rest); wraps {
		s.command(inner)
		return
	}
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash":
		s.interpreter(rest)
	case "eval":
		s.eval(rest)
	case "watch":
		s.apart(func() { s.eval(afterFlags(rest, "n")) })
	case "python", "python2", "python3", "perl", "ruby", "node", "bun", "deno", "php", "lua", "osascript":
		s.script(rest)
	case "xargs", "parallel":
		s.command(fromInput(rest))
	case "awk", "gawk", "mawk", "nawk":
		s.awk(rest)
	case "su", "runuser", "script":
		s.undecidable("command")
	case "find", "fd":
		s.find(rest)
	case "cd", "pushd":
		s.cd(rest)
		return
	case "popd":
		s.dirs = nil
		return
	}
	s.files(name, rest)
}

// wrapped returns the command that a command such as sudo, env or xargs runs.
func wrapped(name string, rest []arg) ([]arg, bool) {
	switch name {
	case "command", "builtin", "exec", "nohup", "setsid", "time":
		return afterFlags(rest, "a"), true
	case "sudo", "doas":
		return assigned(afterFlags(rest, "ughpCTRDrt")), true
	case "env":
		if slices.ContainsFunc(rest, func(a arg) bool { return a.short("S") || strings.HasPrefix(a.text, "--split-string") }) {
			return []arg{{}}, true // one word that env splits
		}
		return assigned(afterFlags(rest, "uC")), true
	case "busybox", "strace", "ltrace", "unshare", "caffeinate":
		return afterFlags(rest, "eopsuEPS"), true
	case "flock", "chroot":
		if inner := afterFlags(rest, "wE"); len(inner) > 0 {
			return inner[1:], true
		}
	case "nice", "ionice", "chrt", "stdbuf":
		return afterFlags(rest, "ncpioe"), true
	case "timeout":
		if inner := afterFlags(rest, "ks"); len(inner) > 0 {
			return inner[1:], true
		}
	}
	return nil, false
}

// afterFlags leaves out flags. The letters are short flags whose value is the next
// word.
func afterFlags(args []arg, valued string) []arg {
	for len(args) > 0 && args[0].flag() {
		text := args[0].text
		args = args[1:]
		if text == "--" {
			break
		}
		if len(text) == 2 && strings.Contains(valued, text[1:]) && len(args) > 0 {
			args = args[1:]
		}
	}
	return args
}

// assigned removes leading words of the form NAME=VALUE.
func assigned(args []arg) []arg {
	for len(args) > 0 && args[0].known && strings.Contains(args[0].text, "=") {
		args = args[1:]
	}
	return args
}

// fromInput returns the command that xargs runs. Its last argument is unknown,
// because it comes from the input of xargs, and so is each argument that contains the
// placeholder.
func fromInput(args []arg) []arg {
	replaces := slices.ContainsFunc(args, func(a arg) bool { return a.short("Ii") || strings.HasPrefix(a.text, "--replace") })
	inner := slices.Clone(afterFlags(args, "adEILnPs"))
	for i := range inner {
		if i > 0 && replaces || strings.Contains(inner[i].text, "{}") {
			inner[i] = arg{}
		}
	}
	return append(inner, arg{})
}

// awk runs commands and writes files that its own program names.
func (s *shell) awk(args []arg) {
	for _, a := range args {
		if !a.known || strings.ContainsAny(a.text, "|>") || strings.Contains(a.text, "system") {
			s.undecidable("command")
			return
		}
	}
}

// interpreter analyses the text in sh -c TEXT. A shell that reads its commands from
// its input is marked as undecidable.
func (s *shell) interpreter(args []arg) {
	for i, a := range args {
		switch {
		case !a.known:
			s.undecidable("command")
			return
		case a.short("c"):
			text := append(afterFlags(args[i+1:], "oO"), arg{})[0]
			if !text.known {
				s.undecidable("command")
				return
			}
			s.apart(func() {
				inner := &shell{collector: s.collector, dirs: s.dirs, vars: map[string]string{}, depth: s.depth}
				inner.line(text.text)
			})
			return
		case a.short("s"):
			s.undecidable("command")
			return
		case !a.flag():
			return // a script in a file
		}
	}
	s.undecidable("command")
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

// script finds a program in the arguments of an interpreter, or on its input.
func (s *shell) script(args []arg) {
	for _, a := range args {
		switch {
		case a.known && slices.Contains([]string{"--version", "-V", "-v", "--help", "-m"}, a.text):
			return
		case !a.known, a.short("ceErp"), a.known && (a.text == "-" || a.text == "--eval" || a.text == "eval"):
			s.undecidable("command")
			return
		case !a.flag():
			return // a program in a file
		}
	}
	s.undecidable("command")
}

func (s *shell) find(args []arg) {
	for i, a := range args {
		switch {
		case !a.known:
		case a.text == "-delete":
			s.destroys("find -delete")
			for _, root := range args[:i] {
				if root.flag() {
					break
				}
				root.text += "/*" // the files below the root, which the other arguments select
				s.touch(root, "delete")
			}
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}, a.text):
			end := slices.IndexFunc(args[i:], func(a arg) bool { return a.known && (a.text == ";" || a.text == "+") })
			if end < 0 {
				end = len(args) - i
			}
			inner := slices.Clone(args[i+1 : i+end])
			for j := range inner {
				if strings.Contains(inner[j].text, "{}") {
					inner[j] = arg{}
				}
			}
			s.command(inner)
		}
	}
}

// cd adds a possible working directory. It may fail, so the previous ones remain
// possible.
func (s *shell) cd(args []arg) {
	args = afterFlags(args, "")
	switch {
	case s.dirs == nil:
	case len(args) == 0 && s.scene.Home != "":
		s.dirs = append(slices.Clone(s.dirs), s.scene.Home)
	case len(args) == 0 || !args[0].known || args[0].text == "-" || strings.ContainsAny(args[0].text, "*?["):
		s.dirs = nil
	default:
		all := slices.Clone(s.dirs)
		for _, dir := range s.dirs {
			to := args[0].text
			if to == "~" || strings.HasPrefix(to, "~/") {
				to = s.scene.Home + to[1:]
			}
			if !path.IsAbs(to) {
				to = path.Join(dir, to)
			}
			all = append(all, path.Clean(to))
		}
		if s.dirs = all; len(all) > 64 {
			s.dirs = nil
		}
	}
}

// files adds the files that a command reads, writes and deletes.
func (s *shell) files(name string, args []arg) {
	var plain []arg
	for i, a := range args {
		if a.flag() && !slices.ContainsFunc(args[:i], func(b arg) bool { return b.known && b.text == "--" }) {
			continue
		}
		plain = append(plain, a)
	}
	has := func(letters string, long ...string) bool {
		return slices.ContainsFunc(args, func(a arg) bool { return a.short(letters) || a.known && slices.Contains(long, a.text) })
	}
	each := func(list []arg, op string) {
		for _, a := range list {
			s.touch(a, op)
		}
	}
	last := func(op string) {
		if len(plain) > 1 {
			each(plain[len(plain)-1:], op)
		}
	}
	switch name {
	case "rm", "rmdir", "unlink", "shred", "trash":
		each(plain, "delete")
		if name == "shred" || has("rRf", "--recursive", "--force", "--no-preserve-root") {
			s.destroys(name)
		}
	case "tee", "touch", "mkdir", "mkfifo", "truncate":
		each(plain, "write")
	case "chmod", "chown", "chgrp", "setfacl":
		if len(plain) > 1 {
			each(plain[1:], "write")
		}
		if has("R", "--recursive") {
			s.destroys(name)
		}
	case "cp", "install", "rsync", "scp":
		last("write")
	case "ln": // a later command can write to the target by the name of the link
		each(plain, "write")
	case "mv":
		each(plain[:max(len(plain)-1, 0)], "delete")
		last("write")
	case "sed", "perl":
		if has("i", "--in-place") || slices.ContainsFunc(args, func(a arg) bool { return strings.HasPrefix(a.text, "-i") || strings.HasPrefix(a.text, "--in-place") }) {
			each(plain[min(1, len(plain)):], "write")
		}
	case "git":
		s.git(args)
	case "mkfs", "fdisk", "parted", "wipefs", "shutdown", "reboot", "poweroff", "halt", "init", "killall", "pkill":
		s.destroys(name)
	}
	if strings.HasPrefix(name, "mkfs.") {
		s.destroys(name)
	}
	for i, a := range args {
		s.argument(name, a, append(args[i+1:], arg{})[0])
	}
}

// argument adds the files that one argument of any command names: a value of a flag
// for output, of=FILE, @FILE, and every word that looks like a path.
func (s *shell) argument(name string, a, next arg) {
	if !a.known {
		return
	}
	for _, flag := range []string{"-o", "-O", "--output", "--output-document", "-d", "-C", "--directory", "--target-directory", "-t"} {
		outputs := map[string]string{"curl": "-o --output", "wget": "-O --output-document", "tar": "-C --directory", "unzip": "-d", "gcc": "-o", "go": "-o", "sort": "-o --output",
			"cp": "-t --target-directory", "mv": "-t --target-directory", "install": "-t --target-directory"}
		if slices.Contains(strings.Fields(outputs[name]), flag) {
			if a.text == flag {
				s.touch(next, "write")
			} else if v, ok := strings.CutPrefix(a.text, flag+"="); ok {
				s.touch(arg{v, true}, "write")
			} else if v, ok := strings.CutPrefix(a.text, flag); ok && len(flag) == 2 && v != "" {
				s.touch(arg{v, true}, "write")
			}
		}
	}
	text := a.text
	if v, ok := strings.CutPrefix(text, "of="); ok && name == "dd" {
		s.destroys("dd")
		s.touch(arg{v, true}, "write")
		return
	}
	if _, v, ok := strings.Cut(text, "="); ok {
		text = v
	}
	text = strings.TrimPrefix(text, "@")
	switch {
	case strings.Contains(text, "://"):
		if slices.Contains([]string{"curl", "wget", "git", "nc", "ssh", "http", "xh"}, name) {
			s.add(gate.Target{Kind: "url", Value: text, Operation: "get"})
		}
	case strings.ContainsAny(text, " \t\n|;<>$`(){}'\""), strings.HasPrefix(text, "-"):
	case strings.Contains(text, "/"), strings.HasPrefix(text, "~"), isSecret(text):
		s.path(text, "read", s.dirs)
	}
}

// git finds the commands that discard work.
func (s *shell) git(args []arg) {
	args = afterFlags(args, "Cc")
	if len(args) == 0 {
		return
	}
	if !args[0].known {
		s.undecidable("command")
		return
	}
	has := func(letters string, long ...string) bool {
		return slices.ContainsFunc(args[1:], func(a arg) bool {
			return a.short(letters) || a.known && slices.ContainsFunc(long, func(l string) bool { return a.text == l || strings.HasPrefix(a.text, l+"=") })
		})
	}
	sub := args[0].text
	if sub == "reset" && has("", "--hard") || sub == "clean" && has("f", "--force") || sub == "push" && has("f", "--force", "--force-with-lease", "--mirror", "--delete") ||
		sub == "branch" && has("D") || sub == "checkout" && has("f", "--", "--force") || sub == "restore" || sub == "stash" && has("", "drop", "clear") ||
		sub == "filter-branch" || sub == "update-ref" && has("d") || sub == "reflog" && has("", "expire", "delete") {
		s.destroys("git " + sub)
	}
}
