// Package environ makes the environment of a client. A client inherits few
// variables: those that programs need to run at all, and not the user's keys and
// tokens. The configuration can add to them.
//
// It reads no environment itself.
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

// A Spec is what a client's environment has in addition to the variables that
// every client inherits. The yaml tags are the keys of the configuration.
type Spec struct {
	Env     map[string]string `yaml:"env"`     // set, over all others
	Inherit Names             `yaml:"inherit"` // inherited too

	// Written is Env before ${env:VAR} was expanded; nil if it was not.
	Written map[string]string `yaml:"-"`
}

// Names are names of variables; one that ends in * means all that begin so.
type Names []string

// SetWord sets the names that a single word means.
func (n *Names) SetWord(word string) bool {
	*n = slices.Clone(all)
	return word == "all"
}

// Word is the single word for the names, or "".
func (n Names) Word() string {
	if slices.Equal(n, all) {
		return "all"
	}
	return ""
}

// match reports whether the variable name is one of them.
func (n Names) match(name string) bool {
	return slices.ContainsFunc(n, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return pattern == name || wild && strings.HasPrefix(name, prefix)
	})
}

// Common reports whether every client inherits the variable.
func Common(name string) bool { return always.match(name) }

// Of returns the environment of a client: what it inherits from, what is set, and
// then the caller's own variables, NAME=value each. No name is in it twice.
func (s Spec) Of(from []string, own ...string) []string {
	values := map[string]string{}
	for _, kv := range from {
		name, value, ok := strings.Cut(kv, "=")
		_, seen := values[name] // if a name occurs twice, programs see the first variable
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

// With returns s with the variables of more, which win.
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

// Check checks the names and values. Its error is a [*document.Error] with a path
// below path.
func (s Spec) Check(path string) error {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		at := document.Join(document.Join(path, "env"), name)
		switch {
		case name == "inherit":
			return &document.Error{Path: at, What: "inherit is a key beside env, not a variable in it"}
		case !isName(name):
			return &document.Error{Path: at, What: "the name of a variable has letters, digits and underscores only, and no digit first"}
		case strings.ContainsRune(s.Env[name], 0):
			return &document.Error{Path: at, What: "a variable cannot contain a NUL byte"}
		}
	}
	for i, name := range s.Inherit {
		if name != "*" && !isName(strings.TrimSuffix(name, "*")) {
			return &document.Error{Path: fmt.Sprintf("%s[%d]", document.Join(path, "inherit"), i), What: fmt.Sprintf("%q is no name of a variable; it may end in *", name)}
		}
	}
	return nil
}
