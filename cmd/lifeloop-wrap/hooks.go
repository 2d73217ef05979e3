package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
)

// needsHooks returns a text that names the first client, requirement or profile that
// needs hooks (DECISIONS L23), or an empty text if none needs hooks.
func needsHooks(cfg config.Config, adapter string) string {
	rests := profiles.RestsOf(adapter)
	for _, c := range cfg.Clients {
		var events []lifeloop.Event
		for _, e := range lifeloop.Events() {
			if config.Match(c.Events, string(e)) {
				events = append(events, e)
			}
		}
		switch event, capability := rests.NeedsHooks(events, capabilities(c.Requires)); {
		case event != "":
			return fmt.Sprintf("client %s receives %s", c.ID, event)
		case capability != "":
			return fmt.Sprintf("client %s requires %s", c.ID, capability)
		}
	}
	if _, capability := rests.NeedsHooks(nil, capabilities(cfg.Requires)); capability != "" {
		return "the session requires " + capability
	}
	if len(cfg.Renewal.Profiles) > 0 {
		return "profile " + cfg.Renewal.Profiles[0] + " delivers a continuation"
	}
	return ""
}

// capabilities lists the capabilities of requirements, whatever their levels.
func capabilities(requires []config.Require) (names []string) {
	for _, r := range requires {
		names = append(names, r.Capability)
	}
	return names
}

// writeFile writes a file of a launch. It creates the file's folder if it is missing.
func writeFile(path string, data []byte) error {
	if err := durable.Mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.PutFile(path, data)
}

// giveBack settles the overlay of a launch, the folder that replaced the user's home
// (package overlay): the files that the harness wrote there move to the home.
func (s *session) giveBack() {
	w := vt.NewFilter(os.Stderr)
	kept, err := s.folder.Settle()
	for _, path := range kept {
		fmt.Fprintf(w, "lifeloop-wrap: the harness and another program changed the same file; the harness's version is in %s\n", vt.Plain(path))
	}
	if err != nil {
		fmt.Fprintf(w, "lifeloop-wrap: %s\n", vt.Plain(err.Error()))
	}
}
