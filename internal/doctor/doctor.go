// Package doctor examines the harnesses of a machine, the recorded sessions and the
// machine itself. For each problem it names the command that fixes the problem. It
// starts a harness only to ask for its version. It writes missing summaries of
// sessions and may create the folder for sockets, and leaves nothing else behind.
//
//	report := doctor.Examine(doctor.Config{Adapters: adapters, StateDir: dir, …})
//	err := report.Print(os.Stdout, false)
package doctor

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lifeloop/harness"
	"lifeloop/hosts"
	"lifeloop/internal/inspect"
	"lifeloop/internal/proven"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/manifests"
	"lifeloop/profiles"
)

// A Config says what Examine examines.
type Config struct {
	Version  string // the version of this program
	StateDir string
	Adapters []profiles.Profile
	// Named means that the user named these adapters. In this case a harness that is
	// not installed is a problem.
	Named bool
	// Host describes the system for a launch from the current folder. Its socket, run
	// directory, key, URL and ids may be placeholders, because nothing is launched.
	Host profiles.Host
	// Needs describes the first part of the configuration that needs hooks of an adapter,
	// such as "client X receives EVENT". It returns "" if no part needs them; a nil Needs
	// means the same. A policy that guards tool calls is in Host.Guards instead.
	Needs func(adapter string) string
	// Installed returns the hooks that `host apply` would install.
	Installed func(p profiles.Profile, project bool) (profiles.Installation, error)
	// Retained reports whether the configuration limits the age, the number or the total
	// size of the sessions that are kept.
	Retained bool
	// Settings records which settings files of harnesses `host apply` has changed.
	Settings *hosts.Store
	// Notes and Problems are findings from reading the configuration.
	Notes, Problems []Finding
}

// A Report is the result of Examine, in the form of `doctor --json`.
type Report struct {
	OK       bool      `json:"ok"` // there is no problem
	Version  string    `json:"version"`
	Adapters []Adapter `json:"adapters"`
	Machine  Machine   `json:"machine"`
	Problems []Finding `json:"problems"`
	Notes    []Finding `json:"notes"`
}

// A Finding is a problem that the user can fix or, as a note, information that
// needs no action.
type Finding struct {
	About string `json:"about"` // an adapter's id, or "machine"
	What  string `json:"what"`
	Fix   string `json:"mend"` // the command that fixes the problem; for a note, a command that shows more
}

// An Adapter describes one adapter on this machine.
type Adapter struct {
	AdapterID     string   `json:"adapter_id"`
	DisplayName   string   `json:"display_name"`
	Conformance   string   `json:"conformance"`
	Program       *string  `json:"program"` // the program's path; null if it is not in PATH
	Version       *string  `json:"version"` // the version that the program prints
	Tested        []string `json:"tested_versions"`
	VersionTested *bool    `json:"version_tested"` // null if the version is unknown, or none was tested
	// Proven holds the capabilities that worked in earlier sessions with Version, if
	// Version is untested.
	Proven       map[string]proven.Seen `json:"proven,omitempty"`
	Hooks        []InstalledHooks       `json:"hooks"`
	Launch       Launch                 `json:"launch"`
	Sessions     *HarnessSessions       `json:"sessions"` // null if it is unknown where the harness stores its sessions
	Recorded     Recorded               `json:"kept"`
	Capabilities []Capability           `json:"capabilities"`
}

// A Capability is a claim of the manifest, with the evidence on this machine.
type Capability struct {
	inspect.Claim
	// LaunchLacks is the reason why a launch from this folder would not have the
	// capability.
	LaunchLacks string `json:"launch_lacks,omitempty"`
	// ReportedIn is 0 if the capability is not an event. Otherwise ReportedIn counts the
	// recorded sessions in which the harness itself reported this event.
	ReportedIn int `json:"reported_in"`
}

// Examine examines the recorded sessions, then the adapters and the machine.
func Examine(c Config) *Report {
	e := &examiner{config: c, recordings: map[string]*recordings{}, proven: proven.Read(c.StateDir), Report: &Report{Version: c.Version, Adapters: []Adapter{}, Problems: append([]Finding{}, c.Problems...), Notes: append([]Finding{}, c.Notes...)}}
	if err := e.recorded(store.Open(c.StateDir)); err != nil {
		e.problem("machine", fmt.Sprintf("the recorded sessions cannot be read: %v", err), "ls -ld "+vt.Word(c.StateDir))
	}
	for _, p := range c.Adapters {
		e.adapter(p)
	}
	e.machine()
	e.OK = len(e.Problems) == 0
	return e.Report
}

// An examiner is one run of Examine.
type examiner struct {
	config     Config
	recordings map[string]*recordings // adapter's id → its recorded sessions
	proven     proven.Versions
	*Report
}

func (e *examiner) problem(about, what, fix string) {
	e.Problems = append(e.Problems, Finding{about, what, fix})
}

func (e *examiner) note(about, what, more string) {
	e.Notes = append(e.Notes, Finding{about, what, more})
}

// adapter examines one harness.
func (e *examiner) adapter(p profiles.Profile) {
	m, _ := manifests.Get(p.Adapter)
	a := Adapter{AdapterID: p.Adapter, DisplayName: m.DisplayName, Conformance: manifests.Conformance(p.Adapter),
		Tested: append([]string{}, p.Tested...), Hooks: []InstalledHooks{}}
	e.program(&a, p)
	if p.Install != nil {
		a.Hooks = e.hooks(p)
	}
	a.Launch = e.launch(p, a.Program)
	a.Sessions = e.harnessSessions(p)
	a.Recorded = e.recordedOf(p.Adapter)
	for _, c := range inspect.Manifest(m).Claims {
		one := Capability{Claim: c, ReportedIn: e.of(p.Adapter).reported[c.Capability]}
		if i := slices.IndexFunc(a.Launch.Lacks, func(l Lack) bool { return l.Capability == c.Capability }); i >= 0 {
			one.LaunchLacks = a.Launch.Lacks[i].Reason
		}
		a.Capabilities = append(a.Capabilities, one)
	}
	e.Adapters = append(e.Adapters, a)
}

// versionPatience is how long a harness may take to print its version.
const versionPatience = 5 * time.Second

// program finds the harness and asks it for its version.
func (e *examiner) program(a *Adapter, p profiles.Profile) {
	path, err := lookPath(p.Programs)
	switch {
	case len(p.Programs) == 0:
		return
	case err != nil:
		if e.config.Named {
			e.problem(p.Adapter, fmt.Sprintf("%s is not in PATH", strings.Join(p.Programs, ", ")),
				fmt.Sprintf("lifeloop-wrap run --adapter %s -- /path/to/%s", p.Adapter, p.Programs[0]))
		}
		return
	}
	a.Program = &path
	version, err := harness.Version(path, versionPatience)
	switch {
	case errors.Is(err, harness.ErrSlow):
		e.note(p.Adapter, fmt.Sprintf("%s --version was %v: the machine is busy, or the program hangs", path, err), path+" --version")
		return
	case err != nil:
		e.problem(p.Adapter, fmt.Sprintf("%s --version printed no version: %v", path, err), path+" --version")
		return
	}
	a.Version = &version
	if len(p.Tested) == 0 {
		e.note(p.Adapter, "no version of this harness was tested: the claims in the manifest are derived from the harness's source code", "lifeloop-wrap manifest inspect "+p.Adapter)
		return
	}
	tested := slices.Contains(p.Tested, version)
	if a.VersionTested = &tested; !tested {
		a.Proven = e.proven[p.Adapter][version]
		what := "capabilities that depend on the harness's file formats count as partial until a session shows that they work"
		if len(a.Proven) > 0 {
			what = "earlier sessions showed that these work: " + strings.Join(slices.Sorted(maps.Keys(a.Proven)), ", ") + "; other " + what
		}
		e.note(p.Adapter, fmt.Sprintf("version %s is untested (tested: %s): %s", version, strings.Join(p.Tested, ", "), what), "lifeloop-wrap status last")
	}
}

// lookPath returns the absolute path of the first of the programs that is in PATH.
func lookPath(programs []string) (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", exec.ErrNotFound
}
