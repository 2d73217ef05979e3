package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lifeloop/internal/document/yaml"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
)

// find chooses the newest session of this folder, or the one that --session names. If it
// is not clear which of the two newest sessions is the running one, find returns an error
// that lists the sessions, so that the user can choose.
func (o *observer) find() error {
	if kind := o.flags.source; kind != "" && kind != o.profile.Transcript.Name {
		return usage("--source %s needs a PATH", kind)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	dir = realPath(dir) // without symbolic links, because harnesses record the real path
	places := o.profile.Places(profiles.Host{Env: os.Environ(), Dir: dir})
	if len(places) == 0 {
		return usage("observe: the place of the sessions of adapter %s is unknown", o.profile.Adapter).withHint("name a PATH")
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
		return no(lifeloop.AdapterUnavailable, "observe: no session of adapter %s in %s", o.profile.Adapter, dir).
			withHint("searched %s; if the session is elsewhere, name a PATH", searched(places))
	case len(fit) == 0:
		return no(lifeloop.AdapterUnavailable, "observe: no session %s of adapter %s in %s", o.session, o.profile.Adapter, dir).
			withHint("sessions: %s", sessionList(found))
	case len(fit) > 1 && o.session != "":
		return usage("--session %s: several session ids begin with this text", o.session).withHint("sessions: %s", sessionList(fit))
	case supervisor.Ambiguous(fit, time.Now()):
		return no(lifeloop.StateConflict, "observe: the two newest sessions of adapter %s in %s changed within %.0f minutes of each other", o.profile.Adapter, dir, supervisor.Recent.Minutes()).
			withHint("pick one with --session: %s", sessionList(fit))
	}
	chosen := fit[0]
	if o.session == "" && !o.flags.once && !o.flags.keepLog {
		o.next = &supervisor.Successors{Place: places[0], Dir: dir, Found: found, Prompted: o.prompted}
	}
	o.sources, o.session = o.profile.Together(chosen.Source), chosen.Session
	for i, s := range o.sources {
		o.sources[i] = o.withWindows(s, dir)
		// With an empty Dir, the context windows apply to all observed sessions, which all
		// belong to this folder.
		o.sources[i].Windows.Dir = ""
	}
	if len(fit) > 1 {
		fmt.Fprintf(o.notes, "lifeloop-wrap: observing harness session %s, the newest of %d in %s; --session chooses another\n", vt.Plain(chosen.Session), len(fit), vt.Plain(dir))
	}
	return nil
}

// withWindows returns s with the context windows of models, which it reads from the
// harness's own files. It assumes that the harness has the environment of this process.
func (o *observer) withWindows(s profiles.Source, dir string) profiles.Source {
	return o.profile.WithWindows(s, profiles.Host{Env: os.Environ(), Dir: dir, ReadFile: readSettings, YAML: yaml.Parse})
}

// prompted reports to the user that another session of this folder got a
// prompt.
func (o *observer) prompted(session string, followed bool) {
	text := "is not observed, because the observed session is in the middle of a turn"
	if followed {
		text = "is observed from now on"
	}
	fmt.Fprintf(o.notes, "lifeloop-wrap: harness session %s of this folder got a prompt and %s; --session chooses the session to observe\n", vt.Plain(session), text)
}

func searched(places []profiles.Place) string {
	var all []string
	for _, p := range places {
		all = append(all, filepath.Join(p.Dir, p.Pattern))
	}
	return strings.Join(all, ", ")
}

// sessionList lists a few sessions with the time of their last change.
func sessionList(found []supervisor.Found) string {
	const most = 5
	var all []string
	for _, f := range found[:min(most, len(found))] {
		all = append(all, fmt.Sprintf("%s (changed %s)", f.Session, f.At.Local().Format(time.DateTime)))
	}
	if len(found) > most {
		all = append(all, fmt.Sprintf("and %d older ones", len(found)-most))
	}
	return strings.Join(all, ", ")
}
