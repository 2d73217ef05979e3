package hosts

import (
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
)

// A statement is a table's header or a key with its value in a TOML file.
type statement struct {
	header     bool
	list       bool     // [[…]]
	path       []string // the whole key, from the root table
	start, end int      // offsets of the statement's lines; end is after the last line break
	value      [2]int   // start and end offset of the value; zero for a header
}

// scan splits a TOML file into statements.
func scan(text string) ([]statement, error) {
	if err := notUTF8(text); err != nil {
		return nil, err
	}
	data := []byte(text)
	begin := len(text) - len(strings.TrimPrefix(text, byteOrderMark))
	copy(data[:begin], "   ") // replace the byte order mark by spaces, which keeps the offsets
	var p unstable.Parser
	var found []statement
	var table []string
	for p.Reset(data); p.NextExpression(); {
		e := p.Expression()
		st := statement{header: e.Kind != unstable.KeyValue, list: e.Kind == unstable.ArrayTable}
		at := 0 // find the end of the key
		for key := e.Key(); key.Next(); {
			st.path = append(st.path, string(key.Node().Data))
			at = end(key.Node())
		}
		// A key never spans lines, so the statement starts at the beginning of its
		// line; it ends at the end of its last line.
		st.start = max(begin, strings.LastIndexByte(text[:at], '\n')+1)
		if st.header {
			table = st.path
		} else {
			st.path = slices.Concat(table, st.path)
			st.value = [2]int{len(text) - len(strings.TrimLeft(text[at:], " \t=")), end(e)}
			at = st.value[1]
		}
		line, _, _ := strings.Cut(text[at:], "\n")
		st.end = min(at+len(line)+1, len(text))
		found = append(found, st)
	}
	if err := p.Error(); err != nil {
		at := len(text)
		if syntax := (*unstable.ParserError)(nil); errors.As(err, &syntax) {
			at = int(p.Range(syntax.Highlight).Offset)
		}
		return nil, flawAt(text, at, "%v", err)
	}
	return found, nil
}

func end(n *unstable.Node) int { return int(n.Raw.Offset + n.Raw.Length) }

// basic returns a string as a quoted TOML string.
func basic(s string) string {
	return strings.ReplaceAll(string(hujson.String(s)), "\x7f", `\u007f`)
}
