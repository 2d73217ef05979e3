package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lifeloop/attempt"
	"lifeloop/internal/nearest"
	"lifeloop/lifeloop"
)

// The words that closed settings know.
var (
	logLevels    = []string{"trace", "debug", "info", "warn", "error", "off"}
	ledgerWords  = []string{"stop", "continue"}
	limitWords   = []string{"off", string(attempt.LimitWait), string(attempt.LimitFallback), string(attempt.LimitExit)}
	backoffKinds = []string{string(attempt.Exponential), string(attempt.Linear), string(attempt.Fixed)}
	jitterWords  = []string{string(attempt.NoJitter), string(attempt.FullJitter), string(attempt.FixedJitter)}
	guardOn      = []string{string(attempt.OnOutput), string(attempt.OnExit)}
	severities   = []string{string(attempt.Warning), string(attempt.Error), string(attempt.Grave)}
	levels       = []string{string(lifeloop.Required), string(lifeloop.Preferred), string(lifeloop.Optional)}
	supports     = []string{string(lifeloop.Native), string(lifeloop.Synthesized), string(lifeloop.Manual), string(lifeloop.Partial)}
	retryKinds   = causes(attempt.Causes()...)
	failKinds    = causes(attempt.Model, attempt.Network, attempt.Timeout, attempt.RateLimit, attempt.ServerError, attempt.Fatal, attempt.Unknown)
)

func causes(list ...attempt.Cause) []string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = string(c)
	}
	return words
}

// ownID is the client that the wrapper itself is when there is no other.
const ownID = "lifeloop-wrap"

// A checker names the place of what it refuses.
type checker struct{ origins Origins }

func (c checker) refuse(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", c.origins.near(path), path, fmt.Sprintf(format, args...))
}

// word refuses a value that is none of the known words.
func (c checker) word(path, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return c.refuse(path, "%q is not one of %s; the nearest is %q", value, strings.Join(known, ", "), nearest.Word(value, known))
}

// check holds the merged configuration against the rules that types do not say.
func check(cfg Config, origins Origins) error {
	c := checker{origins}
	rules := []func() error{
		func() error { return c.word("log_level", cfg.LogLevel, logLevels) },
		func() error { return c.word("on_ledger_error", cfg.OnLedgerError, ledgerWords) },
		func() error { return c.word("on_limit", cfg.OnLimit, limitWords) },
		func() error { return c.pressure(cfg.Pressure) },
		func() error { return c.requires("requires", cfg.Requires) },
		func() error { return c.clients(cfg.Clients) },
		func() error { return c.attempts(cfg.Attempts) },
	}
	for _, rule := range rules {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) pressure(p Pressure) error {
	bounds := []struct {
		key   string
		value float64
	}{{"moderate", p.Moderate}, {"high", p.High}, {"critical", p.Critical}}
	for i, b := range bounds {
		if !(b.value > 0 && b.value <= 1) {
			return c.refuse("pressure."+b.key, "expected a fraction above 0 and at most 1, found %v", b.value)
		}
		if i > 0 && b.value <= bounds[i-1].value {
			lower := bounds[i-1]
			return c.refuse("pressure."+b.key, "%v is not above %s, which is %v (%s)", b.value, lower.key, lower.value, c.origins.Of("pressure."+lower.key))
		}
	}
	if !(p.Hysteresis >= 0 && p.Hysteresis < p.Moderate) {
		return c.refuse("pressure.hysteresis", "expected 0 or more and less than moderate, found %v", p.Hysteresis)
	}
	return nil
}

func (c checker) clients(clients []Client) error {
	for i, cl := range clients {
		at := fmt.Sprintf("clients[%d]", i)
		if err := checkID(cl.ID); err != nil {
			return c.refuse(at+".id", "%v", err)
		}
		if err := c.word(at+".mode", cl.Mode, []string{Oneshot, Persistent}); err != nil {
			return err
		}
		if err := c.command(at+".command", cl.Command); err != nil {
			return err
		}
		if len(cl.Events) == 0 {
			return c.refuse(at+".events", "an empty list; the client would never be called")
		}
		for j, pattern := range cl.Events {
			if err := checkPattern(pattern); err != nil {
				return c.refuse(fmt.Sprintf("%s.events[%d]", at, j), "%v", err)
			}
		}
		if err := c.requires(at+".requires", cl.Requires); err != nil {
			return err
		}
		if cl.Timeout <= 0 {
			return c.refuse(at+".timeout", "expected more than 0, found %s", cl.Timeout)
		}
	}
	return nil
}

// checkID refuses client ids that receipts could not carry.
func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("a client needs an id")
	case len(id) > 256:
		return fmt.Errorf("an id has at most 256 bytes, this one has %d", len(id))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("the id %q holds control characters or is not UTF-8", id)
	case id == ownID:
		return fmt.Errorf("the id %s is the wrapper's own; choose another", ownID)
	}
	return nil
}

func (c checker) command(path string, argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return c.refuse(path, "a command names a program first")
	}
	for i, word := range argv {
		if strings.ContainsRune(word, 0) {
			return c.refuse(fmt.Sprintf("%s[%d]", path, i), "a word of a command cannot hold a NUL")
		}
	}
	return nil
}

func (c checker) requires(path string, requires []Require) error {
	for i, r := range requires {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := checkCapability(r.Capability); err != nil {
			return c.refuse(at+".capability", "%v", err)
		}
		if err := c.word(at+".level", string(r.Level), levels); err != nil {
			return err
		}
		if r.Support == "" {
			continue
		}
		if err := c.word(at+".support", string(r.Support), supports); err != nil {
			return err
		}
	}
	return nil
}

// checkCapability refuses names that no manifest can claim (DECISIONS L16).
func checkCapability(name string) error {
	if source, ok := strings.CutPrefix(name, "telemetry."); ok && source != "" {
		return nil
	}
	known := capabilities()
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("%q is no capability; the nearest is %q", name, nearest.Word(name, known))
}

func capabilities() []string {
	var out []string
	for _, e := range lifeloop.Events() {
		out = append(out, string(e))
	}
	for _, p := range []lifeloop.Placement{lifeloop.PreSession, lifeloop.PreFrameLeading, lifeloop.PreFrameTrailing, lifeloop.ToolResult, lifeloop.ManualOperator} {
		out = append(out, "placement."+string(p))
	}
	return append(out,
		"context_pressure", "receipts.native", "receipts.receipt_ledger",
		"session_identity.harness_session_id", "session_identity.harness_run_id", "session_identity.harness_task_id",
		"session_rename", "approval_surface",
		"renewal.reset.native", "renewal.reset.wrapper_mediated", "renewal.reset.manual",
		"renewal.continuation.observation", "renewal.continuation.payload_delivery",
	)
}

func (c checker) attempts(a Attempts) error {
	if err := c.profiles(a.Profiles); err != nil {
		return err
	}
	counts := []struct {
		path  string
		value int
	}{
		{"attempts.retry.attempts", a.Retry.Attempts},
		{"attempts.checkpoint_every", a.CheckpointEvery},
		{"attempts.drift.repeat", a.Drift.Repeat},
		{"attempts.crash_loop.launches", a.CrashLoop.Launches},
	}
	for _, n := range counts {
		if n.value < 0 {
			return c.refuse(n.path, "expected 0 or more, found %d", n.value)
		}
	}
	if _, said := c.origins["attempts.retry.max_retries"]; said && a.Retry.MaxRetries < 0 {
		return c.refuse("attempts.retry.max_retries", "expected 0 or more, found %d", a.Retry.MaxRetries)
	}
	for i, kind := range a.Retry.RetryOn {
		if err := c.word(fmt.Sprintf("attempts.retry.retry_on[%d]", i), kind, retryKinds); err != nil {
			return err
		}
	}
	b := a.Retry.Backoff
	if err := c.word("attempts.retry.backoff.kind", b.Kind, backoffKinds); err != nil {
		return err
	}
	if err := c.word("attempts.retry.backoff.jitter", b.Jitter, jitterWords); err != nil {
		return err
	}
	if b.Max != 0 && b.Max < b.Base {
		return c.refuse("attempts.retry.backoff.max_ms", "%s is below the base, %s", b.Max, b.Base)
	}
	if err := c.guardrails(a.Guardrails); err != nil {
		return err
	}
	return c.exitCodes(a)
}

func (c checker) profiles(profiles []Profile) error {
	for i, p := range profiles {
		at := fmt.Sprintf("attempts.profiles[%d]", i)
		if p.Name == "" {
			return c.refuse(at+".name", "a profile needs a name")
		}
		if slices.ContainsFunc(profiles[:i], func(q Profile) bool { return q.Name == p.Name }) {
			return c.refuse(at+".name", "a second profile %q; names are unique", p.Name)
		}
		if i == 0 && len(p.Command) > 0 {
			return c.refuse(at+".command", "the first profile runs the command line's own command; fallbacks come after it")
		}
		if i == 0 {
			continue
		}
		if err := c.command(at+".command", p.Command); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) guardrails(rules []Guardrail) error {
	for i, g := range rules {
		at := fmt.Sprintf("attempts.guardrails[%d]", i)
		if g.ID == "" {
			return c.refuse(at+".id", "a guardrail needs an id")
		}
		if slices.ContainsFunc(rules[:i], func(h Guardrail) bool { return h.ID == g.ID }) {
			return c.refuse(at+".id", "a second guardrail %q; ids are unique", g.ID)
		}
		if err := c.word(at+".on", g.On, guardOn); err != nil {
			return err
		}
		if err := c.word(at+".severity", g.Severity, severities); err != nil {
			return err
		}
		if g.Pattern == "" {
			return c.refuse(at+".pattern", "an empty pattern matches everything")
		}
		if _, err := regexp.Compile(g.Pattern); err != nil {
			return c.refuse(at+".pattern", "%v", err)
		}
	}
	return nil
}

func (c checker) exitCodes(a Attempts) error {
	success := a.SuccessCodes
	if success == nil {
		success = []int{0}
	}
	if len(success) == 0 {
		return c.refuse("attempts.success_codes", "an empty list; no attempt could succeed")
	}
	for i, code := range a.SuccessCodes {
		if code < 0 || code > 255 {
			return c.refuse(fmt.Sprintf("attempts.success_codes[%d]", i), "an exit code is 0 to 255, found %d", code)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(a.ExitCodes)) {
		at := "attempts.exit_codes." + text
		code, err := strconv.Atoi(text)
		if err != nil || code < 0 || code > 255 || strconv.Itoa(code) != text {
			return c.refuse(at, "an exit code is 0 to 255, found %q", text)
		}
		if slices.Contains(success, code) {
			return c.refuse(at, "%d is a code of success too", code)
		}
		if err := c.word(at, a.ExitCodes[text], failKinds); err != nil {
			return err
		}
	}
	return nil
}
