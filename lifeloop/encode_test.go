package lifeloop

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const canary = "c4nary-8f2e"

// A body is written only by the functions that deliver it.
func TestOpaqueDoesNotPrintItself(t *testing.T) {
	body := NewOpaque(canary)
	payload := PayloadEnvelope{PayloadID: "p", Body: &body}
	holders := []any{
		body, &body, payload, &payload, []Opaque{body}, map[string]Opaque{"k": body},
		CallbackResponse{ClientPayloads: []PayloadEnvelope{payload}},
		DispatchEnvelope{Payloads: []PayloadEnvelope{payload}},
		struct{ O Opaque }{body},
	}
	// The forms in which a body could leak: text, hex, decimal bytes, base64.
	leaks := []string{canary, hex.EncodeToString([]byte(canary)), strings.ToUpper(hex.EncodeToString([]byte(canary))),
		strings.Trim(fmt.Sprint([]byte(canary)), "[]"), base64.StdEncoding.EncodeToString([]byte(canary))}
	sealed := func(how, out string) {
		t.Helper()
		for _, leak := range leaks {
			if strings.Contains(out, leak) {
				t.Errorf("%s leaks the body: %s", how, out)
			}
		}
	}
	for _, h := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%U", "% x"} {
			sealed(fmt.Sprintf("%s of %T", verb, h), fmt.Sprintf(verb, h))
		}
		doc, err := json.Marshal(h)
		require.NoError(t, err)
		sealed(fmt.Sprintf("json of %T", h), string(doc))
		var log bytes.Buffer
		logger := zerolog.New(&log)
		logger.Info().Any("h", h).Msg("")
		sealed(fmt.Sprintf("zerolog of %T", h), log.String())
		sealed(fmt.Sprintf("an error with %T", h), fmt.Errorf("x: %v", h).Error())
	}
	if got, want := fmt.Sprintf("%d %s", body, body), "[opaque 11 bytes] [opaque 11 bytes]"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if body.Reveal() != canary || body.Len() != len(canary) {
		t.Error("the body was changed")
	}
}

// A problem never quotes a body, or any other text of a client except a short
// word.
func TestProblemsDoNotQuoteBodies(t *testing.T) {
	text := "secret: " + canary
	doc := `{"status":"` + text + `","client_payloads":[{"schema_version":1,"payload_id":"p","body":"` + text +
		`","byte_size":1,"content_encoding":"` + text + `","content_digest":"` + text + `"}]}`
	_, err := ParseCallbackResponse([]byte(doc))
	require.Error(t, err)
	require.NotContains(t, err.Error(), canary)
}

func TestValidationErrorIsAnInvalidRequest(t *testing.T) {
	_, err := ParseCallbackResponse([]byte(`{}`))
	var classed interface{ FailureClass() FailureClass }
	require.True(t, errors.As(fmt.Errorf("read answer: %w", err), &classed))
	if got := classed.FailureClass(); got != InvalidRequest {
		t.Errorf("failure class %s", got)
	}
}

func TestRenderPayloads(t *testing.T) {
	body := func(s string) *Opaque { o := NewOpaque(s); return &o }
	ref := "blob:1"
	for _, c := range []struct {
		name string
		in   []PayloadEnvelope
		want string
	}{
		{"nothing", nil, `{"payloads":[]}`},
		{"input order, bodies and references",
			[]PayloadEnvelope{{PayloadID: "b", PayloadKind: "k", Body: body("two")}, {PayloadID: "a", PayloadKind: "k", BodyRef: &ref}},
			`{"payloads":[{"payload_id":"b","payload_kind":"k","body":"two"},{"payload_id":"a","payload_kind":"k","body_ref":"blob:1"}]}`},
		{"JSON in a body stays a string",
			[]PayloadEnvelope{{PayloadID: "a", PayloadKind: "k", Body: body(`{"payloads":[1]}`)}, {PayloadID: "b", PayloadKind: "k", Body: body(`{"payloads":[2]}`)}},
			`{"payloads":[{"payload_id":"a","payload_kind":"k","body":"{\"payloads\":[1]}"},{"payload_id":"b","payload_kind":"k","body":"{\"payloads\":[2]}"}]}`},
		{"no escapes for HTML",
			[]PayloadEnvelope{{PayloadID: "a", PayloadKind: "k", Body: body(`<a href="x">&</a>`)}},
			`{"payloads":[{"payload_id":"a","payload_kind":"k","body":"<a href=\"x\">&</a>"}]}`},
		{"an empty body is a body",
			[]PayloadEnvelope{{PayloadID: "a", PayloadKind: "k", Body: body("")}},
			`{"payloads":[{"payload_id":"a","payload_kind":"k","body":""}]}`},
		{"base64 is carried as it came",
			[]PayloadEnvelope{{PayloadID: "a", PayloadKind: "k", ContentEncoding: "base64", Body: body("AP8=")}},
			`{"payloads":[{"payload_id":"a","payload_kind":"k","body":"AP8="}]}`},
		{"what has no content is left out",
			[]PayloadEnvelope{{PayloadID: "a", PayloadKind: "k"}},
			`{"payloads":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := RenderPayloads(c.in).Reveal(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEncodeRefusesWhatJSONCannotCarry(t *testing.T) {
	body := NewOpaque("\xff" + canary)
	p := PayloadEnvelope{PayloadID: "p", Body: &body}
	for _, encode := range []func() ([]byte, error){
		p.Encode,
		DispatchEnvelope{Payloads: []PayloadEnvelope{p}}.Encode,
		CallbackResponse{ClientPayloads: []PayloadEnvelope{p}}.Encode,
	} {
		_, err := encode()
		require.ErrorContains(t, err, `payload "p": its body is not UTF-8`)
		require.NotContains(t, err.Error(), canary)
	}
}

// "On the wire the key is omitted when the list is empty", but a request
// always has its payload_refs.
func TestDispatchWithoutPayloads(t *testing.T) {
	doc, err := DispatchEnvelope{SchemaVersion: Version, Payloads: []PayloadEnvelope{}}.Encode()
	require.NoError(t, err)
	require.NotContains(t, string(doc), `"payloads"`)
	require.Contains(t, string(doc), `"payload_refs":[]`)
	require.NotContains(t, string(doc), "\n")
}

func drawID(t *rapid.T, name string) string {
	return rapid.StringMatching(`[a-z]{1,4}_[A-Za-z0-9:é<>&.-]{0,20}`).Draw(t, name)
}

func maybe[T any](t *rapid.T, name string, v T) *T {
	if !rapid.Bool().Draw(t, name+" given") {
		return nil
	}
	return &v
}

func drawPayload(t *rapid.T) PayloadEnvelope {
	p := PayloadEnvelope{
		SchemaVersion: 1, PayloadID: drawID(t, "payload_id"), ClientID: drawID(t, "client_id"),
		PayloadKind: "kind", Format: "f", ContentEncoding: "utf8", Redaction: "none",
		IdempotencyKey:  maybe(t, "key", drawID(t, "key")),
		ExpiresAtEpochS: maybe(t, "expires", rapid.Int64().Draw(t, "expires")),
		Metadata:        map[string]any{"trace": drawID(t, "trace"), "n": json.Number("12345678901234567890")},
	}
	for _, placement := range rapid.Permutation(PayloadPlacements()).Draw(t, "placements")[:rapid.IntRange(1, 4).Draw(t, "count")] {
		p.AcceptablePlacements = append(p.AcceptablePlacements, AcceptablePlacement{placement, rapid.SampledFrom(requirements()).Draw(t, "requirement")})
	}
	raw := []byte(rapid.String().Draw(t, "body"))
	text := string(raw)
	if rapid.Bool().Draw(t, "binary") {
		raw = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		p.ContentEncoding, text = "base64", base64.StdEncoding.EncodeToString(raw)
	}
	p.ByteSize = int64(len(raw))
	sum := sha256.Sum256(raw)
	p.ContentDigest = maybe(t, "digest", "sha256:"+hex.EncodeToString(sum[:]))
	if rapid.Bool().Draw(t, "by reference") {
		ref := drawID(t, "ref")
		p.BodyRef = &ref
	} else {
		body := NewOpaque(text)
		p.Body = &body
	}
	return p
}

func TestPayloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPayload(t)
		require.NoError(t, Validate(p))
		doc, err := p.Encode()
		require.NoError(t, err)
		back, err := Parse[PayloadEnvelope](doc)
		require.NoError(t, err)
		require.Equal(t, p, back)
	})
}

func TestDispatchEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := DispatchEnvelope{SchemaVersion: Version, Request: CallbackRequest{
			SchemaVersion:   rapid.SampledFrom([]string{Version, versionV01}).Draw(t, "version"),
			Event:           rapid.SampledFrom(Events()).Draw(t, "event"),
			EventID:         drawID(t, "event_id"),
			AdapterID:       drawID(t, "adapter_id"),
			AdapterVersion:  "1",
			IntegrationMode: rapid.SampledFrom(all[IntegrationMode]()).Draw(t, "mode"),
			InvocationID:    drawID(t, "invocation_id"),
			Sequence:        maybe(t, "sequence", rapid.Int64Min(0).Draw(t, "sequence")),
			IdempotencyKey:  maybe(t, "key", drawID(t, "key")),
			FrameContext:    &FrameContext{FrameID: drawID(t, "frame_id"), FrameClass: TopLevel},
			PayloadRefs:     []PayloadRef{},
		}}
		for range rapid.IntRange(0, 3).Draw(t, "payloads") {
			p := drawPayload(t)
			d.Payloads = append(d.Payloads, p)
			d.Request.PayloadRefs = append(d.Request.PayloadRefs, PayloadRef{PayloadID: p.PayloadID, PayloadKind: p.PayloadKind, ContentDigest: p.ContentDigest, ByteSize: &p.ByteSize})
		}
		require.NoError(t, Validate(d))
		doc, err := d.Encode()
		require.NoError(t, err)
		back, err := Parse[DispatchEnvelope](doc)
		require.NoError(t, err)
		require.Equal(t, d, back)

		// A reader that uses encoding/json gets the same bodies.
		var seen struct {
			Payloads []struct{ Body, BodyRef *string }
		}
		require.NoError(t, json.Unmarshal(doc, &seen))
		for i, p := range d.Payloads {
			if p.Body != nil && *seen.Payloads[i].Body != p.Body.Reveal() {
				t.Fatalf("body %q became %q", p.Body.Reveal(), *seen.Payloads[i].Body)
			}
		}
	})
}

func TestRenderedBodiesAreVerbatim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := rapid.SliceOfN(rapid.Custom(drawPayload), 0, 4).Draw(t, "payloads")
		doc := RenderPayloads(ps)
		if again := RenderPayloads(ps); doc.Reveal() != again.Reveal() {
			t.Fatal("the same payloads gave different bytes")
		}
		var seen map[string][]map[string]string
		require.NoError(t, json.Unmarshal([]byte(doc.Reveal()), &seen))
		require.Len(t, seen, 1)
		require.Len(t, seen["payloads"], len(ps))
		for i, p := range ps {
			want := map[string]string{"payload_id": p.PayloadID, "payload_kind": p.PayloadKind}
			if p.Body != nil {
				want["body"] = p.Body.Reveal()
			} else {
				want["body_ref"] = *p.BodyRef
			}
			require.Equal(t, want, seen["payloads"][i])
		}
	})
}

func FuzzParseCallbackResponse(f *testing.F) {
	f.Add(example(f, "callback_response"))
	f.Add([]byte(`{"status":"failed","failure_class":"timeout","retry_class":"safe_retry"}`))
	f.Add([]byte(`{"status":"observed","x":[{"\ud83d\ude00":1e400}]}`))
	f.Add([]byte(`{"status":"observed","client_payloads":[{"metadata":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseCallbackResponse(data)
		if err != nil {
			if len(problemsOf(t, err)) == 0 {
				t.Fatal("refused without any problem")
			}
			return
		}
		if err := r.Validate(r.SchemaVersion); err != nil {
			t.Fatalf("parsed but not valid: %v", err)
		}
		once, err := r.Encode()
		if err != nil {
			t.Fatalf("parsed but not written: %v", err)
		}
		back, err := ParseCallbackResponse(once)
		if err != nil {
			t.Fatalf("written but not parsed: %v\n%s", err, once)
		}
		if twice, _ := back.Encode(); string(once) != string(twice) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}
