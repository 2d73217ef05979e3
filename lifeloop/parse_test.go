package lifeloop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// problemsOf lists what a validation found, as "path: message" lines.
func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *ValidationError
	require.True(t, errors.As(err, &invalid), "want a *ValidationError, got %T: %v", err, err)
	lines := make([]string, len(invalid.Problems))
	for i, p := range invalid.Problems {
		lines[i] = p.Path + ": " + p.Message
	}
	return lines
}

func TestParseCallbackResponse(t *testing.T) {
	const payload = `{"schema_version":1,"payload_id":"p1","client_id":"c","payload_kind":"k","format":"f",` +
		`"content_encoding":"utf8","body":"<é>","body_ref":null,"byte_size":4,` +
		`"acceptable_placements":[{"placement":"pre_prompt_frame","requirement":"required"}],` +
		`"expires_at_epoch_s":null,"redaction":"none","metadata":{}}`
	for _, c := range []struct {
		name, doc string
		want      []string
	}{
		{"the shortest answer", `{"status":"observed"}`, nil},
		{"a payload", `{"schema_version":"lifeloop.v0.2","status":"delivered","client_payloads":[` + payload + `]}`, nil},
		{"the older version", `{"schema_version":"lifeloop.v0.1","status":"skipped"}`, nil},
		{"unknown members", `{"status":"observed","Status":"bogus","x":{"y":[1]}}`, nil},
		{"nulls in optional members", `{"status":"observed","warnings":null,"failure_class":null,"schema_version":null}`, nil},
		{"a failure", `{"status":"failed","failure_class":"timeout","retry_class":"do_not_retry"}`, nil},

		{"nothing", ``, []string{"$: expected one JSON object: the text is not JSON at byte 0"}},
		{"two documents", `{"status":"observed"} {}`, []string{"$: expected one JSON object: the text is not JSON at byte 23"}},
		{"a list", `[]`, []string{"$: expected an object, got an array"}},
		{"no status", `{}`, []string{"status: missing: expected a string"}},
		{"the wrong case", `{"STATUS":"observed"}`, []string{"status: missing: expected a string"}},
		{"a member twice", `{"status":"observed","status":"failed"}`, []string{"status: expected each member once"}},
		{"an unknown status", `{"status":"done"}`, []string{`status: expected one of observed, delivered, skipped, degraded, failed, got "done"`}},
		{"an unknown version", `{"status":"observed","schema_version":"lifeloop.v1"}`, []string{`schema_version: expected lifeloop.v0.2 or lifeloop.v0.1, got "lifeloop.v1"`}},
		{"a failure without its class", `{"status":"failed"}`, []string{"failure_class: expected a failure class, because the status is failed"}},
		{"a class without a failure", `{"status":"observed","failure_class":"timeout"}`, []string{"failure_class: expected null or no member, because the status is not failed"}},
		{"a looser retry", `{"status":"failed","failure_class":"payload_too_large","retry_class":"safe_retry"}`, []string{"retry_class: expected retry class do_not_retry or a more restrictive one for failure class payload_too_large, got safe_retry"}},
		{"wrong types", `{"status":7,"warnings":"w","receipt_refs":[null,""]}`, []string{
			`status: expected a string, got a number`,
			"receipt_refs[0]: expected a string, got null",
			"warnings: expected an array, got a string",
			"receipt_refs[1]: expected a non-empty string",
		}},
		{"half a surrogate pair", `{"status":"observed","warnings":["\ud83d"]}`, []string{"$: expected text that is valid Unicode throughout"}},
		{"broken UTF-8", "{\"status\":\"observed\",\"warnings\":[\"\xff\"]}", []string{"$: expected text that is valid Unicode throughout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseCallbackResponse([]byte(c.doc))
			require.Equal(t, c.want, problemsOf(t, err))
		})
	}
}

// An unknown member is ignored and reported. The report quotes at most a short
// word, and opaque members are not searched.
func TestUnknown(t *testing.T) {
	const payload = `{"schema_version":1,"metadata":{"whatever":1},"shape":"x"}`
	for _, c := range []struct {
		name, kind, doc string
		want            []string
	}{
		{"nothing unknown", "callback_response", `{"status":"observed","warnings":[]}`, nil},
		{"a misspelt member", "callback_response", `{"status":"observed","client_payload":[]}`, []string{`$: a member that the contract does not know, ignored: "client_payload"`}},
		{"nested members, in order", "callback_response", `{"zz":1,"client_payloads":[` + payload + `],"Status":""}`, []string{
			`client_payloads[0]: a member that the contract does not know, ignored: "shape"`,
			`$: a member that the contract does not know, ignored: "Status"`,
			`$: a member that the contract does not know, ignored: "zz"`,
		}},
		{"a sentence as a name", "frame_context", `{"the secret of the session":1}`, []string{"$: a member that the contract does not know, ignored: a string of 25 bytes"}},
		{"not JSON", "frame_context", `[{"x":1}`, nil},
		{"an unknown kind", "frame", `{"x":1}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range Unknown(c.kind, []byte(c.doc)) {
				got = append(got, p.Path+": "+p.Message)
			}
			require.Equal(t, c.want, got)
		})
	}
	read := Unknown("callback_response", []byte(`{"boundary":1,"client_payloads":[{"boundary":1}],"bondary":1}`), "boundary")
	require.Len(t, read, 2, "what the caller reads is left out, in the document itself: %v", read)
	many := `{"x0":0`
	for i := 1; i < 300; i++ {
		many += fmt.Sprintf(`,"x%d":0`, i)
	}
	require.Len(t, Unknown("frame_context", []byte(many+"}")), maxProblems)
}
