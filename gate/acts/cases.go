package acts

import (
	"errors"
	"fmt"
	"slices"

	"lifeloop/canon"
	"lifeloop/gate"
	"lifeloop/telemetry"
)

// A Case is one test of a policy: an act, and the verdict that is wanted for it.
type Case struct {
	Tool    string `yaml:"tool"`
	Command string `yaml:"command"`
	Write   string `yaml:"write"`
	Delete  string `yaml:"delete"`
	Read    string `yaml:"read"`
	URL     string `yaml:"url"`
	Launch  string `yaml:"launch"`
	Renew   string `yaml:"renew"`
	Inject  string `yaml:"inject"` // the placement of a payload
	Verdict string `yaml:"verdict"`
	Reason  string `yaml:"reason"` // must be among the reason codes, unless it is empty
}

// A CaseResult is what a policy decided about a case.
type CaseResult struct {
	Case    string   `json:"case"`
	Want    string   `json:"want"`
	Got     string   `json:"got"`
	Reasons []string `json:"reason_codes"`
	OK      bool     `json:"ok"`
}

// Result evaluates a case. An error means that the case does not describe exactly one act,
// or has no valid verdict.
func (c Case) Result(p *gate.Policy, scene Scene) (r CaseResult, err error) {
	var intent gate.Intent
	if !gate.Verdict(c.Verdict).Valid() {
		return r, fmt.Errorf("verdict is %q; want allow, dry_run, require_approval or block", c.Verdict)
	}
	if !c.single() {
		return r, errors.New("want exactly one of command, write, delete, read, url, tool, launch, renew and inject; the only exception: tool may also be given with one of command, write, delete, read and url")
	}
	switch {
	case c.Launch != "":
		r.Case = "launch " + c.Launch
		intent, err = Launch{Program: c.Launch}.Intent(scene)
	case c.Renew != "":
		r.Case = "renew " + c.Renew
		intent, err = Renewal{Program: c.Renew}.Intent(scene)
	case c.Inject != "":
		r.Case = "inject " + c.Inject
		intent, err = Delivery{Placement: c.Inject}.Intent(scene)
	default:
		var use telemetry.ToolUse
		use, r.Case = c.use()
		intent, err = Tool{ToolUse: use}.Intent(scene)
	}
	if err != nil {
		return r, err
	}
	d := p.Decide(intent, scene.Producer)
	r.Want, r.Got, r.Reasons = c.Verdict, string(d.Result.Verdict), d.Result.ReasonCodes
	r.OK = r.Got == r.Want && (c.Reason == "" || slices.Contains(r.Reasons, c.Reason))
	if c.Reason != "" {
		r.Want += " (" + c.Reason + ")"
	}
	return r, nil
}

// single reports whether a case describes one act.
func (c Case) single() bool {
	given := 0
	for _, key := range []string{c.Command, c.Write, c.Delete, c.Read, c.URL, c.Launch, c.Renew, c.Inject} {
		if key != "" {
			given++
		}
	}
	if c.Tool == "" {
		return given == 1
	}
	return given <= 1 && c.Launch == "" && c.Renew == "" && c.Inject == ""
}

// use returns the tool call that a case describes.
func (c Case) use() (u telemetry.ToolUse, name string) {
	name = "tool " + c.Tool // a tool call without arguments
	set := func(what, value, tool string, do func()) {
		if value != "" {
			name, u.Name = what+" "+value, tool
			do()
		}
	}
	set("command", c.Command, "bash", func() { u.Commands = []string{c.Command} })
	set("write", c.Write, "write", func() { u.Paths = []telemetry.PathUse{{Path: c.Write, Op: "write"}} })
	set("delete", c.Delete, "delete", func() { u.Paths = []telemetry.PathUse{{Path: c.Delete, Op: "delete"}} })
	set("read", c.Read, "read", func() { u.Paths = []telemetry.PathUse{{Path: c.Read, Op: "read"}} })
	set("url", c.URL, "webfetch", func() { u.URLs = []string{c.URL} })
	if c.Tool != "" {
		u.Name = c.Tool
	}
	u.Args = &telemetry.Sized{Digest: string(canon.Sum([]byte(name))), Size: int64(len(name))}
	return u, name
}
