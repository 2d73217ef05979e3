package hosts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lifeloop/profiles"
)

// What Status says of an installation.
const (
	Installed    = "installed"
	NotInstalled = "not_installed"
	Outdated     = "outdated" // hooks of ours, but not as this version writes them
	Partly       = "partly"   // something is missing
)

// A Report says what is there, and what is not as it should be.
type Report struct {
	State string `json:"state"`
	// Missing and Differing name hooks by their event, a lack of trust as
	// "trust EVENT".
	Missing   []string `json:"missing"`
	Differing []string `json:"differing"`
}

// note is what the texts alone cannot tell; see origin for where it is kept.
type note struct {
	Absent   bool              `json:"absent,omitempty"`   // there was no such file
	Was      was               `json:"was,omitempty"`      // containers with nothing in them
	Values   []string          `json:"values,omitempty"`   // consents that we recorded
	Replaced map[string]string `json:"replaced,omitempty"` // records that we wrote over or into
}

// wanted is the hook of this version that a hook in a file should be.
func wanted(in profiles.Installation, h handler) (profiles.InstalledHook, bool) {
	i := slices.IndexFunc(in.Hooks, func(w profiles.InstalledHook) bool { return w.Event == h.event })
	if i < 0 {
		return profiles.InstalledHook{}, false
	}
	w := in.Hooks[i]
	return w, h.plain && h.command == w.Command && h.timeout == strconv.Itoa(w.Timeout)
}

func number(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// inspect compares a settings file with what should be in it. A text of nil is
// a file that is not there.
func inspect(settings, trust *string, in profiles.Installation) (Report, *Flaw) {
	r := Report{State: NotInstalled, Missing: []string{}, Differing: []string{}}
	if in.Whole != "" {
		r.State = inspectWhole(settings, in)
		return r, nil
	}
	if settings == nil {
		return r, nil
	}
	d, flaw := open(*settings)
	if flaw != nil {
		return r, flaw
	}
	ours := d.ours(in.Ours)
	if len(ours) == 0 {
		return r, nil
	}
	seen := map[string]bool{}
	for _, h := range ours {
		if _, ok := wanted(in, h); (!ok || seen[h.event]) && !slices.Contains(r.Differing, h.event) {
			r.Differing = append(r.Differing, h.event)
		}
		seen[h.event] = true
	}
	for _, w := range in.Hooks {
		if !seen[w.Event] {
			r.Missing = append(r.Missing, w.Event)
		}
	}
	if in.Trust != nil {
		text := ""
		if trust != nil {
			text = *trust
		}
		list := consents(d, in)
		given, flaw := consentGiven(text, in.Trust, list)
		if flaw != nil {
			flaw.Path = in.Trust.Path
			return r, flaw
		}
		for i, c := range list {
			if !given[i] {
				r.Missing = append(r.Missing, "trust "+c.event)
			}
		}
	}
	switch {
	case len(r.Differing) > 0:
		r.State = Outdated
	case len(r.Missing) > 0:
		r.State = Partly
	default:
		r.State = Installed
	}
	return r, nil
}

// emptySettings is what a settings file is before the first hook.
const emptySettings = "{}\n"

// withHooks is a settings text with our hooks, each once and as this version
// writes it, and without those of other versions. It is checked that they can
// be taken out again.
func withHooks(settings *string, in profiles.Installation, before note) (string, note, error) {
	base := emptySettings
	now := note{Absent: true}
	if settings != nil {
		stripped, flaw := strip(*settings, in.Ours, before.Was)
		if flaw != nil {
			return "", now, flaw
		}
		now.Absent = before.Absent && nothing(stripped)
		base = stripped
	}
	out, remembered, flaw := insert(base, in.Hooks)
	if flaw != nil {
		return "", now, flaw
	}
	now.Was = remembered
	back, flaw := strip(out, in.Ours, now.Was)
	if flaw != nil || back != base {
		return "", now, fmt.Errorf("%s is written in a way in which our hooks could not be taken out again; it is left as it is", in.Path)
	}
	return out, now, nil
}

// withoutHooks is a settings text without our hooks, nil when nothing is left
// of a file that we made.
func withoutHooks(settings string, in profiles.Installation, before note) (*string, *Flaw) {
	out, flaw := strip(settings, in.Ours, before.Was)
	if flaw != nil {
		return nil, flaw
	}
	if before.Absent && nothing(out) {
		return nil, nil
	}
	return &out, nil
}

// nothing says that a settings text is an object without members.
func nothing(text string) bool {
	root, flaw := parse(text)
	return flaw == nil && root.kind == '{' && len(root.children) == 0
}

// withTrust is the text of the trust file for settings that are to come. What
// earlier settings needed is taken out.
func withTrust(trust, earlier *string, settings string, in profiles.Installation, before note) (string, note, error) {
	text := ""
	now := note{Absent: trust == nil}
	if trust != nil {
		text = *trust
	}
	d, flaw := open(settings)
	if flaw != nil {
		return "", now, flaw
	}
	list := consents(d, in)
	for _, c := range list {
		now.Values = append(now.Values, c.value)
	}
	given, flaw := consentGiven(text, in.Trust, list)
	if flaw != nil {
		return "", now, flaw
	}
	if !slices.Contains(given, false) {
		now.Absent, now.Replaced = before.Absent, before.Replaced
		return text, now, nil
	}
	// What stands there for the hooks to come is taken for ours as well: it may
	// be from before a state folder was lost, or the user's own yes to them.
	base, flaw := withdraw(text, in.Trust, slices.Concat(now.Values, before.Values, earlierValues(earlier, in)), before.Replaced)
	if flaw != nil {
		return "", now, flaw
	}
	if trust != nil {
		now.Absent = before.Absent && strings.TrimSpace(base) == ""
	}
	out, replaced, flaw := consentTo(base, in.Trust, list)
	if flaw != nil {
		return "", now, flaw
	}
	now.Replaced = replaced
	back, flaw := withdraw(out, in.Trust, now.Values, replaced)
	given, cause := consentGiven(out, in.Trust, list)
	if flaw != nil || cause != nil || back != base || slices.Contains(given, false) {
		return "", now, fmt.Errorf("%s is written in a way in which our records could not be taken out again; it is left as it is", in.Trust.Path)
	}
	return out, now, nil
}

// withoutTrust is the trust file's text without our records, nil when nothing
// is left of a file that we made.
func withoutTrust(trust string, settings *string, in profiles.Installation, before note) (*string, *Flaw) {
	out, flaw := withdraw(trust, in.Trust, slices.Concat(before.Values, earlierValues(settings, in)), before.Replaced)
	if flaw != nil {
		return nil, flaw
	}
	if before.Absent && strings.TrimSpace(out) == "" {
		return nil, nil
	}
	return &out, nil
}

// earlierValues are those of our hooks in settings that may not be there.
func earlierValues(settings *string, in profiles.Installation) []string {
	if settings == nil {
		return nil
	}
	d, flaw := open(*settings)
	if flaw != nil {
		return nil
	}
	return values(d, in)
}
