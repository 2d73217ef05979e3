package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"lifeloop/profiles"
)

// Hooks are stored as {"hooks": {EVENT: [GROUP, …]}}. A GROUP is
// {"hooks": [HANDLER, …]}, a HANDLER is {"type", "command", "timeout"}.
const hooksName = "hooks"

// earlier has an entry for each of the values "hooks" and "hooks/EVENT" that was empty or
// null before our hooks were added. A removal of our hooks restores these values.
type earlier map[string]string

const (
	wasEmpty = "empty"
	wasNull  = "null"
)

// A handler is one hook of ours in a file, with its place.
type handler struct {
	event      string
	group, nth int // positions of the group in the event's list and of the hook in the group
	command    string
	timeout    string // the timeout as written in the file; empty if there is none
	plain      bool   // the hook and its group have exactly the members that groupOf writes
}

// document is a parsed settings file.
type document struct {
	text    string
	root    hujson.Value
	hooks   *child // the member "hooks", of any kind; nil if absent
	unit    string // one step of indentation
	newline string
	lines   bool // the root has several lines
}

func open(text string) (*document, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if kind(root) != '{' {
		return nil, flawAt(text, root.StartOffset, "settings must be a JSON object")
	}
	d := &document{text: text, root: root, unit: "  ", newline: newline(text)}
	d.lines = strings.Contains(text[root.StartOffset:root.EndOffset], "\n")
	if list, _ := children(root); len(list) > 0 && bytes.Contains(*lead(&list[0]), []byte("\n")) {
		step, ok := strings.CutPrefix(indentation(text, list[0].Name.StartOffset), indentation(text, root.StartOffset))
		if ok && step != "" {
			d.unit = step
		}
	}
	var twice bool
	if d.hooks, twice = lookup(root, hooksName); twice {
		return nil, flawAt(text, d.hooks.Name.StartOffset, "duplicate member %q: only one of them counts", hooksName)
	}
	return d, nil
}

// events lists the events that have a list of hooks.
func (d *document) events() []*child {
	if d.hooks == nil || kind(d.hooks.Value) != '{' {
		return nil
	}
	var events []*child
	list, _ := children(d.hooks.Value)
	for i := range list {
		if kind(list[i].Value) == '[' {
			events = append(events, &list[i])
		}
	}
	return events
}

// handlers returns the list of handlers in a group, or no value if the group has none.
func handlers(group *child) hujson.Value {
	m, twice := lookup(group.Value, hooksName)
	if m == nil || twice || kind(m.Value) != '[' {
		return hujson.Value{}
	}
	return m.Value
}

// ours lists our handlers in the order of the file.
func (d *document) ours(ours func(string) bool) []handler {
	var found []handler
	for _, e := range d.events() {
		groups, _ := children(e.Value)
		for g := range groups {
			list, _ := children(handlers(&groups[g]))
			for n, call := range list {
				command, ok := stringIn(call.Value, "command")
				if !ok || !ours(command) {
					continue
				}
				h := handler{event: nameOf(e), group: g, nth: n, command: command}
				if m, twice := lookup(call.Value, "timeout"); m != nil && !twice {
					literal, _ := m.Value.Value.(hujson.Literal)
					h.timeout = string(literal)
				}
				callType, _ := stringIn(call.Value, "type")
				members, _ := children(call.Value)
				siblings, _ := children(groups[g].Value)
				h.plain = callType == "command" && len(members) == 3 && len(siblings) == 1 && len(list) == 1
				found = append(found, h)
			}
		}
	}
	return found
}

// strip removes our handlers, and each container that held nothing else: the
// group, the event, the member hooks. If the map before has an entry for a container, the
// container is not removed, but gets its earlier value.
func strip(settings string, ours func(string) bool, before earlier) (string, error) {
	d, err := open(settings)
	if err != nil {
		return "", err
	}
	events := d.events()
	if len(events) == 0 {
		return settings, nil
	}
	isOurs := func(call *child) bool {
		command, ok := stringIn(call.Value, "command")
		return ok && ours(command)
	}
	emptied := sift(d.hooks.Value, func(event *child) bool {
		return kind(event.Value) == '[' &&
			sift(event.Value, func(group *child) bool { return sift(handlers(group), isOurs) }) &&
			!restore(event, before[hooksName+"/"+nameOf(event)])
	})
	if emptied && !restore(d.hooks, before[hooksName]) {
		list, _ := children(d.root)
		cut(d.root, func(i int) bool { return &list[i] == d.hooks })
	}
	return d.root.String(), nil
}

// restore makes a member empty or null again, as it was earlier. It is called when all
// children of the member are to be removed. It returns false if no such earlier value
// was recorded.
func restore(m *child, was string) bool {
	switch was {
	case wasEmpty:
		cut(m.Value, func(int) bool { return true })
	case wasNull:
		m.Value.Value = hujson.Literal("null")
	default:
		return false
	}
	return true
}

// An addition is compact JSON to be added to a container. It has a name if the
// container is an object.
type addition struct{ name, value string }

// put adds children behind the last child, in the style of that child. In an empty
// container, the white space between the brackets is kept after the new children.
func (d *document) put(v hujson.Value, added ...addition) {
	list, after := children(v)
	gap := ""
	if n := len(list); n > 0 {
		gap = string(*lead(&list[n-1]))
		if i := strings.LastIndexByte(gap, '\n'); i >= 0 {
			gap = d.newline + gap[i+1:]
		}
	} else if d.lines || v.Value == d.root.Value {
		outer := d.newline + indentation(d.text, v.StartOffset)
		gap = outer + d.unit
		*after = append(hujson.Extra(outer), *after...)
	}
	indent, lines := strings.CutPrefix(gap, d.newline)
	for _, a := range added {
		m := child{Value: hujson.Value{Value: d.value(a.value, indent, lines)}}
		if a.name != "" {
			m.Name.Value = hujson.String(a.name)
		}
		if a.name != "" && lines {
			m.Value.BeforeExtra = hujson.Extra(" ")
		}
		*lead(&m) = hujson.Extra(gap)
		list = append(list, m)
	}
	setChildren(v, list)
}

// value parses compact JSON that this package generated. If lines is set, the JSON
// is first spread over several lines; all but the first begin with indent.
func (d *document) value(compact, indent string, lines bool) hujson.ValueTrimmed {
	text := compact
	if lines {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(compact), indent, d.unit); err != nil {
			panic("hosts: " + err.Error())
		}
		text = strings.ReplaceAll(b.String(), "\n", d.newline)
	}
	v, err := parse(text)
	if err != nil {
		panic("hosts: " + err.Error())
	}
	return v.Value
}

// instead replaces the value null of a member.
func (d *document) instead(m *child, value string) {
	m.Value.Value = d.value(value, indentation(d.text, m.Value.StartOffset), d.lines)
}

// groupOf returns the JSON of a group that contains one hook.
func groupOf(h profiles.InstalledHook) string {
	return fmt.Sprintf(`{"hooks":[{"type":"command","command":%s,"timeout":%d}]}`, string(hujson.String(h.Command)), h.Timeout)
}

// insert adds hooks to a text that has none of ours. It returns what strip
// needs to restore the text.
func insert(settings string, hooks []profiles.InstalledHook) (string, earlier, error) {
	d, err := open(settings)
	if err != nil {
		return "", nil, err
	}
	before := earlier{}
	if d.hooks == nil || kind(d.hooks.Value) == 'n' {
		whole := make([]string, 0, len(hooks))
		for _, h := range hooks {
			whole = append(whole, string(hujson.String(h.Event))+":["+groupOf(h)+"]")
		}
		value := "{" + strings.Join(whole, ",") + "}"
		if d.hooks == nil {
			d.put(d.root, addition{hooksName, value})
		} else {
			before[hooksName] = wasNull
			d.instead(d.hooks, value)
		}
		return d.root.String(), before, nil
	}
	if kind(d.hooks.Value) != '{' {
		return "", nil, flawAt(settings, d.hooks.Value.StartOffset, "%q must be an object", hooksName)
	}
	if list, _ := children(d.hooks.Value); len(list) == 0 {
		before[hooksName] = wasEmpty
	}
	var added []addition
	for _, h := range hooks {
		m, twice := lookup(d.hooks.Value, h.Event)
		switch {
		case twice:
			return "", nil, flawAt(settings, m.Name.StartOffset, "duplicate member %s in \"hooks\": only one of them counts", h.Event)
		case m == nil:
			added = append(added, addition{h.Event, "[" + groupOf(h) + "]"})
		case kind(m.Value) == 'n':
			before[hooksName+"/"+h.Event] = wasNull
			d.instead(m, "["+groupOf(h)+"]")
		case kind(m.Value) == '[':
			if list, _ := children(m.Value); len(list) == 0 {
				before[hooksName+"/"+h.Event] = wasEmpty
			}
			d.put(m.Value, addition{"", groupOf(h)})
		default:
			return "", nil, flawAt(settings, m.Value.StartOffset, "the hooks for %s must be a list", h.Event)
		}
	}
	if len(added) > 0 {
		d.put(d.hooks.Value, added...)
	}
	return d.root.String(), before, nil
}
