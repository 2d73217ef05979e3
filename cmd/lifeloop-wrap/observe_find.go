package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
)

// atOnce is how close the last changes of two sessions may be for nobody to
// know which of them is meant.
const atOnce = 2 * time.Minute

// find takes the newest session of this folder, or the one that --session
// names. Where it looked and what else there was is said to the person; where
// two seem to be at work it is theirs to choose.
func (o *observer) find(kind string, note io.Writer) error {
	if kind != "" && kind != o.profile.Transcript.Name {
		return usage("--source %s: a PATH is wanted", kind)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // harnesses write down the real one
	}
	places := o.profile.Places(profiles.Host{Env: os.Environ(), Dir: dir})
	if len(places) == 0 {
		return usage("observe: where the sessions of adapter %s lie is not known", o.profile.Adapter).withHint("name a PATH")
	}
	found, err := supervisor.Find(places, dir)
	if err != nil {
		return fmt.Errorf("look for sessions: %w", err)
	}
	var fit []supervisor.Found
	for _, f := range found {
		if strings.HasPrefix(f.Session, o.session) {
			fit = append(fit, f)
		}
	}
	switch {
	case len(found) == 0:
		return no(lifeloop.AdapterUnavailable, "observe: no session of adapter %s is kept for %s", o.profile.Adapter, dir).
			withHint("looked at %s; name a PATH if it lies elsewhere", lookedAt(places))
	case len(fit) == 0:
		return no(lifeloop.AdapterUnavailable, "observe: no session %s of adapter %s is kept for %s", o.session, o.profile.Adapter, dir).
			withHint("there is %s", sessionList(found))
	case len(fit) > 1 && o.session != "":
		return usage("--session %s: several begin so", o.session).withHint("there is %s", sessionList(fit))
	case len(fit) > 1 && fit[0].At.Sub(fit[1].At) < atOnce && time.Since(fit[0].At) < atOnce:
		return no(lifeloop.StateConflict, "observe: two sessions of adapter %s are at work in %s", o.profile.Adapter, dir).
			withHint("choose one with --session: %s", sessionList(fit))
	}
	chosen := fit[0]
	o.sources, o.session = []profiles.Source{chosen.Source}, chosen.Session
	if len(fit) > 1 {
		fmt.Fprintf(note, "lifeloop-wrap: observing session %s, the newest of %d in %s; --session chooses another\n", chosen.Session, len(fit), dir)
	}
	return nil
}

func lookedAt(places []profiles.Place) string {
	var all []string
	for _, p := range places {
		all = append(all, filepath.Join(p.Dir, p.Pattern))
	}
	return strings.Join(all, ", ")
}

// sessionList names a few sessions with the time of their last change.
func sessionList(found []supervisor.Found) string {
	const most = 5
	var all []string
	for _, f := range found[:min(most, len(found))] {
		all = append(all, fmt.Sprintf("%s (changed %s)", f.Session, f.At.Local().Format(time.DateTime)))
	}
	if len(found) > most {
		all = append(all, fmt.Sprintf("and %d older", len(found)-most))
	}
	return strings.Join(all, ", ")
}
