package kernel

import (
	"slices"
	"strings"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/telemetry"
)

// This file compares the harness's version with those that the claims were
// tested with (DECISIONS L8). An untested version may write its records
// otherwise, so capabilities that rest on records are only partial until they
// are seen in this session. Nothing is negotiated again.

// VersionSeen records the harness's version, and what is unproven of one that
// was not tested.
type VersionSeen struct {
	Version  string   `json:"version"`
	Source   string   `json:"source"`
	Detail   string   `json:"detail,omitempty"`
	Unproven []string `json:"unproven,omitempty"` // capabilities
}

func (VersionSeen) key() (string, bool) { return "version_told", false }
func (f VersionSeen) apply(k *Kernel) {
	h := &k.health.hard
	h.Versions = append(h.Versions, f.Version)
	for _, c := range f.Unproven {
		h.Unproven[c] = true
	}
}

// dialect are the capabilities that rest on how a harness writes its records
// or calls its hooks, and that clients need most. Each is an event, and that
// event by the harness proves it.
var dialect = []lifeloop.Event{
	lifeloop.FrameOpening, lifeloop.FrameOpened, lifeloop.ContextPressureObserved, lifeloop.ContextCompacted, lifeloop.FrameEnded,
}

// maxVersions bounds how many versions one run considers: one is usual.
const maxVersions = 8

// version considers the version that a source reports of the current harness
// session, each only once, so that sources which contradict each other do not
// change it back and forth.
func (h *health) version(s *step, sig telemetry.Signal) {
	if sig.Version == "" || sig.Session != "" && sig.Session != s.scopes.current().ID ||
		len(h.hard.Versions) == maxVersions || slices.Contains(h.hard.Versions, sig.Version) {
		return
	}
	if !sig.At.IsZero() && s.attempts.launchedAfter(sig.At, s.now) {
		return // of the program that began the session, which this one resumes
	}
	f := VersionSeen{Version: sig.Version, Source: sig.Source, Detail: sig.Detail}
	var before []lifeloop.Support // of each unproven capability
	if len(s.cfg.Tested) > 0 && !slices.Contains(s.cfg.Tested, sig.Version) {
		for _, event := range dialect {
			if negotiate.Support(s.manifest(), string(event)).Stronger(lifeloop.Partial) {
				f.Unproven = append(f.Unproven, string(event))
				before = append(before, h.support(s, string(event)))
			}
		}
	}
	s.record(f)
	for i, capability := range f.Unproven {
		if before[i].Stronger(lifeloop.Partial) {
			h.degrade(s, capability, before[i], lifeloop.Partial, s.cfg.Manifest.DisplayName+" "+sig.Version+
				" is not a tested version (tested: "+strings.Join(s.cfg.Tested, ", ")+"), and this capability was not seen yet")
		}
	}
}

// prove reports that a capability is what was claimed, once the harness itself
// has caused its event.
func (h *health) prove(s *step, e emission) {
	capability := string(e.event)
	if !h.hard.Unproven[capability] || !byHarness(e.evidence) {
		return
	}
	ev := e.evidence[0]
	switch e.event {
	case lifeloop.FrameOpening:
		if s.cfg.Hooks && ev.Source != "hook" {
			return // a payload needs the hook, which was not called
		}
	case lifeloop.FrameEnded:
		if e.data["outcome"] == "abandoned" {
			return // a later event ended the frame
		}
	case lifeloop.ContextPressureObserved:
		if e.data["window_tokens"] == nil {
			return
		}
	case lifeloop.ContextCompacted:
		if e.data["inferred"] == true {
			return
		}
	}
	h.degrade(s, capability, h.support(s, capability), negotiate.Support(s.manifest(), capability),
		"seen in this session, reported by the "+ev.Source+": "+ev.Detail)
}
