package lifeloop

import (
	"fmt"
	"strconv"
	"strings"
)

// A Problem is one flaw of a document: where it is and what was expected.
type Problem struct {
	Path    string `json:"path"` // "client_payloads[0].byte_size"; "$" is the whole document
	Message string `json:"message"`
}

// A ValidationError lists the flaws found, a hundred at most. It never quotes a payload body.
type ValidationError struct{ Problems []Problem }

// Error gives all problems in one line.
func (e *ValidationError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Path + ": " + p.Message
	}
	return strings.Join(parts, "; ")
}

// FailureClass returns invalid_request, because the error is in the document and
// not in the transport.
func (e *ValidationError) FailureClass() FailureClass { return InvalidRequest }

// A path names a place in a document. The empty path is the document itself.
type path string

func (p path) member(name string) path {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	switch {
	case !plainName(name):
		return p + path("["+strconv.Quote(name)+"]")
	case p == "":
		return path(name)
	default:
		return p + path("."+name)
	}
}

func shownPath(p path) string {
	if p == "" {
		return "$"
	}
	return string(p)
}

func (p path) index(i int) path { return p + path("["+strconv.Itoa(i)+"]") }

// covers reports whether q is p or lies below it.
func (p path) covers(q path) bool {
	rest, below := strings.CutPrefix(string(q), string(p))
	return below && (rest == "" || p == "" || rest[0] == '.' || rest[0] == '[')
}

func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// A list collects problems on a walk through a document.
type list struct {
	paths    []path // the place of each problem
	problems []Problem
	ignored  []Problem // members that were ignored; some may be mistakes
}

// maxProblems bounds a list, and with it the work for a document that has very
// many problems.
const maxProblems = 100

func (l *list) add(at path, format string, args ...any) {
	if len(l.problems) >= maxProblems && at != "" {
		return
	}
	l.paths = append(l.paths, at)
	l.problems = append(l.problems, Problem{Path: shownPath(at), Message: fmt.Sprintf(format, args...)})
}

// ignore records a member that the contract does not know.
func (l *list) ignore(at path, name string) {
	if len(l.ignored) < maxProblems {
		l.ignored = append(l.ignored, unknownMember(at, name))
	}
}

func unknownMember(at path, name string) Problem {
	return Problem{Path: shownPath(at), Message: "a member that the contract does not know, ignored: " + show(name)}
}

// merge adds the problems of m. A problem of m is left out if l has a problem at the
// same path or above it, so that a missing member is not also reported as a bad value.
func (l *list) merge(m list) {
	known := l.paths
	for i, at := range m.paths {
		covered := false
		for _, k := range known {
			covered = covered || k.covers(at)
		}
		if !covered && len(l.problems) < maxProblems {
			l.paths = append(l.paths, at)
			l.problems = append(l.problems, m.problems[i])
		}
	}
}

func (l *list) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	return &ValidationError{Problems: l.problems}
}

// show describes a value in a message. Only short words are quoted: a client
// may put text into the wrong member, and that text must not be copied.
func show(s string) string {
	if s == "" {
		return "an empty string"
	}
	word := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
	if word && len(s) <= 40 {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("a string of %d bytes", len(s))
}
