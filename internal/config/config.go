// Package config reads the user's configuration: two YAML files, LIFELOOP_*
// variables and flags, merged into one [Config], with the origin of every
// value.
//
// It is strict. An unknown key, a value of the wrong type or an unknown event
// is an error that names the file, the line and the nearest known word. It does
// not guess or run a shell. It expands `${env:VAR}` but not `$VAR` in commands and
// in the values of env, and does not follow YAML anchors, aliases and tags.
//
//	cfg, origins, err := config.Load(config.Options{
//		Getenv: os.Getenv, ReadFile: trust.ReadFile, Project: project, WorkDir: dir,
//		Flags: map[string][]string{"client-drain": {"2s"}},
//	})
//	fmt.Print(config.Show(cfg, origins))
package config

import (
	"slices"
	"time"

	"lifeloop/attempt/policy"
	"lifeloop/internal/environ"
	"lifeloop/internal/trust"
	"lifeloop/lifeloop"
	"lifeloop/renewal/profile"
)

// Config is the merged configuration. The yaml tags are the keys of the file
// format; "ms" in a tag marks a duration in whole milliseconds.
type Config struct {
	StateDir       string          `yaml:"state_dir"`
	LogLevel       string          `yaml:"log_level"`
	LogFile        string          `yaml:"log_file"` // the path; empty means no log
	ClientDrain    time.Duration   `yaml:"client_drain"`
	HookPatience   time.Duration   `yaml:"hook_patience"`
	Tick           time.Duration   `yaml:"tick"` // the interval of supervisor.tick; 0 means no such event
	Pressure       Pressure        `yaml:"pressure"`
	Windows        []Window        `yaml:"windows"` // context windows of models; they take precedence over windows from other sources
	SubagentFrames bool            `yaml:"subagent_frames"`
	OnLedgerError  string          `yaml:"on_ledger_error"` // stop|continue
	Contain        string          `yaml:"contain"`         // never|auto|always
	OnLimit        string          `yaml:"on_limit"`        // off|wait|fallback|exit
	Archive        bool            `yaml:"archive"`         // copy the harness's transcripts when a launch has ended
	Anchor         Anchor          `yaml:"anchor"`          // where run publishes the digests of the checkpoints in a session's evidence
	Policy         string          `yaml:"policy"`          // the path of a policy that allows or refuses launches, renewals, payloads and tool calls; empty means no policy
	Retention      Retention       `yaml:"retention"`       // which ended sessions are removed
	Requires       []Require       `yaml:"requires"`        // requirements of the user, in addition to those of the clients
	Clients        []Client        `yaml:"clients"`
	Attempts       policy.Attempts `yaml:"attempts"`

	Profiles []profile.Profile `yaml:"profiles"` // added to [profile.Builtin]; one with the same name replaces the built-in profile
	Renewal  Renewal           `yaml:"renewal"`

	Ignored *trust.Refusal // the reason why the project's file is not used; nil if it is used or there is none
}

// An Anchor says where `run` publishes the digest of each checkpoint during a session.
// A checkpoint covers a range of the session's events; see package evidence.
// Without a file and a command, `run` publishes no digest.
type Anchor struct {
	File    string   `yaml:"file"`    // the path of a file; each digest is appended to the file as a line of JSON
	Command []string `yaml:"command"` // a program that is run for each digest and gets the line on standard input
	environ.Spec

	written []string // see [Client]
}

// Renewal says whether and when a session is renewed. Without a profile no session
// is renewed.
type Renewal struct {
	Profiles []string `yaml:"profiles"` // the active profiles, in order of preference
	At       At       `yaml:"at"`
}

// At says when the wrapper requests a renewal by itself, with the first active
// profile.
type At struct {
	Pressure string `yaml:"pressure"` // the level of [Pressure] that causes a renewal; empty means that pressure causes none
}

// Active returns the active profiles. The programs of a profile get their own
// variables and, if a configured client has the profile's client id, the
// environment of that client.
func (c Config) Active() ([]profile.Profile, error) {
	var active []profile.Profile
	for _, name := range c.Renewal.Profiles {
		p, err := profile.Find(c.Profiles, name)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(c.Clients, func(cl Client) bool { return cl.ID == p.Owner() }); i >= 0 {
			p.Spec = c.Clients[i].Spec.With(p.Spec)
		}
		active = append(active, p)
	}
	return active, nil
}

// Pressure holds the lower bounds of the levels, as fractions of the context
// window. Hysteresis is how far below a bound the fraction must fall before the
// lower level is reported.
type Pressure struct {
	Moderate   float64 `yaml:"moderate"`
	High       float64 `yaml:"high"`
	Critical   float64 `yaml:"critical"`
	Hysteresis float64 `yaml:"hysteresis"`
}

// A Window is the context window of a model, in tokens. Model is the name of the model,
// or the part of that name before a "-", "@" or "[".
type Window struct {
	Model  string `yaml:"model"`
	Tokens int    `yaml:"tokens"`
}

// The modes of a [Client].
const (
	Oneshot    = "oneshot"    // one process per event
	Persistent = "persistent" // one process per session; each event and each answer is a line
)

// A Client is one program that subscribes to lifecycle events.
type Client struct {
	ID       string        `yaml:"id"`
	Command  []string      `yaml:"command"` // the program and its arguments, run without a shell
	Mode     string        `yaml:"mode"`    // [Oneshot] or [Persistent]
	Events   []string      `yaml:"events"`  // see [Match]
	Requires []Require     `yaml:"requires"`
	Timeout  time.Duration `yaml:"timeout"` // time limit of the answer to one event
	environ.Spec

	// written is Command before ${env:VAR} was expanded. Show prints it, so
	// that a secret from the environment is not printed.
	written []string
}

// A Require is a requirement for one capability.
type Require struct {
	Capability    string               `yaml:"capability"`
	Level         lifeloop.Requirement `yaml:"level"`
	Support       lifeloop.Support     `yaml:"support"` // the weakest accepted support, unless AcceptPartial is set; empty means [lifeloop.Synthesized]
	AcceptPartial bool                 `yaml:"accept_partial"`
}

// Default returns the default values of all settings. StateDir is empty, because the
// default state directory depends on the environment.
func Default() Config {
	return Config{
		LogLevel:      "info",
		ClientDrain:   5 * time.Second,
		HookPatience:  time.Second,
		Tick:          30 * time.Second,
		Pressure:      Pressure{Moderate: 0.50, High: 0.75, Critical: 0.90, Hysteresis: 0.03},
		OnLedgerError: "stop",
		Contain:       "never",
		OnLimit:       "off",
		Attempts:      policy.Default(),
	}
}

// SetDefaults makes c a client that receives every event that `*` matches, with one
// process per event.
func (c *Client) SetDefaults() {
	*c = Client{Mode: Oneshot, Events: []string{"*"}, Timeout: 5 * time.Second}
}
