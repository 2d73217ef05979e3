package profile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"lifeloop/internal/document"
	"lifeloop/internal/nearest"
	"lifeloop/renewal"
)

// Enum returns the words that a setting may have; nil if the setting may have any value.
// path is the path of the setting inside a profile.
func Enum(path string) []string {
	switch path {
	case "paths":
		return words(renewal.Paths())
	case "prepare.token.from":
		return words(Forms())
	}
	return nil
}

func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// Check checks the rules that Go types cannot express. Its error is a
// [*document.Error] with a path below path and without a position. A profile
// without commands is correct: another configuration file may have them.
func (p Profile) Check(path string) error {
	c := checker(path)
	switch {
	case p.Name == "":
		return c.fault("name", "a profile needs a name")
	case !name().MatchString(p.Name):
		return c.fault("name", "a name may contain only letters, digits, dots, hyphens and underscores, and must begin with a letter or a digit; found %q", p.Name)
	case strings.ContainsFunc(p.Client, unicode.IsControl):
		return c.fault("client", "an id must not contain control characters")
	case p.Self() && len(p.Prepare.Command)+len(p.Continue.Command) > 0:
		return c.fault("note", "a profile with a note must not have commands, because the harness itself writes the note")
	case len(p.Paths) == 0:
		return c.fault("paths", "name at least one way to reset the context: %s", strings.Join(Enum("paths"), ", "))
	case (p.Asks.Member == "") != (p.Asks.Value == ""):
		return c.fault("asks", "give both member and value")
	}
	return cmp.Or(c.list("paths", words(p.Paths)), c.token(p.Prepare.Token), c.times(p), c.limits(p.Limits),
		c.command("prepare.command", p.Prepare.Command, Adapter, HarnessSession),
		c.command("continue.command", p.Continue.Command, Adapter, HarnessSession, TokenText, TokenFile),
		p.Spec.Check(path))
}

// name matches a valid name of a profile. Names need no quotes in the command line of a
// hook.
func name() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`) }

// A checker checks a profile. Its value is the path of the profile, for errors.
type checker string

func (c checker) fault(path, format string, args ...any) error {
	return &document.Error{Path: document.Join(string(c), path), What: fmt.Sprintf(format, args...)}
}

// list checks the words of a setting that has a fixed set of words.
func (c checker) list(path string, list []string) error {
	known := Enum(path)
	for i, word := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !slices.Contains(known, word) {
			return c.fault(at, "%q is not one of %s%s", word, strings.Join(known, ", "), nearest.Hint(word, known))
		}
		if slices.Contains(list[:i], word) {
			return c.fault(at, "%s is given twice", word)
		}
	}
	return nil
}

func (c checker) token(t Token) error {
	if len(t.From) == 0 {
		return c.fault("prepare.token.from", "name at least one form of the output: %s", strings.Join(Enum("prepare.token.from"), ", "))
	}
	if slices.Contains(t.From, JSON) != (t.Member != "") {
		return c.fault("prepare.token.member", "name a member if, and only if, json is one of the forms")
	}
	return c.list("prepare.token.from", words(t.From))
}

// times checks that each step has a time limit: without one, a renewal that hangs
// would never end.
func (c checker) times(p Profile) error {
	switch {
	case p.Prepare.Timeout == 0:
		return c.fault("prepare.timeout", "the time limit must be above 0")
	case p.Continue.Timeout == 0:
		return c.fault("continue.timeout", "the time limit must be above 0")
	case min(p.Timeouts.Idle, p.Timeouts.Note, p.Timeouts.Reset) == 0:
		return c.fault("timeouts", "time limits must be above 0")
	}
	return nil
}

func (c checker) limits(l Limits) error {
	if l.Max < 1 || l.Session < 1 || l.Window <= 0 {
		return c.fault("limits", "max and session must be at least 1, and window above 0")
	}
	return nil
}

func braced(word string) []string { return regexp.MustCompile(`\{[a-z_]+\}`).FindAllString(word, -1) }

// command checks the words of a command and the names in braces. An unknown name in
// braces is valid text for the program, unless it looks like a misspelt name.
func (c checker) command(path string, command []string, known ...string) error {
	if len(command) > 0 && command[0] == "" {
		return c.fault(path+"[0]", "name the program")
	}
	for i, word := range command {
		at := fmt.Sprintf("%s[%d]", path, i)
		if strings.ContainsRune(word, 0) {
			return c.fault(at, "a word of a command cannot contain a NUL byte")
		}
		for _, inside := range braced(word) {
			inside = strings.Trim(inside, "{}")
			switch hint := nearest.Hint(inside, known); {
			case slices.Contains(known, inside) && i > 0:
			case slices.Contains(names(), inside):
				return c.fault(at, "%s is not available here", brace(inside))
			case hint != "":
				return c.fault(at, "unknown name %s%s", brace(inside), hint)
			}
		}
	}
	if all := strings.Join(command, "\x00"); strings.Contains(all, brace(TokenText)) && strings.Contains(all, brace(TokenFile)) {
		return c.fault(path, "%s and %s cannot be used together", brace(TokenText), brace(TokenFile))
	}
	return nil
}
