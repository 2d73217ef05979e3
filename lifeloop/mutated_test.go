package lifeloop

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the mutated documents anew")

func mutantsFile(kind string) string { return filepath.Join("testdata", "mutated", kind+".jsonl") }

func keptMutants(t *testing.T, kind string) []string {
	t.Helper()
	data, err := os.ReadFile(mutantsFile(kind))
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// The stored documents equal those that the generator makes now.
func TestStoredMutants(t *testing.T) {
	for _, kind := range Kinds() {
		made := strings.Join(mutants(t, kind), "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(mutantsFile(kind), []byte(made), 0o644))
			continue
		}
		kept, err := os.ReadFile(mutantsFile(kind))
		require.NoError(t, err)
		if string(kept) != made {
			t.Errorf("%s is not what the generator makes: go test ./lifeloop -run TestStoredMutants -update", mutantsFile(kind))
		}
	}
}

// For every mutated document: no panic; a document that the schema refuses is
// refused; a document that only Parse refuses breaks a rule beyond the schemas;
// an accepted document does not change when it is written and parsed again.
func TestMutants(t *testing.T) {
	// counts holds the numbers of accepted documents, of documents that only Parse
	// refuses, of the places of problems, and of different messages. They show
	// that the documents are varied, and they change when a rule is added or
	// removed.
	type counts struct{ accepted, beyond, places, reasons int }
	want := map[string]counts{
		"callback_request":  {69, 17, 26, 144},
		"callback_response": {74, 22, 30, 140},
		"dispatch_envelope": {49, 18, 47, 185},
		"payload_envelope":  {77, 20, 25, 142},
		"lifecycle_receipt": {59, 7, 41, 177},
		"adapter_manifest":  {44, 11, 83, 218},
		"frame_context":     {59, 18, 4, 77},
		"degradation":       {60, 19, 8, 121},
	}
	schemas := compileSchemas(t)
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			docs := keptMutants(t, kind)
			require.Len(t, docs, mutantsPerKind)
			accepted, beyond := 0, 0
			refusedAt := map[string]bool{} // the places of the values that Parse refused
			refusals := map[string]bool{}  // the places of problems, each with its message
			for i, doc := range docs {
				line := i + 1
				echoed, err := echoOrPanic(t, line, kind, doc)
				refusal := schemaRefusal(schemas[kind], doc)
				if err == nil {
					accepted++
					if refusal != nil {
						t.Errorf("line %d: accepted, but the schema refuses it: %v\n%s", line, refusal, doc)
					}
					again, err := Echo(kind, echoed)
					if err != nil || string(again) != string(echoed) {
						t.Errorf("line %d: changed by parsing and writing it again: %v\n%s\n%s", line, err, echoed, again)
					}
					continue
				}
				var invalid *ValidationError
				require.True(t, errors.As(err, &invalid), "line %d: %v", line, err)
				require.NotEmpty(t, invalid.Problems, "line %d", line)
				for _, p := range invalid.Problems {
					refusedAt[p.Path] = true
					refusals[p.Path+": "+p.Message] = true
					if p.Path == "" || p.Message == "" {
						t.Errorf("line %d: a problem without path or message: %+v", line, p)
					}
				}
				if refusal == nil {
					beyond++
					for _, p := range invalid.Problems {
						if !beyondSchema(p.Message) {
							t.Errorf("line %d: %s: %s; the schema accepts it\n%s", line, p.Path, p.Message, doc)
						}
					}
				}
			}
			if got := (counts{accepted, beyond, len(refusedAt), len(refusals)}); got != want[kind] {
				t.Errorf("got  %+v\nwant %+v", got, want[kind])
			}
			if !refusedAt["$"] {
				t.Error("no document is refused as a whole")
			}
			for _, vector := range vectors(t, kind) {
				for _, name := range vector.names {
					if name = strings.Trim(name, `"`); !refusedWithin(refusedAt, name) {
						t.Errorf("no document is refused for its %s, only for %v", name, slices.Sorted(maps.Keys(refusedAt)))
					}
				}
			}
		})
	}
}

func refusedWithin(refusedAt map[string]bool, member string) bool {
	for at := range refusedAt {
		if path(member).covers(path(at)) {
			return true
		}
	}
	return false
}

func echoOrPanic(t *testing.T, line int, kind, doc string) (echoed []byte, err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("line %d: panic: %v\n%s", line, p, doc)
		}
	}()
	return Echo(kind, []byte(doc))
}

// schemaRefusal is the error of a reader that has only the schema: the text is
// not JSON, or the value is not valid.
func schemaRefusal(s *jsonschema.Schema, doc string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		return err
	}
	return s.Validate(value)
}
