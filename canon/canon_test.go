package canon

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTransform(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"the RFC's sample",
			`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"the RFC's member order, by UTF-16 units",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"already canonical", `{"a":1,"b":["x",{"c":null}]}`, `{"a":1,"b":["x",{"c":null}]}`},
		{"members in the order of a Go struct", `{"kind":"x","at":"t","body":{"z":1,"y":2,"a":3}}`, `{"at":"t","body":{"a":3,"y":2,"z":1},"kind":"x"}`},
		{"a name that begins another", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"white space everywhere", " { \"b\" : [ 1 , 2 ] ,\n\t\"a\" : { } , \"c\" : [ ] } \n", `{"a":{},"b":[1,2],"c":[]}`},
		{"short decimals", `[0.83,-0.5,12.25,0.000001]`, `[0.83,-0.5,12.25,0.000001]`},
		{"decimals that change", `[0.830,1.0,-0,-0.0,0.0000001,1e2,123456789012345678]`, `[0.83,1,0,0,1e-7,100,123456789012345680]`},
		{"text outside ASCII", `{"a":"é€😀"}`, `{"a":"é€😀"}`},
		{"short escapes stay", `["\"\\\b\f\n\r\t"]`, `["\"\\\b\f\n\r\t"]`},
		{"a lone number", ` 42 `, `42`},
		{"a lone string", `"x"`, `"x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Transform([]byte(c.in))
			require.NoError(t, err)
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			again, err := Transform(got)
			require.NoError(t, err)
			if !bytes.Equal(again, got) {
				t.Errorf("not idempotent: %s", again)
			}
			if !Is(got) {
				t.Error("Is does not accept the canonical form")
			}
			if Is([]byte(c.in)) != (c.in == c.want) {
				t.Error("Is is wrong about the input")
			}
		})
	}
}

func TestTransformRefuses(t *testing.T) {
	for _, c := range []struct{ name, in string }{
		{"nothing", ``},
		{"white space", ` `},
		{"a repeated name", `{"a":1,"a":2}`},
		{"a repeated name apart", `{"b":1,"a":2,"b":3}`},
		{"a repeated name spelled otherwise", `{"a":1,"\u0061":2}`},
		{"two values", `{} {}`},
		{"a trailing comma", `[1,]`},
		{"a trailing comma in an object", `{"a":1,}`},
		{"an incomplete object", `{"a":1`},
		{"an incomplete string", `"abc`},
		{"a lone surrogate", `"\ud800"`},
		{"invalid UTF-8", "\"\xff\""},
		{"a raw control character", "\"a\nb\""},
		{"a leading zero", `[01]`},
		{"a bare minus", `-`},
		{"a number outside the range of a double", `1e999`},
		{"a word", `nul`},
		{"a word and more", `nullx`},
		{"a NUL after the value", "{}\x00"},
		{"a lone low surrogate", `"\udc00"`},
		{"a high surrogate and a letter", `"\ud83d\u0041"`},
		{"a high surrogate at the end", `"\ud83d`},
		{"a surrogate as UTF-8", "\"\xed\xa0\x80\""},
		{"an unknown escape", `"\a"`},
		{"an escape that is not a number", `"\u00g0"`},
		{"a sign in an escape", `"\u+123"`},
		{"a name that is not a string", `{1:2}`},
		{"a missing colon", `{"a" 1}`},
		{"a missing comma", `[1 2]`},
		{"a bare exponent", `1e`},
		{"a bare point", `1.`},
		{"a plus", `+1`},
		{"too deep", strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)},
		{"not a number", `NaN`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := []byte("before")
			got, err := Append(dst, []byte(c.in))
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			if string(got) != "before" {
				t.Errorf("dst changed to %q", got)
			}
			if Is([]byte(c.in)) {
				t.Error("Is accepts it")
			}
		})
	}
}

// TestNumbers checks the samples of RFC 8785, appendix B, and the numbers at which
// the notation changes.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		f := math.Float64frombits(c.bits)
		if got := string(appendNumber(nil, f)); got != c.want {
			t.Errorf("%016x is written %s, want %s", c.bits, got, c.want)
		}
		// Other notations of the number give the same result.
		for _, format := range []byte{'e', 'E', 'f'} {
			in := strconv.FormatFloat(f, format, -1, 64)
			got, err := Transform([]byte(in))
			if err != nil || string(got) != c.want {
				t.Errorf("%s became %s, %v; want %s", in, got, err, c.want)
			}
		}
	}
}

// TestNumbersAgreeWithReference checks that appendNumber writes each double as the
// reference does.
func TestNumbersAgreeWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		want, err := jcs.NumberToJSON(f)
		if err != nil {
			return // infinities and NaN cannot be written in JSON
		}
		if got := string(appendNumber(nil, f)); got != want {
			t.Fatalf("%x is written %s, want %s", math.Float64bits(f), got, want)
		}
	})
}

func TestMarshal(t *testing.T) {
	type fact struct {
		Zeta  string            `json:"zeta"`
		Alpha int               `json:"alpha"`
		Map   map[string]string `json:"map"`
		None  *int              `json:"none"`
	}
	got, err := Marshal(fact{Zeta: "a<b>&\u2028", Alpha: 7, Map: map[string]string{"b": "2", "a": "1"}})
	require.NoError(t, err)
	want := "{\"alpha\":7,\"map\":{\"a\":\"1\",\"b\":\"2\"},\"none\":null,\"zeta\":\"a<b>&\u2028\"}"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := Marshal(make(chan int)); err == nil {
		t.Error("a channel was marshalled")
	}
	if _, err := Marshal(json.RawMessage(`{"a":1,"a":2}`)); err == nil {
		t.Error("a repeated name was marshalled")
	}
}

func TestDigest(t *testing.T) {
	const empty Digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := Sum(nil); got != empty {
		t.Errorf("Sum(nil) = %s", got)
	}
	for _, c := range []struct {
		d    Digest
		want bool
	}{
		{empty, true},
		{"sha256:" + Digest(strings.Repeat("0", 64)), true},
		{"", false},
		{"sha256:", false},
		{empty[:len(empty)-1], false},
		{empty + "0", false},
		{"SHA256:" + empty[7:], false},
		{"sha256:" + Digest(strings.Repeat("A", 64)), false},
		{"sha256:" + Digest(strings.Repeat("g", 64)), false},
		{empty[7:], false},
	} {
		if got := c.d.Valid(); got != c.want {
			t.Errorf("%q.Valid() = %v", c.d, got)
		}
	}
}

// checkAgainstReference checks the law of this package: for every text, the general
// transformer gives the same result as the reference, and so does the fast path if
// the text is plain.
func checkAgainstReference(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte) {
	t.Helper()
	want, refused := jcs.Transform(in)
	got, err := appendGeneral(nil, in)
	if (err == nil) != (refused == nil) {
		t.Fatalf("%q: %v; the reference: %v", in, err, refused)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%q: became %q, the reference has %q", in, got, want)
	}
	if is := refused == nil && bytes.Equal(in, want); Is(in) != is {
		t.Fatalf("%q: is canonical: %v, want %v", in, Is(in), is)
	}

	fast, ok := appendPlain(nil, in)
	switch {
	case !ok && isPlainCanonical(in):
		t.Fatalf("%q: canonical, but appendPlain rejects it", in)
	case !ok:
	case refused != nil:
		t.Fatalf("%q: the fast path gave %q, the reference refuses: %v", in, fast, refused)
	case !bytes.Equal(fast, want):
		t.Fatalf("%q: the fast path gave %q, the reference %q", in, fast, want)
	case isPlainCanonical(in) != bytes.Equal(fast, in):
		t.Fatalf("%q: canonical %v, want %v", in, isPlainCanonical(in), bytes.Equal(fast, in))
	}
}

func FuzzTransform(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":[true,null,-0.5,"x\n"]}`, `{"a":{"z":1,"y":{"d":1,"c":2}}}`, `[0.0000001,1e2,-0]`,
		`{"é":1,"a":2}`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, ` [ ] `, strings.Repeat("[", 70) + strings.Repeat("]", 70),
		"{\"\ufb33\":1,\"😀\":2}", `"\ud83d\u0041"`, `"\udc00"`, `"\u00e9\u000b\/"`, "[1]\x00", "\"\xed\xa0\x80\"", `[1e21,1e-7,-1E+400,1e-400,5e-324]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		checkAgainstReference(t, in)
		out, err := Transform(in)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q became %q, which is not JSON", in, out)
		}
		again, err := Transform(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q and then %q, %v", in, out, again, err)
		}
	})
}

// genJSON draws texts in the form of JSON. Some of their strings and numbers are
// plain, some are not plain, and some are invalid.
func genJSON() *rapid.Generator[string] {
	text := rapid.OneOf(
		rapid.StringMatching(`"[a-c]{0,3}"`),
		rapid.SampledFrom([]string{`"é"`, `"\n"`, `"\u0061"`, `"\/"`, `"\u2028"`, `"\\\""`, `"😀"`, "\"\ufb33\"", `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `"\u000B"`}),
	)
	number := rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,9})?`),
		rapid.SampledFrom([]string{`1e3`, `1E-9`, `01`, `-`, `1.`, `.5`, `0.000001`, `0.0000009`}),
	)
	ws := rapid.SampledFrom([]string{"", "", "", " ", "\n"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		scalar := rapid.OneOf(text, number, rapid.SampledFrom([]string{"true", "false", "null"}))
		if depth == 0 {
			return scalar
		}
		array := rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "items"), ws.Draw(t, "ws")+",") + "]"
		})
		object := rapid.Custom(func(t *rapid.T) string {
			var members []string
			for range rapid.IntRange(0, 20).Draw(t, "members") {
				members = append(members, text.Draw(t, "name")+ws.Draw(t, "ws")+":"+value(depth-1).Draw(t, "value"))
			}
			return "{" + strings.Join(members, ",") + "}"
		})
		return rapid.OneOf(scalar, array, object)
	}
	return value(3)
}

func TestAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkAgainstReference(t, []byte(genJSON().Draw(t, "json")))
	})
}

const receiptLike = `{"schema_version":"lifeloop.v0.2","receipt_id":"rcp_0000000000000001","idempotency_key":"notes:evt_000000000001","client_id":"notes","adapter_id":"generic","invocation_id":"inv_0000000000001","event":"frame.opening","event_id":"evt_000000000001","sequence":17,"parent_receipt_id":null,"integration_mode":"launcher_wrapper","status":"delivered","at_epoch_s":1763716440,"harness_session_id":"2f4c5f0e-9f64-4a55-8c7e-0d2f6f3f2a11","payload_receipts":[{"payload_id":"pay_1","payload_kind":"instruction_frame","placement":"pre_frame_trailing","status":"delivered","byte_size":812,"content_digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],"capability_degradations":[],"failure_class":null,"retry_class":null}`

func BenchmarkAppend(b *testing.B) {
	sorted, err := Transform([]byte(receiptLike))
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		in   []byte
	}{{"struct order", []byte(receiptLike)}, {"canonical", sorted}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, err = Append(dst[:0], c.in)
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("general", func(b *testing.B) {
		b.SetBytes(int64(len(receiptLike)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := appendGeneral(nil, []byte(receiptLike)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reference", func(b *testing.B) {
		b.SetBytes(int64(len(receiptLike)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jcs.Transform([]byte(receiptLike)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
