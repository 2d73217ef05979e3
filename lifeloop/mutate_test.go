package lifeloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutantsPerKind is how many mutated documents are stored for each kind.
const mutantsPerKind = 300

// vectors are the valid documents that mutations start from: the contract's
// example of a kind, and documents with the members that it lacks.
func vectors(t testing.TB, kind string) []*node {
	t.Helper()
	docs := [][]byte{example(t, kind)}
	more := map[string]string{
		"callback_request":  `{"schema_version":"lifeloop.v0.1","event":"session.starting","event_id":"e","adapter_id":"a","adapter_version":"1","integration_mode":"launcher_wrapper","invocation_id":"i","payload_refs":[]}`,
		"callback_response": `{"status":"failed","failure_class":"timeout","retry_class":"retry_after_reread","warnings":["slow"]}`,
		"payload_envelope":  `{"schema_version":1,"payload_id":"p","client_id":"c","payload_kind":"k","format":"f","content_encoding":"base64","body_ref":"blob:1","byte_size":4096,"acceptable_placements":[{"placement":"receipt_only","requirement":"optional"}],"expires_at_epoch_s":1778100000,"redaction":"all","metadata":{"trace":{"id":"t","hops":[1,2.5,true,null]}}}`,
		"dispatch_envelope": `{"schema_version":"lifeloop.v0.1","request":{"schema_version":"lifeloop.v0.1","event":"frame.ended","event_id":"e","adapter_id":"a","adapter_version":"1","integration_mode":"telemetry_only","invocation_id":"i","frame_context":{"frame_id":"f","frame_class":"top_level"},"payload_refs":[]}}`,
		"lifecycle_receipt": `{"schema_version":1,"receipt_id":"r","idempotency_key":null,"client_id":"c","adapter_id":"a","invocation_id":"i","event":"session.ended","event_id":"e","sequence":null,"parent_receipt_id":null,"integration_mode":"telemetry_only","status":"failed","at_epoch_s":0,"harness_session_id":null,"harness_run_id":null,"harness_task_id":null,"payload_receipts":[],"telemetry_summary":{},"capability_degradations":[` + string(example(t, "degradation")) + `],"failure_class":"internal_error","retry_class":"do_not_retry","warnings":["w"]}`,
		"adapter_manifest":  `{"contract_version":"lifeloop.v0.1","adapter_id":"a","adapter_version":"1","display_name":"A","role":"observer","integration_modes":["telemetry_only"],"lifecycle_events":{"session.ended":{"support":"partial","modes":["telemetry_only"]}},"placement":{"manual_operator":{"support":"manual","max_bytes":1,"seen_as":"user"}},"context_pressure":{"support":"unavailable"},"receipts":{"native":true,"lifeloop_synthesized":false,"receipt_ledger":"native"},"session_rename":{"support":"manual","evidence":"by hand"},"approval_surface":{"support":"native"},"telemetry_sources":[{"name":"log","kind":"jsonl","path":"~/log","support":"native"}],"known_degradations":[` + string(example(t, "degradation")) + `]}`,
		"frame_context":     `{"frame_id":"f","frame_class":"top_level"}`,
		"degradation":       `{"event":"capability.degraded","capability":"receipts.receipt_ledger","previous_support":"partial","current_support":"native","observed_at_epoch_s":0,"evidence":"found again","retry_class":"safe_retry"}`,
	}[kind]
	docs = append(docs, []byte(more))
	var out []*node
	for _, doc := range docs {
		_, err := Echo(kind, doc)
		require.NoError(t, err, "%s: mutations start from valid documents", kind)
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		out = append(out, readNode(t, dec))
	}
	return out
}

// A node is a JSON value that mutations can change: the members have an order
// and a name may occur twice, and a leaf may be any text.
type node struct {
	open  byte // '{' or '['; 0 for a leaf
	text  string
	names []string // the names of the members, with their quotation marks
	kids  []*node
}

func leaf(text string) *node { return &node{text: text} }

func readNode(t testing.TB, dec *json.Decoder) *node {
	t.Helper()
	token, err := dec.Token()
	require.NoError(t, err)
	open, nested := token.(json.Delim)
	if !nested {
		text, err := marshal(token)
		require.NoError(t, err)
		return leaf(string(text))
	}
	n := &node{open: byte(open)}
	for dec.More() {
		if open == '{' {
			n.names = append(n.names, readNode(t, dec).text)
		}
		n.kids = append(n.kids, readNode(t, dec))
	}
	_, err = dec.Token()
	require.NoError(t, err)
	return n
}

func (n *node) write(b *strings.Builder) {
	if n.open == 0 {
		b.WriteString(n.text)
		return
	}
	b.WriteByte(n.open)
	for i, kid := range n.kids {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.open == '{' {
			b.WriteString(n.names[i] + ":")
		}
		kid.write(b)
	}
	b.WriteByte(n.open + 2) // ']' and '}' are two after '[' and '{' in ASCII
}

func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) clone() *node {
	c := *n
	c.names = slices.Clone(n.names)
	c.kids = make([]*node, len(n.kids))
	for i, kid := range n.kids {
		c.kids[i] = kid.clone()
	}
	return &c
}

func (n *node) insert(i int, name string, kid *node) {
	if n.open == '{' {
		n.names = slices.Insert(n.names, i, name)
	}
	n.kids = slices.Insert(n.kids, i, kid)
}

func (n *node) drop(i int) {
	if n.open == '{' {
		n.names = slices.Delete(n.names, i, i+1)
	}
	n.kids = slices.Delete(n.kids, i, i+1)
}

// A slot is the place of a value within another value.
type slot struct {
	in *node
	i  int
}

func (s slot) value() *node     { return s.in.kids[s.i] }
func (s slot) set(value string) { s.in.kids[s.i] = leaf(value) }

// slots lists the places below n by their depth. If want is not nil, it lists
// those for which want is true.
func (n *node) slots(want func(slot) bool) (byDepth [][]slot) {
	level := []*node{n}
	for len(level) > 0 {
		var here []slot
		var below []*node
		for _, in := range level {
			for i, kid := range in.kids {
				if s := (slot{in, i}); want == nil || want(s) {
					here = append(here, s)
				}
				below = append(below, kid)
			}
		}
		if len(here) > 0 {
			byDepth = append(byDepth, here)
		}
		level = below
	}
	return byDepth
}

func inObject(s slot) bool { return s.in.open == '{' }
func isArray(s slot) bool  { return s.value().open == '[' }
func isString(s slot) bool { return strings.HasPrefix(s.value().text, `"`) }
func isNumber(s slot) bool {
	text := s.value().text
	return text != "" && strings.Contains("-0123456789", text[:1])
}

// A mutator draws random numbers that are the same on every machine and with
// every version of Go, because it uses only PCG, whose sequence is specified.
type mutator struct {
	source *rand.PCG
	words  []string // all strings of all vectors, which are mostly words of the contract
	others []*node  // the vectors of all kinds
}

func (m *mutator) n(n int) int { return int(m.source.Uint64() % uint64(n)) }

func oneFrom[E any](m *mutator, all []E) E { return all[m.n(len(all))] }

// slot draws a depth, and then a place there, so that the few places near the
// root are drawn often.
func (m *mutator) slot(root *node, want func(slot) bool) (slot, bool) {
	byDepth := root.slots(want)
	if len(byDepth) == 0 {
		return slot{}, false
	}
	return oneFrom(m, oneFrom(m, byDepth)), true
}

// A mutation changes a document: either tree changes its values, or text changes its
// text. tree reports whether it found something to change.
type mutation struct {
	name string
	tree func(m *mutator, root *node) bool
	text func(m *mutator, doc string) string
}

// at returns a mutation of one value.
func at(name string, want func(slot) bool, change func(m *mutator, s slot)) mutation {
	return mutation{name: name, tree: func(m *mutator, root *node) bool {
		s, ok := m.slot(root, want)
		if ok {
			change(m, s)
		}
		return ok
	}}
}

func nested(open, end string, levels int) string {
	return strings.Repeat(open, levels) + "1" + strings.Repeat(end, levels)
}

var mutations = []mutation{
	at("a value is gone", nil, func(_ *mutator, s slot) { s.in.drop(s.i) }),
	at("a member twice", inObject, func(m *mutator, s slot) {
		value := oneFrom(m, []*node{s.value().clone(), leaf("null"), leaf(`"again"`)})
		s.in.insert(oneFrom(m, []int{s.i, s.i + 1, len(s.in.kids)}), s.in.names[s.i], value)
	}),
	at("a member has another name", inObject, func(m *mutator, s slot) {
		name := strings.Trim(s.in.names[s.i], `"`)
		s.in.names[s.i] = oneFrom(m, []string{
			strconv.Quote(strings.ToUpper(name)), strconv.Quote(name + "s"), strconv.Quote(" " + name), `""`,
			strconv.Quote(name[:max(0, len(name)-1)]), strconv.Quote(strings.ReplaceAll(name, "_", "-")), oneFrom(m, m.words),
		})
	}),
	at("a member has an escaped name", inObject, func(_ *mutator, s slot) {
		name := strings.Trim(s.in.names[s.i], `"`)
		if name != "" {
			s.in.names[s.i] = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
		}
	}),
	at("another type", nil, func(m *mutator, s slot) {
		s.set(oneFrom(m, []string{`true`, `false`, `0`, `7`, `"text"`, `""`, `[]`, `{}`, `[null]`, `[[]]`, `{"":null}`, `"null"`, `"1"`}))
	}),
	at("null", nil, func(_ *mutator, s slot) { s.set("null") }),
	at("another word", isString, func(m *mutator, s slot) {
		word := strings.Trim(s.value().text, `"`)
		s.set(oneFrom(m, []string{
			oneFrom(m, m.words), oneFrom(m, m.words), oneFrom(m, m.words), `"unheard_of"`, `""`,
			strconv.Quote(strings.ToUpper(word)), strconv.Quote(word + " "), `"lifeloop.v0.3"`, `"lifeloop.v0.1"`,
		}))
	}),
	at("another number", isNumber, func(m *mutator, s slot) {
		s.set(oneFrom(m, []string{
			`-1`, `-0`, `0`, `2`, `1.5`, `1.0`, `1e3`, `1e-3`, `9007199254740993`, `9223372036854775807`, `9223372036854775808`,
			`-9223372036854775809`, `123456789012345678901234567890`, `1e30`, `1e400`, `-1e400`, `0.1e1`, strings.Repeat("9", 400),
		}))
	}),
	at("a number where none belongs", nil, func(m *mutator, s slot) {
		s.set(oneFrom(m, []string{`-1`, `1e400`, `9223372036854775808`, `0.5`, strings.Repeat("1", 400)}))
	}),
	at("no number", nil, func(m *mutator, s slot) {
		s.set(oneFrom(m, []string{`NaN`, `Infinity`, `-Infinity`, `nan`, `0x10`, `01`, `+1`, `.5`, `1.`, `1e`, `--1`, `1_000`, `undefined`, `None`, `True`}))
	}),
	at("deep nesting", nil, func(m *mutator, s slot) {
		levels := oneFrom(m, []int{2, 50, 64, 65, 500})
		s.set(oneFrom(m, []string{nested("[", "]", levels), nested(`{"a":`, "}", levels)}))
	}),
	{name: "deep nesting in an unknown member", tree: func(m *mutator, root *node) bool {
		levels := oneFrom(m, []int{2, 50, 63, 64, 500})
		root.insert(len(root.kids), `"unheard_of"`, leaf(oneFrom(m, []string{nested("[", "]", levels), nested(`{"a":`, "}", levels)})))
		return true
	}},
	at("another text", isString, func(m *mutator, s slot) {
		s.set(oneFrom(m, []string{
			`"é"`, `"漢字"`, `"😀"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u0000"`, `"a\nb"`, `"\u0085"`, "\"\u2028\u202e\"",
			"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", `"\x41"`, `"\u12"`, "\"a\tb\"", `"\\ud800"`, `"<a href='x'>&</a>"`, "\"\ufeffid\"",
			strconv.Quote(strings.Repeat("x", maxIDBytes)), strconv.Quote(strings.Repeat("x", maxIDBytes+1)), strconv.Quote(strings.Repeat("é", maxIDBytes/2+1)),
			`"q7f3k9x2m5v8b1n4c6z0l3j5h7g9d2s4"`, `"sha256:00"`, `"sha256:` + strings.Repeat("0", 64) + `"`, `"'"`, `'single'`, `"open`,
		}))
	}),
	{name: "an unknown member", tree: func(m *mutator, root *node) bool {
		in := root
		if s, ok := m.slot(root, func(s slot) bool { return s.value().open == '{' }); ok && m.n(2) == 0 {
			in = s.value()
		}
		value := oneFrom(m, []string{`null`, `{"a":[1,"b"]}`, `1e400`, `""`, `"` + strings.Repeat("long ", 40) + `"`})
		name := oneFrom(m, []string{`"unheard_of"`, `"x-y"`, `""`, `"é"`, `"__proto__"`, `"$ref"`, `"\u0000"`})
		if in.open == '{' {
			in.insert(m.n(len(in.kids)+1), name, leaf(value))
		}
		return in.open == '{'
	}},
	{name: "another order", tree: func(m *mutator, root *node) bool {
		for i := len(root.kids) - 1; i > 0; i-- {
			j := m.n(i + 1)
			root.kids[i], root.kids[j] = root.kids[j], root.kids[i]
			root.names[i], root.names[j] = root.names[j], root.names[i]
		}
		return true
	}},
	at("another list", isArray, func(m *mutator, s slot) {
		list := s.value()
		switch {
		case len(list.kids) == 0 || m.n(3) == 0:
			list.insert(m.n(len(list.kids)+1), "", leaf(oneFrom(m, m.words)))
		case m.n(2) == 0:
			list.insert(len(list.kids), "", oneFrom(m, list.kids).clone())
		default:
			list.insert(0, "", leaf(oneFrom(m, []string{"null", "{}", "[]", "0"})))
		}
	}),
	{name: "a part of another document", tree: func(m *mutator, root *node) bool {
		to, _ := m.slot(root, nil)
		from, _ := m.slot(oneFrom(m, m.others), nil)
		to.in.kids[to.i] = from.value().clone()
		return true
	}},
	{name: "another document", tree: func(m *mutator, root *node) bool {
		*root = *oneFrom(m, m.others).clone()
		return true
	}},
	{name: "wrapped", text: func(m *mutator, doc string) string {
		return oneFrom(m, []string{"[" + doc + "]", `{"document":` + doc + `}`, string(must(marshal(doc))), "(" + doc + ")"})
	}},
	{name: "cut short", text: func(m *mutator, doc string) string { return doc[:1+m.n(len(doc)-1)] }},
	{name: "a byte order mark", text: func(m *mutator, doc string) string {
		return oneFrom(m, []string{"\ufeff" + doc, doc + "\ufeff", doc[:1] + "\ufeff" + doc[1:], "\xff\xfe" + doc})
	}},
	{name: "something after it", text: func(m *mutator, doc string) string {
		return doc + oneFrom(m, []string{"}", "]", ",", "x", " {}", " null", "// c", "/* c */", ";", doc, "\x1a", "\u00a0", "\x1b[0m"})
	}},
	{name: "white space", text: func(m *mutator, doc string) string {
		i := strings.IndexByte(doc, ':') + 1
		return oneFrom(m, []string{" ", "\t", "\r", "   \t"}) + doc[:i] + oneFrom(m, []string{" ", "\t\t", "\r", "\u00a0", "\v", "\u2003"}) + doc[i:] + oneFrom(m, []string{"", " ", "\r"})
	}},
	{name: "punctuation", text: func(m *mutator, doc string) string {
		return oneFrom(m, []string{
			doc[:len(doc)-1] + ",}", "{," + doc[1:], strings.Replace(doc, ":", "=", 1), strings.Replace(doc, `"`, "'", 2),
			strings.Replace(doc, `"`, "", 2), strings.Replace(doc, ",", ",,", 1), strings.Replace(doc, ":", "::", 1), "/* c */" + doc,
		})
	}},
	{name: "one byte", text: func(m *mutator, doc string) string {
		i := m.n(len(doc))
		return doc[:i] + oneFrom(m, []string{" ", "0", "x", `"`, "{", "}", "\\", "\x7f", "\x80"}) + doc[i+1:]
	}},
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// mutants makes the mutated documents of a kind. The first documents have one change
// each: for each top-level member, one document in which it has a value that no such
// member accepts; for each number, one in which it is negative; for each string, one in
// which it is empty or longer than an id may be, alternately. Then each mutation is applied
// in turn, every fourth time to an already mutated document. All documents are different,
// and each is one line.
func mutants(t testing.TB, kind string) []string {
	t.Helper()
	m := newMutator(t, rand.NewPCG(20, uint64(slices.Index(Kinds(), kind))))
	var out []string
	seen := map[string]bool{}
	keep := func(doc string) {
		if !seen[doc] && !strings.Contains(doc, "\n") {
			seen[doc] = true
			out = append(out, doc)
		}
	}
	own := vectors(t, kind)
	for _, vector := range own {
		for i := range vector.kids {
			root := vector.clone()
			slot{root, i}.set("true")
			keep(root.String())
		}
		keepEach(vector, isNumber, keep, "-1")
		keepEach(vector, isString, keep, `""`, strconv.Quote(strings.Repeat("x", maxIDBytes+1)))
	}
	for turn := 0; len(out) < mutantsPerKind; turn++ {
		require.Less(t, turn, 10*mutantsPerKind, "%s: the mutations find nothing new", kind)
		root := oneFrom(m, own).clone()
		if turn%4 == 3 {
			if first := oneFrom(m, mutations); first.tree != nil {
				first.tree(m, root)
			}
		}
		mutation := mutations[turn%len(mutations)]
		switch {
		case mutation.text != nil:
			keep(mutation.text(m, root.String()))
		case len(root.kids) > 0 && mutation.tree(m, root):
			keep(root.String())
		}
	}
	return out
}

// newMutator returns a mutator that knows the values and the words of all valid
// documents.
func newMutator(t testing.TB, source *rand.PCG) *mutator {
	t.Helper()
	m := &mutator{source: source}
	for _, k := range Kinds() {
		m.others = append(m.others, vectors(t, k)...)
	}
	for _, other := range m.others {
		for _, here := range other.slots(isString) {
			for _, s := range here {
				if !slices.Contains(m.words, s.value().text) {
					m.words = append(m.words, s.value().text)
				}
			}
		}
	}
	return m
}

// keepEach calls keep with one document for each place for which want is true. The
// places get the values in turn.
func keepEach(vector *node, want func(slot) bool, keep func(string), values ...string) {
	turn := 0
	for depth, here := range vector.slots(want) {
		for i := range here {
			root := vector.clone()
			root.slots(want)[depth][i].set(values[turn%len(values)])
			keep(root.String())
			turn++
		}
	}
}
