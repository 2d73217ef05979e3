package lifeloop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example returns one of the contract's JSON examples.
func example(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "contract", name+".json"))
	require.NoError(t, err)
	return data
}

func TestContractExamplesRoundTrip(t *testing.T) {
	files, err := filepath.Glob("testdata/contract/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), len(Kinds()))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(name, "_renewal")
			doc := example(t, name)
			echoed, err := Echo(kind, doc)
			require.NoError(t, err)
			require.JSONEq(t, withoutEmptyOptionals(t, kind, doc), string(echoed))
		})
	}
}

// withoutEmptyOptionals removes each optional member that is null or [], which means
// the same as no member. In every other member an echo must equal its input.
func withoutEmptyOptionals(t *testing.T, kind string, doc []byte) string {
	t.Helper()
	optional := map[string][]string{
		"callback_request":  {"harness_task_id", "capability_snapshot_ref"},
		"dispatch_envelope": {"request.harness_task_id", "request.capability_snapshot_ref"},
		"callback_response": {"warnings", "failure_class", "retry_class"},
		"adapter_manifest":  {"known_degradations", "renewal.profiles"},
	}
	for _, at := range optional[kind] {
		if value := lookup(t, doc, at); value == "null" || value == "[]" {
			doc = edit(t, doc, at, "")
		}
	}
	return string(doc)
}

// edit sets the member at a path to a JSON value, or removes the member when the value
// is empty. Slashes separate the steps, or dots if the path has no slash. A step into
// an array is an index.
func edit(t *testing.T, doc []byte, at, value string) []byte {
	t.Helper()
	var root any
	require.NoError(t, json.Unmarshal(doc, &root))
	steps := strings.Split(at, "/")
	if len(steps) == 1 {
		steps = strings.Split(at, ".")
	}
	here := root
	for _, step := range steps[:len(steps)-1] {
		here = child(t, here, step)
	}
	last := steps[len(steps)-1]
	var v any
	if value != "" {
		require.NoError(t, json.Unmarshal([]byte(value), &v), value)
	}
	switch node := here.(type) {
	case map[string]any:
		if value == "" {
			delete(node, last)
		} else {
			node[last] = v
		}
	case []any:
		i, err := strconv.Atoi(last)
		require.NoError(t, err)
		node[i] = v
	default:
		require.Fail(t, "no such place", at)
	}
	out, err := json.Marshal(root)
	require.NoError(t, err)
	return out
}

func lookup(t *testing.T, doc []byte, at string) string {
	t.Helper()
	var here any
	require.NoError(t, json.Unmarshal(doc, &here))
	for _, step := range strings.Split(at, ".") {
		here = child(t, here, step)
	}
	out, err := json.Marshal(here)
	require.NoError(t, err)
	return string(out)
}

func child(t *testing.T, node any, step string) any {
	t.Helper()
	if items, ok := node.([]any); ok {
		i, err := strconv.Atoi(step)
		require.NoError(t, err)
		return items[i]
	}
	return node.(map[string]any)[step]
}

// A flaw sets one member of a contract example to another value, or removes it.
// want is the beginning of the problem that is reported; empty when the document
// stays valid.
type flaw struct{ kind, at, value, want string }

var longID = `"` + strings.Repeat("x", maxIDBytes+1) + `"`

func flaws() []flaw {
	return slices.Concat(callbackFlaws, frameFlaws, payloadFlaws, dispatchFlaws, receiptFlaws, degradationFlaws, manifestFlaws, responseFlaws)
}

// DECISIONS L1, L12
var callbackFlaws = []flaw{
	{"callback_request", "schema_version", `"lifeloop.v0.1"`, ""},
	{"callback_request", "schema_version", `"lifeloop.v0.3"`, "schema_version: expected lifeloop.v0.2 or lifeloop.v0.1"},
	{"callback_request", "event", `"frame.open"`, "event: expected one of session.starting"},
	{"callback_request", "event_id", `""`, "event_id: expected a non-empty string"},
	{"callback_request", "event_id", longID, "event_id: expected at most 256 bytes"},
	{"callback_request", "event_id", `"a\nb"`, "event_id: expected no control characters"},
	{"callback_request", "event_id", ``, "event_id: missing: expected a string"},
	{"callback_request", "adapter_id", `null`, "adapter_id: expected a string, got null"},
	{"callback_request", "adapter_version", ``, "adapter_version: missing"},
	{"callback_request", "integration_mode", `"hooks"`, "integration_mode: expected one of"},
	{"callback_request", "invocation_id", `7`, "invocation_id: expected a string"},
	{"callback_request", "harness_session_id", `""`, "harness_session_id: expected a non-empty string"},
	{"callback_request", "harness_session_id", ``, ""},
	{"callback_request", "sequence", `null`, ""},
	{"callback_request", "sequence", `0`, ""},
	{"callback_request", "sequence", `42.0`, ""},
	{"callback_request", "sequence", `-1`, "sequence: expected a non-negative integer"},
	{"callback_request", "sequence", `1.5`, "sequence: expected an integer"},
	{"callback_request", "sequence", `"1"`, "sequence: expected an integer"},
	{"callback_request", "payload_refs", `[]`, ""},
	{"callback_request", "payload_refs", ``, "payload_refs: missing: expected an array"},
	{"callback_request", "payload_refs", `null`, "payload_refs: expected an array, got null"},
	{"callback_request", "payload_refs.0.payload_kind", ``, "payload_refs[0].payload_kind: missing"},
	{"callback_request", "payload_refs.0.byte_size", `-1`, "payload_refs[0].byte_size: expected a non-negative"},
	{"callback_request", "payload_refs.0.content_digest", `"md5:00"`, "payload_refs[0].content_digest: expected sha256:"},
	{"callback_request", "frame_context", ``, "frame_context: expected a frame context, because the event is"},
	{"callback_request", "event_data", `{"level":"high"}`, ""},
	{"callback_request", "unheard_of", `{"x":1}`, ""},
}

var frameFlaws = []flaw{
	{"frame_context", "frame_id", `""`, "frame_id: expected a non-empty string"},
	{"frame_context", "frame_class", `"nested"`, "frame_class: expected one of top_level, subcall"},
	{"frame_context", "frame_class", `"top_level"`, "parent_frame_id: expected null or no member"},
	{"frame_context", "parent_frame_id", ``, "parent_frame_id: expected the enclosing frame"},
	{"frame_context", "parent_frame_id", `"frame-2"`, "parent_frame_id: expected another frame"},
}

// DECISIONS L13
var payloadFlaws = []flaw{
	{"payload_envelope", "schema_version", `2`, "schema_version: expected 1, got 2"},
	{"payload_envelope", "schema_version", `"1"`, "schema_version: expected an integer"},
	{"payload_envelope", "payload_id", ``, "payload_id: missing"},
	{"payload_envelope", "client_id", ``, "client_id: missing"},
	{"payload_envelope", "payload_kind", `""`, "payload_kind: expected a non-empty string"},
	{"payload_envelope", "format", ``, "format: missing"},
	{"payload_envelope", "content_encoding", `"utf-16"`, "content_encoding: expected utf8 or base64"},
	{"payload_envelope", "content_encoding", `"base64"`, "body: expected base64 text"},
	{"payload_envelope", "body", `{"not":"text"}`, "body: expected a string, got an object"},
	{"payload_envelope", "body", `null`, "body: expected a body or a body_ref"},
	{"payload_envelope", "body", ``, "body: expected a body or a body_ref"},
	{"payload_envelope", "body_ref", `"file:x"`, "body_ref: expected null, because there is a body"},
	{"payload_envelope", "body_ref", ``, ""},
	{"payload_envelope", "byte_size", `20`, "byte_size: expected 21, the length of the decoded body, got 20"},
	{"payload_envelope", "byte_size", `-1`, "byte_size: expected a non-negative integer"},
	{"payload_envelope", "content_digest", `"sha256:00"`, "content_digest: expected sha256: and 64 hex digits"},
	{"payload_envelope", "content_digest", `"sha256:` + strings.Repeat("0", 64) + `"`, "content_digest: expected the SHA-256"},
	{"payload_envelope", "content_digest", ``, ""},
	{"payload_envelope", "acceptable_placements", `[]`, "acceptable_placements: expected at least one placement"},
	{"payload_envelope", "acceptable_placements", ``, "acceptable_placements: missing"},
	{"payload_envelope", "acceptable_placements.1.placement", `"developer_equivalent_frame"`, "acceptable_placements[1].placement: expected each placement once"},
	{"payload_envelope", "acceptable_placements.1.placement", `"pre_session"`, "acceptable_placements[1].placement: expected one of"},
	{"payload_envelope", "acceptable_placements.0.requirement", `"must"`, "acceptable_placements[0].requirement: expected one of required, preferred, optional"},
	{"payload_envelope", "idempotency_key", `""`, "idempotency_key: expected a non-empty string"},
	{"payload_envelope", "expires_at_epoch_s", `1`, ""}, // long expired, but valid
	{"payload_envelope", "redaction", `""`, "redaction: expected a non-empty string"},
	{"payload_envelope", "metadata", `[]`, "metadata: expected an object, got an array"},
	{"payload_envelope", "metadata", `{"n":12345678901234567890}`, ""},
}

var dispatchFlaws = []flaw{
	{"dispatch_envelope", "schema_version", `"2"`, "schema_version: expected lifeloop.v0.2 or lifeloop.v0.1"},
	{"dispatch_envelope", "request", ``, "request: missing: expected an object"},
	{"dispatch_envelope", "request.event_id", ``, "request.event_id: missing"},
	{"dispatch_envelope", "payloads.0.byte_size", `1`, "payloads[0].byte_size: expected 21"},
	{"dispatch_envelope", "payloads", ``, ""},
	{"dispatch_envelope", "payloads", `[]`, ""},
	{"dispatch_envelope", "request.payload_refs", `[]`, ""}, // Parse does not compare the refs with the payloads
}

// DECISIONS L2, L14
var receiptFlaws = []flaw{
	{"lifecycle_receipt", "schema_version", `2`, "schema_version: expected 1"},
	{"lifecycle_receipt", "event", `"receipt.emitted"`, "event: expected any event but receipt.emitted"},
	{"lifecycle_receipt", "sequence", `null`, ""},
	{"lifecycle_receipt", "sequence", ``, "sequence: missing: expected an integer or null"},
	{"lifecycle_receipt", "parent_receipt_id", `null`, ""},
	{"lifecycle_receipt", "parent_receipt_id", ``, "parent_receipt_id: missing: expected a string or null"},
	{"lifecycle_receipt", "parent_receipt_id", `"lfr_01K..."`, "parent_receipt_id: expected another receipt"},
	{"lifecycle_receipt", "idempotency_key", `null`, ""},
	{"lifecycle_receipt", "status", `"failed"`, "failure_class: expected a failure class"},
	{"lifecycle_receipt", "status", `"ok"`, "status: expected one of observed, delivered, skipped, degraded, failed"},
	{"lifecycle_receipt", "failure_class", `"timeout"`, ""},
	{"lifecycle_receipt", "failure_class", `"slow"`, "failure_class: expected one of"},
	{"lifecycle_receipt", "failure_class", `"payload_too_large"`, "retry_class: expected retry class do_not_retry or a more restrictive one"},
	{"lifecycle_receipt", "retry_class", `null`, ""},
	{"lifecycle_receipt", "retry_class", `"later"`, "retry_class: expected one of safe_retry"},
	{"lifecycle_receipt", "at_epoch_s", `-5`, "at_epoch_s: expected a non-negative integer"},
	{"lifecycle_receipt", "payload_receipts", `null`, "payload_receipts: expected an array, got null"},
	{"lifecycle_receipt", "payload_receipts.0.payload_kind", ``, "payload_receipts[0].payload_kind: missing"},
	{"lifecycle_receipt", "payload_receipts.0.content_digest", ``, ""},
	{"lifecycle_receipt", "payload_receipts.0.placement", `"pre_session"`, "payload_receipts[0].placement: expected one of"},
	{"lifecycle_receipt", "telemetry_summary", `{}`, ""},
	{"lifecycle_receipt", "warnings", `[1]`, "warnings[0]: expected a string, got a number"},
}

// DECISIONS L8
var degradationFlaws = []flaw{
	{"degradation", "event", `"frame.ended"`, "event: expected capability.degraded"},
	{"degradation", "capability", `""`, "capability: expected a non-empty string"},
	{"degradation", "current_support", `"native"`, "current_support: expected a support state other than previous_support"},
	{"degradation", "previous_support", `"partial"`, ""},
	{"degradation", "current_support", `"inferred"`, "current_support: expected one of native, synthesized, partial, manual, unavailable"},
	{"degradation", "evidence", `""`, "evidence: expected a non-empty string"},
	{"degradation", "evidence", `"reported by the transcript: 0199a213-81c0-7800-8aa1-bbab2a035a53"`, ""},
	{"degradation", "retry_class", `null`, "retry_class: expected a string, got null"},
}

// DECISIONS L15
var manifestFlaws = []flaw{
	{"adapter_manifest", "contract_version", `"v0.2"`, "contract_version: expected lifeloop.v0.2 or lifeloop.v0.1"},
	{"adapter_manifest", "role", `"boss"`, "role: expected one of primary_worker, worker, supervisor, observer"},
	{"adapter_manifest", "display_name", ``, "display_name: missing"},
	{"adapter_manifest", "integration_modes", `["native_hook","manual_skill","native_hook"]`, "integration_modes[2]: expected each mode once"},
	{"adapter_manifest", "lifecycle_events/frame.closed", `{"support":"native","modes":["native_hook"]}`, `lifecycle_events["frame.closed"]: expected a lifecycle event name`},
	{"adapter_manifest", "lifecycle_events/frame.ended", `{"support":"unavailable","modes":["native_hook"]}`, `lifecycle_events["frame.ended"].modes: expected no modes`},
	{"adapter_manifest", "lifecycle_events/frame.ended", `{"support":"native","modes":[]}`, `lifecycle_events["frame.ended"].modes: expected at least one mode`},
	{"adapter_manifest", "lifecycle_events/frame.ended", `{"support":"native","modes":["telemetry_only"]}`, `lifecycle_events["frame.ended"].modes[0]: expected one of integration_modes`},
	{"adapter_manifest", "lifecycle_events/frame.ended", `{"support":"simulated","modes":["native_hook"]}`, `lifecycle_events["frame.ended"].support: expected one of native`},
	{"adapter_manifest", "lifecycle_events/frame.ended", `{"support":"unavailable"}`, ""},
	{"adapter_manifest", "placement.pre_prompt_frame", `{"support":"native"}`, "placement.pre_prompt_frame: expected a manifest placement class"},
	{"adapter_manifest", "placement.pre_session.max_bytes", `0`, "placement.pre_session.max_bytes: expected a positive integer"},
	{"adapter_manifest", "placement.pre_session.seen_as", `"ghost"`, "placement.pre_session.seen_as: expected one of developer, system, user"},
	{"adapter_manifest", "context_pressure", ``, "context_pressure: missing: expected an object"},
	{"adapter_manifest", "known_degradations", `[{"event":"capability.degraded","capability":"context_pressure","previous_support":"native","current_support":"partial","observed_at_epoch_s":0,"evidence":"token q7f3k9x2m5v8b1n4c6z0l3j5h7g9d2s4","retry_class":"safe_retry"}]`, "known_degradations[0].evidence: expected words"},
	{"adapter_manifest", "context_pressure.evidence", `"token q7f3k9x2m5v8b1n4c6z0l3j5h7g9d2s4"`, "context_pressure.evidence: expected words"},
	{"adapter_manifest", "context_pressure.evidence", `"éééééééééééééééééééééééééééééé1"`, ""},
	{"adapter_manifest", "context_pressure.evidence", `"ééééééééééééééééééééééééééééééé1"`, "context_pressure.evidence: expected words; a run of 32 letters and digits"},
	{"adapter_manifest", "receipts.receipt_ledger", `true`, "receipts.receipt_ledger: expected a string, got true"},
	{"adapter_manifest", "receipts.native", `"no"`, "receipts.native: expected true or false"},
	{"adapter_manifest", "session_identity.harness_run_id", ``, "session_identity.harness_run_id: missing"},
	{"adapter_manifest", "renewal.reset.manual", ``, "renewal.reset.manual: missing"},
	{"adapter_manifest", "renewal.reset", `{"native":"unavailable","wrapper_mediated":"unavailable","manual":"unavailable"}`, "renewal.continuation.payload_delivery: expected unavailable"},
	{"adapter_manifest", "failure_modes.0", `"oops"`, "failure_modes[0]: expected one of"},
	{"adapter_manifest", "session_rename", `{"support":"native"}`, ""},
	{"adapter_manifest", "approval_surface", `{}`, "approval_surface.support: missing"},
	{"adapter_manifest", "telemetry_sources", `[{"name":"x","kind":"jsonl","support":"native"}]`, ""},
	{"adapter_manifest", "telemetry_sources", `[{"name":"x","support":"native"}]`, "telemetry_sources[0].kind: missing"},
	{"adapter_manifest", "known_degradations", `[{}]`, "known_degradations[0].event: missing"}, // the other members of the entry are reported too
}

// DECISIONS L11; TestParseCallbackResponse has more cases
var responseFlaws = []flaw{
	{"callback_response", "schema_version", `""`, "schema_version: expected a non-empty string"},
	{"callback_response", "client_payloads.0.byte_size", `3`, "client_payloads[0].byte_size: expected 21"},
	{"callback_response", "client_payloads.0.body", `5`, "client_payloads[0].body: expected a string, got a number"},
	{"callback_response", "receipt_refs", `[""]`, "receipt_refs[0]: expected a non-empty string"},
}

// One flaw in an otherwise valid document causes one problem, whose path is the
// place of the flaw.
func TestOneFlawIsOneProblem(t *testing.T) {
	for _, c := range flaws() {
		t.Run(c.kind+"/"+strings.ReplaceAll(c.at, "/", ".")+"="+shorten(c.value), func(t *testing.T) {
			_, err := Echo(c.kind, edit(t, example(t, c.kind), c.at, c.value))
			problems := problemsOf(t, err)
			if c.want == "" {
				require.Empty(t, problems)
				return
			}
			require.NotEmpty(t, problems)
			if !strings.HasPrefix(problems[0], c.want) {
				t.Errorf("got  %s\nwant %s…", problems[0], c.want)
			}
			if len(problems) > 1 && c.value != `[{}]` {
				t.Errorf("one flaw gives %d problems: %q", len(problems), problems)
			}
		})
	}
}

func shorten(s string) string {
	if len(s) > 24 {
		return s[:24]
	}
	return s
}

// "Receipt schema tests proving required nullable fields are present even when
// null": every member of the contract's example is required.
func TestEveryMemberOfAReceiptIsRequired(t *testing.T) {
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(example(t, "lifecycle_receipt"), &members))
	require.Len(t, members, 22)
	for name := range members {
		_, err := Echo("lifecycle_receipt", edit(t, example(t, "lifecycle_receipt"), name, ""))
		problems := problemsOf(t, err)
		require.Len(t, problems, 1, name)
		if !strings.HasPrefix(problems[0], name+": missing") {
			t.Errorf("without %s: %s", name, problems[0])
		}
	}

	empty, err := json.Marshal(Receipt{})
	require.NoError(t, err)
	var written map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(empty, &written))
	for name := range members {
		value, ok := written[name]
		if !ok {
			t.Errorf("an empty receipt does not write %s", name)
		}
		switch name {
		case "sequence", "parent_receipt_id", "idempotency_key", "failure_class", "retry_class",
			"harness_session_id", "harness_run_id", "harness_task_id":
			if string(value) != "null" {
				t.Errorf("an empty receipt writes %s as %s, want null", name, value)
			}
		case "payload_receipts", "capability_degradations", "warnings":
			if string(value) != "[]" {
				t.Errorf("an empty receipt writes %s as %s, want []", name, value)
			}
		case "telemetry_summary":
			if string(value) != "{}" {
				t.Errorf("an empty receipt writes %s as %s, want {}", name, value)
			}
		}
	}
}

// The four identifiers of a receipt are four independent members.
func TestReceiptIdentifiersDoNotCollapse(t *testing.T) {
	for _, member := range []string{"receipt_id", "event_id", "sequence", "idempotency_key"} {
		value := `"other"`
		if member == "sequence" {
			value = `7`
		}
		r, err := Parse[Receipt](edit(t, example(t, "lifecycle_receipt"), member, value))
		require.NoError(t, err)
		got := map[string]string{
			"receipt_id": r.ReceiptID, "event_id": r.EventID,
			"sequence": strconv.FormatInt(*r.Sequence, 10), "idempotency_key": *r.IdempotencyKey,
		}
		want := map[string]string{"receipt_id": "lfr_01K...", "event_id": "evt_01K...", "sequence": "42", "idempotency_key": "idem_01K..."}
		want[member] = strings.Trim(value, `"`)
		require.Equal(t, want, got)
	}
}

// Frame events need a frame; the others may have one.
func TestFrameEventsNeedAFrame(t *testing.T) {
	without := edit(t, example(t, "callback_request"), "frame_context", "")
	for _, e := range Events() {
		_, err := Echo("callback_request", edit(t, without, "event", strconv.Quote(string(e))))
		if refused := err != nil; refused != e.Frame() {
			t.Errorf("%s without a frame context: %v", e, err)
		}
		_, err = Echo("callback_request", edit(t, example(t, "callback_request"), "event", strconv.Quote(string(e))))
		if err != nil {
			t.Errorf("%s with a frame context: %v", e, err)
		}
	}
}

func TestPayloadWithoutContent(t *testing.T) {
	none := edit(t, edit(t, example(t, "payload_envelope"), "body", "null"), "content_digest", "")
	t.Run("is refused for a placement", func(t *testing.T) {
		_, err := Parse[PayloadEnvelope](none)
		require.Error(t, err)
	})
	t.Run("is valid for receipt_only", func(t *testing.T) {
		_, err := Parse[PayloadEnvelope](edit(t, none, "acceptable_placements", `[{"placement":"receipt_only","requirement":"optional"}]`))
		require.NoError(t, err)
	})
	t.Run("is valid with a reference, whose size is not checked", func(t *testing.T) {
		_, err := Parse[PayloadEnvelope](edit(t, edit(t, none, "body_ref", `"blob:1"`), "byte_size", `9000000`))
		require.NoError(t, err)
	})
}

func TestBase64BodySizesAreDecodedSizes(t *testing.T) {
	base := edit(t, edit(t, example(t, "payload_envelope"), "content_encoding", `"base64"`), "content_digest", "")
	for _, c := range []struct {
		body string
		size string
		ok   bool
	}{
		{`"AP8="`, "2", true},
		{`""`, "0", true},
		{`"AP8"`, "2", false},    // no padding
		{`"AP9="`, "2", false},   // stray bits
		{`"AP\n8="`, "2", false}, // a line end
		{`"AP8="`, "4", false},   // the encoded length
	} {
		_, err := Parse[PayloadEnvelope](edit(t, edit(t, base, "body", c.body), "byte_size", c.size))
		if (err == nil) != c.ok {
			t.Errorf("body %s of %s bytes: %v", c.body, c.size, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	at := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		expires *int64
		now     int64
		want    bool
	}{
		{nil, 1 << 40, false},
		{at(100), 99, false},
		{at(100), 100, true},
		{at(100), 101, true},
	} {
		if got := (PayloadEnvelope{ExpiresAtEpochS: c.expires}).Expired(c.now); got != c.want {
			t.Errorf("expires %v, now %d: %v", c.expires, c.now, got)
		}
	}
}

// A response answers in the version of its request (L1, L11).
func TestResponseVersion(t *testing.T) {
	for _, c := range []struct {
		response, request string
		ok                bool
	}{
		{"", Version, true},
		{"", versionV01, true},
		{Version, Version, true},
		{versionV01, versionV01, true},
		{versionV01, Version, false},
		{Version, versionV01, false},
		{"lifeloop.v9", Version, false},
		{"lifeloop.v9", "", false},
		{Version, "", true},
	} {
		err := CallbackResponse{SchemaVersion: c.response, Status: Observed}.Validate(c.request)
		if (err == nil) != c.ok {
			t.Errorf("answer %q to request %q: %v", c.response, c.request, err)
		}
	}
}

// The retry class of a response may be more restrictive than the default of its
// failure class, but not less.
func TestRetryMayOnlyTighten(t *testing.T) {
	for _, class := range all[FailureClass]() {
		for i, retry := range all[RetryClass]() {
			r := CallbackResponse{Status: Failed, FailureClass: &class, RetryClass: &retry}
			allowed := i >= slices.Index(all[RetryClass](), class.DefaultRetry())
			if err := r.Validate(Version); (err == nil) != allowed {
				t.Errorf("%s with %s: %v", class, retry, err)
			}
		}
	}
}

func TestDefaultRetryIsTheContractsTable(t *testing.T) {
	want := map[FailureClass]RetryClass{
		"adapter_unavailable":    "retry_after_reconfigure",
		"capability_unsupported": "do_not_retry",
		"capability_degraded":    "retry_after_reread",
		"placement_unavailable":  "retry_after_reconfigure",
		"payload_too_large":      "do_not_retry",
		"payload_rejected":       "retry_after_reconfigure",
		"identity_unavailable":   "retry_after_reconfigure",
		"transport_error":        "safe_retry",
		"timeout":                "safe_retry",
		"operator_required":      "retry_after_operator",
		"state_conflict":         "retry_after_reread",
		"invalid_request":        "do_not_retry",
		"internal_error":         "retry_after_reread",
	}
	require.Len(t, all[FailureClass](), len(want))
	for class, retry := range want {
		if got := class.DefaultRetry(); got != retry {
			t.Errorf("%s: %s, want %s", class, got, retry)
		}
	}
	if got := FailureClass("nonsense").DefaultRetry(); got != "" {
		t.Errorf("an unknown class has the default %s", got)
	}
}

func TestVocabulary(t *testing.T) {
	check := func(name string, got []string, want ...string) {
		t.Helper()
		require.Equal(t, want, got, name)
	}
	check("events", words(t, Events()),
		"session.starting", "session.started", "frame.opening", "frame.opened", "context.pressure_observed",
		"context.compacted", "frame.ending", "frame.ended", "session.ending", "session.ended",
		"supervisor.tick", "capability.degraded", "receipt.emitted", "receipt.gap_detected")
	check("modes", words(t, all[IntegrationMode]()), "manual_skill", "launcher_wrapper", "native_hook", "reference_adapter", "telemetry_only")
	check("roles", Role("").words(), "primary_worker", "worker", "supervisor", "observer")
	check("supports", words(t, Supports()), "native", "synthesized", "partial", "manual", "unavailable")
	check("classes", words(t, Placements()), "pre_session", "pre_frame_leading", "pre_frame_trailing", "tool_result", "manual_operator")
	check("placements", words(t, PayloadPlacements()), "developer_equivalent_frame", "pre_prompt_frame", "side_channel_context", "receipt_only")
	check("levels", words(t, requirements()), "required", "preferred", "optional")
	check("statuses", Status("").words(), "observed", "delivered", "skipped", "degraded", "failed")
	check("frames", FrameClass("").words(), "top_level", "subcall")
	check("retries", words(t, all[RetryClass]()), "safe_retry", "retry_after_reread", "retry_after_reconfigure", "retry_after_operator", "do_not_retry")
	require.Len(t, words(t, all[FailureClass]()), 13)
}

// all lists the words of a closed set in the set's own type.
func all[E interface {
	~string
	words() []string
}]() (list []E) {
	for _, w := range E("").words() {
		list = append(list, E(w))
	}
	return list
}

// words checks that each word of a closed set is valid and that other words are
// not.
func words[E interface {
	~string
	Valid() bool
}](t *testing.T, all []E) []string {
	t.Helper()
	var out []string
	for _, e := range all {
		if !e.Valid() {
			t.Errorf("%q is listed but not valid", e)
		}
		out = append(out, string(e))
	}
	for _, not := range []E{"", "NATIVE", all[0] + " "} {
		if not.Valid() {
			t.Errorf("%q is valid", not)
		}
	}
	return out
}

func TestOrders(t *testing.T) {
	for i, a := range all[RetryClass]() {
		for j, b := range all[RetryClass]() {
			if a.Tighter(b) != (i > j) {
				t.Errorf("%s tighter than %s: %v", a, b, a.Tighter(b))
			}
		}
		if !a.Tighter("never") || RetryClass("never").Tighter(a) {
			t.Errorf("an unknown retry class is tighter than %s", a)
		}
	}
	for i, a := range append(Supports(), "hearsay") {
		for j, b := range append(Supports(), "hearsay") {
			if a.Stronger(b) != (i < j) {
				t.Errorf("%s stronger than %s: %v", a, b, a.Stronger(b))
			}
		}
	}
}

func TestEchoKinds(t *testing.T) {
	require.Equal(t, []string{
		"callback_request", "callback_response", "dispatch_envelope", "payload_envelope",
		"lifecycle_receipt", "adapter_manifest", "frame_context", "degradation",
	}, Kinds())
	_, err := Echo("recipe", []byte(`{}`))
	require.ErrorContains(t, err, "use one of callback_request")
}

// Each of these documents has the one problem in want. If want is empty, the document is
// valid, and a member whose name has another case does not replace the known member.
func TestParsingIsStrict(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for name, c := range map[string]struct{ doc, want string }{
		"nesting":                   {`{"x":` + deep + `}`, "$: expected at most 64 levels of nesting"},
		"a member twice, deep":      {`{"frame_id":"f","frame_class":"top_level","x":[{"y":1,"y":2}]}`, "x[0].y: expected each member once"},
		"a high surrogate alone":    {`{"frame_id":"\ud800","frame_class":"top_level"}`, "$: expected text that is valid Unicode"},
		"a low surrogate alone":     {`{"frame_id":"\udc00","frame_class":"top_level"}`, "$: expected text that is valid Unicode"},
		"two high surrogates":       {`{"frame_id":"\ud800\ud800","frame_class":"top_level"}`, "$: expected text that is valid Unicode"},
		"a pair":                    {`{"frame_id":"\ud83d\ude00","frame_class":"top_level"}`, ""},
		"a backslash before a u":    {`{"frame_id":"\\ud800","frame_class":"top_level"}`, ""},
		"a byte order mark":         {"\ufeff" + `{"frame_id":"f","frame_class":"top_level"}`, "$: expected one JSON object"},
		"null":                      {`null`, "$: expected an object, got null"},
		"a number out of range":     {`{"frame_id":"f","frame_class":"top_level","n":1e999}`, ""},
		"members in another case":   {`{"frame_id":"f","FRAME_ID":"g","frame_class":"top_level"}`, ""},
		"a member with a long name": {`{"frame_id":"f","frame_class":"top_level","x":{"` + strings.Repeat("n", 99) + `":1,"` + strings.Repeat("n", 99) + `":2}}`, "x[\"" + strings.Repeat("n", 64) + "…\"]: expected each member once"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Echo("frame_context", []byte(c.doc))
			problems := problemsOf(t, err)
			if c.want == "" {
				require.Empty(t, problems)
				require.NotContains(t, string(out), `"g"`)
				return
			}
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], c.want)
		})
	}
}
