package acts

import (
	"path"
	"slices"
	"strings"
)

// The subcommands of git. Those that are not listed may be aliases, which can run any
// command.
const (
	gitReads = "annotate archive blame cat-file check-attr check-ignore cherry count-objects describe diff diff-files diff-index diff-tree for-each-ref format-patch fsck grep help log ls-files ls-remote ls-tree merge-base merge-tree name-rev push range-diff rev-list rev-parse shortlog show show-branch show-ref status var verify-commit verify-tag version whatchanged"
	gitLists = "branch bundle config notes reflog remote sparse-checkout stash submodule tag worktree"
	gitOther = "add am apply bisect checkout checkout-index cherry-pick clean clone commit commit-tree fetch filter-branch gc hash-object init lfs maintenance merge mv prune pull read-tree rebase repack replace rerere reset restore revert rm switch symbolic-ref unpack-objects update-index update-ref write-tree"
	gitNames = "check-ignore ls-files status rm"
)

var gitFlags = usage{
	short: "nqvfdDarspuxXiIo>b:B:m:c:C:F<SW",
	long:  "output> output-directory> force force-with-lease? force-if-includes mirror delete prune hard merge keep discard-changes exec~ upload-pack~ receive-pack~ extcmd~ open-files-in-pager~ message: file< separate-git-dir> template< branch: orphan: source: depth: get get-all list staged worktree cached prefix:",
}

// git finds the commands that discard work, write outside of the workspace, or run
// other commands.
func (s *shell) git(u usage, args []arg) {
	global := u.parse(args, true)
	if global.marked('#') || len(global.operands) == 0 && !global.unknown {
		return
	}
	sub, rest := next(global.operands)
	if global.unknown || !sub.known || !hasWord(gitReads+" "+gitLists+" "+gitOther, sub.text) {
		s.undecidable("command")
	}
	before := s.dirs
	defer func() { s.dirs = before }()
	s.values("git", global)
	for _, f := range global.flags {
		switch {
		case f.name == "c" && !safeSetting(f.value):
			s.undecidable("command")
		case f.name == "git-dir":
			s.touch(f.value, "read")
		}
	}
	in := gitFlags.parse(rest, false)
	if sub.text == "clone" || sub.text == "rebase" || sub.text == "difftool" || sub.text == "grep" {
		s.gitRuns(sub.text, rest)
	}
	for _, f := range in.flags {
		if f.mark != 0 && (f.mark != '>' && f.mark != '<' || f.name != "o" && f.name != "F" || hasWord("archive format-patch commit", sub.text)) {
			s.values("git", invocation{flags: []flag{f}})
		}
	}
	s.gitWrites(sub.text, in, rest)
	if gitDestroys(sub.text, in) || sub.text == "checkout" && s.overwrites(in) {
		s.destroys("git " + sub.text)
	}
	op := "read"
	if hasWord(gitNames, sub.text) && !s.captured {
		op = opName
	}
	for _, a := range rest {
		s.operand("git", a, op)
	}
}

// gitRuns finds flags that run a command and that only some subcommands have.
func (s *shell) gitRuns(sub string, rest []arg) {
	letter := map[string]string{"clone": "uc", "rebase": "x", "difftool": "x", "grep": "O"}[sub]
	if slices.ContainsFunc(rest, func(a arg) bool {
		return a.flag() && a.text[1] != '-' && strings.ContainsAny(a.text[1:2], letter)
	}) {
		s.undecidable("command")
	}
}

// safeSetting reports whether a setting of git -c cannot run a command.
func safeSetting(a arg) bool {
	key, value, _ := strings.Cut(strings.ToLower(a.text), "=")
	return a.known && ((key == "core.pager" || strings.HasPrefix(key, "pager.")) && hasWord("cat less more false", value) || hasWord("core.quotepath core.autocrlf core.eol core.ignorecase safe.directory commit.gpgsign tag.gpgsign pull.rebase push.default diff.renames log.showsignature merge.conflictstyle protocol.version fetch.prune gc.auto", key) ||
		slices.ContainsFunc([]string{"user.", "author.", "committer.", "color.", "advice.", "init.default", "column."}, func(p string) bool { return strings.HasPrefix(key, p) }))
}

// gitWrites adds the folders and files that a subcommand of git writes, and the
// commands that it runs.
func (s *shell) gitWrites(sub string, in invocation, rest []arg) {
	action, after := next(in.operands)
	here := arg{text: ".", known: true}
	switch {
	case hasWord(gitReads, sub):
		return
	case hasWord(gitLists, sub) && (len(in.operands) == 0 && !in.has("d D f") || hasWord("list show get get-url status verify", action.text) || sub == "config" && in.has("get get-all list")):
		return
	case sub == "clone" && len(in.operands) > 1, sub == "init" && len(in.operands) > 0:
		s.touch(in.operands[len(in.operands)-1], "write")
		return
	case sub == "worktree" && hasWord("add remove move", action.text):
		files := after
		if action.text == "add" {
			files = after[:min(1, len(after))]
		}
		s.each(files, "write")
	case sub == "bundle":
		s.each(after[:min(1, len(after))], "write")
		return
	case sub == "config" && slices.ContainsFunc(in.operands, func(a arg) bool { return !a.known }),
		sub == "config" && len(in.operands) > 1 && !safeSetting(action) && action.text != "set" && action.text != "unset",
		sub == "config" && action.text == "set" && len(after) > 0 && !safeSetting(after[0]):
		s.undecidable("command")
	case sub == "submodule" && action.text == "foreach", sub == "bisect" && action.text == "run":
		at := slices.IndexFunc(rest, func(a arg) bool { return a.text == action.text })
		inner := rest[at+1:]
		for len(inner) > 0 && inner[0].known && (inner[0].text == "--recursive" || inner[0].text == "-q" || inner[0].text == "--quiet") {
			inner = inner[1:]
		}
		s.apart(func() { s.eval(inner) })
	case sub == "checkout-index":
		for _, f := range in.flags {
			if f.name == "prefix" {
				s.touch(f.value, "write")
			}
		}
	case sub == "rm" && in.has("cached"):
	case sub == "rm" || sub == "mv":
		s.each(in.operands, "delete")
	}
	s.touch(here, "write")
}

// overwrites reports whether the only operand of git checkout is the name of a file or
// folder. If a branch has the same name, git refuses to choose and overwrites nothing. An
// operand whose text is not known is undecidable.
func (s *shell) overwrites(in invocation) bool {
	if len(in.operands) != 1 || in.has("b B orphan") {
		return false
	}
	name := in.operands[0]
	if !name.known || s.dirs == nil {
		s.undecidable("command")
		return false
	}
	return s.scene.Exists != nil && slices.ContainsFunc(s.dirs, func(dir string) bool { return s.scene.Exists(path.Join(dir, name.text)) })
}

// gitDestroys reports whether a subcommand of git discards work.
func gitDestroys(sub string, in invocation) bool {
	operand := func(is func(string) bool) bool {
		return slices.ContainsFunc(in.operands, func(a arg) bool { return a.known && is(a.text) })
	}
	switch sub {
	case "reset":
		return in.has("hard merge keep")
	case "clean":
		return in.has("f force")
	case "push":
		return in.has("f d force force-with-lease force-if-includes mirror delete prune") || operand(func(t string) bool { return strings.HasPrefix(t, "+") || strings.HasPrefix(t, ":") })
	case "branch":
		return in.has("D f force") || in.has("d delete") && in.has("f force")
	case "checkout":
		return in.has("f force ours theirs pathspec-from-file") || in.dashes || len(in.operands) > 1 && !in.has("b B") ||
			operand(func(t string) bool {
				return strings.HasPrefix(t, ".") || strings.HasPrefix(t, ":") || strings.ContainsAny(t, "*?[")
			})
	case "checkout-index":
		return in.has("f force")
	case "read-tree":
		return in.has("reset")
	case "switch":
		return in.has("f force discard-changes C")
	case "restore":
		return !in.has("staged S") || in.has("worktree W")
	case "filter-branch", "prune":
		return true
	case "gc":
		return in.has("prune")
	case "rm", "worktree":
		return in.has("f force")
	case "update-ref":
		return in.has("d")
	case "stash":
		return operand(func(t string) bool { return t == "drop" || t == "clear" })
	case "reflog":
		return operand(func(t string) bool { return t == "expire" || t == "delete" })
	}
	return false
}
