// Package environ computes the environment of a client. A client inherits only a
// few variables, those that programs generally need, and none of the user's keys
// and tokens. The configuration can add variables.
//
// The package does not read the environment; callers pass it.
//
//	e := environ.Spec{Env: map[string]string{"MODE": "fast"}, Inherit: environ.Names{"NOTES_*"}}
//	cmd.Env = e.Of(os.Environ(), "LIFELOOP_CLIENT_ID=notes")
package environ

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lifeloop/internal/document"
)

// always are the variables that every client inherits (DECISIONS T2).
var always = Names{"PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "TZ", "TMPDIR", "XDG_*", "LIFELOOP_*"}

// all is the list of names that the word "all" means.
var all = Names{"*"}

// A Spec lists what a client's environment has in addition to the variables
// that every client inherits. The yaml tags are the keys of the configuration.
type Spec struct {
	Env     map[string]string `yaml:"env"`     // variables to set; they take precedence over inherited ones
	Inherit Names             `yaml:"inherit"` // names of further inherited variables

	// Written is Env before ${env:VAR} was expanded; nil if Env is empty or not yet
	// expanded.
	Written map[string]string `yaml:"-"`
}

// Names are names of variables. A name that ends in * means all variables with that
// prefix.
type Names []string

// SetWord sets n to the list that means all variables, whatever the word is. If the
// word is not "all", SetWord returns false, and the caller must set n again.
func (n *Names) SetWord(word string) bool {
	*n = slices.Clone(all)
	return word == "all"
}

// Word returns "all" if n means all variables, or else "".
func (n Names) Word() string {
	if slices.Equal(n, all) {
		return "all"
	}
	return ""
}

// match reports whether n contains the variable.
func (n Names) match(name string) bool {
	return slices.ContainsFunc(n, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return pattern == name || wild && strings.HasPrefix(name, prefix)
	})
}

// Common reports whether every client inherits the variable.
func Common(name string) bool { return always.match(name) }

// Of returns the environment of a client: the variables in from that the client
// inherits, the variables that s sets, and own. The elements of from, own and the
// result have the form NAME=value. A variable of s replaces an inherited one, and a
// variable of own replaces both.
func (s Spec) Of(from []string, own ...string) []string {
	values := map[string]string{}
	for _, kv := range from {
		name, value, ok := strings.Cut(kv, "=")
		_, seen := values[name] // of two variables with one name, programs use the first
		if ok && !seen && (always.match(name) || s.Inherit.match(name)) {
			values[name] = value
		}
	}
	maps.Copy(values, s.Env)
	for _, kv := range own {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	env := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
	}
	return env
}

// With returns s with the variables of more, which take precedence.
func (s Spec) With(more Spec) Spec {
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, more.Env)
	return Spec{Env: env, Inherit: slices.Concat(s.Inherit, more.Inherit)}
}

// isName reports whether a shell accepts s as the name of a variable.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// Check checks the names and values. Its error is a [*document.Error], whose Path begins
// with path.
func (s Spec) Check(path string) error {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		at := document.Join(document.Join(path, "env"), name)
		switch {
		case name == "inherit":
			return &document.Error{Path: at, What: "inherit is not a variable; write the key inherit beside env, not in it"}
		case !isName(name):
			return &document.Error{Path: at, What: "the name of a variable may contain only letters, digits and underscores, and must not begin with a digit"}
		case strings.ContainsRune(s.Env[name], 0):
			return &document.Error{Path: at, What: "a variable cannot contain a NUL byte"}
		}
	}
	for i, name := range s.Inherit {
		if name != "*" && !isName(strings.TrimSuffix(name, "*")) {
			return &document.Error{Path: fmt.Sprintf("%s[%d]", document.Join(path, "inherit"), i), What: fmt.Sprintf("%q is not the name of a variable; a name may end in *", name)}
		}
	}
	return nil
}
