package kernel

import (
	"cmp"
	"strconv"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file says how an attempt ended, once its harness is gone and everything
// that it wrote was read: by what evidence, and in which words for people and
// for clients.

// A verdict is how an attempt ended, and by what evidence.
type verdict struct {
	attempt.Failure
	detail   string
	evidence string
	until    time.Time // when a rate limit is lifted, when that was told
}

// judge says how the attempt ended, once its harness is gone and was read to
// its end.
func (s *step) judge() verdict {
	a, e := &s.soft.attempt, s.hard.Exit
	fail := func(c attempt.Cause, detail, evidence string) verdict {
		return verdict{Failure: attempt.Failure{Cause: c}, detail: detail, evidence: evidence}
	}
	var v verdict
	switch {
	case s.hard.AbortBy != 0:
		return fail(attempt.Aborted, "", "it was asked to end by "+signalName(s.hard.AbortBy))
	case s.hard.TimedOut != nil:
		return fail(attempt.Timeout, string(s.hard.TimedOut.Timer), "the session's own timer")
	case a.stopWhy == attempt.Timeout:
		return fail(a.stopWhy, a.detail, "the timer "+a.detail)
	case a.stopWhy != "":
		v = fail(a.stopWhy, a.detail, "stopped for "+string(a.stopWhy))
		v.Final = a.final
		v.withLimit(a.failure, s.now)
		return v
	case e.NotStarted:
		return s.notStarted(e)
	case e.Lost, e.OutputLost && e.Code == 0 && e.Signal == 0:
		return fail(attempt.Fatal, s.endReason(), s.endReason())
	case s.succeeded(&v):
	case e.Signal == sigINT:
		return fail(attempt.Aborted, "", s.endReason()) // by nobody here: at its terminal, or by its number
	case a.turn == telemetry.Interrupted && e.Signal == 0:
		return fail(attempt.Aborted, "", "the last turn interrupted, "+s.endReason())
	case a.failure != nil:
		v = fail(a.failure.Cause, a.failure.Code, a.failure.Source)
		v.withLimit(a.failure, s.now)
	case e.Signal == 0 && s.cfg.Ends.Codes[e.Code] != "":
		v = fail(s.cfg.Ends.Codes[e.Code], "", "exit "+strconv.Itoa(e.Code)+" of "+s.cfg.Manifest.AdapterID)
	default:
		v = fail(attempt.Model, "", cmp.Or(v.evidence, s.endReason()))
	}
	return s.held(v)
}

func (v *verdict) withLimit(f *FailureSeen, now time.Time) {
	if f == nil || v.Cause != attempt.RateLimit || f.Until.IsZero() {
		return
	}
	v.Limit, v.until = max(f.Until.Sub(now), 0), f.Until
}

func (s *step) notStarted(e *Exited) verdict {
	switch e.Code {
	case 126:
		return verdict{Failure: attempt.Failure{Cause: attempt.Fatal}, detail: "not_executable", evidence: "not started"}
	case 127:
		return verdict{Failure: attempt.Failure{Cause: attempt.Fatal}, detail: "not_found", evidence: "not started"}
	}
	if e.Transient {
		return verdict{Failure: attempt.Failure{Cause: attempt.Network}, detail: "transport", evidence: "not started"}
	}
	return verdict{Failure: attempt.Failure{Cause: attempt.Fatal}, detail: "not_prepared", evidence: "not started"}
}

// succeeded says whether the harness ended as one does that did its work, and
// what says so.
func (s *step) succeeded(v *verdict) bool {
	e, ends, turn := s.hard.Exit, s.cfg.Ends, s.soft.attempt.turn
	v.evidence = s.endReason()
	switch {
	case e.Signal != 0, ends.Success == nil && e.Code != 0, ends.Success != nil && !ends.Success[e.Code]:
		return false
	case ends.ByTurn && turn != "" && !s.soft.lame: // who acts no more has not heard all of it
		v.evidence = "the last turn " + string(turn) + ", exit " + strconv.Itoa(e.Code)
		return turn == telemetry.Completed
	}
	return true
}

// held holds the whole attempt against the rules that wait for its end, but for
// one that failed before it wrote anything. What nothing could mend is graver
// than how it ended.
func (s *step) held(v verdict) verdict {
	a := &s.soft.attempt
	if v.Cause != "" && a.bytes == 0 {
		return v
	}
	if rules := a.watch.End(); len(rules) > 0 {
		s.record(RulesChecked{Phase: "post", Units: a.units, Rules: rules})
	}
	if rule, broken := a.watch.Broken(); broken && (v.Cause == "" || rule.Stops()) {
		return verdict{Failure: attempt.Failure{Cause: attempt.Guardrail, Final: !rule.Recoverable}, detail: rule.ID, evidence: "rule " + rule.ID}
	}
	if v.Cause == "" && s.cfg.Policy.ZeroOutput && !a.did && !a.watch.Printed() {
		return verdict{Failure: attempt.Failure{Cause: attempt.ZeroOutput}, evidence: "nothing was printed, and no turn and no tool was seen"}
	}
	return v
}

// failureClass is what a client is told of a cause.
func failureClass(c attempt.Cause, notStarted bool) lifeloop.FailureClass {
	switch c {
	case attempt.Timeout:
		return lifeloop.Timeout
	case attempt.Network, attempt.RateLimit, attempt.ServerError:
		if notStarted {
			return lifeloop.AdapterUnavailable
		}
		return lifeloop.TransportError
	case attempt.Guardrail, attempt.Drift:
		return lifeloop.OperatorRequired
	case attempt.Fatal:
		if notStarted {
			return lifeloop.AdapterUnavailable
		}
		return lifeloop.OperatorRequired
	case attempt.Aborted:
		return "" // what was asked for is no failure
	}
	return lifeloop.InternalError
}

// sentence says for people why an attempt failed.
func sentence(c attempt.Cause, detail string, e *Exited) string {
	switch c {
	case attempt.Timeout:
		switch Timer(detail) {
		case TimerInitial:
			return "no sign of life came in time"
		case TimerInter:
			return "nothing was heard for too long"
		case TimerTool:
			return "a tool took too long"
		case TimerIdle:
			return "nothing happened for too long"
		}
		return "the session's time is over"
	case attempt.Guardrail:
		return "guardrail " + detail + " was broken"
	case attempt.Drift:
		return "the same thing came over and over"
	case attempt.ZeroOutput:
		return "it ended well and had said nothing"
	case attempt.Aborted:
		return "it was asked to end"
	case attempt.Network:
		return "the network failed" + inWords(detail)
	case attempt.RateLimit:
		return "a rate limit was met"
	case attempt.ServerError:
		return "the model's server failed"
	case attempt.Fatal:
		return "it cannot be mended by another try" + inWords(detail)
	}
	how := "it failed"
	switch {
	case e == nil:
	case e.Signal != 0:
		how = signalName(e.Signal) + " ended it"
	default:
		how = "it ended with exit " + strconv.Itoa(e.Code)
	}
	return how
}

func inWords(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}
