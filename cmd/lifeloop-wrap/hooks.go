package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
)

// slotEvents are the events for which the answer of the harness's hook can carry
// a client's payload to the model.
var slotEvents = []lifeloop.Event{lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.FrameOpening, lifeloop.FrameOpened}

// needsHooks names the first client, requirement or profile that needs an event, a
// capability or a payload slot that only hooks provide (DECISIONS L23). It is empty if
// there is none.
func needsHooks(cfg config.Config, adapter string) string {
	rests := profiles.RestsOf(adapter)
	required := func(by string, requires []config.Require) string {
		for _, r := range requires {
			if rests.OnHooks(r.Capability) {
				return by + " requires " + r.Capability
			}
		}
		return ""
	}
	for _, c := range cfg.Clients {
		for _, e := range lifeloop.Events() {
			if (slices.Contains(slotEvents, e) || rests.OnHooks(string(e))) && config.Match(c.Events, string(e)) {
				return fmt.Sprintf("client %s receives %s", c.ID, e)
			}
		}
		if why := required("client "+c.ID, c.Requires); why != "" {
			return why
		}
	}
	if why := required("the session", cfg.Requires); why != "" || len(cfg.Renewal.Profiles) == 0 {
		return why
	}
	return "profile " + cfg.Renewal.Profiles[0] + " delivers a continuation"
}

// writeFile writes a file of a launch. It creates the file's folder if it is missing.
func writeFile(path string, data []byte) error {
	if err := durable.Mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.PutFile(path, data)
}

// giveBack moves the files that a launch wrote into its overlay to the user's real
// home.
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
