//go:build e2e && linux

package e2e

import "strings"

// sequence lists the events of a story, as story.emits explains. Its parts are
// lines and groups of lines:
//
//	sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other"))
func sequence(parts ...string) string { return strings.Join(parts, "\n") }

// starts are the two events by which a harness session starts. A second id,
// as in "S? S1", is that of the second event.
func starts(session, cause string) string {
	starting, started, two := strings.Cut(session, " ")
	if !two {
		started = starting
	}
	return sequence("session.starting "+starting+" "+cause, "session.started "+started+" "+cause)
}

// ends are the two events by which a harness session ends.
func ends(session, reason string) string {
	return sequence("session.ending "+session+" "+reason, "session.ended "+session+" "+reason)
}

// frame are the four events of a frame, "S1 F1", with others within it.
func frame(id, outcome string, within ...string) string {
	return sequence("frame.opening "+id, "frame.opened "+id, sequence(within...), "frame.ending "+id+" "+outcome, "frame.ended "+id+" "+outcome)
}

// pressure is a context pressure that is observed at some time after a frame opened
// and before the event that before names. Without before, it is observed before the end
// of the session.
func pressure(level, frame string, before ...string) string {
	session, id, _ := strings.Cut(frame, " ")
	next := "session.ended " + session
	if len(before) > 0 {
		next = before[0]
	}
	return "~ " + pressureObserved + " " + session + " " + level + " between frame.opened " + id + " and " + next
}
