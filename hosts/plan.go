package hosts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lifeloop/profiles"
)

// The states of an installation.
const (
	Installed    = "installed"
	NotInstalled = "not_installed"
	Outdated     = "outdated" // our hooks exist, but differ from those that this version writes
	Partly       = "partly"   // some hooks, or the user's consents to them, are missing
)

// A Report is the state of an installation and the reasons for it.
type Report struct {
	State string `json:"state"`
	// Each string in Missing and Differing is the event of a hook. A hook without
	// the consent that it needs is listed in Missing as "trust EVENT".
	Missing   []string `json:"missing"`
	Differing []string `json:"differing"`
}

// A note holds what cannot be derived from a file's text. See origin.
type note struct {
	Absent   bool              `json:"absent,omitempty"`   // there was no such file
	Was      earlier           `json:"was,omitempty"`      // what was empty or null before our hooks were added
	Values   []string          `json:"values,omitempty"`   // the strings that record the consents to our hooks
	Replaced map[string]string `json:"replaced,omitempty"` // the result of consentTo that is named replaced
}

// wanted returns the hook that this version writes for the event of h, and whether h
// is equal to it.
func wanted(in profiles.Installation, h handler) (profiles.InstalledHook, bool) {
	i := slices.IndexFunc(in.Hooks, func(w profiles.InstalledHook) bool { return w.Event == h.event })
	if i < 0 {
		return profiles.InstalledHook{}, false
	}
	w := in.Hooks[i]
	return w, h.plain && h.command == w.Command && h.timeout == strconv.Itoa(w.Timeout)
}

// inspect compares a settings file with what should be in it. A nil text means
// that there is no file.
func inspect(settings, trust *string, in profiles.Installation) (Report, error) {
	r := Report{State: NotInstalled, Missing: []string{}, Differing: []string{}}
	if in.Whole != "" {
		r.State = inspectWhole(settings, in)
		return r, nil
	}
	if settings == nil {
		return r, nil
	}
	d, err := open(*settings)
	if err != nil {
		return r, err
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
		given, err := consentGiven(text, in.Trust, list)
		if err != nil {
			return r, inFile(err, in.Trust.Path)
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

// emptySettings is the text to which hooks are added if there is no settings file.
const emptySettings = "{}\n"

// withHooks returns a settings text that has each of our hooks once, as this
// version writes it. Hooks that other versions of this program wrote are removed.
// It fails if a later removal of the hooks could not restore the text exactly.
func withHooks(settings *string, in profiles.Installation, before note) (string, note, error) {
	base := emptySettings
	now := note{Absent: true}
	if settings != nil {
		stripped, err := strip(*settings, in.Ours, before.Was)
		if err != nil {
			return "", now, err
		}
		now.Absent = before.Absent && nothing(stripped)
		base = stripped
	}
	out, remembered, err := insert(base, in.Hooks)
	if err != nil {
		return "", now, err
	}
	now.Was = remembered
	back, err := strip(out, in.Ours, now.Was)
	if err != nil || back != base {
		return "", now, fmt.Errorf("%s was not changed: a later removal of the added hooks would not restore it exactly", in.Path)
	}
	return out, now, nil
}

// withoutHooks returns a settings text without our hooks. It returns nil if we
// created the file and nothing else is in it.
func withoutHooks(settings string, in profiles.Installation, before note) (*string, error) {
	out, err := strip(settings, in.Ours, before.Was)
	if err != nil {
		return nil, err
	}
	if before.Absent && nothing(out) {
		return nil, nil
	}
	return &out, nil
}

// nothing reports whether a settings text is an object without members.
func nothing(text string) bool {
	root, err := parse(text)
	list, _ := children(root)
	return err == nil && kind(root) == '{' && len(list) == 0
}

// withTrust returns the trust file's text with the consents that new settings need. If
// the text has all of them, it is not changed. Otherwise the missing consents are added,
// and the consents that only the earlier settings needed are removed.
func withTrust(trust, earlier *string, settings string, in profiles.Installation, before note) (string, note, error) {
	text := ""
	now := note{Absent: trust == nil}
	if trust != nil {
		text = *trust
	}
	d, err := open(settings)
	if err != nil {
		return "", now, err
	}
	list := consents(d, in)
	for _, c := range list {
		now.Values = append(now.Values, c.value)
	}
	given, err := consentGiven(text, in.Trust, list)
	if err != nil {
		return "", now, err
	}
	if !slices.Contains(given, false) {
		now.Absent, now.Replaced = before.Absent, before.Replaced
		return text, now, nil
	}
	// Remove all consents to the new hooks. This includes consents that our note lacks: the
	// user gave them, or the note was lost. Below, consentTo adds these consents again,
	// so a later removal of our hooks also removes these consents.
	base, err := withdraw(text, in.Trust, slices.Concat(now.Values, before.Values, earlierValues(earlier, in)), before.Replaced)
	if err != nil {
		return "", now, err
	}
	if trust != nil {
		now.Absent = before.Absent && strings.TrimSpace(base) == ""
	}
	out, replaced, err := consentTo(base, in.Trust, list)
	if err != nil {
		return "", now, err
	}
	now.Replaced = replaced
	back, err := withdraw(out, in.Trust, now.Values, replaced)
	given, cause := consentGiven(out, in.Trust, list)
	switch {
	case err != nil || back != base:
		return "", now, fmt.Errorf("%s was not changed: a later removal of the added records of trust would not restore it exactly", in.Trust.Path)
	case cause != nil || slices.Contains(given, false):
		return "", now, fmt.Errorf("%s was not changed: even with the added records of trust, the harness would not run the hooks", in.Trust.Path)
	}
	return out, now, nil
}

// withoutTrust returns the trust file's text without the consents to our hooks. It
// returns nil if we created the file and nothing else is in it.
func withoutTrust(trust string, settings *string, in profiles.Installation, before note) (*string, error) {
	out, err := withdraw(trust, in.Trust, slices.Concat(before.Values, earlierValues(settings, in)), before.Replaced)
	if err != nil {
		return nil, err
	}
	if before.Absent && strings.TrimSpace(out) == "" {
		return nil, nil
	}
	return &out, nil
}

// earlierValues lists the consents for all our hooks in settings, including those
// of other versions. There are none if settings is nil or cannot be parsed.
func earlierValues(settings *string, in profiles.Installation) (list []string) {
	if settings == nil {
		return nil
	}
	d, err := open(*settings)
	if err != nil {
		return nil
	}
	for _, h := range d.ours(in.Ours) {
		if timeout, err := strconv.Atoi(h.timeout); err == nil {
			list = append(list, in.Trust.Value(profiles.InstalledHook{Event: h.event, Command: h.command, Timeout: timeout}))
		}
	}
	return list
}
