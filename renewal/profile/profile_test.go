package profile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
	"lifeloop/renewal"
)

// parse reads one profile as the configuration does.
func parse(t *testing.T, text string) (Profile, error) {
	t.Helper()
	root, err := yaml.Parse([]byte("list: [{" + text + "}]"))
	require.NoError(t, err)
	var file struct {
		List []Profile `yaml:"list"`
	}
	if err := document.Decode(root, &file, "", nil); err != nil {
		return Profile{}, err
	}
	return file.List[0], file.List[0].Check("list[0]")
}

func TestBuiltinProfilesAreCorrect(t *testing.T) {
	var names []string
	for _, p := range Builtin() {
		require.NoError(t, p.Check(p.Name))
		names = append(names, p.Name)
	}
	require.Len(t, names, 3)
	require.Equal(t, []string{"handoff", "self-handoff"}, names[1:])

	_, err := Find(nil, "handoff")
	require.EqualError(t, err, "profile handoff has no command yet: in the configuration, write profiles: [{name: handoff, prepare: {command: […]}}]")
	self, err := Find(nil, "self-handoff")
	require.NoError(t, err)
	require.True(t, self.Self())
	require.Equal(t, "self-handoff", self.Owner())
	_, err = Find(nil, "handof")
	require.ErrorContains(t, err, `unknown profile "handof"; did you mean "handoff"? (known: `)
	mine, err := Find([]Profile{{Name: "handoff", Prepare: Prepare{Command: []string{"x"}}}}, "handoff")
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, mine.Prepare.Command)
}

// The file testdata/contract.txt names a built-in profile. That profile runs exactly the
// commands in contract.txt.
func TestProfileOfTheContract(t *testing.T) {
	text, err := os.ReadFile("testdata/contract.txt")
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key != "#" {
			want[key] = value
		}
	}
	p, err := Find(nil, want["name"])
	require.NoError(t, err)
	require.Equal(t, want["client"], p.Owner())
	require.Equal(t, want["prepare"], strings.Join(Fill(p.Prepare.Command, map[string]string{Adapter: want["adapter"]}), " "))
	require.Equal(t, want["continue"], strings.Join(Fill(p.Continue.Command, map[string]string{TokenText: "TOKEN"}), " "))
	require.True(t, p.Asks.In([]byte(want["asks"])))
	require.Equal(t, InArguments, p.Continue.Given())
	for _, other := range Builtin() {
		require.Equal(t, other.Name == p.Name, other.Continue.Given() == InArguments, other.Name)
	}
}

func TestAsks(t *testing.T) {
	a := Asks{Member: "session_boundary.action", Value: "renew"}
	for answer, want := range map[string]bool{
		`{"session_boundary":{"action":"renew"}}`:                  true,
		`{"status":"delivered","session_boundary":{"action":"x"}}`: false,
		`{"session_boundary":"renew"}`:                             false,
		`{"session_boundary":{"action":["renew"]}}`:                false,
		`{"action":"renew"}`:                                       false,
		`{"session_boundary":{"action":"renew"}`:                   false,
		``:                                                         false,
		`{"client_payloads":[{"body":"{\"session_boundary\":{\"action\":\"renew\"}}"}]}`: false,
	} {
		require.Equal(t, want, a.In([]byte(answer)), answer)
	}
	require.False(t, Asks{}.In([]byte(`{"":"renew"}`)))
}

func TestTokenInOutput(t *testing.T) {
	object := Token{From: []Form{JSON, Line}, Member: "a.token", Expires: "until"}
	text := Token{From: []Form{Text}}
	for _, c := range []struct {
		name    string
		where   Token
		output  string
		text    string
		expires int64
		err     string
	}{
		{name: "an object", where: object, output: ` {"a":{"token":"T"},"until":1778100000}` + "\n", text: "T", expires: 1778100000},
		{name: "an object without an expiry", where: object, output: `{"a":{"token":"T"}}`, text: "T"},
		{name: "an expiry of null", where: object, output: `{"a":{"token":"T"},"until":null}`, text: "T"},
		{name: "one line", where: object, output: "T-1\r\n", text: "T-1"},
		{name: "two lines", where: object, output: "T\nU\n", err: "the output is not a JSON object or one line"},
		{name: "an object without the member", where: object, output: `{"token":"SECRET"}`, err: "the output has no text in the member a.token"},
		{name: "a member that is not text", where: object, output: `{"a":{"token":5}}`, err: "the output has no text in the member a.token"},
		{name: "half an object", where: object, output: `{"a":{"token":"SECRET"`, err: "the output begins like a JSON object but is not valid JSON"},
		{name: "an expiry that is not a time", where: object, output: `{"a":{"token":"SECRET"},"until":"soon"}`, err: "the member until of the output is not a time in seconds since 1970"},
		{name: "text", where: text, output: "# Note\n\nall of it\n", text: "# Note\n\nall of it"},
		{name: "text that looks like an object", where: text, output: "{\"a\":1}\n", text: `{"a":1}`},
		{name: "empty", where: text, output: "\n", err: "the output is empty"},
		{name: "bytes", where: text, output: "\xff", err: "the output is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, expires, err := c.where.Read([]byte(c.output))
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.text, got)
			require.Equal(t, c.expires, expires)
		})
	}
}

// For any output, Read returns a non-empty part of the output, or an error that does
// not quote the output.
func TestReadIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		where := Token{From: rapid.SliceOfNDistinct(rapid.SampledFrom(Forms()), 1, 3, rapid.ID[Form]).Draw(t, "from"), Member: "t", Expires: "e"}
		secret := rapid.StringMatching(`[A-Z0-9]{12}`).Draw(t, "secret")
		output := rapid.SampledFrom([]string{"%", "{\"t\":\"%\"}", "{\"t\":\"%\"", "%\n%", "[\"%\"]", "{\"t\":\"%\",\"e\":-1}", "\xff%"}).Draw(t, "shape")
		output = strings.ReplaceAll(output, "%", secret)
		got, _, err := where.Read([]byte(output))
		switch {
		case err != nil && strings.Contains(err.Error(), secret):
			t.Fatalf("quoted: %v", err)
		case err == nil && !strings.Contains(got, secret):
			t.Fatalf("read %q from %q", got, output)
		}
	})
}

func TestFill(t *testing.T) {
	got := Fill([]string{"p", "--id={adapter}", "{token}", "{other}", "{adapter}{adapter}"}, map[string]string{Adapter: "{token}", TokenText: "T"})
	require.Equal(t, []string{"p", "--id={token}", "T", "{other}", "{token}{token}"}, got)
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`name: a, prepare: {command: [x, "{adapter}"]}, continue: {command: [y, "{token_file}", "{print $1}"]}`, ""},
		{`name: a, note: {prompt: write}`, ""},
		{`client: a`, "list[0].name: a profile needs a name"},
		{`name: a b`, `list[0].name: a name may contain only letters, digits, dots, hyphens and underscores, and must begin with a letter or a digit; found "a b"`},
		{`name: a, client: "\u0007"`, "list[0].client: an id must not contain control characters"},
		{`name: a, note: {prompt: write}, prepare: {command: [x]}`, "list[0].note: a profile with a note must not have commands, because the harness itself writes the note"},
		{`name: a, paths: []`, "list[0].paths: name at least one way to reset the context: in_place, relaunch"},
		{`name: a, paths: [inplace]`, `list[0].paths[0]: "inplace" is not one of in_place, relaunch; did you mean "in_place"?`},
		{`name: a, paths: [relaunch, relaunch]`, "list[0].paths[1]: relaunch is given twice"},
		{`name: a, asks: {member: x}`, "list[0].asks: give both member and value"},
		{`name: a, prepare: {token: {from: []}}`, "list[0].prepare.token.from: name at least one form of the output: json, line, text"},
		{`name: a, prepare: {token: {from: [json]}}`, "list[0].prepare.token.member: name a member if, and only if, json is one of the forms"},
		{`name: a, prepare: {timeout: 0s}`, "list[0].prepare.timeout: the time limit must be above 0"},
		{`name: a, continue: {timeout: 0s}`, "list[0].continue.timeout: the time limit must be above 0"},
		{`name: a, timeouts: {reset: 0s}`, "list[0].timeouts: time limits must be above 0"},
		{`name: a, limits: {max: 0}`, "list[0].limits: max and session must be at least 1, and window above 0"},
		{`name: a, prepare: {command: [""]}`, "list[0].prepare.command[0]: name the program"},
		{`name: a, prepare: {command: [x, "{token}"]}`, "list[0].prepare.command[1]: {token} is not available here"},
		{`name: a, prepare: {command: ["{adapter}"]}`, "list[0].prepare.command[0]: {adapter} is not available here"},
		{`name: a, continue: {command: [x, "{tokn}"]}`, `list[0].continue.command[1]: unknown name {tokn}; did you mean "token"?`},
		{`name: a, continue: {command: [x, "{token}", "{token_file}"]}`, "list[0].continue.command: {token} and {token_file} cannot be used together"},
		{`name: a, continue: {command: [x, "\0"]}`, "list[0].continue.command[1]: a word of a command cannot contain a NUL byte"},
		{`name: a, env: {1A: x}`, "list[0].env.1A: the name of a variable may contain only letters, digits and underscores, and must not begin with a digit"},
		{`name: a, propmt: x`, `line 1: unknown key "propmt" in list[0]`},
		{`name: a, limits: {windw: 1m}`, `line 1: unknown key "windw" in list[0].limits; did you mean "window"?`},
	} {
		_, err := parse(t, c.text)
		if c.want == "" {
			require.NoError(t, err, c.text)
			continue
		}
		require.EqualError(t, err, c.want, c.text)
	}
}

// A profile that sets no limit has the limits that the rules have by default, so that a
// session with a profile and one with bare rules behave alike.
func TestDefaultLimits(t *testing.T) {
	p, err := parse(t, "name: a")
	require.NoError(t, err)
	l := renewal.Limits{}.Filled()
	require.Equal(t, Timeouts{Idle: l.Idle, Note: 5 * time.Minute, Reset: l.Observe}, p.Timeouts)
	require.Equal(t, Limits{Max: l.Max, Window: l.Window, Session: l.Session}, p.Limits)
	require.Equal(t, []time.Duration{l.Prepare, l.Continue}, []time.Duration{p.Prepare.Timeout, p.Continue.Timeout})
}

// The rules of a profile have its client, paths and limits. Manifests list only built-in
// profiles. For any other profile, Claims names the built-in profile that works like it.
func TestRules(t *testing.T) {
	p, err := parse(t, `name: a, client: notes, prepare: {command: [x], timeout: 1s}, continue: {timeout: 2s}, paths: [relaunch], cut: true,
		timeouts: {idle: 3s, note: 4s, reset: 5s}, limits: {max: 6, window: 7s, session: 8}`)
	require.NoError(t, err)
	want := renewal.Rules{Profile: "a", Claims: "handoff", Client: "notes", Paths: []renewal.Path{renewal.Relaunch}, Cut: true,
		Limits: renewal.Limits{Idle: 3 * time.Second, Prepare: time.Second, Continue: 2 * time.Second, Observe: 5 * time.Second, Session: 8, Max: 6, Window: 7 * time.Second}}
	require.Equal(t, want, p.Rules())

	for _, b := range Builtin() {
		require.Empty(t, b.Rules().Claims, b.Name)
	}
	for text, claims := range map[string]string{
		`name: handoff, prepare: {command: [x]}`:      "",
		`name: self-handoff, prepare: {command: [x]}`: "handoff", // not the built-in profile of this name, which has a note and no command
		`name: a, note: {prompt: write}`:              "self-handoff",
	} {
		p, err := parse(t, text)
		require.NoError(t, err)
		require.Equal(t, claims, p.Rules().Claims, text)
		require.Equal(t, p.Preparing(), p.Rules().Prepare, text)
	}
}
