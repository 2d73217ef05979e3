package document_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
)

type part struct {
	Count int `yaml:"count"`
}

type whole struct {
	part
	Name string            `yaml:"name"`
	Wait time.Duration     `yaml:"wait_ms,ms"`
	Rest *time.Duration    `yaml:"rest"`
	List []part            `yaml:"list"`
	Tags map[string]string `yaml:"tags"`
	Any  document.Value    `yaml:"any"`
}

// TestDecode decodes each text twice: as it is, and after conversion to JSON.
func TestDecode(t *testing.T) {
	rest, longest := 5*time.Second, 87600*time.Hour
	for _, c := range []struct {
		text string
		want whole
		any  string
	}{
		{text: "name: a\nwait_ms: 20\nrest: 5s\n", want: whole{Name: "a", Wait: 20 * time.Millisecond, Rest: &rest}},
		{text: "count: 3\nlist: [{count: 1}, {}]\ntags: {75: x, y: z}", want: whole{part: part{3}, List: []part{{1}, {}}, Tags: map[string]string{"75": "x", "y": "z"}}},
		{text: "count: 2147483647\nwait_ms: 315360000000\nrest: 87600h", want: whole{part: part{math.MaxInt32}, Wait: 87600 * time.Hour, Rest: &longest}},
		{text: "any:\n  a: [1, 2.50, \"x<y\", true, null, {}]\n  b: |\n    text\n", any: `{"a":[1,2.50,"x<y",true,null,{}],"b":"text\n"}`},
		{text: "{\"name\":\"\\ud83d\\ude00\",\n\t\"any\":[]}", want: whole{Name: "😀"}, any: "[]"},
	} {
		doc, err := yaml.Parse([]byte(c.text))
		require.NoError(t, err, c.text)
		again, err := document.ParseJSON(doc.JSON())
		require.NoError(t, err, "%s", doc.JSON())
		for _, doc := range []document.Value{doc, again} {
			var got whole
			require.NoError(t, document.Decode(doc, &got, "", nil), c.text)
			if c.any != "" {
				require.Equal(t, c.any, string(got.Any.JSON()))
			}
			got.Any = document.Value{}
			require.Equal(t, c.want, got, c.text)
		}
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"name: a\nlist:\n  - count: x\n", `f:3:12: list[0].count: expected a whole number, 0 or more, found "x"`},
		{"list: [{cuont: 1}]", `f:1:9: unknown key "cuont" in list[0]; did you mean "count"?`},
		{"{\"name\": \"a\",\n \"name\": 1}", `f:2:2: name: given twice`},
		{"{\"any\":\n [1,\n  }", `f:3:3: could not find '{' character corresponding to '}'`},
		{"count: 3000000000", `f:1:8: count: 3000000000 is more than the limit, 2147483647`},
		{"count: 9999999999999999999", `f:1:8: count: 9999999999999999999 is more than the limit, 2147483647`},
		{"wait_ms: 315360000001", `f:1:10: wait_ms: 315360000001ms is more than the limit, 87600h (10 years)`},
		{"wait_ms: 9999999999999999999", `f:1:10: wait_ms: 9999999999999999999ms is more than the limit, 87600h (10 years)`},
		{"wait_ms: 1.5", `f:1:10: wait_ms: expected a whole number of milliseconds without a unit, such as 5000, found 1.5`},
		{"wait_ms: -1", `f:1:10: wait_ms: expected a whole number of milliseconds without a unit, such as 5000, found -1`},
		{"rest: 2562047h", `f:1:7: rest: 2562047h is more than the limit, 87600h (10 years)`},
		{"rest: 2562048h", `f:1:7: rest: 2562048h is more than the limit, 87600h (10 years)`},
		{`rest: "5"`, `f:1:7: rest: expected a duration such as 5s, found "5"`},
		{`rest: "+5"`, `f:1:7: rest: expected a duration such as 5s, found "+5"`},
		{"count: -1", `f:1:8: count: expected a whole number, 0 or more, found -1`},
		{"name: " + strings.Repeat("[", 101), `f: brackets nest deeper than 100`},
		{`{"any":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}", "f:1:107: any" + strings.Repeat("[0]", 99) + ": brackets nest deeper than 100"},
		{"any: *a", `f:1:6: any: anchors, aliases and tags are not supported; write the value itself`},
		{"name: 7", `f:1:7: name: expected a string, found 7; put it in quotes`},
	} {
		doc, err := yaml.Parse([]byte(c.text))
		if err == nil {
			err = document.Decode(doc, &whole{}, "", nil)
		}
		var fault *document.Error
		require.ErrorAs(t, err, &fault, c.text)
		require.Equal(t, c.want, fault.In("f"), c.text)
	}
}

func TestNear(t *testing.T) {
	doc, err := yaml.Parse([]byte("a:\n  b:\n    - c: 1\n"))
	require.NoError(t, err)
	for path, line := range map[string]int{"a.b[0].c": 3, "a.b[0].d": 3, "a.b[7]": 3, "a.b": 3, "a.x": 2, "z": 1} {
		require.Equal(t, line, doc.Near(path).Line, path)
	}
}
