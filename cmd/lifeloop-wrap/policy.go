package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"lifeloop/attempt"
	"lifeloop/attempt/policy"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
)

// This file determines and checks the ways in which a run may launch a harness. The
// ways come from the block "attempts" of the configuration and from the flags that set
// parts of that block.

// A way is one way to launch a harness: the command in the command line, or a
// fallback.
type way struct {
	name      string // the name that the configuration gives to this way, or ""
	argv      []string
	profile   profiles.Profile
	manifest  lifeloop.Manifest
	continues bool // this way can continue a harness session that another way started
}

// ways returns the ways to launch. The command in the command line is the
// first.
func ways(cfg config.Config, adapter string, argv []string) ([]way, error) {
	configured := cfg.Attempts.Profiles
	if len(configured) == 0 {
		configured = []policy.Profile{{}}
	}
	var out []way
	for i, p := range configured {
		w := way{name: p.Name, argv: p.Command, continues: p.AcceptsContinuation}
		where, id := fmt.Sprintf("attempts.profiles[%d].adapter", i), p.Adapter
		if i == 0 {
			w.argv = argv
			if adapter != "" {
				where, id = "--adapter", adapter
			}
		}
		id = cmp.Or(id, profiles.Infer(w.argv[0]))
		var ok bool
		if w.profile, w.manifest, ok = adapterOf(id); !ok {
			return nil, usage("%s %s: no such adapter", where, id).withHint("lifeloop-wrap manifest list lists the adapters")
		}
		out = append(out, w)
	}
	return out, nil
}

// ends says how the kernel interprets the end of a launch. For an exit code,
// the user's configuration overrides the profile.
func ends(a policy.Attempts, p profiles.Profile, l profiles.Launch) setup.Ends {
	e := setup.Ends{Success: a.Success(), Codes: a.Codes(), ByTurn: l.Evidence == profiles.ByLastTurn}
	for code, cause := range p.ExitCodes {
		if _, given := e.Codes[code]; !given {
			e.Codes[code] = cause
		}
	}
	return e
}

// check finds the fallbacks that cannot be launched, before the first launch. If
// --timeout-inter would end a harness while it waits for the user, check returns an
// error. It examines the command in the command line only if --timeout-inter applies.
func (l *launcher) check() ([]attempt.Profile, error) {
	mustReport := l.session.cfg.Attempts.Timeouts.Inter > 0 && l.terminal.Pty() && !l.force
	var out []attempt.Profile
	for i, w := range l.ways {
		p := attempt.Profile{Name: cmp.Or(w.name, w.manifest.AdapterID), Adapter: w.manifest.AdapterID, AcceptsContinuation: w.continues}
		out = append(out, p)
		if i == 0 && !mustReport {
			continue
		}
		launch, err := l.ask(w, effect.Launch{Number: 1, Profile: i}, "")
		switch {
		case i == 0 && err != nil:
			return nil, err
		case i == 0:
		case err != nil:
			p.Missing = "it cannot be prepared"
		default:
			p.Missing = cmp.Or(notInstalled(w.argv[0]), l.unmet(w, launch))
			p.AcceptsContinuation = w.continues && launch.Resumes
		}
		if p.Missing == "" && mustReport && !w.profile.ReportsWaiting(launch) {
			return nil, usage("--timeout-inter: in a terminal, nothing reports that %s waits for the user", p.Name).
				withHint("the timeout would end the harness while it waits for the user; use --timeout-initial or --max-duration, or add --force")
		}
		out[i] = p
	}
	return out, nil
}

// notInstalled returns the reason why a program cannot be started, or "". The
// reason contains no path, because it is recorded.
func notInstalled(program string) string {
	err := harness.Installed(program, os.Environ())
	var start *harness.StartError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &start) && start.Code == 126:
		return "its program cannot be executed"
	}
	return "its program is not installed"
}

// unmet returns a text that names a required capability that w lacks, or "" if w lacks
// none.
func (l *launcher) unmet(w way, launch profiles.Launch) string {
	m := w.manifest
	for _, weak := range l.setup(w, launch).Weak {
		m = negotiate.Weaken(m, weak.Capability, lifeloop.Unavailable)
	}
	asked := wants(l.session.cfg.Requires)
	for _, c := range kernelClients(l.session.cfg.Clients) {
		asked = append(asked, c.Wants...)
	}
	for _, r := range negotiate.Capabilities(m, asked) {
		if r.Failure != "" {
			return fmt.Sprintf("required capability %s is %s", r.Want.Capability, r.Have)
		}
	}
	return ""
}
