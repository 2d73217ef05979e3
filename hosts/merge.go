package hosts

import (
	"fmt"
	"strings"

	"lifeloop/profiles"
)

// Where our hooks go in: {"hooks": {EVENT: [GROUP, …]}}, a GROUP being
// {"hooks": [HANDLER, …]} and a HANDLER {"type", "command", "timeout"}.
const member = "hooks"

// was remembers containers that stood in a file before our hooks and had
// nothing in them: "hooks" and "hooks/EVENT", each with what it was.
type was map[string]string

const (
	wasEmpty = "empty"
	wasNull  = "null"
)

// A handler is one hook of ours in a file, and its place.
type handler struct {
	event      string
	group, nth int // in the event's list, and in its group
	command    string
	timeout    string // as written, empty when it is not
	plain      bool   // it and its group are as groupOf writes them, but for spacing and the values
}

// document is a parsed settings file.
type document struct {
	text    string
	root    *node
	hooks   *node // nil when absent; any kind
	hooksAt int
	unit    string // one step of indentation
	newline string
	lines   bool // the file is written over several lines
}

func open(text string) (*document, *Flaw) {
	root, flaw := parse(text)
	if flaw != nil {
		return nil, flaw
	}
	if root.kind != '{' {
		return nil, flawAt(text, root.start, "%s, where a JSON object belongs", kindOf(root))
	}
	d := &document{text: text, root: root, unit: "  ", newline: newline(text)}
	d.lines = strings.Contains(text[root.start:root.end], "\n")
	if len(root.children) > 0 {
		if before := text[root.start+1 : root.begin(0)]; strings.Contains(before, "\n") {
			if step, ok := strings.CutPrefix(indentation(text, root.begin(0)), indentation(text, root.start)); ok && step != "" {
				d.unit = step
			}
		}
	}
	at, twice := root.find(member)
	if twice {
		return nil, flawAt(text, root.begin(at), "the member %q is there twice, and only one of them counts", member)
	}
	if d.hooksAt = at; at >= 0 {
		d.hooks = root.children[at]
	}
	return d, nil
}

func kindOf(n *node) string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// An event is one member of hooks that is a list.
type event struct {
	at   int // among the members of hooks
	name string
	list *node
}

func (d *document) events() []event {
	if d.hooks == nil || d.hooks.kind != '{' {
		return nil
	}
	var events []event
	for i, list := range d.hooks.children {
		if list.kind == '[' {
			events = append(events, event{i, d.hooks.keys[i].name, list})
		}
	}
	return events
}

// calls is the list of handlers of one group, nil when it has none to speak of.
func calls(group *node) *node {
	at, twice := group.find(member)
	if at < 0 || twice || group.children[at].kind != '[' {
		return nil
	}
	return group.children[at]
}

// str is the text of a string member that is there once.
func (d *document) str(n *node, name string) (string, bool) {
	at, twice := n.find(name)
	if at < 0 || twice || n.children[at].kind != '"' {
		return "", false
	}
	p := parser{text: d.text, at: n.children[at].start}
	s, flaw := p.str()
	return s, flaw == nil
}

// ours lists our handlers, in the order of the file.
func (d *document) ours(ours func(string) bool) []handler {
	var found []handler
	for _, e := range d.events() {
		for g, group := range e.list.children {
			list := calls(group)
			if list == nil {
				continue
			}
			for n, call := range list.children {
				command, ok := d.str(call, "command")
				if !ok || !ours(command) {
					continue
				}
				h := handler{event: e.name, group: g, nth: n, command: command}
				if at, twice := call.find("timeout"); at >= 0 && !twice {
					h.timeout = d.text[call.children[at].start:call.children[at].end]
				}
				kind, _ := d.str(call, "type")
				h.plain = kind == "command" && len(call.keys) == 3 && len(group.keys) == 1 && len(list.children) == 1
				found = append(found, h)
			}
		}
	}
	return found
}

// strip takes our handlers out, and with them what holds nothing else: their
// group, their event's list, the member hooks. What before remembers stays.
func strip(text string, ours func(string) bool, before was) (string, *Flaw) {
	d, flaw := open(text)
	if flaw != nil {
		return "", flaw
	}
	var edits []edit
	gone := map[int]bool{} // members of hooks
	for _, e := range d.events() {
		groups := map[int]bool{}
		for g, group := range e.list.children {
			list := calls(group)
			if list == nil {
				continue
			}
			drop := map[int]bool{}
			for n, call := range list.children {
				if command, ok := d.str(call, "command"); ok && ours(command) {
					drop[n] = true
				}
			}
			if len(drop) > 0 && len(drop) == len(list.children) {
				groups[g] = true
				continue
			}
			edits = append(edits, d.cut(list, drop)...)
		}
		nothingLeft := len(groups) > 0 && len(groups) == len(e.list.children)
		switch then := before[member+"/"+e.name]; {
		case !nothingLeft, then == wasEmpty:
			edits = append(edits, d.cut(e.list, groups)...)
		case then == wasNull:
			edits = append(edits, edit{e.list.start, e.list.end, "null"})
		default:
			gone[e.at] = true
		}
	}
	if len(gone) == 0 {
		return change(text, edits), nil
	}
	nothingLeft := len(gone) == len(d.hooks.children)
	switch then := before[member]; {
	case !nothingLeft, then == wasEmpty:
		edits = append(edits, d.cut(d.hooks, gone)...)
	case then == wasNull:
		edits = append(edits, edit{d.hooks.start, d.hooks.end, "null"})
	default:
		edits = append(edits, d.cut(d.root, map[int]bool{d.hooksAt: true})...)
	}
	return change(text, edits), nil
}

// cut takes children out with one comma each: the one before them, or, at the
// beginning, the one behind. It is the inverse of put.
func (d *document) cut(n *node, drop map[int]bool) []edit {
	var edits []edit
	for i := 0; i < len(n.children); i++ {
		if !drop[i] {
			continue
		}
		j := i
		for j+1 < len(n.children) && drop[j+1] {
			j++
		}
		switch {
		case i > 0:
			edits = append(edits, edit{from: n.finish(i - 1), to: n.finish(j)})
		case j+1 < len(n.children):
			edits = append(edits, edit{from: n.begin(0), to: n.begin(j + 1)})
		default:
			to := n.finish(j)
			if closing := d.closing(n); strings.HasPrefix(d.text[to:n.end-1], closing) {
				to += len(closing)
			}
			edits = append(edits, edit{from: n.start + 1, to: to})
		}
		i = j
	}
	return edits
}

// closing is what put wrote behind the last child of a container that was
// empty: the line end and indentation before the first child, less one step. It
// asks our own text, for everything around it may have been edited since.
func (d *document) closing(n *node) string {
	first := n.children[0]
	if len(first.children) == 0 {
		return ""
	}
	before := d.text[n.start+1 : n.begin(0)]
	deeper := d.text[first.start+1 : first.begin(0)]
	step, ok := strings.CutPrefix(deeper, before)
	closing, under := strings.CutSuffix(before, step)
	if !ok || !under || !strings.HasPrefix(strings.TrimPrefix(closing, "\r"), "\n") {
		return ""
	}
	return closing
}

// put adds children behind the last one, in the way in which that one stands.
// In an empty container what was between its brackets stays behind them.
func (d *document) put(n *node, children []child) edit {
	if last := len(n.children) - 1; last >= 0 {
		at := n.begin(last)
		gap := d.text[len(strings.TrimRight(d.text[:at], " \t\r\n")):at]
		lines := strings.Contains(gap, "\n")
		if lines {
			gap = d.newline + gap[strings.LastIndexByte(gap, '\n')+1:]
		}
		var b strings.Builder
		for _, c := range children {
			b.WriteString("," + gap + c.render(d, lines, gap[strings.LastIndexByte(gap, '\n')+1:]))
		}
		return edit{n.finish(last), n.finish(last), b.String()}
	}
	outer := indentation(d.text, n.start)
	lines := n == d.root || d.lines
	between, before, behind := ",", "", ""
	if lines {
		before, behind = d.newline+outer+d.unit, d.newline+outer
		between += before
	}
	var rendered []string
	for _, c := range children {
		rendered = append(rendered, c.render(d, lines, outer+d.unit))
	}
	return edit{n.start + 1, n.start + 1, before + strings.Join(rendered, between) + behind}
}

// A child is compact JSON to be added, with a name in an object.
type child struct{ name, value string }

func (c child) render(d *document, lines bool, indent string) string {
	name, value := "", c.value
	if c.name != "" {
		name = encode(c.name) + ":"
	}
	if lines {
		value = pretty(value, indent, d.unit, d.newline)
		if name != "" {
			name += " "
		}
	}
	return name + value
}

// groupOf is the group of one hook.
func groupOf(h profiles.InstalledHook) string {
	return fmt.Sprintf(`{"hooks":[{"type":"command","command":%s,"timeout":%d}]}`, encode(h.Command), h.Timeout)
}

// insert adds hooks to a text that has none of ours.
func insert(text string, hooks []profiles.InstalledHook) (string, was, *Flaw) {
	d, flaw := open(text)
	if flaw != nil {
		return "", nil, flaw
	}
	before := was{}
	if d.hooks == nil || d.hooks.kind == 'n' {
		whole := make([]string, 0, len(hooks))
		for _, h := range hooks {
			whole = append(whole, encode(h.Event)+":["+groupOf(h)+"]")
		}
		value := "{" + strings.Join(whole, ",") + "}"
		if d.hooks == nil {
			return change(text, []edit{d.put(d.root, []child{{member, value}})}), before, nil
		}
		before[member] = wasNull
		return change(text, []edit{d.instead(d.hooks, value)}), before, nil
	}
	if d.hooks.kind != '{' {
		return "", nil, flawAt(text, d.hooks.start, "%s as %q, where an object belongs", kindOf(d.hooks), member)
	}
	if len(d.hooks.children) == 0 {
		before[member] = wasEmpty
	}
	var edits []edit
	var fresh []child
	for _, h := range hooks {
		at, twice := d.hooks.find(h.Event)
		if twice {
			return "", nil, flawAt(text, d.hooks.begin(at), "the hooks of %s are there twice, and only one of them counts", h.Event)
		}
		if at < 0 {
			fresh = append(fresh, child{h.Event, "[" + groupOf(h) + "]"})
			continue
		}
		list := d.hooks.children[at]
		switch list.kind {
		case 'n':
			before[member+"/"+h.Event] = wasNull
			edits = append(edits, d.instead(list, "["+groupOf(h)+"]"))
		case '[':
			if len(list.children) == 0 {
				before[member+"/"+h.Event] = wasEmpty
			}
			edits = append(edits, d.put(list, []child{{"", groupOf(h)}}))
		default:
			return "", nil, flawAt(text, list.start, "%s as the hooks of %s, where a list belongs", kindOf(list), h.Event)
		}
	}
	if len(fresh) > 0 {
		edits = append(edits, d.put(d.hooks, fresh))
	}
	return change(text, edits), before, nil
}

// instead puts a value in the place of null.
func (d *document) instead(n *node, value string) edit {
	if d.lines {
		value = pretty(value, indentation(d.text, n.start), d.unit, d.newline)
	}
	return edit{n.start, n.end, value}
}
