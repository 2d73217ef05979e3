//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// columns is the width that people's text keeps within, but for a word that is
// longer by itself.
const columns = 80

// print is for people. What is not there, and has left nothing behind, is named
// in one line, unless it was asked for.
func (d *diagnosis) print(w io.Writer, named bool) error {
	p := &page{}
	var absent []string
	for i := range d.Adapters {
		e := &d.Adapters[i]
		if e.Program == nil && !named && e.Kept.Sessions == 0 && (e.Sessions == nil || e.Sessions.Here == 0) {
			absent = append(absent, e.DisplayName)
			continue
		}
		e.print(p)
	}
	if len(absent) > 0 {
		p.line("Not here", strings.Join(absent, ", "))
		p.WriteByte('\n')
	}
	d.Machine.print(p)
	list := func(heading, last string, all []finding) {
		if len(all) > 0 {
			fmt.Fprintf(p, "\n%s\n", heading)
		}
		for _, f := range all {
			p.wrap("  ", "    ", f.About+": "+f.What)
			fmt.Fprintf(p, "    %s: %s\n", last, f.Mend) // in one piece, to be copied
		}
	}
	list("Worth knowing", "more", d.Notes)
	list("Wrong", "mend", d.Problems)
	if d.OK {
		p.WriteString("\nNothing is wrong.\n")
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (e *examined) print(p *page) {
	fmt.Fprintf(p, "%s (%s)\n", e.DisplayName, e.AdapterID)
	if e.Program == nil {
		p.line("  program", "not in PATH")
	} else {
		p.line("  program", *e.Program)
	}
	switch {
	case e.Version == nil:
	case e.VersionTested == nil:
		p.line("  version", *e.Version)
	case *e.VersionTested:
		p.line("  version", *e.Version+", which was tested")
	default:
		p.line("  version", fmt.Sprintf("%s; tested was %s", *e.Version, strings.Join(e.Tested, ", ")))
	}
	for _, h := range e.Hooks {
		p.line("  hooks", fmt.Sprintf("%s: %s, %s", h.Scope, strings.ReplaceAll(h.State, "_", " "), cmp.Or(h.Path, "of no known place")))
	}
	if e.Launch.Hooks {
		p.line("  launch", "lifeloop-wrap run injects hooks of its own")
	}
	reasons := map[string][]string{}
	for _, l := range e.Launch.Lacks {
		reasons[l.Reason] = append(reasons[l.Reason], l.Capability)
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		p.line("  launch", fmt.Sprintf("lacks %s: %s", strings.Join(reasons[why], ", "), why))
	}
	if e.Sessions != nil {
		p.line("  sessions", e.Sessions.text())
	}
	k := e.Kept
	p.line("  kept", fmt.Sprintf("%s of ours, %d live, %d lost", counted(k.Sessions, "session"), k.Live, len(k.Lost)))
	p.line("  claims", "conformance "+e.Conformance+": "+conformanceMeaning(e.Conformance))
	for _, support := range lifeloop.Supports() {
		claims := e.bySupport(support)
		if support == lifeloop.Unavailable {
			var names []string
			for _, c := range claims {
				names = append(names, c.Capability)
			}
			if len(names) > 0 {
				p.wrap("    "+string(support)+": ", "      ", strings.Join(names, ", "))
			}
			continue
		}
		for _, c := range claims {
			p.wrap("    "+c.Capability+" is "+string(support)+": ", "      ", c.evidence())
		}
	}
	p.WriteByte('\n')
}

func (m machine) print(p *page) {
	p.WriteString("This machine\n")
	var limits []string
	for _, name := range slices.Sorted(maps.Keys(m.Inotify)) {
		limits = append(limits, name+" "+m.Inotify[name])
	}
	p.line("  inotify", cmp.Or(strings.Join(limits, ", "), "its limits are not known"))
	p.line("  sockets", cmp.Or(m.Sockets, "nowhere"))
	p.line("  state", fmt.Sprintf("%s, %s kept, %s damaged", m.StateDir, counted(m.Sessions, "session"), counted(len(m.Damaged), "ledger")))
}

// A page is text that is wrapped as it is written.
type page struct{ strings.Builder }

// line is a name, and behind it what is to be said of it.
func (p *page) line(name, text string) {
	p.wrap(fmt.Sprintf("%-11s ", name), strings.Repeat(" ", 12), text)
}

// wrap writes words into lines of at most columns; the first begins with first,
// the others with indent.
func (p *page) wrap(first, indent, text string) {
	width := len([]rune(first))
	p.WriteString(first)
	begun := false
	for _, word := range strings.Fields(text) {
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
