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

// A rule is one that [Parse] holds to and no schema here says. It is known by
// words of the problem that tells of it.
type rule struct {
	id    string
	says  string
	never bool // no schema could say it at all; of the others it says a part
}

// beyondSchemas are the rules of schema/README.md, in its order. Everywhere else the
// schemas and Parse agree.
var beyondSchemas = []rule{
	{"base64-text", "expected base64 text", true},
	{"decoded-size", ", the length of the decoded body, got ", true},
	{"decoded-digest", "expected the SHA-256 of the decoded body", true},
	{"placement-once", "expected each placement once", true},
	{"frame-parent", "expected another frame", true},
	{"receipt-parent", "expected another receipt", true},
	{"real-change", "expected another support state", true},
	{"known-mode", "expected one of integration_modes", true},
	{"no-token", "expected words", true},
	{"member-once", "expected each member once", false},
	{"unicode", "expected text that is valid Unicode throughout", false},
	{"depth", "expected at most 64 levels of nesting", false},
	{"id-bytes", "expected at most 256 bytes", false},
	{"int64", "expected an integer, got a number", false},
}

// ruleOf is the rule that a problem tells of.
func ruleOf(problem string) (rule, bool) {
	i := slices.IndexFunc(beyondSchemas, func(r rule) bool { return strings.Contains(problem, r.says) })
	if i < 0 {
		return rule{}, false
	}
	return beyondSchemas[i], true
}

func noSchemaSays(problem string) bool {
	_, ok := ruleOf(problem)
	return ok
}

func neverInASchema(problem string) bool {
	r, ok := ruleOf(problem)
	return ok && r.never
}

// The table in schema/README.md has these rules and no others, and names for
// each the words by which a reader recognises it.
func TestRulesBeyondTheSchemasAreWrittenDown(t *testing.T) {
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

// Every rule is one that a document of the tables or of the kept mutants meets
// where the schema takes it: a rule that nobody breaks is none.
func TestEveryRuleBeyondTheSchemasIsMet(t *testing.T) {
	schemas := compileSchemas(t)
	met := map[string]bool{}
	look := func(kind, doc string) {
		_, err := Echo(kind, []byte(doc))
		var invalid *ValidationError
		if !errors.As(err, &invalid) {
			return
		}
		for _, p := range invalid.Problems {
			if r, ok := ruleOf(p.Message); ok && !met[r.id] && schemaRefusal(schemas[kind], doc) == nil {
				met[r.id] = true
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
		if !met[r.id] {
			t.Errorf("no document meets the rule %s", r.id)
		}
	}
}

// Whatever a schema refuses Parse refuses; what Parse refuses and the schema
// takes breaks one of the rules.
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
			t.Fatalf("Parse takes it, the schema of %s does not: %v\n%s", kind, refusal, doc)
		case err == nil || refusal != nil:
		case !errors.As(err, &invalid):
			t.Fatalf("no problems in %v\n%s", err, doc)
		default:
			for _, p := range invalid.Problems {
				if !noSchemaSays(p.Message) {
					t.Fatalf("%s: %s, and the schema of %s sees nothing\n%s", p.Path, p.Message, kind, doc)
				}
			}
		}
	})
}
