// Package config reads what the user wrote: two YAML files, LIFELOOP_*
// variables and flags, merged into one [Config] in which every value still
// knows where it comes from.
//
// It is strict. A key it does not know, a value of the wrong type, an event
// that does not exist: each is an error that names the file, the line and what
// was probably meant. It refuses to guess, to run a shell, to expand `$VAR`
// (only `${env:VAR}` in commands) and to follow YAML anchors, aliases and tags.
//
//	cfg, origins, err := config.Load(config.Options{
//		Getenv: os.Getenv, ReadFile: os.ReadFile, WorkDir: dir,
//		Flags: map[string][]string{"client-drain": {"2s"}},
//	})
//	fmt.Print(config.Show(cfg, origins))
package config

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
)

// Config is the merged configuration. The yaml tags are the keys of the file
// format; a tag's "ms" marks a duration that is written as whole milliseconds.
type Config struct {
	StateDir       string        `yaml:"state_dir"`
	LogLevel       string        `yaml:"log_level"`
	LogFile        string        `yaml:"log_file"` // empty: no log is kept
	ClientDrain    time.Duration `yaml:"client_drain"`
	Tick           time.Duration `yaml:"tick"` // 0: no supervisor.tick
	Pressure       Pressure      `yaml:"pressure"`
	SubagentFrames bool          `yaml:"subagent_frames"`
	OnLedgerError  string        `yaml:"on_ledger_error"` // stop|continue
	OnLimit        string        `yaml:"on_limit"`        // off|wait|fallback|exit
	Requires       []Require     `yaml:"requires"`        // demanded by the wrapper's owner
	Clients        []Client      `yaml:"clients"`
	Attempts       Attempts      `yaml:"attempts"`

	// AbortGrace is Attempts.Timeouts.AbortGrace, where the file format keeps it.
	AbortGrace time.Duration `yaml:"-"`
}

// Pressure holds the lower bounds of the levels, as fractions of the effective
// window, and how far the fraction must fall below a bound to leave its level.
type Pressure struct {
	Moderate   float64 `yaml:"moderate"`
	High       float64 `yaml:"high"`
	Critical   float64 `yaml:"critical"`
	Hysteresis float64 `yaml:"hysteresis"`
}

// The modes of a [Client].
const (
	Oneshot    = "oneshot"    // one process for one dispatch
	Persistent = "persistent" // one process for a session, a line in and a line out
)

// A Client is one program that is told of lifecycle events.
type Client struct {
	ID       string        `yaml:"id"`
	Command  []string      `yaml:"command"` // argv, run without a shell
	Mode     string        `yaml:"mode"`    // [Oneshot] or [Persistent]
	Events   []string      `yaml:"events"`  // see [Match]
	Requires []Require     `yaml:"requires"`
	Timeout  time.Duration `yaml:"timeout"` // of one dispatch

	// written is Command before ${env:VAR} was expanded; Show prints it, so
	// that a secret taken from the environment is not printed.
	written []string
}

// A Require is a demand for one capability.
type Require struct {
	Capability    string               `yaml:"capability"`
	Level         lifeloop.Requirement `yaml:"level"`
	Support       lifeloop.Support     `yaml:"support"` // the weakest that will do; empty: any
	AcceptPartial bool                 `yaml:"accept_partial"`
}

// Attempts is the policy of retries, fallbacks and time-outs, with the members
// of a simulation's plan. Everything in it is off unless it is given.
type Attempts struct {
	Profiles        []Profile         `yaml:"profiles"`
	Retry           Retry             `yaml:"retry"`
	Timeouts        Timeouts          `yaml:"timeouts_ms"`
	Continuation    bool              `yaml:"continuation"`
	CheckpointEvery int               `yaml:"checkpoint_every"`
	Guardrails      []Guardrail       `yaml:"guardrails"`
	Drift           Drift             `yaml:"drift"`
	ZeroOutput      bool              `yaml:"zero_output"`
	SuccessCodes    []int             `yaml:"success_codes"` // exit codes of a completed attempt; nil: what is known of the harness
	ExitCodes       map[string]string `yaml:"exit_codes"`    // exit code, in decimal → cause of failure
	CrashLoop       CrashLoop         `yaml:"crash_loop"`
	Meta            map[string]string `yaml:"meta"`
}

// A Profile is one way to launch. The first is the command line's own and has
// no command here; those after it are fallbacks, in order.
type Profile struct {
	Name                string   `yaml:"name"`
	Adapter             string   `yaml:"adapter"` // empty: inferred from the command
	Command             []string `yaml:"command"`
	AcceptsContinuation bool     `yaml:"accepts_continuation"`

	written []string
}

// Retry bounds the retries.
type Retry struct {
	Attempts   int      `yaml:"attempts"`    // counted retries of one profile
	MaxRetries int      `yaml:"max_retries"` // retries of every kind in one session, or [Unsaid]
	RetryOn    []string `yaml:"retry_on"`    // nil: nobody said
	Backoff    Backoff  `yaml:"backoff"`
}

// Unsaid is a number that nobody gave, where 0 means something else.
const Unsaid = -1

// Backoff is the wait before a retry.
type Backoff struct {
	Kind   string        `yaml:"kind"` // exponential|linear|fixed
	Base   time.Duration `yaml:"base_ms,ms"`
	Max    time.Duration `yaml:"max_ms,ms"` // 0: no bound
	Jitter string        `yaml:"jitter"`    // none|full|fixed
}

// Timeouts are the timers of an attempt and a session; 0 is off.
type Timeouts struct {
	Initial    time.Duration `yaml:"initial,ms"`
	Inter      time.Duration `yaml:"inter,ms"`
	Tool       time.Duration `yaml:"tool,ms"`
	Session    time.Duration `yaml:"session,ms"`
	Idle       time.Duration `yaml:"idle,ms"`
	AbortGrace time.Duration `yaml:"abort_grace,ms"`
}

// A Guardrail is a pattern that output must not match.
type Guardrail struct {
	ID          string `yaml:"id"`
	On          string `yaml:"on"` // output|exit
	Pattern     string `yaml:"pattern"`
	Severity    string `yaml:"severity"` // warning|error|fatal
	Recoverable bool   `yaml:"recoverable"`
}

// Drift says how many repetitions running count as drift; 0 is off.
type Drift struct {
	Repeat int `yaml:"repeat"`
}

// A CrashLoop is a row of launches that each ended soon after they began; the
// next one waits in quarantine.
type CrashLoop struct {
	Launches   int           `yaml:"launches"` // 0: off
	Within     time.Duration `yaml:"within_ms,ms"`
	Quarantine time.Duration `yaml:"quarantine_ms,ms"`
}

// Default is the configuration of someone who configured nothing, but for the
// state directory, which depends on the environment.
func Default() Config {
	return Config{
		LogLevel:      "info",
		ClientDrain:   5 * time.Second,
		Tick:          30 * time.Second,
		Pressure:      Pressure{Moderate: 0.50, High: 0.75, Critical: 0.90, Hysteresis: 0.03},
		OnLedgerError: "stop",
		OnLimit:       "off",
		Attempts: Attempts{
			Retry:     Retry{MaxRetries: Unsaid, Backoff: Backoff{Kind: "fixed", Jitter: "none"}},
			Timeouts:  Timeouts{AbortGrace: 5 * time.Second},
			CrashLoop: CrashLoop(attempt.DefaultCrashLoop()),
		},
		AbortGrace: 5 * time.Second,
	}
}

// defaultClient holds what a client is when its entry does not say.
func defaultClient() Client {
	return Client{Mode: Oneshot, Events: []string{"*"}, Timeout: 5 * time.Second}
}

// defaultGuardrail is an error that a retry may mend.
func defaultGuardrail() Guardrail {
	return Guardrail{On: "output", Severity: "error", Recoverable: true}
}
