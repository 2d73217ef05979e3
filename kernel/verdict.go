package kernel

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file decides how an attempt ended, once its harness has exited and all of
// its output was read. It also puts the result into words for the user and clients.

// A verdict says how an attempt ended, and which evidence shows that.
type verdict struct {
	attempt.Failure
	detail   string
	evidence string
	until    time.Time // when a rate limit is lifted; zero if unknown
}

func (a *attempts) judge(s *step) verdict {
	e := a.hard.Exit
	fail := func(c attempt.Cause, detail, evidence string) verdict {
		return verdict{Failure: attempt.Failure{Cause: c}, detail: detail, evidence: evidence}
	}
	var v verdict
	switch {
	case s.ending.signal() != 0:
		return fail(attempt.Aborted, "", "an abort was requested with "+signalName(s.ending.signal()))
	case s.session.timeout() != "":
		return fail(attempt.Timeout, string(s.session.timeout()), "the session's own timer")
	case a.hard.Stop.cause == attempt.Timeout:
		return fail(a.hard.Stop.cause, a.hard.Stop.detail, "the timer "+a.hard.Stop.detail)
	case a.stopped():
		v = fail(a.hard.Stop.cause, a.hard.Stop.detail, "stopped for "+string(a.hard.Stop.cause))
		v.Final = v.Cause == attempt.Guardrail
		if rule, broken := a.soft.watch.Broken(); broken && rule.Stops() { // the most severe rule that the output broke
			v = fail(attempt.Guardrail, rule.ID, v.evidence)
			v.Final = true
		}
		v.withLimit(a.soft.failure, s.now)
		return v
	case e.NotStarted:
		return notStarted(e)
	case e.Lost, e.OutputLost && e.Code == 0 && e.Signal == 0:
		return fail(attempt.Fatal, a.endReason(), a.endReason())
	case a.succeeded(s, &v):
	case e.Interrupted && (e.Signal == sigINT || e.Code == 128+sigINT):
		return fail(attempt.Aborted, "", a.endReason()+" after the interrupt key") // any other SIGINT counts as a failure of the program
	case a.soft.turn == telemetry.Interrupted && e.Signal == 0:
		return fail(attempt.Aborted, "", "the last turn was interrupted, "+a.endReason())
	case a.soft.failure != nil:
		v = fail(a.soft.failure.Cause, a.soft.failure.Code, a.soft.failure.Source)
		v.withLimit(a.soft.failure, s.now)
	case e.Signal == 0 && s.cfg.Ends.Codes[e.Code] != "":
		v = fail(s.cfg.Ends.Codes[e.Code], "", "exit "+strconv.Itoa(e.Code)+" of "+s.cfg.Manifest.AdapterID)
	default:
		v = fail(attempt.Model, "", cmp.Or(v.evidence, a.endReason()))
	}
	return a.checkRules(s, v)
}

func (v *verdict) withLimit(f *input.FailureSeen, now time.Time) {
	if f == nil || v.Cause != attempt.RateLimit || f.Until.IsZero() {
		return
	}
	v.Limit, v.until = max(f.Until.Sub(now), 0), f.Until
}

// notAllowed is AttemptEnded.Detail if the gate (package gate) did not allow the launch.
const notAllowed = "not_allowed"

func notStarted(e *Exited) verdict {
	v := verdict{Failure: attempt.Failure{Cause: attempt.Fatal}, detail: "not_prepared", evidence: "not started"}
	switch {
	case e.Refused:
		v.detail = notAllowed
	case e.Code == 126:
		v.detail = "not_executable"
	case e.Code == 127:
		v.detail = "not_found"
	case e.Transient:
		v.Cause, v.detail = attempt.Network, "transport"
	}
	return v
}

// succeeded reports whether the harness ended with success, and sets the evidence
// in v.
func (a *attempts) succeeded(s *step, v *verdict) bool {
	e, ends, turn := a.hard.Exit, s.cfg.Ends, a.soft.turn
	v.evidence = a.endReason()
	switch {
	case e.Signal != 0, ends.Success == nil && e.Code != 0, ends.Success != nil && !ends.Success[e.Code]:
		return false
	case ends.ByTurn && turn != "" && !s.session.ledgerLost(): // once the ledger is lost, turns may have been missed
		v.evidence = "last turn: " + string(turn) + ", exit " + strconv.Itoa(e.Code)
		return turn == telemetry.Completed
	}
	return true
}

// checkRules checks the rules that apply at the end of the attempt, unless the attempt
// failed before it wrote anything. A broken rule makes a successful attempt fail. A
// broken rule that is unrecoverable also takes precedence over another failure of the
// attempt. If the policy says so, a success without any output is a failure too.
func (a *attempts) checkRules(s *step, v verdict) verdict {
	if v.Cause != "" && a.soft.bytes == 0 {
		return v
	}
	if !a.soft.unseen {
		if rules := a.soft.watch.Clean(); len(rules) > 0 {
			s.record(RulesChecked{Phase: "pre", Units: a.soft.units, Rules: rules})
		}
		if rules := a.soft.watch.End(); len(rules) > 0 {
			s.record(RulesChecked{Phase: "post", Units: a.soft.units, Rules: rules})
		}
	}
	if rule, broken := a.soft.watch.Broken(); broken && (v.Cause == "" || rule.Stops()) {
		return verdict{Failure: attempt.Failure{Cause: attempt.Guardrail, Final: !rule.Recoverable}, detail: rule.ID, evidence: "rule " + rule.ID}
	}
	if v.Cause == "" && s.cfg.Policy.ZeroOutput && !a.soft.did && !a.soft.watch.Printed() {
		return verdict{Failure: attempt.Failure{Cause: attempt.ZeroOutput}, evidence: "no output, no turn and no tool was seen"}
	}
	return v
}

// consequences returns two consequences of an error of the kind e: the cause of the
// attempt's failure, and the failure class of the turn. The cause is fatal if the same
// command line would fail again. For an unknown error, both results are empty.
func consequences(e telemetry.ErrorKind) (attempt.Cause, lifeloop.FailureClass) {
	switch e {
	case telemetry.ErrRateLimit:
		return attempt.RateLimit, lifeloop.TransportError
	case telemetry.ErrQuota:
		return attempt.RateLimit, lifeloop.OperatorRequired
	case telemetry.ErrServer:
		return attempt.ServerError, lifeloop.TransportError
	case telemetry.ErrNetwork:
		return attempt.Network, lifeloop.TransportError
	case telemetry.ErrAuth, telemetry.ErrBilling:
		return attempt.Fatal, lifeloop.OperatorRequired
	case telemetry.ErrInvalidRequest:
		return attempt.Fatal, lifeloop.InvalidRequest
	case telemetry.ErrContextFull:
		// Not fatal: the conversation has filled the context. The same command line may
		// succeed in a new conversation.
		return attempt.Model, lifeloop.InvalidRequest
	case "", telemetry.ErrUnknown:
	}
	return "", ""
}

// failureClass returns the failure class for a cause. e is nil if no launch has
// ended.
func failureClass(c attempt.Cause, e *Exited) lifeloop.FailureClass {
	switch c {
	case attempt.Timeout:
		return lifeloop.Timeout
	case attempt.Network, attempt.RateLimit, attempt.ServerError, attempt.Fatal:
		switch {
		case e != nil && e.NotStarted && !e.Refused:
			return lifeloop.AdapterUnavailable
		case c == attempt.Fatal && e != nil && (e.Lost || e.OutputLost): // the failure is the wrapper's, not the harness's
			return lifeloop.InternalError
		case c == attempt.Fatal:
			return lifeloop.OperatorRequired
		}
		return lifeloop.TransportError
	case attempt.Guardrail, attempt.Drift:
		return lifeloop.OperatorRequired
	case attempt.Aborted:
		return "" // a requested abort is not a failure
	}
	return lifeloop.InternalError
}

// sentence returns the reason why an attempt failed, in words.
func sentence(c attempt.Cause, detail string, e *Exited) string {
	switch c {
	case attempt.Timeout:
		switch Timer(detail) {
		case TimerInitial:
			return "the harness showed no sign of life in time"
		case TimerInter:
			return "the harness showed no sign of life for too long"
		case TimerTool:
			return "a tool took too long"
		case timerIdle:
			return "the session was idle for too long"
		}
		return "the session ran out of time"
	case attempt.Guardrail:
		return "guardrail " + detail + " was broken"
	case attempt.Drift:
		return "the harness repeated the same output or tool call"
	case attempt.ZeroOutput:
		return "the harness succeeded without any output"
	case attempt.Aborted:
		return "the run was aborted"
	case attempt.Network:
		if e != nil && e.NotStarted {
			return "the harness could not be started; another attempt may succeed"
		}
		return strings.TrimSuffix("the network failed: "+detail, ": ")
	case attempt.RateLimit:
		return "the harness reached a rate limit"
	case attempt.ServerError:
		return "the model's server failed"
	case attempt.Fatal:
		switch {
		case e != nil && e.Lost:
			return "the guard of the harness was killed"
		case e != nil && e.OutputLost:
			return "some output of the harness could not be written"
		case e != nil && e.Refused:
			return "the gate did not allow another launch"
		}
		return strings.TrimSuffix("another attempt cannot succeed: "+detail, ": ")
	}
	switch {
	case e == nil:
		return "the harness failed"
	case e.Signal != 0:
		return signalName(e.Signal) + " ended the harness"
	}
	return "the harness exited with code " + strconv.Itoa(e.Code)
}
