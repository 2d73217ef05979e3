package acts

import (
	"path"
	"slices"
	"strings"
)

// The subcommands of git. Those of gitLists count as reading if they have no operand, or
// one such as list. Those of gitNames use the names in their operands and do not show what
// the files hold. A subcommand that is in none of the first three lists may be an alias,
// which can run any command.
const (
	gitReads = "annotate archive blame cat-file check-attr check-ignore cherry count-objects describe diff diff-files diff-index diff-tree for-each-ref format-patch fsck grep help log ls-files ls-remote ls-tree merge-base merge-tree name-rev push range-diff rev-list rev-parse shortlog show show-branch show-ref status var verify-commit verify-tag version whatchanged"
	gitLists = "branch bundle config notes reflog remote sparse-checkout stash submodule tag worktree"
	gitOther = "add am apply bisect checkout checkout-index cherry-pick clean clone commit commit-tree fetch filter-branch gc hash-object init lfs maintenance merge mv prune pull read-tree rebase repack replace rerere reset restore revert rm switch symbolic-ref unpack-objects update-index update-ref write-tree"
	// The subcommands with a flag that writes a file, discards work or runs a command.
	gitActs  = "annotate apply archive bisect blame branch bundle checkout checkout-index cherry-pick clean clone config diff diff-files diff-index diff-tree difftool fetch filter-branch format-patch gc grep init log ls-remote maintenance prune pull push range-diff read-tree rebase reflog repack reset restore rev-list revert rm shortlog show stash submodule switch tag update-index update-ref whatchanged worktree"
	gitNames = "check-ignore ls-files status rm"
)

var gitFlags = usage{
	short: "nqvfdDarspuxXiIj:o>b:B:m:c:C:F<SW",
	long:  "output> output-directory> force force-with-lease? force-if-includes mirror delete prune hard merge keep discard-changes exec~ upload-pack~ receive-pack~ extcmd~ open-files-in-pager~ message: file< separate-git-dir> template< branch: orphan: source: depth: get get-all list staged worktree cached prefix: jobs: config: initial-branch: object-format: ref-format: shared? reason: reference< reference-if-able< filter: server-option: bundle-uri: shallow-since: shallow-exclude: revision: recurse-submodules? global system local unset unset-all remove-section rename-section edit",
}

// git finds the commands that discard work, write outside of the workspace, or run
// other commands.
func (s *shell) git(u usage, args []arg) {
	global := u.parse(args, true)
	if global.marked('#') || len(global.operands) == 0 && !global.unknown {
		return
	}
	sub, rest := next(global.operands)
	if global.unknown || global.partly || !sub.known || !hasWord(gitReads+" "+gitLists+" "+gitOther, sub.text) {
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
	in := flagsOf(sub.text).parse(rest, false)
	if sub.text == "clone" || sub.text == "rebase" || sub.text == "difftool" || sub.text == "grep" {
		s.gitRuns(sub.text, rest)
	}
	if hasWord(gitActs, sub.text) && gitHides(sub.text, in, rest) {
		s.undecidable("command")
	}
	for _, f := range in.flags {
		if sub.text == "clone" && f.name == "config" && !safeSetting(f.value) {
			s.undecidable("command")
		}
		if f.mark != 0 && (f.mark != '>' && f.mark != '<' || f.name != "o" && f.name != "F" || hasWord("archive format-patch commit", sub.text)) {
			s.values("git", invocation{flags: []flag{f}})
		}
	}
	if action, _ := next(in.operands); len(in.operands) > 0 && !action.known && hasWord("stash reflog worktree submodule bisect", sub.text) {
		s.undecidable("command")
	}
	if !hasWord(gitReads, sub.text) {
		s.each(s.gitDirs, "write")
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

// gitHides reports whether words that are not known may be flags that write a file, discard
// work or run a command. Of the subcommands in gitReads, only archive, format-patch, grep and
// push have such a flag of one letter. An unquoted $x after cherry-pick, revert, blame,
// annotate or rev-list counts as a commit, not as a flag.
func gitHides(sub string, in invocation, rest []arg) bool {
	if hasWord("cherry-pick revert", sub) {
		return in.partly
	}
	if !in.hidden || !hasWord(gitReads, sub) || hasWord("archive format-patch grep push", sub) {
		return in.hidden
	}
	if end := slices.Index(rest, arg{text: "--", known: true}); end >= 0 {
		rest = rest[:end]
	}
	return slices.ContainsFunc(rest, func(a arg) bool {
		return a.anything() && !hasWord("annotate blame rev-list", sub) || strings.HasPrefix(a.begin, "-") && (a.loose || a.begin == "-" || strings.HasPrefix(a.begin, "--") && !strings.Contains(a.begin, "="))
	})
}

// flagsOf returns the flags of a subcommand of git. The long flags that no other subcommand
// has are first in the list, so that an abbreviation of a long flag finds them first.
func flagsOf(sub string) usage {
	u := gitFlags
	switch sub {
	case "apply":
		u.long = "build-fake-ancestor> unsafe-paths~ " + u.long
	case "read-tree":
		u.long = "index-output> " + u.long
	case "maintenance":
		u.long = "config-file> " + u.long
	}
	return u
}

// gitRuns adds an undecidable command for each short flag with which a subcommand runs
// another command. The flag's letter may follow other letters in a word, as in rebase -ix,
// but not the letter of a flag with a value.
func (s *shell) gitRuns(sub string, rest []arg) {
	runs := map[string]string{"clone": "uc", "rebase": "x", "difftool": "x", "grep": "O"}[sub]
	valued := map[string]string{"clone": "obj", "rebase": "sXCS", "difftool": "tSGOUlX", "grep": "efABCm"}[sub]
	for _, a := range rest {
		letters, short := strings.CutPrefix(a.start(), "-")
		if end := strings.IndexAny(letters, valued); end >= 0 {
			letters = letters[:end]
		}
		if short && !strings.HasPrefix(letters, "-") && strings.ContainsAny(letters, runs) {
			s.undecidable("command")
		}
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
	if !action.known {
		action.text = ""
	}
	here := arg{text: ".", known: true}
	if sub == "config" {
		s.gitConfig(in, action)
	}
	switch {
	case hasWord(gitReads, sub):
		return
	case hasWord(gitLists, sub) && (len(in.operands) == 0 && !in.has("d D f") || hasWord("list show get get-url status verify", action.text) || sub == "config" && in.has("get get-all list")):
		return
	case sub == "clone" && len(in.operands) > 1:
		s.each(after, "write")
		return
	case sub == "init" && len(in.operands) > 0:
		s.each(in.operands, "write")
		return
	case sub == "worktree" && hasWord("add remove move", action.text):
		s.each(after, "write")
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
		if last := len(in.operands) - 1; sub == "mv" && last > 0 {
			for _, source := range in.operands[:last] {
				s.copied(source, in.operands[last])
			}
		}
	}
	s.touch(here, "write")
}

// gitConfig adds the file that git config writes.
func (s *shell) gitConfig(in invocation, action arg) {
	changes := in.has("unset unset-all remove-section rename-section") || hasWord("set unset remove-section rename-section", action.text)
	if in.has("edit e") || action.text == "edit" {
		s.undecidable("command")
	} else if !changes && (len(in.operands) < 2 || in.has("get get-all get-regexp get-urlmatch get-color get-colorbool list l") || hasWord("get list", action.text)) {
		return
	}
	for _, f := range in.flags {
		switch f.name {
		case "file":
			s.touch(f.value, "write")
		case "global":
			s.touch(arg{text: "~/.gitconfig", known: true}, "write")
		case "system":
			s.touch(arg{text: "/etc/gitconfig", known: true}, "write")
		}
	}
}

// gitFolder notes a variable that says where git writes.
func (s *shell) gitFolder(name string, value arg) {
	if hasWord("GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY", name) {
		s.gitDirs = append(s.gitDirs, value)
	}
}

// overwrites reports whether the only operand of git checkout is the name of a file or
// folder: git then discards the changes there, unless a branch has the same name. An
// operand that is not known is undecidable.
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
		return in.has("f d force force-with-lease force-if-includes mirror delete prune") || slices.ContainsFunc(in.operands, func(a arg) bool { return strings.HasPrefix(a.start(), "+") || strings.HasPrefix(a.start(), ":") })
	case "branch":
		return in.has("D M C f force") || in.has("d delete") && in.has("f force")
	case "tag":
		return in.has("d delete f force")
	case "checkout":
		return in.has("B f force ours theirs pathspec-from-file") || in.dashes || len(in.operands) > 1 && !in.has("b B") ||
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
