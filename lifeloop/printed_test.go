package lifeloop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A block is a JSON example in a document, with the heading above it.
type block struct{ heading, text string }

func blocks(t *testing.T, document string) (out []block) {
	t.Helper()
	heading := ""
	for i, part := range strings.Split("\n"+document, "\n```") {
		if i%2 == 0 { // outside the code blocks
			for _, line := range strings.Split(part, "\n") {
				if strings.HasPrefix(line, "#") {
					heading = strings.TrimLeft(line, "# ")
				}
			}
			continue
		}
		text, isJSON := strings.CutPrefix(part, "json\n")
		require.True(t, isJSON, "%s: a block that is not JSON", heading)
		out = append(out, block{heading, text})
	}
	return out
}

// printed returns the text of the contract and of the declaration for recursive
// clients.
func printed(t *testing.T) [2]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "contract", "printed", "*.md"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	var out [2]string
	for i, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out[i] = string(text)
	}
	return out
}

// Each JSON block of the contract equals one of our examples, or a part of an
// example, except for the members that the block elides. Other tests check that
// every example is valid: TestContractExamplesRoundTrip, and
// TestEnvelopeEchoesTheContractsExamples, which runs the command.
func TestEveryPrintedBlockIsAnExample(t *testing.T) {
	docs := printed(t)
	want := []struct {
		heading, example, part string
		elided                 []string // members that the contract prints in a form that is not valid in a document
	}{
		{"Adapter Manifest", "adapter_manifest", "", nil},
		{"Renewal/reset capability", "adapter_manifest_renewal", "renewal", nil},
		{"Mid-Session Degradation", "degradation", "", nil},
		{"Opaque Payload Envelope", "payload_envelope", "", []string{"byte_size", "content_digest"}},
		{"Dispatch envelope (transport boundary)", "dispatch_envelope", "", []string{"request", "payloads.0"}},
		{"Receipt Schema", "lifecycle_receipt", "", []string{"payload_receipts.0.byte_size", "payload_receipts.0.content_digest"}},
	}
	got := blocks(t, docs[0])
	require.Len(t, got, len(want), "JSON blocks of the contract")
	for i, b := range got {
		w := want[i]
		t.Run(w.example, func(t *testing.T) {
			require.Equal(t, w.heading, b.heading)
			doc := string(example(t, w.example))
			if w.part != "" {
				doc = lookup(t, []byte(doc), w.part)
			}
			filled := []byte(b.text)
			for _, at := range w.elided {
				value := lookup(t, []byte(doc), at)
				if lookup(t, filled, at) == value {
					t.Errorf("%s is listed as elided but printed in full", at)
				}
				filled = edit(t, filled, at, value)
			}
			require.JSONEq(t, string(filled), doc)
		})
	}
	require.Empty(t, blocks(t, docs[1]), "JSON blocks of the declaration")

	// The contract prints the dispatch envelope without the two documents in it. Our
	// example contains them, and each equals another example.
	envelope := example(t, "dispatch_envelope")
	require.JSONEq(t, string(example(t, "callback_request")), lookup(t, envelope, "request"))
	require.JSONEq(t, string(example(t, "payload_envelope")), lookup(t, envelope, "payloads.0"))
}

// The declaration prints no JSON and names members instead. A document of its
// version with all of these members is written again with all of them, in that
// version.
func TestDeclaredMembersRoundTrip(t *testing.T) {
	sections := printed(t)[1]
	set := func(kind string, members ...string) []byte {
		doc := example(t, kind)
		for i := 0; i < len(members); i += 2 {
			doc = edit(t, doc, members[i], members[i+1])
		}
		return doc
	}
	for _, c := range []struct {
		kind, from, to string // from and to are the words before and after the names
		of             reflect.Type
		doc            []byte
		count          int
	}{
		{"callback_request", "`CallbackRequest` carries", "`CallbackResponse` carries", reflect.TypeFor[CallbackRequest](),
			set("callback_request", "schema_version", `"lifeloop.v0.1"`, "harness_task_id", `"task-1"`, "capability_snapshot_ref", `"snap-1"`), 15},
		{"callback_response", "`CallbackResponse` carries", "###", reflect.TypeFor[CallbackResponse](),
			set("callback_response", "schema_version", `"lifeloop.v0.1"`, "status", `"failed"`, "failure_class", `"timeout"`, "retry_class", `"safe_retry"`, "warnings", `["w"]`), 6},
		{"frame_context", "- `frame_id` is required", "- `frame.opening`", reflect.TypeFor[FrameContext](), set("frame_context"), 3},
		{"lifecycle_receipt", "`LifecycleReceipt` carries", "Receipts validate", reflect.TypeFor[Receipt](), set("lifecycle_receipt"), 9},
	} {
		t.Run(c.kind, func(t *testing.T) {
			_, text, _ := strings.Cut(sections, c.from)
			text, _, found := strings.Cut(text, c.to)
			require.True(t, found, "the sentence is missing")
			declared := membersIn(c.from+text, c.of)
			if len(declared) != c.count {
				t.Errorf("%d members are declared, want %d: %v", len(declared), c.count, declared)
			}
			echoed, err := Echo(c.kind, c.doc)
			require.NoError(t, err)
			require.JSONEq(t, string(c.doc), string(echoed))
			var back map[string]any
			require.NoError(t, json.Unmarshal(echoed, &back))
			for _, member := range declared {
				if _, ok := back[member]; !ok {
					t.Errorf("%s is lost", member)
				}
			}
		})
	}
}

// membersIn returns the members of a type that a text names in its code spans.
// Other names are ignored.
func membersIn(text string, of reflect.Type) (names []string) {
	for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
		for _, word := range regexp.MustCompile("[a-z_]+").FindAllString(span, -1) {
			for i := range of.NumField() {
				if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name == word && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
