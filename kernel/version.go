package kernel

import (
	"slices"
	"strings"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/telemetry"
)

// This file holds the harness's version against those that the claims were
// tested with (DECISIONS L8). Of another version nobody knows whether it still
// writes what we read, so what rests on that is worth less until it was seen in
// this session. Nothing is negotiated anew: what was promised at the launch is
// told to be unproven, and then told to be proven.

// dialect are the capabilities that live on how a harness writes down, or
// calls, what it does, and without which a client cannot do its work. Each is an
// event, and that event told by the harness proves it.
var dialect = []lifeloop.Event{
	lifeloop.FrameOpening, lifeloop.FrameOpened, lifeloop.ContextPressureObserved, lifeloop.ContextCompacted, lifeloop.FrameEnded,
}

// maxVersions bounds how many versions one run heeds: one is usual.
const maxVersions = 8

// versionTold heeds the version that a source tells of the current harness
// session, each only once: sources that contradict each other change nothing
// back and forth.
func (s *step) versionTold(sig telemetry.Signal) {
	if sig.Version == "" || sig.Session != "" && sig.Session != s.current().ID ||
		len(s.hard.Versions) == maxVersions || slices.Contains(s.hard.Versions, sig.Version) {
		return
	}
	if !sig.At.IsZero() && sig.At.Before(s.soft.launchedAt) {
		return // of the program that began the session, which is resumed by this one
	}
	told := VersionSeen{Version: sig.Version, Source: sig.Source, Detail: sig.Detail}
	var worth []lifeloop.Support // what each of them was worth until now
	if len(s.cfg.Tested) > 0 && !slices.Contains(s.cfg.Tested, sig.Version) {
		for _, event := range dialect {
			if negotiate.Support(s.manifest(), string(event)).Stronger(lifeloop.Manual) {
				told.Unproven = append(told.Unproven, string(event))
				worth = append(worth, s.support(string(event)))
			}
		}
	}
	s.record(told)
	for i, capability := range told.Unproven {
		if worth[i].Stronger(lifeloop.Partial) {
			s.degrade(capability, worth[i], lifeloop.Partial, s.cfg.Manifest.DisplayName+" "+sig.Version+
				" is not a version that this was tested with ("+strings.Join(s.cfg.Tested, ", ")+"), and it was not seen of it yet")
		}
	}
}

// proves tells that a capability is what it was claimed to be, once the harness
// itself has told the event that it is about.
func (s *step) proves(t telling) {
	capability := string(t.event)
	if !s.hard.Unproven[capability] || !byHarness(t.evidence) {
		return
	}
	ev := t.evidence[0]
	switch t.event {
	case lifeloop.FrameOpening:
		if s.cfg.Hooks && ev.Source != "hook" {
			return // a payload is placed in the hook, which was not heard
		}
	case lifeloop.FrameEnded:
		if t.data["outcome"] == "abandoned" {
			return // it is what comes behind the frame that tells its end
		}
	case lifeloop.ContextPressureObserved:
		if t.data["window_tokens"] == nil {
			return
		}
	case lifeloop.ContextCompacted:
		if t.data["inferred"] == true {
			return
		}
	}
	s.degrade(capability, s.support(capability), negotiate.Support(s.manifest(), capability),
		"seen in this session, told by the "+ev.Source+": "+ev.Detail)
}
