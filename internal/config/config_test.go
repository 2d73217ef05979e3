package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/attempt/policy"
	"lifeloop/internal/document"
	"lifeloop/internal/environ"
	"lifeloop/internal/trust"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal/profile"
)

// world is a small file system and environment.
type world struct {
	files map[string]string
	env   map[string]string
	flags map[string][]string
	file  string
}

func (w world) options() Options {
	return Options{
		Getenv:  func(name string) string { return w.env[name] },
		WorkDir: "/home/dev/project/deep",
		File:    w.file,
		Flags:   w.flags,
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := w.files[path]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Project: w.project,
	}
}

// untrusted begins the text of each project file that is not trusted.
const untrusted = "# untrusted"

// project returns the nearest project file.
func (w world) project(string) trust.File {
	for dir := "/home/dev/project/deep"; dir != "/"; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ProjectFile)
		switch text, ok := w.files[path]; {
		case ok && strings.HasPrefix(text, untrusted):
			return trust.File{Path: path, Refused: &trust.Refusal{Path: path, Why: "it is not trusted", Unknown: true}}
		case ok:
			return trust.File{Path: path, Data: []byte(text)}
		}
	}
	return trust.File{}
}

// TestScenarios runs testdata/scenarios. Commands:
//
//	file PATH    the input is the file's text (for the rest of the scenario file)
//	load         loads; input lines are `env NAME=VALUE`, `flag NAME VALUE` and
//	             `config PATH`; prints the values that are not defaults, or the
//	             error. `show` prints all values, `json` prints JSON; `unseen` says
//	             that the loader fails although the JSON Schema accepts the files.
//
// checkSchema runs after each load, and checkShown after each load without an error.
func TestScenarios(t *testing.T) {
	sch := compileSchema(t)
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		files := map[string]string{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				files[d.CmdArgs[0].Key] = d.Input
				return ""
			case "load":
				w := readWorld(t, d, files)
				cfg, origins, err := Load(w.options())
				checkSchema(t, d, sch, w, err)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				checkShown(t, sch, w, cfg, origins)
				return printed(t, d, cfg, origins)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func readWorld(t *testing.T, d *datadriven.TestData, files map[string]string) world {
	t.Helper()
	w := world{files: files, env: map[string]string{"HOME": "/home/dev"}, flags: map[string][]string{}}
	for line := range strings.Lines(d.Input) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch kind {
		case "env":
			name, value, _ := strings.Cut(rest, "=")
			w.env[name] = value
		case "flag":
			name, value, _ := strings.Cut(rest, " ")
			w.flags[name] = append(w.flags[name], value)
		case "config":
			w.file = rest
		default:
			d.Fatalf(t, "unknown line %q", line)
		}
	}
	return w
}

func printed(t *testing.T, d *datadriven.TestData, cfg Config, origins Origins) string {
	t.Helper()
	if d.HasArg("json") {
		data, err := ShowJSON(cfg, origins)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, data, "", " "))
		return out.String() + "\n"
	}
	if d.HasArg("show") {
		return Show(cfg, origins)
	}
	var out strings.Builder
	for line := range strings.Lines(Show(cfg, origins)) {
		if !strings.HasSuffix(line, "# default\n") && !strings.HasSuffix(line, ":\n") {
			out.WriteString(line)
		}
	}
	if out.Len() == 0 {
		return "all default\n"
	}
	return out.String()
}

// checkSchema compares the loader's result with the schema's.
func checkSchema(t *testing.T, d *datadriven.TestData, sch *jsonschema.Schema, w world, err error) {
	t.Helper()
	var complaint error
	for path, text := range w.files {
		if strings.HasPrefix(text, untrusted) {
			continue
		}
		if e := validate(sch, text); e != nil {
			complaint = fmt.Errorf("%s: %w", path, e)
		}
	}
	switch {
	case err == nil && complaint != nil:
		t.Errorf("%s: the loader accepts a file that the schema refuses: %v", d.Pos, complaint)
	case err != nil && complaint == nil && !d.HasArg("unseen"):
		t.Errorf("%s: the schema accepts a file that the loader refuses: %v", d.Pos, err)
	case complaint != nil && d.HasArg("unseen"):
		t.Errorf("%s: marked unseen, but the schema refuses it too: %v", d.Pos, complaint)
	}
}

// checkShown checks that Load reads the output of Show as the same
// configuration, and that the schema accepts it.
func checkShown(t *testing.T, sch *jsonschema.Schema, w world, cfg Config, origins Origins) {
	t.Helper()
	shown := Show(cfg, origins)
	if err := validate(sch, shown); err != nil {
		t.Errorf("the schema refuses the output of Show: %v\n%s", err, shown)
	}
	again := world{files: map[string]string{"/shown.yaml": shown}, env: map[string]string{}, file: "/shown.yaml"}
	for name, value := range w.env {
		if !strings.HasPrefix(name, "LIFELOOP_") {
			again.env[name] = value
		}
	}
	back, _, err := Load(again.options())
	require.NoError(t, err, "%s", shown)
	cfg.Ignored = nil // with --config no project file is read
	if a, b := fmt.Sprintf("%+v", cfg), fmt.Sprintf("%+v", back); a != b {
		t.Errorf("the output of Show loads as another configuration:\n%s\n%s", a, b)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("config.schema.json", doc))
	sch, err := c.Compile("config.schema.json")
	require.NoError(t, err)
	return sch
}

func validate(sch *jsonschema.Schema, text string) error {
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	if doc == nil {
		return nil
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return sch.Validate(instance)
}

// TestSchemaKeys compares the Go types with the schema: the same keys at every
// depth, and the same closed sets of words.
func TestSchemaKeys(t *testing.T) {
	var doc map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &doc))
	defs := doc["$defs"].(map[string]any)
	follow := func(s map[string]any) map[string]any {
		if ref, ok := s["$ref"].(string); ok {
			return defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		return s
	}
	seen := 0
	var walk func(typ reflect.Type, s map[string]any, path string)
	walk = func(typ reflect.Type, s map[string]any, path string) {
		s = follow(s)
		switch {
		case typ == reflect.TypeFor[environ.Names](): // may be a list or a single word
		case typ.Kind() == reflect.Slice:
			walk(typ.Elem(), s["items"].(map[string]any), path+"[]")
		case typ.Kind() == reflect.Struct:
			require.Equal(t, false, s["additionalProperties"], path)
			props := s["properties"].(map[string]any)
			known := map[string]bool{}
			for _, f := range document.Fields(typ) {
				seen++
				known[f.Key] = true
				sub, ok := props[f.Key].(map[string]any)
				if !ok {
					t.Errorf("the schema lacks %s", document.Join(path, f.Key))
					continue
				}
				walk(typ.FieldByIndex(f.Index).Type, sub, document.Join(path, f.Key))
			}
			for key := range props {
				if !known[key] {
					t.Errorf("the loader lacks %s", document.Join(path, key))
				}
			}
		}
	}
	walk(reflect.TypeFor[Config](), doc, "")
	if seen < 50 {
		t.Errorf("walked only %d keys", seen)
	}

	var fresh map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &fresh))
	text := string(Schema())
	for _, words := range [][]string{logLevels, ledgerWords, containWords, levels, append(slices.Clone(supports), ""), negotiate.Names(lifeloop.Manifest{}), policy.Enum("on_limit"),
		policy.Enum("retry.backoff.kind"), policy.Enum("retry.backoff.jitter"), policy.Enum("retry.retry_on"), policy.Enum("guardrails.on"), policy.Enum("guardrails.severity"), policy.Enum("exit_codes"),
		profile.Enum("paths"), profile.Enum("prepare.token.from"), append(slices.Clone(pressureWords), "")} {
		if !hasEnum(fresh, words) {
			t.Errorf("no enum of the schema is %v", words)
		}
	}
	for _, e := range lifeloop.Events() {
		if !strings.Contains(text, fmt.Sprintf("%q", e)) {
			t.Errorf("the schema lacks the event %s", e)
		}
	}
}

func hasEnum(v any, words []string) bool {
	switch v := v.(type) {
	case map[string]any:
		if enum, ok := v["enum"].([]any); ok && fmt.Sprint(enum) == fmt.Sprint(words) {
			return true
		}
		for _, sub := range v {
			if hasEnum(sub, words) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(sub any) bool { return hasEnum(sub, words) })
	}
	return false
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		patterns string
		event    string
		want     bool
	}{
		{"*", "session.starting", true},
		{"*", "receipt.gap_detected", true},
		{"*", "receipt.emitted", false},
		{"*", "supervisor.tick", false},
		{"receipt.*", "receipt.emitted", false},
		{"receipt.*", "receipt.gap_detected", true},
		{"supervisor.*", "supervisor.tick", false},
		{"receipt.emitted", "receipt.emitted", true},
		{"* supervisor.tick", "supervisor.tick", true},
		{"session.*", "session.ended", true},
		{"session.*", "frame.ended", false},
		{"session", "session.ended", false},
		{"session*", "session.ended", false},
		{"frame.opening", "frame.opened", false},
		{"", "frame.opened", false},
	} {
		if got := Match(strings.Fields(tc.patterns), tc.event); got != tc.want {
			t.Errorf("Match(%q, %q) = %v, want %v", tc.patterns, tc.event, got, tc.want)
		}
	}
}

func TestParseClientFlag(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`notes=/bin/notes --project .`, `["/bin/notes" "--project" "."]`},
		{`n=a 'b c' "d e" f\ g`, `["a" "b c" "d e" "f g"]`},
		{`n=a "x\"y" 'x\y' "x\y" ""`, `["a" "x\"y" "x\\y" "x\\y" ""]`},
		{`n=sh -c 'echo $HOME; ls *'`, `["sh" "-c" "echo $HOME; ls *"]`},
		{`n=a=b c=d`, `["a=b" "c=d"]`},
		{"n=a \\\n b", `["a" "b"]`},
		{`n=a"b"'c'd`, `["abcd"]`},
		{`notes`, `error: expected ID=CMDLINE, found "notes"`},
		{`=x`, `error: a client needs an id`},
		{`n=`, `error: client n: the command line names no program`},
		{`n='' x`, `error: client n: the command line names no program`},
		{`n=a "b`, `error: client n: the command line ends inside " quotes`},
		{`n=a \`, `error: client n: the command line ends in a backslash`},
		{"a\tb=x", `error: the id "a\tb" has control characters or is not UTF-8`},
		{`lifeloop-wrap=x`, `error: the id lifeloop-wrap is the wrapper's own; choose another`},
	} {
		c, err := ParseClientFlag(tc.text)
		got := fmt.Sprintf("%q", c.Command)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tc.want {
			t.Errorf("ParseClientFlag(%q)\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
	c, err := ParseClientFlag("n=x")
	require.NoError(t, err)
	require.Equal(t, Client{ID: "n", Command: []string{"x"}, Mode: "oneshot", Events: []string{"*"}, Timeout: 5 * time.Second}, c)
}

// TestSplitUndoesQuoting puts random words in single quotes, and checks that split
// returns these words.
func TestSplitUndoesQuoting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.String(), 1, 6).Draw(t, "words")
		words[0] = "p" + words[0]
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		got, err := split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("split gave %q, %v for %q", got, err, words)
		}
	})
}

func TestReadError(t *testing.T) {
	opts := world{env: map[string]string{"HOME": "/home/dev"}}.options()
	opts.ReadFile = func(path string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	_, _, err := Load(opts)
	require.ErrorIs(t, err, fs.ErrPermission)
}

func TestFileLimits(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{strings.Repeat("- ", 101), "/c.yaml:1:1: lists and mappings nest deeper than 100"},
		{strings.Repeat("[", 101), "/c.yaml: brackets nest deeper than 100"},
	} {
		_, _, err := Load(world{files: map[string]string{"/c.yaml": tc.text}, file: "/c.yaml"}.options())
		require.EqualError(t, err, tc.want)
	}
}

func TestHasFlag(t *testing.T) {
	for _, name := range []string{"client", "require", "meta", "fallback", "backoff", "state-dir", "abort-grace", "max-duration"} {
		if !HasFlag(name) {
			t.Errorf("HasFlag(%q) = false", name)
		}
	}
	if HasFlag("pty") {
		t.Error("--pty sets no part of the configuration")
	}
	for flag, path := range scalarFlags() {
		found := false
		cfg := Default()
		require.NoError(t, scalars(reflect.ValueOf(&cfg).Elem(), "", func(at string, _ reflect.Value, _ bool) error {
			found = found || at == path
			return nil
		}))
		if !found {
			t.Errorf("--%s sets %s, which does not exist", flag, path)
		}
	}
}

// TestUnsetValues checks the settings for which 0 or an empty list differs from
// a missing value.
func TestUnsetValues(t *testing.T) {
	for _, tc := range []struct {
		text           string
		max            int
		on, codes      bool
		loop, shownMax string
	}{
		{text: "", max: policy.Unset, loop: "{5 10s 5m0s}"},
		{text: "attempts: {retry: {max_retries: 0, retry_on: []}, success_codes: [0]}", max: 0, on: true, codes: true, loop: "{5 10s 5m0s}", shownMax: "max_retries: 0  # /c.yaml:1"},
		{text: "attempts: {crash_loop: {launches: 0}}", max: policy.Unset, loop: "{0 10s 5m0s}"},
	} {
		cfg, origins, err := Load(world{files: map[string]string{"/c.yaml": tc.text}, env: map[string]string{"HOME": "/home/dev"}, file: "/c.yaml"}.options())
		require.NoError(t, err)
		a := cfg.Attempts
		require.Equal(t, tc.max, a.Retry.MaxRetries, tc.text)
		require.Equal(t, tc.on, a.Retry.RetryOn != nil, tc.text)
		require.Equal(t, tc.codes, a.SuccessCodes != nil, tc.text)
		require.Equal(t, tc.loop, fmt.Sprint(a.CrashLoop), tc.text)
		shown := Show(cfg, origins)
		require.Equal(t, tc.shownMax != "", strings.Contains(shown, "max_retries"), shown)
		require.Contains(t, shown, tc.shownMax)
	}
}

// FuzzLoad checks that Load never panics, and that the output of Show loads as
// the same configuration.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "#", "clients: []", "pressure: {high: .8}", "tick: 0\n", "a: [", "- x", "x: &a [*a]", "---\na: b\n---\n", "\t", "? x", "<<: {}",
		"clients:\n  - id: n\n    command: [x, \"${env:HOME}\"]\n    events: [session.*]\n    requires: [{capability: frame.opening, level: required}]\n    timeout: 1s\n",
		"attempts: {retry: {attempts: 2, retry_on: [model]}, timeouts_ms: {initial: 5}, exit_codes: {75: rate_limit}, meta: {k: v}}",
	} {
		f.Add(seed, "LIFELOOP_TICK=1s")
	}
	f.Fuzz(func(t *testing.T, text, env string) {
		name, value, _ := strings.Cut(env, "=")
		w := world{
			files: map[string]string{"/c.yaml": text},
			env:   map[string]string{name: value, "HOME": "/home/dev"},
			file:  "/c.yaml",
		}
		cfg, origins, err := Load(w.options())
		if err != nil {
			return
		}
		shown := Show(cfg, origins)
		w = world{files: map[string]string{"/c.yaml": shown}, env: w.env, file: "/c.yaml"}
		for name := range w.env {
			if strings.HasPrefix(name, "LIFELOOP_") {
				delete(w.env, name)
			}
		}
		back, _, err := Load(w.options())
		if err != nil {
			t.Fatalf("cannot load the output of Show: %v\n%s", err, shown)
		}
		if a, b := fmt.Sprintf("%+v", cfg), fmt.Sprintf("%+v", back); a != b {
			t.Fatalf("the output of Show loads as another configuration:\n%s\n%s", a, b)
		}
	})
}
