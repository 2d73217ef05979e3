package doctor

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/internal/inspect"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// columns is the width to which text is wrapped. A wrapped line is longer only if its
// first word does not fit.
const columns = 80

// Print writes the report for people. Unless the user named the harnesses,
// those that are not installed and have no sessions are listed on one line.
func (r *Report) Print(w io.Writer, named bool) error {
	p := &page{}
	var absent []string
	for i := range r.Adapters {
		e := &r.Adapters[i]
		if e.Program == nil && !named && e.Recorded.Sessions == 0 && (e.Sessions == nil || e.Sessions.Here == 0) {
			absent = append(absent, e.DisplayName)
			continue
		}
		e.print(p)
	}
	if len(absent) > 0 {
		p.line("Not found", strings.Join(absent, ", "))
		p.WriteByte('\n')
	}
	r.Machine.print(p)
	list := func(heading, last string, all []Finding) {
		if len(all) > 0 {
			fmt.Fprintf(p, "\n%s\n", heading)
		}
		for _, f := range all {
			p.wrap("  ", "    ", f.About+": "+f.What)
			fmt.Fprintf(p, "    %s: %s\n", last, vt.Plain(f.Fix)) // not wrapped, so that the user can copy the command
		}
	}
	list("Notes", "more", r.Notes)
	list("Problems", "fix", r.Problems)
	if r.OK {
		p.WriteString("\nNo problems found.\n")
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (a *Adapter) print(p *page) {
	fmt.Fprintf(p, "%s (%s)\n", vt.Plain(a.DisplayName), vt.Plain(a.AdapterID))
	if a.Program == nil {
		p.line("  program", "not in PATH")
	} else {
		p.line("  program", *a.Program)
	}
	switch {
	case a.Version == nil:
	case a.VersionTested == nil:
		p.line("  version", *a.Version)
	case *a.VersionTested:
		p.line("  version", *a.Version+" (tested)")
	default:
		p.line("  version", fmt.Sprintf("%s is untested (tested: %s)", *a.Version, strings.Join(a.Tested, ", ")))
	}
	for _, h := range a.Hooks {
		p.line("  hooks", fmt.Sprintf("%s: %s, %s", h.Scope, strings.ReplaceAll(h.State, "_", " "), cmp.Or(h.Path, "settings file unknown")))
	}
	if a.Launch.Hooks {
		text := "lifeloop-wrap run injects hooks"
		if a.Launch.HooksFor != "" {
			text += ": " + a.Launch.HooksFor
		}
		p.line("  launch", text)
	}
	reasons := map[string][]string{}
	for _, l := range a.Launch.Lacks {
		reasons[l.Reason] = append(reasons[l.Reason], l.Capability)
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		p.line("  launch", fmt.Sprintf("lacks %s: %s", strings.Join(reasons[why], ", "), why))
	}
	if a.Sessions != nil {
		p.line("  sessions", a.Sessions.text())
	}
	k := a.Recorded
	p.line("  recorded", fmt.Sprintf("%s, %d live, %d lost (the wrapper died)", counted(k.Sessions, "session"), k.Live, len(k.Lost)))
	p.line("  claims", "conformance "+a.Conformance+": "+inspect.ConformanceMeaning(a.Conformance))
	for _, support := range lifeloop.Supports() {
		var unavailable []string
		for _, c := range a.Capabilities {
			switch {
			case c.Support != support:
			case support == lifeloop.Unavailable:
				unavailable = append(unavailable, c.Capability)
			default:
				p.wrap("    "+c.Capability+" is "+string(support)+": ", "      ", c.evidence())
			}
		}
		if len(unavailable) > 0 {
			p.wrap("    "+string(support)+": ", "      ", strings.Join(unavailable, ", "))
		}
	}
	p.WriteByte('\n')
}

// text summarizes the sessions of the working folder.
func (s *HarnessSessions) text() string {
	if s.Newest == nil {
		return "none for this folder in " + strings.Join(s.Places, ", ")
	}
	return fmt.Sprintf("%d for this folder in %s; newest %s, changed %s", s.Here, strings.Join(s.Places, ", "),
		s.Newest.Session, s.Newest.At.Local().Format(time.DateTime))
}

// evidence describes what supports or limits a claim: the manifest's evidence, modes and
// notes, and the findings on this machine. If there are none, it returns the meaning of
// the claim.
func (c Capability) evidence() string {
	var parts []string
	if c.Evidence != "" {
		parts = append(parts, c.Evidence)
	}
	if len(c.Modes) > 0 {
		parts = append(parts, "by "+inspect.Join(c.Modes))
	}
	parts = append(parts, c.Notes()...)
	if c.ReportedIn > 0 {
		parts = append(parts, fmt.Sprintf("reported by the harness in %s", counted(c.ReportedIn, "recorded session")))
	}
	if c.LaunchLacks != "" {
		parts = append(parts, "not available in this folder")
	}
	return cmp.Or(strings.Join(parts, "; "), c.Means)
}

func (m Machine) print(p *page) {
	p.WriteString("This machine\n")
	var limits []string
	for _, name := range slices.Sorted(maps.Keys(m.Inotify)) {
		limits = append(limits, name+" "+m.Inotify[name])
	}
	p.line("  inotify", cmp.Or(strings.Join(limits, ", "), "limits unknown"))
	if m.Containment != "" {
		p.line("  contain", "--contain works: it can create control groups in "+m.Containment)
	} else {
		p.line("  contain", "--contain does not work: "+m.Uncontained)
	}
	p.line("  sockets", cmp.Or(m.Sockets, "none"))
	p.line("  state", fmt.Sprintf("%s, %s (%s), %s damaged", m.StateDir, counted(m.Sessions, "session"), sizeText(m.Bytes), counted(len(m.Damaged), "ledger")))
}

// A page is text that is wrapped while it is written.
type page struct{ strings.Builder }

// line writes a name and the text about it.
func (p *page) line(name, text string) {
	p.wrap(fmt.Sprintf("%-11s ", name), strings.Repeat(" ", 12), text)
}

// wrap writes the words of text in lines of at most [columns] characters. The first
// line begins with first, the others with indent.
func (p *page) wrap(first, indent, text string) {
	width := len([]rune(first))
	p.WriteString(vt.Plain(first))
	begun := false
	for _, word := range strings.Fields(vt.Plain(text)) {
		n := len([]rune(word))
		switch {
		case begun && width+1+n > columns:
			p.WriteString("\n" + indent)
			width = len(indent)
		case begun:
			p.WriteByte(' ')
			width++
		}
		p.WriteString(word)
		width += n
		begun = true
	}
	p.WriteByte('\n')
}
