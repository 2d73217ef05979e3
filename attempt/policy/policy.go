// Package policy decodes the attempts policy as a user writes it: in the block
// attempts of a configuration, and in the plan of a simulation. It checks the
// policy and converts it to an [attempt.Policy].
//
// It reads no files and chooses no harness. A [Profile] is only decoded; the caller
// makes an [attempt.Profile] from the decoded one.
//
//	a := policy.Default()
//	err := document.Decode(block, &a, "attempts", nil)
//	err = a.Check("attempts")
//	p := a.Policy(profiles, onLimit)
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/internal/document"
	"lifeloop/internal/environ"
	"lifeloop/internal/nearest"
)

// Attempts is the policy of retries, fallbacks and time-outs. In [Default] everything
// is off, except CrashLoop, which only delays retries, and Timeouts.AbortGrace.
type Attempts struct {
	Profiles        []Profile         `yaml:"profiles"`
	Retry           Retry             `yaml:"retry"`
	Timeouts        Timeouts          `yaml:"timeouts_ms"`
	Continuation    bool              `yaml:"continuation"`
	CheckpointEvery int64             `yaml:"checkpoint_every"`
	Guardrails      []Guardrail       `yaml:"guardrails"`
	Drift           Drift             `yaml:"drift"`
	ZeroOutput      bool              `yaml:"zero_output"`
	SuccessCodes    []int             `yaml:"success_codes"` // exit codes that mean success; nil means those of the harness's adapter
	ExitCodes       map[string]string `yaml:"exit_codes"`    // from an exit code in decimal to a cause of failure
	CrashLoop       attempt.CrashLoop `yaml:"crash_loop"`
	Meta            map[string]string `yaml:"meta"`
}

// A Profile is one way to launch: the first is the primary, the others are
// fallbacks in order.
type Profile struct {
	Name                string   `yaml:"name"`
	Adapter             string   `yaml:"adapter"` // if empty, inferred from the command
	Command             []string `yaml:"command"`
	AcceptsContinuation bool     `yaml:"accepts_continuation"`

	// Written is Command before variables were expanded; nil when none were.
	Written []string `yaml:"-"`
}

// Retry limits the retries.
type Retry struct {
	Attempts   int             `yaml:"attempts"`    // limit of the counted retries of one profile (see [attempt.Cause.Counted])
	MaxRetries int             `yaml:"max_retries"` // limit of all retries of a session, or [Unset]; free retries do not count (see [attempt.Next])
	RetryOn    []string        `yaml:"retry_on"`    // causes that are retried; nil means [attempt.DefaultOn]
	Backoff    attempt.Backoff `yaml:"backoff"`
	Decide     Decide          `yaml:"decide"`
}

// Decide is a program that may refuse a retry or choose its delay. It reads a
// question on stdin and writes the answer to stdout.
type Decide struct {
	Command []string      `yaml:"command"`
	Timeout time.Duration `yaml:"timeout_ms,ms"` // 0 means [DefaultDecideTimeout]
	environ.Spec

	// Written is Command before variables were expanded; nil when none were.
	Written []string `yaml:"-"`
}

// DefaultDecideTimeout is how long a [Decide] program may take if the policy sets
// no time. maxDecideTimeout is the longest time that a policy may set.
const (
	DefaultDecideTimeout = 2 * time.Second
	maxDecideTimeout     = time.Minute
)

// wait returns how long the program may take, or 0 if there is no program.
func (d Decide) wait() time.Duration {
	if len(d.Command) == 0 {
		return 0
	}
	return cmp.Or(d.Timeout, DefaultDecideTimeout)
}

// Unset marks a number that was not given, where 0 is a valid value.
const Unset = -1

// Timeouts are the timers. AbortGrace is the time from the first signal that asks a
// harness to end until a harness that still runs receives KILL.
type Timeouts struct {
	attempt.Timeouts
	AbortGrace time.Duration `yaml:"abort_grace,ms"` // 0: KILL follows at once
}

// A Guardrail is a pattern that output must not match.
type Guardrail struct {
	ID          string           `yaml:"id"`
	On          attempt.RuleOn   `yaml:"on"`
	Pattern     string           `yaml:"pattern"`
	Severity    attempt.Severity `yaml:"severity"`
	Recoverable bool             `yaml:"recoverable"`
}

// SetDefaults sets the values that apply if the user gives only an id and a pattern:
// each line is checked, and a broken rule fails the attempt, which may be retried.
func (g *Guardrail) SetDefaults() {
	*g = Guardrail{On: attempt.OnOutput, Severity: attempt.Error, Recoverable: true}
}

// Drift configures the detection of loops. An attempt is stopped when one line of
// output, or one tool call with the same arguments, occurs Repeat times in a row; 0
// turns this off.
type Drift struct {
	Repeat int `yaml:"repeat"`
}

// DefaultAbortGrace is the value of Timeouts.AbortGrace if the policy does not set it.
const DefaultAbortGrace = 5 * time.Second

// Default returns the policy that applies if the user wrote none.
func Default() Attempts {
	return Attempts{
		Retry:     Retry{MaxRetries: Unset, Backoff: attempt.Backoff{Kind: attempt.Fixed, Jitter: attempt.NoJitter}},
		Timeouts:  Timeouts{AbortGrace: DefaultAbortGrace},
		CrashLoop: attempt.DefaultCrashLoop(),
	}
}

// Enum lists the words that a setting accepts; nil if it accepts other words too. path is
// the path of the setting in the policy, without indexes, such as guardrails.on.
func Enum(path string) []string {
	switch path {
	case "retry.retry_on":
		return Words(attempt.Causes()...)
	case "retry.backoff.kind":
		return Words(attempt.Exponential, attempt.Linear, attempt.Fixed)
	case "retry.backoff.jitter":
		return Words(attempt.NoJitter, attempt.FullJitter, attempt.FixedJitter)
	case "guardrails.on":
		return Words(attempt.OnOutput, attempt.OnExit)
	case "guardrails.severity":
		return Words(attempt.Warning, attempt.Error, attempt.Grave)
	case "exit_codes":
		return Words(attempt.Model, attempt.Network, attempt.Timeout, attempt.RateLimit, attempt.ServerError, attempt.Fatal, attempt.Unknown)
	case "on_limit": // this setting is outside the block attempts
		return append([]string{"off"}, Words(attempt.LimitWait, attempt.LimitFallback, attempt.LimitExit)...)
	}
	return nil
}

// Words returns the words of a fixed set as strings.
func Words[S ~string](list ...S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// Check checks the rules that Go types cannot express. Its errors are
// [document.Error] values, with paths below path and without positions.
func (a Attempts) Check(path string) error {
	c := checker(path)
	for i, p := range a.Profiles {
		at := fmt.Sprintf("profiles[%d].name", i)
		if p.Name == "" {
			return c.fault(at, "a profile needs a name")
		}
		if slices.ContainsFunc(a.Profiles[:i], func(q Profile) bool { return q.Name == p.Name }) {
			return c.fault(at, "a second profile %q; names must be unique", p.Name)
		}
	}
	for i, cause := range a.Retry.RetryOn {
		if err := c.word(fmt.Sprintf("retry.retry_on[%d]", i), cause, "retry.retry_on"); err != nil {
			return err
		}
	}
	b := a.Retry.Backoff
	err := cmp.Or(c.word("retry.backoff.kind", string(b.Kind), "retry.backoff.kind"), c.word("retry.backoff.jitter", string(b.Jitter), "retry.backoff.jitter"))
	if err == nil && b.Max != 0 && b.Max < b.Base {
		err = c.fault("retry.backoff.max_ms", "%s is less than base_ms, which is %s", b.Max, b.Base)
	}
	switch d := a.Retry.Decide; {
	case err != nil:
	case len(d.Command) == 0 && d.Timeout != 0, len(d.Command) > 0 && d.Command[0] == "":
		err = c.fault("retry.decide.command", "name the program")
	case d.Timeout > maxDecideTimeout:
		err = c.fault("retry.decide.timeout_ms", "%s is above the limit, %s", d.Timeout, maxDecideTimeout)
	default:
		err = d.Spec.Check(document.Join(path, "retry.decide"))
	}
	return cmp.Or(err, c.guardrails(a.Guardrails), c.exitCodes(a))
}

// Word checks that the value at path is one of the known words.
func Word(path, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return &document.Error{Path: path, What: fmt.Sprintf("%q is not one of %s%s", value, strings.Join(known, ", "), nearest.Hint(value, known))}
}

// A checker creates errors about the settings of a block. Its value is the block's path.
type checker string

func (c checker) fault(path, format string, args ...any) error {
	return &document.Error{Path: document.Join(string(c), path), What: fmt.Sprintf(format, args...)}
}

func (c checker) word(path, value, enum string) error {
	return Word(document.Join(string(c), path), value, Enum(enum))
}

func (c checker) guardrails(rules []Guardrail) error {
	for i, g := range rules {
		at := fmt.Sprintf("guardrails[%d]", i)
		if g.ID == "" {
			return c.fault(at+".id", "a guardrail needs an id")
		}
		if slices.ContainsFunc(rules[:i], func(h Guardrail) bool { return h.ID == g.ID }) {
			return c.fault(at+".id", "a second guardrail %q; ids must be unique", g.ID)
		}
		if err := cmp.Or(c.word(at+".on", string(g.On), "guardrails.on"), c.word(at+".severity", string(g.Severity), "guardrails.severity")); err != nil {
			return err
		}
		if g.Pattern == "" {
			return c.fault(at+".pattern", "an empty pattern matches everything")
		}
		if _, err := regexp.Compile(g.Pattern); err != nil {
			return c.fault(at+".pattern", "%v", err)
		}
	}
	return nil
}

func (c checker) exitCodes(a Attempts) error {
	if a.SuccessCodes != nil && len(a.SuccessCodes) == 0 {
		return c.fault("success_codes", "an empty list; no attempt could succeed")
	}
	for i, code := range a.SuccessCodes {
		if code > 255 {
			return c.fault(fmt.Sprintf("success_codes[%d]", i), "an exit code is 0 to 255, found %d", code)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(a.ExitCodes)) {
		at := "exit_codes." + text
		code, err := strconv.Atoi(text)
		if err != nil || code < 0 || code > 255 || strconv.Itoa(code) != text {
			return c.fault(at, "an exit code is 0 to 255, without a sign or leading zeros, found %q", text)
		}
		if slices.Contains(a.SuccessCodes, code) || a.SuccessCodes == nil && code == 0 {
			return c.fault(at, "%d is also a success code", code)
		}
		if err := c.word(at, a.ExitCodes[text], "exit_codes"); err != nil {
			return err
		}
	}
	return nil
}

// Policy converts a to the policy of a session with these profiles. a must have
// passed Check; onLimit is one of Enum("on_limit").
func (a Attempts) Policy(profiles []attempt.Profile, onLimit string) attempt.Policy {
	p := attempt.Policy{Profiles: profiles,
		Retries:  attempt.Retries{Attempts: a.Retry.Attempts, MaxRetries: a.Retry.MaxRetries, On: attempt.DefaultOn(), Backoff: a.Retry.Backoff, Loop: a.CrashLoop, Decide: a.Retry.Decide.wait()},
		Timeouts: a.Timeouts.Timeouts, Continuation: a.Continuation, CheckpointEvery: a.CheckpointEvery,
		Checks: attempt.Checks{Repeat: a.Drift.Repeat, ZeroOutput: a.ZeroOutput}}
	if p.MaxRetries == Unset {
		p.MaxRetries = attempt.DefaultMaxRetries(p.Attempts, len(profiles))
	}
	if a.Retry.RetryOn != nil {
		p.On = map[attempt.Cause]bool{}
		for _, cause := range a.Retry.RetryOn {
			p.On[attempt.Cause(cause)] = true
		}
	}
	if onLimit != "off" {
		p.OnLimit = attempt.OnLimit(onLimit)
	}
	for _, g := range a.Guardrails {
		p.Rules = append(p.Rules, attempt.Rule{ID: g.ID, On: g.On, Pattern: regexp.MustCompile(g.Pattern), Severity: g.Severity, Recoverable: g.Recoverable})
	}
	return p
}

// Success returns the set of exit codes that mean success, or nil if the policy
// does not list them.
func (a Attempts) Success() map[int]bool {
	if a.SuccessCodes == nil {
		return nil
	}
	out := map[int]bool{}
	for _, code := range a.SuccessCodes {
		out[code] = true
	}
	return out
}

// Codes maps exit codes to causes of failure.
func (a Attempts) Codes() map[int]attempt.Cause {
	out := map[int]attempt.Cause{}
	for text, cause := range a.ExitCodes {
		code, _ := strconv.Atoi(text) // cannot fail, because Check has parsed the number
		out[code] = attempt.Cause(cause)
	}
	return out
}
