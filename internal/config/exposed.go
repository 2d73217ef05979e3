package config

import (
	"fmt"
	"strings"

	"lifeloop/internal/environ"
	"lifeloop/renewal/profile"
)

// An Exposure is an environment variable whose value is in the arguments of a
// program, where every user of the machine can read it.
type Exposure struct {
	Key      string // the key of the command: clients[0].command
	Variable string
}

// Exposures lists the variables that commands have in their arguments. Variables
// that every client inherits are not secret and are left out; variables in the
// program's path are left out too.
func (c Config) Exposures() (found []Exposure) {
	add := func(key string, written []string) {
		for _, word := range written[min(1, len(written)):] {
			for rest := word; ; {
				_, after, ok := strings.Cut(rest, "${env:")
				if !ok {
					break
				}
				name, tail, _ := strings.Cut(after, "}")
				if !environ.Common(name) {
					found = append(found, Exposure{key, name})
				}
				rest = tail
			}
		}
	}
	for i, client := range c.Clients {
		add(fmt.Sprintf("clients[%d].command", i), client.written)
	}
	for i, p := range c.Attempts.Profiles {
		add(fmt.Sprintf("attempts.profiles[%d].command", i), p.Written)
	}
	for i, p := range c.Profiles {
		add(fmt.Sprintf("profiles[%d].prepare.command", i), p.Prepare.Written)
		add(fmt.Sprintf("profiles[%d].continue.command", i), p.Continue.Written)
	}
	add("anchor.command", c.Anchor.written)
	add("attempts.retry.decide.command", c.Attempts.Retry.Decide.Written)
	return found
}

// ExposedTokens returns the names of the active profiles that pass the continuation token
// to their continue program as an argument. The continuation token is the text that the
// prepare program, or the harness, printed for the renewal.
func (c Config) ExposedTokens() (names []string) {
	active, _ := c.Active() // cannot fail, because Load has checked the profiles
	for _, p := range active {
		if p.Continue.Given() == profile.InArguments {
			names = append(names, p.Name)
		}
	}
	return names
}
