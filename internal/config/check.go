package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/internal/nearest"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal/profile"
)

// The words that settings with a fixed set of values accept.
var (
	logLevels     = []string{"trace", "debug", "info", "warn", "error", "off"}
	ledgerWords   = []string{"stop", "continue"}
	containWords  = []string{"never", "auto", "always"}
	pressureWords = []string{"moderate", "high", "critical"}
	levels        = policy.Words(lifeloop.Required, lifeloop.Preferred, lifeloop.Optional)
	supports      = policy.Words(lifeloop.Native, lifeloop.Synthesized)
)

// ownID is the client id of the wrapper itself.
const ownID = "lifeloop-wrap"

// A checker creates errors about values. Each error begins with the origin of its value.
type checker struct{ origins Origins }

func (c checker) refuse(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", c.origins.near(path), path, fmt.Sprintf(format, args...))
}

func (c checker) word(path, value string, known []string) error {
	return c.place(policy.Word(path, value, known))
}

// place puts the origin of a value before a document's error about this value.
func (c checker) place(err error) error {
	if fault, ok := errors.AsType[*document.Error](err); ok {
		return fmt.Errorf("%s: %w", c.origins.near(fault.Path), fault)
	}
	return err
}

// check checks the merged configuration for rules that types cannot express.
func check(cfg Config, origins Origins) error {
	c := checker{origins}
	return cmp.Or(
		c.word("log_level", cfg.LogLevel, logLevels),
		c.word("on_ledger_error", cfg.OnLedgerError, ledgerWords),
		c.word("contain", cfg.Contain, containWords),
		c.word("on_limit", cfg.OnLimit, policy.Enum("on_limit")),
		c.pressure(cfg.Pressure),
		c.windows(cfg.Windows),
		c.retention(cfg.Retention),
		c.anchor(cfg.Anchor),
		c.requires("requires", cfg.Requires),
		c.clients(cfg.Clients),
		c.attempts(cfg.Attempts),
		c.profiles(cfg.Profiles),
		c.renewal(cfg),
	)
}

func (c checker) profiles(list []profile.Profile) error {
	for i, p := range list {
		if err := c.place(p.Check(fmt.Sprintf("profiles[%d]", i))); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) renewal(cfg Config) error {
	for i, name := range cfg.Renewal.Profiles {
		at := fmt.Sprintf("renewal.profiles[%d]", i)
		if slices.Contains(cfg.Renewal.Profiles[:i], name) {
			return c.refuse(at, "%s is given twice", name)
		}
		if _, err := profile.Find(cfg.Profiles, name); err != nil {
			return c.refuse(at, "%v", err)
		}
	}
	if at := cfg.Renewal.At.Pressure; at != "" {
		return c.word("renewal.at.pressure", at, pressureWords)
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
		return c.refuse("pressure.hysteresis", "expected 0 or more, and less than pressure.moderate, found %v", p.Hysteresis)
	}
	return nil
}

func (c checker) windows(windows []Window) error {
	seen := map[string]bool{}
	for i, w := range windows {
		at := fmt.Sprintf("windows[%d]", i)
		switch {
		case w.Model == "":
			return c.refuse(at+".model", "expected the name of a model, found an empty one")
		case seen[w.Model]:
			return c.refuse(at+".model", "%q is listed twice", w.Model)
		case w.Tokens <= 0:
			return c.refuse(at+".tokens", "expected a number of tokens above 0, found %d", w.Tokens)
		}
		seen[w.Model] = true
	}
	return nil
}

func (c checker) clients(clients []Client) error {
	for i, cl := range clients {
		at := fmt.Sprintf("clients[%d]", i)
		if err := checkID(cl.ID); err != nil {
			return c.refuse(at+".id", "%v", err)
		}
		if err := cmp.Or(c.word(at+".mode", cl.Mode, []string{Oneshot, Persistent}), c.command(at+".command", cl.Command)); err != nil {
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
		if err := cmp.Or(c.requires(at+".requires", cl.Requires), c.place(cl.Spec.Check(at))); err != nil {
			return err
		}
		if cl.Timeout <= 0 {
			return c.refuse(at+".timeout", "expected more than 0, found %s", cl.Timeout)
		}
	}
	return nil
}

// checkID rejects client ids that a receipt cannot contain, and the wrapper's own id.
func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("a client needs an id")
	case len(id) > 256:
		return fmt.Errorf("an id has at most 256 bytes, this one has %d", len(id))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("the id %q has control characters or is not UTF-8", id)
	case id == ownID:
		return fmt.Errorf("the id %s is the wrapper's own; choose another", ownID)
	}
	return nil
}

func (c checker) anchor(a Anchor) error {
	if a.Command != nil {
		if err := c.command("anchor.command", a.Command); err != nil {
			return err
		}
	}
	return c.place(a.Spec.Check("anchor"))
}

func (c checker) command(path string, argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return c.refuse(path, "a command needs a program as its first word")
	}
	for i, word := range argv {
		if strings.ContainsRune(word, 0) {
			return c.refuse(fmt.Sprintf("%s[%d]", path, i), "a word of a command cannot contain a NUL byte")
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
		if err := c.word(at+".support", string(r.Support), supports); r.Support != "" && err != nil {
			return err
		}
	}
	return nil
}

// checkCapability rejects a name that no capability has (DECISIONS L16).
func checkCapability(name string) error {
	if negotiate.Known(name) {
		return nil
	}
	return fmt.Errorf("unknown capability %q%s", name, nearest.Hint(name, negotiate.Names(lifeloop.Manifest{})))
}

func (c checker) attempts(a policy.Attempts) error {
	for i, p := range a.Profiles {
		at := fmt.Sprintf("attempts.profiles[%d].command", i)
		switch err := c.command(at, p.Command); {
		case i == 0 && len(p.Command) > 0:
			return c.refuse(at, "the first profile must have no command, because it runs the command given to `run`; list fallbacks after it")
		case i > 0 && err != nil:
			return err
		}
	}
	return c.place(a.Check("attempts"))
}
