// Package profile describes the renewal of a harness session as data. A profile names the
// client that may ask for a renewal, the program that prepares a renewal, and the limits.
// The program that prepares a renewal prints the continuation, which the renewal carries
// into the fresh harness session. The profile also says where in this output the
// continuation is, and which program turns the continuation into text for the model. A
// profile does nothing until the user activates it.
//
// The package runs no program, reads no file and interprets no continuation. An error
// never quotes what a program printed.
//
//	p, err := profile.Find(own, "handoff")      // the user's own profiles come first
//	if p.Asks.In(answer) { … }                   // the client's answer asks for a renewal
//	argv := profile.Fill(p.Prepare.Command, map[string]string{profile.Adapter: id})
//	text, expires, err := p.Prepare.Token.Read(stdout)
package profile

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/internal/document"
	"lifeloop/internal/environ"
	"lifeloop/internal/nearest"
	"lifeloop/renewal"
)

// A Profile is one way to renew. The yaml tags are the keys of the configuration.
//
// Its continuation comes from a program (Prepare) or from the harness itself (Note).
type Profile struct {
	Name     string         `yaml:"name"`
	Client   string         `yaml:"client"` // id of the client that owns the continuation; empty: the profile's name
	Asks     Asks           `yaml:"asks"`
	Prepare  Prepare        `yaml:"prepare"`
	Note     Note           `yaml:"note"`
	Continue Continue       `yaml:"continue"`
	Paths    []renewal.Path `yaml:"paths"` // ways to reset, in order of preference
	Cut      bool           `yaml:"cut"`   // a running turn may be interrupted
	Timeouts Timeouts       `yaml:"timeouts"`
	Limits   Limits         `yaml:"limits"`
	environ.Spec
}

// Asks names the member and value by which a client's answer asks for a renewal.
// Without a member, a renewal can begin only because the user asks for it or because the
// context pressure reaches the configured level ([renewal.Rules].At).
type Asks struct {
	Member string `yaml:"member"` // names of nested members, separated by dots
	Value  string `yaml:"value"`
}

// Prepare is the program that prepares a renewal and prints the continuation.
type Prepare struct {
	Command  []string      `yaml:"command"`
	Timeout  time.Duration `yaml:"timeout"`
	Token    Token         `yaml:"token"`
	Lifetime time.Duration `yaml:"lifetime"` // how long the continuation is valid if the output has no expiry; 0: forever

	// Written is Command before variables were expanded; nil if Command is not from a
	// configuration.
	Written []string `yaml:"-"`
}

// Token says where in the output of [Prepare] the continuation is.
type Token struct {
	From    []Form `yaml:"from"`    // the first form that fits the output is used
	Member  string `yaml:"member"`  // with [JSON]: names of nested members, separated by dots
	Expires string `yaml:"expires"` // with [JSON]: the member with the expiry, in seconds since 1970
}

// A Form is a form that the output of [Prepare] may have.
type Form string

const (
	JSON Form = "json" // an object
	Line Form = "line" // one line
	Text Form = "text" // the whole output, without a final newline
)

// Forms lists the forms.
func Forms() []Form { return []Form{JSON, Line, Text} }

// Note is the request to the harness itself to write a hand-over note, which is
// then the continuation.
type Note struct {
	Prompt string `yaml:"prompt"`
}

// Continue is the program that receives the continuation after the reset and prints
// the text for the model. Without a program the continuation itself is the text.
//
// The continuation replaces {token} in an argument, or is in the file whose path
// replaces {token_file}, or else is the program's input.
type Continue struct {
	Command []string      `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`

	// Written is Command before variables were expanded; nil if Command is not from a
	// configuration.
	Written []string `yaml:"-"`
}

// Timeouts are the time limits of the steps of a renewal.
type Timeouts struct {
	Idle  time.Duration `yaml:"idle"`  // waiting for the end of a turn and an empty input line
	Note  time.Duration `yaml:"note"`  // the turn that writes the note
	Reset time.Duration `yaml:"reset"` // from the new launch until its harness session is observed
}

// Limits stop renewals that follow each other too often.
type Limits struct {
	Max     int           `yaml:"max"`     // maximum number of resets within Window
	Window  time.Duration `yaml:"window"`  // the period for which Max is the limit
	Session int           `yaml:"session"` // maximum number of resets of one session
}

// SetDefaults makes p a profile whose programs exchange text through stdout and
// stdin. Its limits are those of [renewal.Limits].
func (p *Profile) SetDefaults() {
	l := renewal.Limits{}.Filled()
	*p = Profile{
		Prepare:  Prepare{Timeout: l.Prepare, Token: Token{From: []Form{Text}}, Lifetime: 24 * time.Hour},
		Continue: Continue{Timeout: l.Continue},
		Paths:    renewal.Paths(),
		Timeouts: Timeouts{Idle: l.Idle, Note: 5 * time.Minute, Reset: l.Observe},
		Limits:   Limits{Max: l.Max, Window: l.Window, Session: l.Session},
	}
}

// Owner returns the id of the client that owns the continuation.
func (p Profile) Owner() string {
	if p.Client == "" {
		return p.Name
	}
	return p.Client
}

// Family returns the name of the built-in profile that works like this one.
// Manifests name only built-in profiles. A claim for the built-in profile also holds
// for p.
func (p Profile) Family() string {
	if p.Self() {
		return "self-handoff"
	}
	return "handoff"
}

// Preparing returns the time limit for preparing the continuation.
func (p Profile) Preparing() time.Duration {
	if p.Self() {
		return p.Timeouts.Note
	}
	return p.Prepare.Timeout
}

// Rules returns the rules by which a session is renewed with p. Rules.At is empty,
// because the configuration, not the profile, says at which pressure a renewal begins.
// Rules.Claims is the name under which manifests list p, or empty if this name is p.Name.
// Manifests name only built-in profiles. Rules.Claims is therefore p.Family(), unless a
// built-in profile has the same name and the same result of Self as p.
func (p Profile) Rules() renewal.Rules {
	r := renewal.Rules{Profile: p.Name, Client: p.Owner(), Paths: p.Paths, Cut: p.Cut,
		Limits: renewal.Limits{Idle: p.Timeouts.Idle, Prepare: p.Preparing(), Continue: p.Continue.Timeout, Observe: p.Timeouts.Reset,
			Session: p.Limits.Session, Max: p.Limits.Max, Window: p.Limits.Window}}
	if !slices.ContainsFunc(Builtin(), func(b Profile) bool { return b.Name == p.Name && b.Self() == p.Self() }) {
		r.Claims = p.Family()
	}
	return r
}

// Self reports whether the harness itself writes the continuation.
func (p Profile) Self() bool { return p.Note.Prompt != "" }

// builtin is the text of three profiles: the one that the lifeloop contract (package
// lifeloop) names; handoff, whose two programs the user configures; and self-handoff,
// whose continuation the harness writes.
//
//go:embed builtin.json
var builtin []byte

// Builtin returns the profiles that are available without a configuration.
func Builtin() []Profile {
	root, err := document.ParseJSON(builtin)
	var file struct {
		Profiles []Profile `yaml:"profiles"`
	}
	if err == nil {
		err = document.Decode(root, &file, "", nil)
	}
	if err != nil {
		panic("profile: the built-in profiles: " + err.Error()) // does not happen: a test reads the built-in profiles
	}
	return file.Profiles
}

// Find returns the profile of this name and checks that it is complete. The user's
// profiles take precedence over the built-in ones.
func Find(own []Profile, name string) (Profile, error) {
	all := slices.Concat(own, Builtin())
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
		return Profile{}, fmt.Errorf("unknown profile %q%s (known: %s)", name, nearest.Hint(name, names), strings.Join(names, ", "))
	}
	if p := all[i]; len(p.Prepare.Command) > 0 || p.Self() {
		return p, nil
	}
	return Profile{}, fmt.Errorf("profile %s has no command yet: in the configuration, write profiles: [{name: %s, prepare: {command: […]}}]", name, name)
}

// A Way is how a program receives the continuation.
type Way int

const (
	OnStdin     Way = iota
	InFile          // in the file whose path is an argument
	InArguments     // as an argument, which other users of the machine can see
)

// Given returns how the program receives the continuation.
func (c Continue) Given() Way {
	has := func(name string) bool {
		return slices.ContainsFunc(c.Command, func(word string) bool { return strings.Contains(word, brace(name)) })
	}
	switch {
	case has(TokenText):
		return InArguments
	case has(TokenFile):
		return InFile
	}
	return OnStdin
}
