//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
)

// A diagnosis is what doctor found, in the form of `doctor --json`.
type diagnosis struct {
	OK       bool       `json:"ok"` // there is no problem
	Version  string     `json:"version"`
	Adapters []examined `json:"adapters"`
	Machine  machine    `json:"machine"`
	Problems []finding  `json:"problems"`
	Notes    []finding  `json:"notes"`
}

// A finding is something that is wrong and that a person can mend, or, as a
// note, something worth knowing of which nobody need do anything.
type finding struct {
	About string `json:"about"` // an adapter's id, or "machine"
	What  string `json:"what"`
	Mend  string `json:"mend"` // the command that mends it, or of a note the one that says more
}

// examined is one adapter as it is on this machine.
type examined struct {
	AdapterID     string           `json:"adapter_id"`
	DisplayName   string           `json:"display_name"`
	Conformance   string           `json:"conformance"`
	Program       *string          `json:"program"` // its path; null when it is not in PATH
	Version       *string          `json:"version"` // as the program itself tells it
	Tested        []string         `json:"tested_versions"`
	VersionTested *bool            `json:"version_tested"` // null where one of the two is not known
	Hooks         []installedHooks `json:"hooks"`
	Launch        launchLook       `json:"launch"`
	Sessions      *foundSessions   `json:"sessions"` // null where it is not known where they lie
	Kept          keptSessions     `json:"kept"`
	Capabilities  []examinedClaim  `json:"capabilities"`
}

// An examinedClaim is a claim of the manifest and what this machine adds to it.
type examinedClaim struct {
	inspectedClaim
	// LaunchLacks is why a launch from this folder would not have it.
	LaunchLacks string `json:"launch_lacks,omitempty"`
	// ToldIn counts the kept sessions in which the harness itself told it.
	ToldIn int `json:"told_in"`
}

func doctorCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [ADAPTER]",
		Short: "Say what is there, what it can do, what is wrong and what mends it",
		Long: `doctor looks for each harness, at its hooks, its sessions of this folder, and at
what was kept of sessions that were run; then at this machine. It starts a
harness only to ask it for its version, and changes nothing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := g.examine(cmd, args)
			if err != nil {
				return err
			}
			if g.json {
				err = printJSON(cmd.OutOrStdout(), d)
			} else {
				err = d.print(cmd.OutOrStdout(), len(args) > 0)
			}
			if err == nil && !d.OK {
				err = exitCode(exitNo)
			}
			return err
		},
	}
}

func (g *globals) examine(cmd *cobra.Command, args []string) (*diagnosis, error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return nil, err
	}
	var chosen []profiles.Profile
	for _, id := range profiles.Adapters() {
		p, _ := profiles.For(id)
		if len(args) == 0 && len(p.Programs) > 0 || len(args) > 0 && args[0] == id {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return nil, noAdapter(args[0])
	}
	d := &diagnosis{Version: version, Adapters: []examined{}, Problems: []finding{}, Notes: []finding{}}
	kept, err := d.keptIn(openStore(cfg.StateDir))
	if err != nil {
		d.problem("machine", fmt.Sprintf("the kept sessions cannot be read: %v", err), "lifeloop-wrap doctor --state-dir DIR")
	}
	for _, p := range chosen {
		d.adapter(p, cfg.StateDir, kept[p.Adapter], len(args) > 0)
	}
	d.machine(cfg.StateDir)
	d.OK = len(d.Problems) == 0
	return d, nil
}

func (d *diagnosis) problem(about, what, mend string) {
	d.Problems = append(d.Problems, finding{about, what, mend})
}

func (d *diagnosis) note(about, what, more string) {
	d.Notes = append(d.Notes, finding{about, what, more})
}

// adapter examines one harness. Of one that was not asked for by name it is no
// problem that it is not there.
func (d *diagnosis) adapter(p profiles.Profile, stateDir string, look *keptLook, named bool) {
	m, _ := manifests.Get(p.Adapter)
	e := examined{AdapterID: p.Adapter, DisplayName: m.DisplayName, Conformance: manifests.Conformance(p.Adapter),
		Tested: append([]string{}, p.Tested...), Hooks: []installedHooks{}}
	d.program(&e, p, named)
	if p.Install != nil {
		e.Hooks = d.hooks(p, stateDir)
	}
	e.Launch = d.launch(p, e.Program)
	e.Sessions = d.sessions(p)
	e.Kept = d.kept(p.Adapter, look)
	for _, c := range inspected(m).Claims {
		i := slices.IndexFunc(e.Launch.Lacks, func(l lack) bool { return l.Capability == c.Capability })
		one := examinedClaim{inspectedClaim: c, ToldIn: look.toldIn(c.Capability)}
		if i >= 0 {
			one.LaunchLacks = e.Launch.Lacks[i].Reason
		}
		e.Capabilities = append(e.Capabilities, one)
	}
	d.Adapters = append(d.Adapters, e)
}

// program finds the harness and asks it for its version.
func (d *diagnosis) program(e *examined, p profiles.Profile, named bool) {
	path, err := lookPath(p.Programs)
	switch {
	case len(p.Programs) == 0:
		return
	case err != nil:
		if named {
			d.problem(p.Adapter, fmt.Sprintf("%s is not in PATH", strings.Join(p.Programs, ", ")),
				fmt.Sprintf("lifeloop-wrap run --adapter %s -- /path/to/%s", p.Adapter, p.Programs[0]))
		}
		return
	}
	e.Program = &path
	told, err := harness.Version(path, versionPatience)
	switch {
	case errors.Is(err, harness.ErrSlow):
		d.note(p.Adapter, fmt.Sprintf("%s --version %v: this machine is busy, or it hangs", path, err), path+" --version")
		return
	case err != nil:
		d.problem(p.Adapter, fmt.Sprintf("%s --version told no version: %v", path, err), path+" --version")
		return
	}
	e.Version = &told
	if len(p.Tested) == 0 {
		d.note(p.Adapter, "no version was ever tested: what is claimed is read from its source", "lifeloop-wrap manifest inspect "+p.Adapter)
		return
	}
	tested := slices.Contains(p.Tested, told)
	if e.VersionTested = &tested; !tested {
		d.note(p.Adapter, fmt.Sprintf("version %s was not tested, only %s: in a session that tells it, what rests on how it writes things down is partial until it was seen",
			told, strings.Join(p.Tested, ", ")), "lifeloop-wrap status last")
	}
}

// text says how many sessions of this folder there are.
func (s *foundSessions) text() string {
	if s.Newest == nil {
		return "none of this folder in " + strings.Join(s.Places, ", ")
	}
	return fmt.Sprintf("%d of this folder in %s; the newest, %s, changed %s", s.Here, strings.Join(s.Places, ", "),
		s.Newest.Session, s.Newest.At.Local().Format(time.DateTime))
}

// evidence is what stands behind a claim, in words.
func (c examinedClaim) evidence() string {
	var parts []string
	if c.Evidence != "" {
		parts = append(parts, c.Evidence)
	}
	if len(c.Modes) > 0 {
		parts = append(parts, "by "+joined(c.Modes))
	}
	for _, text := range c.Caveats {
		if !strings.HasPrefix(text, notBy) { // the modes said it
			parts = append(parts, text)
		}
	}
	if c.ToldIn > 0 {
		parts = append(parts, fmt.Sprintf("told in %s", counted(c.ToldIn, "kept session")))
	}
	if c.LaunchLacks != "" {
		parts = append(parts, "not in a launch from here")
	}
	return cmp.Or(strings.Join(parts, "; "), c.Means)
}

func counted(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// bySupport lists what is claimed to be supported just so.
func (e *examined) bySupport(support lifeloop.Support) []examinedClaim {
	var out []examinedClaim
	for _, c := range e.Capabilities {
		if c.Support == support {
			out = append(out, c)
		}
	}
	return out
}
