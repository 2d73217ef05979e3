package page

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// words describes a fact for the timeline, with its tone. The description is empty for a
// fact that other parts of the page show, or that only the wrapper needs.
func words(f kernel.Fact) (what, tone string) {
	switch f := f.(type) {
	case kernel.SessionMoved:
		return fmt.Sprintf("the session is %s: %s", f.To, view.ReasonText(f.Reason)), toneOf(string(f.To))
	case kernel.Launching:
		what = fmt.Sprintf("launch (%s), attempt %d", f.Cause, max(f.Attempt, 1))
		if f.Name != "" {
			what += " with " + f.Name
		}
		return what, ""
	case kernel.Running:
		return fmt.Sprintf("the harness runs, process %d", f.PID), ""
	case kernel.Exited:
		return exited(f)
	case kernel.HarnessSessionOpened:
		return "harness session (" + f.Cause + ") " + f.ID, ""
	case kernel.Bound:
		return "the harness session has the id " + f.ID, ""
	case kernel.VersionSeen:
		if len(f.Unproven) > 0 {
			return "lifeloop-wrap was not tested with version " + f.Version + " of the harness; capabilities not yet seen to work with this version: " + strings.Join(f.Unproven, " "), "warn"
		}
		return "the harness has version " + f.Version, ""
	case kernel.Observed:
		return observedWords(f)
	case kernel.AttemptEnded:
		if f.Cause != "" {
			return fmt.Sprintf("the attempt failed (%s %s); next: %s", f.Cause, f.Detail, f.Recovery), "bad"
		}
		return "the attempt completed: " + f.Evidence, "good"
	case kernel.AbortRequested:
		return "abort requested " + f.Reason, "warn"
	case kernel.StopSent:
		return fmt.Sprintf("signal %d sent to the harness", f.Signal), "warn"
	case kernel.ProcessesKilled:
		var names []string
		for _, p := range f.Processes {
			names = append(names, p.Name+" "+strconv.Itoa(p.PID))
		}
		return fmt.Sprintf("processes killed (%d): %s", len(f.Processes)+f.More, strings.Join(names, ", ")), "bad"
	case kernel.GateAnswered:
		return gateWords(f)
	case kernel.TranscriptCopied:
		if f.Why != "" {
			return "the transcript was not copied: " + f.Why, "warn"
		}
		return fmt.Sprintf("the transcript was copied: %s, %s bytes, %s", f.File, grouped(f.Bytes), f.Digest), ""
	case kernel.PauseRequested:
		return "pause requested", "warn"
	case kernel.ResumeRequested:
		return "resumed", ""
	case kernel.RenewalMoved:
		if f.Failure != "" {
			return fmt.Sprintf("renewal %s (%s): %s", f.To, f.Failure, f.Why), "bad"
		}
		return fmt.Sprintf("renewal %s", f.To), ""
	}
	return "", ""
}

// gateWords describes a decision on an act: the act, whether it was allowed, and the
// reasons.
func gateWords(f kernel.GateAnswered) (what, tone string) {
	act := f.Act
	if f.Tool != "" && f.Tool != f.Act {
		act += " " + f.Tool
	}
	why := strings.Join(f.Reasons, ", ")
	if f.Failure != "" {
		why = string(f.Failure) + ", " + f.Why
	}
	if f.Allowed() {
		return fmt.Sprintf("the policy allowed %s: %s", act, why), "good"
	}
	return fmt.Sprintf("the policy refused %s (%s): %s", act, f.Verdict, why), "bad"
}

func toneOf(state string) string {
	switch state {
	case "COMPLETED":
		return "good"
	case "FAILED", "REJECTED", "ABORTED":
		return "bad"
	case "ABORTING", "PAUSED":
		return "warn"
	}
	return ""
}

func exited(f kernel.Exited) (what, tone string) {
	switch {
	case f.NotStarted:
		return "the harness could not be started", "bad"
	case f.Lost, f.Unseen:
		return "it is not known how the harness ended", "warn"
	case f.Signal != 0:
		return fmt.Sprintf("the harness died of signal %d", f.Signal), "bad"
	case f.Code != 0:
		return fmt.Sprintf("the harness exited with %d", f.Code), "bad"
	}
	return "the harness exited with 0", ""
}

// observedWords describes an event that no other table shows.
func observedWords(f kernel.Observed) (what, tone string) {
	switch r := f.Record; r.Event {
	case lifeloop.ContextCompacted:
		return fmt.Sprintf("the context was compacted (%v)", r.Data["trigger"]), "warn"
	case lifeloop.CapabilityDegraded:
		if d := f.Degradation; d != nil {
			if d.CurrentSupport.Stronger(d.PreviousSupport) {
				return fmt.Sprintf("%s recovered and is %s now", d.Capability, d.CurrentSupport), "good"
			}
			return fmt.Sprintf("%s is %s now: %s", d.Capability, d.CurrentSupport, d.Evidence), "warn"
		}
	case lifeloop.ReceiptGapDetected:
		return "records from the harness are missing: its sequence numbers have a gap", "warn"
	}
	return "", ""
}

// grouped writes a number with separated thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// sorted yields the members of a map in the order of their names.
func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
