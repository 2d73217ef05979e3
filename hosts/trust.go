package hosts

import (
	"slices"
	"strings"

	"lifeloop/profiles"
)

// consent is the entry that a harness requires before it runs one hook of ours.
type consent struct {
	event, key, value string
}

// consents returns the consent of each hook of ours in a settings file, in the file's
// order.
func consents(d *document, in profiles.Installation) []consent {
	var list []consent
	for _, h := range d.ours(in.Ours) {
		want, ok := wanted(in, h)
		if key := in.Trust.Key(h.event, h.group, h.nth); ok && key != "" {
			list = append(list, consent{h.event, key, in.Trust.Value(want)})
		}
	}
	return list
}

// A record is the place, in the trust file, of the table that has one hook's consent.
type record struct {
	found  bool // the table exists, at least in part
	header int  // the index of the statement that opens the table, -1 if none
	pair   int  // the index of the statement that holds the consent, -1 if none
	others int  // the number of other statements in or below the table
	inline int  // the index of the statement that holds the whole table in one value, -1 if none
}

func find(found []statement, t *profiles.Trust, key string) record {
	r := record{header: -1, pair: -1, inline: -1}
	table := slices.Concat(t.Table, []string{key})
	member := slices.Concat(table, []string{t.Member})
	for i, st := range found {
		if len(st.path) < len(table) || !slices.Equal(st.path[:len(table)], table) {
			continue
		}
		r.found = true
		switch {
		case st.header && len(st.path) == len(table):
			r.header = i
		case st.header:
			r.others++
		case slices.Equal(st.path, member):
			r.pair = i
		case len(st.path) == len(table):
			r.inline = i
		default:
			r.others++
		}
	}
	return r
}

// holds reports whether a hook's consent is recorded.
func (r record) holds(text string, found []statement, value string) bool {
	switch {
	case r.pair >= 0:
		at := found[r.pair].value
		got := text[at[0]:at[1]]
		return got == basic(value) || got == "'"+value+"'"
	case r.inline >= 0:
		at := found[r.inline].value
		return strings.Contains(text[at[0]:at[1]], basic(value))
	}
	return false
}

// consentGiven reports for each hook whether its consent is recorded.
func consentGiven(text string, t *profiles.Trust, list []consent) (given []bool, err error) {
	found, err := scan(text)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		given = append(given, find(found, t, c.key).holds(text, found, c.value))
	}
	return given, nil
}

// consentTo records the consents in list. If a hook's table exists and has a different
// consent, which was for an earlier hook, the consent is overwritten. replaced maps the
// key of each changed table to its old value, or to "" if the table had no consent.
func consentTo(text string, t *profiles.Trust, list []consent) (out string, replaced map[string]string, err error) {
	found, err := scan(text)
	if err != nil {
		return "", nil, err
	}
	if err := closed(text, found, t.Table); err != nil {
		return "", nil, err
	}
	var edits []edit
	var tables strings.Builder
	nl := newline(text)
	replaced = map[string]string{}
	for _, c := range list {
		r := find(found, t, c.key)
		pair := t.Member + " = " + basic(c.value)
		switch {
		case r.holds(text, found, c.value):
		case r.pair >= 0:
			at := found[r.pair].value
			replaced[c.key] = text[at[0]:at[1]]
			edits = append(edits, edit{at[0], at[1], basic(c.value)})
		case r.inline >= 0 || r.found && r.header < 0:
			at := slices.IndexFunc(found, func(st statement) bool { return slices.Contains(st.path, c.key) })
			return "", nil, flawAt(text, found[at].start, "cannot edit a record of trust in this form; delete the record and try again: a new record is then written")
		case r.header >= 0:
			end := found[r.header].end
			line := pair + nl
			if !strings.HasSuffix(text[:end], "\n") {
				line = nl + pair
			}
			edits = append(edits, edit{end, end, line})
			replaced[c.key] = ""
		default:
			header := "[" + strings.Join(t.Table, ".") + "." + basic(c.key) + "]"
			// Keep the file's ending: if the text has no final line end, our table gets none
			// either. wholeLines depends on this when it restores the text.
			if text == "" || strings.HasSuffix(text, "\n") {
				if text != "" || tables.Len() > 0 {
					tables.WriteString(nl)
				}
				tables.WriteString(header + nl + pair + nl)
			} else {
				tables.WriteString(nl + nl + header + nl + pair)
			}
		}
	}
	if tables.Len() > 0 {
		edits = append(edits, edit{len(text), len(text), tables.String()})
	}
	return change(text, edits), replaced, nil
}

// closed returns a flaw if the file's syntax does not allow new tables below
// the given table.
func closed(text string, found []statement, table []string) error {
	for _, st := range found {
		n := len(st.path)
		switch {
		case n > len(table) || !slices.Equal(st.path, table[:n]):
		case !st.header:
			return flawAt(text, st.start, "cannot add to %s, because it is an inline value: write it as a [table]", strings.Join(st.path, "."))
		case st.list:
			return flawAt(text, st.start, "%s must be a table, not a list of tables", strings.Join(st.path, "."))
		}
	}
	return nil
}

// withdraw is the inverse of consentTo. It removes each consent whose key begins with
// t.Prefix and whose value is one of values. If replaced has an old value for the
// consent's key, withdraw restores the old value instead.
func withdraw(text string, t *profiles.Trust, values []string, replaced map[string]string) (string, error) {
	done := map[string]bool{} // edit each key only once, because a restored value may equal one of values
	for {
		found, err := scan(text)
		if err != nil {
			return "", err
		}
		key, e := oneRecord(text, found, t, values, replaced, done)
		if key == "" {
			return text, nil
		}
		done[key] = true
		text = change(text, []edit{e})
	}
}

// oneRecord returns the key of the first consent that withdraw has to remove or replace,
// and the edit that does so. The key is empty if there is no such consent.
func oneRecord(text string, found []statement, t *profiles.Trust, values []string, replaced map[string]string, done map[string]bool) (string, edit) {
	for _, st := range found {
		n := len(t.Table)
		if len(st.path) <= n || !slices.Equal(st.path[:n], t.Table) || !strings.HasPrefix(st.path[n], t.Prefix) {
			continue
		}
		key := st.path[n]
		r := find(found, t, key)
		if done[key] || !slices.ContainsFunc(values, func(v string) bool { return r.holds(text, found, v) }) {
			continue
		}
		old, before := replaced[key]
		switch {
		case r.inline >= 0:
			return key, wholeLines(found[r.inline].start, found[r.inline].end, text, false)
		case old != "":
			at := found[r.pair].value
			return key, edit{at[0], at[1], old}
		case !before && r.header >= 0 && r.others == 0 && r.pair == r.header+1:
			return key, wholeLines(found[r.header].start, found[r.pair].end, text, true)
		default:
			return key, wholeLines(found[r.pair].start, found[r.pair].end, text, false)
		}
	}
	return "", edit{}
}

// wholeLines returns the edit that removes the lines text[from:to], and for a table the
// empty line before it. If the file had no final line end, the remaining text has none
// either.
func wholeLines(from, to int, text string, table bool) edit {
	back := func() {
		from = len(strings.TrimSuffix(strings.TrimSuffix(text[:from], "\n"), "\r"))
	}
	ends := strings.HasSuffix(text[:to], "\n")
	if line := text[:from]; table && (line == "\n" || line == "\r\n" || strings.HasSuffix(line, "\n\n") || strings.HasSuffix(line, "\n\r\n")) {
		back()
	}
	if !ends {
		back()
	}
	return edit{from: from, to: to}
}
