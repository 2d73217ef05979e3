package kernel

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file asks the policy's program, `retry.decide`, about a retry. The program
// may refuse the retry or choose its delay, and nothing else. If it fails or is
// late, the policy's own rule applies. The rule also applies after a crash of the
// wrapper: the program is not called again, because the first call may have had
// an effect.

type (
	// RetryAsked records that the policy's program is asked about a retry. The fact
	// has both possible ends of the attempt, so that a recovered session knows them.
	RetryAsked struct {
		Ask     string       `json:"ask"`
		Until   time.Time    `json:"until"`
		Planned AttemptEnded `json:"planned"` // what follows if the program allows the retry, with the delay of the policy's own rule
		Refused AttemptEnded `json:"refused"` // what follows if the program refuses the retry
	}
	// RetryAnswered records the answer of the policy's program. If Failure is set,
	// there is no valid answer, and the policy's own rule applies.
	RetryAnswered struct {
		Ask        string                `json:"ask"`
		Retry      bool                  `json:"retry"`
		DelayMS    *int64                `json:"delay_ms,omitempty"`
		Failure    lifeloop.FailureClass `json:"failure,omitempty"`
		Why        string                `json:"why,omitempty"`
		DurationMS int64                 `json:"duration_ms"`
	}
)

func (RetryAsked) key() (string, bool)    { return "retry_asked", true }
func (f RetryAsked) apply(k *Kernel)      { k.recovery.hard.Asked = &f }
func (RetryAnswered) key() (string, bool) { return "retry_answered", true }
func (RetryAnswered) apply(*Kernel)       {}

// longestDelay is the longest delay that a program may choose.
const longestDelay = 24 * time.Hour

// conclude records the end of an attempt and what follows, or asks the program
// first. The program is not asked about the wait for a rate limit, because the
// limit determines the delay.
func (r *recovery) conclude(s *step, f, refused AttemptEnded) {
	timeout := s.cfg.Policy.Decide
	if f.Cause == attempt.Aborted && s.session.active() { // the user aborted the attempt in the harness's terminal
		s.session.move(s, session.Aborting, s.attempts.endReason())
	}
	if f.Retry == nil || f.Retry.Wait == attempt.WaitLimit || timeout <= 0 {
		s.record(f)
		r.follow(s)
		return
	}
	ask := s.cfg.NewID("ask_")
	r.soft.asked = s.now
	s.record(RetryAsked{Ask: ask, Until: s.now.Add(timeout).UTC(), Planned: f, Refused: refused})
	s.do(effect.Decide{Ask: ask, Timeout: timeout, Question: effect.RetryQuestion{SessionID: s.cfg.Session, Profile: f.Name, Attempt: f.Retry.Number - 1,
		Total: r.hard.Spent.Total, Cause: f.Cause, Detail: f.Detail, FailureClass: f.Failure, Reason: f.Reason, Code: f.Code, Signal: f.Signal,
		DefaultRetry: true, DefaultDelay: f.Retry.DelayMS}})
}

// decided handles the program's answer. A late answer is dropped.
func (r *recovery) decided(s *step, in input.Decided) {
	if r.hard.Asked == nil || r.hard.Asked.Ask != in.Ask {
		return
	}
	r.answer(s, RetryAnswered{Ask: in.Ask, Retry: in.Retry, DelayMS: in.DelayMS, Failure: in.Failure, Why: in.Why})
	r.follow(s)
}

// settle ends an open question to the program, if there is one, by applying the
// policy's own rule.
func (r *recovery) settle(s *step, class lifeloop.FailureClass, why string) {
	if q := r.hard.Asked; q != nil {
		s.do(effect.Cancel{Call: q.Ask})
		r.answer(s, RetryAnswered{Ask: q.Ask, Failure: class, Why: why})
	}
}

// settleLost applies the policy's own rule to a question that was open when the wrapper
// died. The program is not called again, because the first call may have had an effect.
func (r *recovery) settleLost(s *step) {
	if q := r.hard.Asked; q != nil {
		r.answer(s, RetryAnswered{Ask: q.Ask, Failure: lifeloop.TransportError, Why: "the wrapper died before the answer was recorded"})
	}
}

// answer records the program's answer, and the end of the attempt with what
// follows.
func (r *recovery) answer(s *step, a RetryAnswered) {
	q := r.hard.Asked
	f := q.Planned
	asked := r.soft.asked
	if asked.IsZero() { // an earlier wrapper asked the policy's program, and then died
		asked = q.Until.Add(-s.cfg.Policy.Decide)
	}
	a.DurationMS, r.soft.asked = max(s.now.Sub(asked).Milliseconds(), 0), time.Time{}
	switch {
	case a.Failure != "":
		a.Retry, a.DelayMS = true, nil
	case !a.Retry:
		f = q.Refused
	}
	if f.Retry != nil {
		plan := *f.Retry
		if a.DelayMS != nil {
			plan.DelayMS = min(max(*a.DelayMS, 0), longestDelay.Milliseconds())
		}
		plan.At = s.now.Add(time.Duration(plan.DelayMS) * time.Millisecond).UTC()
		f.Retry = &plan
	}
	s.record(a)
	s.record(f)
}
