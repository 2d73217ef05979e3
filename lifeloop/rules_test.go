package lifeloop

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A rule is a check of [Parse] that no schema makes completely. says is the part of
// the error message that identifies the rule.
type rule struct {
	id    string
	says  string
	never bool // no schema can express the rule; if false, a schema expresses a part of it
}

// beyondSchemas are the rules of schema/README.md, in its order. In every other
// respect the schemas and Parse agree.
var beyondSchemas = []rule{
	{"base64-text", "expected base64 text", true},
	{"decoded-size", ", the length of the decoded body, got ", true},
	{"decoded-digest", "expected the SHA-256 of the decoded body", true},
	{"placement-once", "expected each placement once", true},
	{"frame-parent", "expected another frame", true},
	{"receipt-parent", "expected another receipt", true},
	{"real-change", "expected a support state other than previous_support", true},
	{"known-mode", "expected one of integration_modes", true},
	{"no-token", "expected words", true},
	{"member-once", "expected each member once", false},
	{"unicode", "expected text that is valid Unicode throughout", false},
	{"depth", "expected at most 64 levels of nesting", false},
	{"id-bytes", "expected at most 256 bytes", false},
	{"int64", "expected an integer, got a number", false},
}

// ruleOf returns the rule that a problem reports.
func ruleOf(problem string) (rule, bool) {
	i := slices.IndexFunc(beyondSchemas, func(r rule) bool { return strings.Contains(problem, r.says) })
	if i < 0 {
		return rule{}, false
	}
	return beyondSchemas[i], true
}

func beyondSchema(problem string) bool {
	_, ok := ruleOf(problem)
	return ok
}

func neverInSchema(problem string) bool {
	r, ok := ruleOf(problem)
	return ok && r.never
}

// The table in schema/README.md lists exactly these rules, each with a part of the error
// message that says that the rule is violated.
func TestRulesBeyondTheSchemasAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("schema/README.md")
	require.NoError(t, err)
	var written, want []string
	for line := range strings.Lines(string(readme)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			written = append(written, strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[3]))
		}
	}
	for _, r := range beyondSchemas {
		want = append(want, "`"+r.id+"` "+strings.Trim(r.says, ", "))
	}
	require.Equal(t, want, written)
}

// For every rule, a document with one of the flaws or a stored mutant breaks the rule
// and passes the schema.
func TestEveryRuleBeyondTheSchemasIsTested(t *testing.T) {
	schemas := compileSchemas(t)
	broken := map[string]bool{}
	look := func(kind, doc string) {
		_, err := Echo(kind, []byte(doc))
		var invalid *ValidationError
		if !errors.As(err, &invalid) {
			return
		}
		for _, p := range invalid.Problems {
			if r, ok := ruleOf(p.Message); ok && !broken[r.id] && schemaRefusal(schemas[kind], doc) == nil {
				broken[r.id] = true
			}
		}
	}
	for _, c := range flaws() {
		look(c.kind, string(edit(t, example(t, c.kind), c.at, c.value)))
	}
	for _, kind := range Kinds() {
		for _, doc := range keptMutants(t, kind) {
			look(kind, doc)
		}
	}
	for _, r := range beyondSchemas {
		if !broken[r.id] {
			t.Errorf("no document breaks the rule %s", r.id)
		}
	}
}

// Parse refuses every document that a schema refuses. A document that only
// Parse refuses breaks one of the rules.
func TestSchemasAndParseDifferByTheRules(t *testing.T) {
	schemas := compileSchemas(t)
	m := newMutator(t, nil)
	own := map[string][]*node{}
	for _, kind := range Kinds() {
		own[kind] = vectors(t, kind)
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(Kinds()).Draw(t, "kind")
		m.source = rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)
		root := oneFrom(m, own[kind]).clone()
		for range rapid.IntRange(1, 4).Draw(t, "mutations") {
			if mutation := oneFrom(m, mutations); mutation.tree != nil && len(root.kids) > 0 {
				mutation.tree(m, root)
			}
		}
		doc := root.String()
		_, err := Echo(kind, []byte(doc))
		refusal := schemaRefusal(schemas[kind], doc)
		var invalid *ValidationError
		switch {
		case err == nil && refusal != nil:
			t.Fatalf("Parse accepts what the schema of %s refuses: %v\n%s", kind, refusal, doc)
		case err == nil || refusal != nil:
		case !errors.As(err, &invalid):
			t.Fatalf("no problems in %v\n%s", err, doc)
		default:
			for _, p := range invalid.Problems {
				if !beyondSchema(p.Message) {
					t.Fatalf("%s: %s, but the schema of %s accepts it\n%s", p.Path, p.Message, kind, doc)
				}
			}
		}
	})
}
