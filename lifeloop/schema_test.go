package lifeloop

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func compileSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	const urn = "urn:lifeloop:v0.2:"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	add := func(name string, doc []byte) {
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		require.NoError(t, err, name)
		require.NoError(t, c.AddResource(urn+name, parsed))
	}
	add("common", Schema("common"))
	for _, kind := range Kinds() {
		add(kind, Schema(kind))
	}
	compiled := map[string]*jsonschema.Schema{}
	for _, kind := range Kinds() {
		s, err := c.Compile(urn + kind)
		require.NoError(t, err)
		compiled[kind] = s
	}
	return compiled
}

func checkSchema(t require.TestingT, s *jsonschema.Schema, doc []byte) error {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	require.NoError(t, err)
	return s.Validate(parsed)
}

func TestSchemasAgreeWithParse(t *testing.T) {
	schemas := compileSchemas(t)
	for _, kind := range Kinds() {
		require.NoError(t, checkSchema(t, schemas[kind], example(t, kind)), kind)
	}
	for _, c := range flaws() {
		t.Run(c.kind+"/"+strings.ReplaceAll(c.at, "/", ".")+"="+shorten(c.value), func(t *testing.T) {
			refusal := checkSchema(t, schemas[c.kind], edit(t, example(t, c.kind), c.at, c.value))
			_, err := Echo(c.kind, edit(t, example(t, c.kind), c.at, c.value))
			beyond := err != nil && neverInSchema(err.Error())
			switch {
			case c.want == "" && refusal != nil:
				t.Errorf("Parse accepts what the schema refuses: %v", refusal)
			case c.want != "" && refusal == nil && !beyond:
				t.Errorf("Parse says %q, and the schema accepts it", c.want)
			case beyond && refusal != nil:
				t.Errorf("the schema refuses what it should be unable to express: %v", refusal)
			}
		})
	}
}

func TestSchemaAcceptsEveryPayload(t *testing.T) {
	schema := compileSchemas(t)["payload_envelope"]
	rapid.Check(t, func(t *rapid.T) {
		doc, err := drawPayload(t).Encode()
		require.NoError(t, err)
		require.NoError(t, checkSchema(t, schema, doc))
	})
}

func TestNoSchemaForOtherKinds(t *testing.T) {
	for _, kind := range []string{"", "common.json", "../doc", "recipe"} {
		if Schema(kind) != nil {
			t.Errorf("there is a schema for %q", kind)
		}
	}
}
