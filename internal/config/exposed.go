package config

import (
	"fmt"
	"strings"

	"lifeloop/internal/environ"
	"lifeloop/renewal/profile"
)

// An Exposure is a variable in the arguments of a program. Every user of the
// machine can read arguments.
type Exposure struct {
	Key      string // the key of the command: clients[0].command
	Variable string
}

// Exposures lists the variables that commands have in their arguments. Those that
// every program inherits are not secret and are left out, and so is the program's
// own path.
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
	add("attempts.retry.decide.command", c.Attempts.Retry.Decide.Written)
	return found
}

// ExposedTokens names the active profiles that have a continuation in the arguments
// of a program.
func (c Config) ExposedTokens() (names []string) {
	active, _ := c.Active() // Load has checked that they exist
	for _, p := range active {
		if p.Continue.Given() == profile.InArguments {
			names = append(names, p.Name)
		}
	}
	return names
}
