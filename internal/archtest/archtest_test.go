package archtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheProjectKeepsItsShape(t *testing.T) {
	files := tree(t)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		t.Run(name, func(t *testing.T) {
			for _, line := range rules[name](files) {
				t.Error(line)
			}
		})
	}
}

// Every package in the lists is also in the layers, because a misspelt name
// would disable its rule.
func TestListsNamePackages(t *testing.T) {
	placed := slices.Concat(layers...)
	if len(slices.Compact(slices.Sorted(slices.Values(placed)))) != len(placed) {
		t.Errorf("a package is listed twice in the layers: %v", placed)
	}
	named := slices.Concat(pure, harnessesIn, clientWordsIn, []string{harnessHelp})
	for _, d := range dialects {
		named = append(named, d.in...)
	}
	for _, users := range libraries {
		named = append(named, users...)
	}
	for importer, imported := range forbidden {
		named = append(append(named, importer), imported...)
	}
	for _, p := range named {
		if !slices.Contains(placed, p) {
			t.Errorf("%s is in a list but has no layer", p)
		}
	}
}

// ARCHITECTURE.md shows the same layers, with the packages that do not exist yet
// in parentheses.
func TestArchitectureDrawsTheLayers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Imports go down only\n")
	_, section, _ = strings.Cut(section, "\n```\n")
	section, _, _ = strings.Cut(section, "\n```\n")

	built := map[string]bool{}
	for _, f := range tree(t) {
		built[f.pkg] = true
	}
	var want []string
	for i, layer := range layers {
		var here, later []string
		for _, p := range layer {
			if built[p] {
				here = append(here, p)
			} else {
				later = append(later, p)
			}
		}
		slices.Sort(here)
		slices.Sort(later)
		want = append(want, fmt.Sprintln(i, here, later))
	}
	var got []string
	for i, line := range strings.Split(section, "\n") {
		line = strings.TrimPrefix(line, fmt.Sprint(i, " "))
		names := func(s string) []string {
			return slices.Sorted(slices.Values(words(strings.NewReplacer("·", " ", ")", " ").Replace(s))))
		}
		here, later, _ := strings.Cut(line, "(")
		got = append(got, fmt.Sprintln(i, names(here), names(later)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("ARCHITECTURE.md (layer, packages, planned packages):\n%s\nlists_test.go:\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// Each case is a file with one fault, which the rule must find. An empty want
// means that the code is allowed.
func TestRulesFindPlantedFaults(t *testing.T) {
	for _, c := range plantedFaults {
		f := plant(t, c.path, "// Package p is planted.\npackage p\n"+c.source+"\n")
		expect(t, c.rule+": "+c.path+": "+c.source, rules[c.rule]([]file{f}), c.want)
	}
}

var plantedFaults = []struct{ rule, path, source, want string }{
	{"layers", "view/x.go", `import "lifeloop/kernel"`, ""},
	{"layers", "kernel/x.go", `import "lifeloop/view"`, "imports go down only"},
	{"layers", "session/x.go", `import "lifeloop/telemetry"`, "imports go down only"},
	{"layers", "kernel/x.go", `import "lifeloop/kernel"`, "imports go down only"},
	{"layers", "helpers/x.go", ``, "has no layer"},
	{"layers", "supervisor/x.go", `import "lifeloop/ledger"`, ""},
	{"layers", "supervisor/x.go", `import "lifeloop/synth"`, "kernel.Output"},
	{"layers", "supervisor/x.go", `import "lifeloop/session"`, "kernel.Output"},
	{"layers", "cmd/lifeloop-wrap/x.go", `import "lifeloop/internal/archtest"`, "is for tests"},
	{"layers", "bench/x.go", `import "lifeloop/ledger"`, ""},

	{"libraries", "supervisor/x.go", `import "github.com/rs/zerolog"`, ""},
	{"libraries", "watchers/x.go", `import "github.com/rs/zerolog"`, "only [supervisor"},
	{"libraries", "cmd/lifeloop-wrap/x.go", `import "github.com/stretchr/testify/require"`, "only [] may"},
	{"libraries", "harness/x.go", `import "golang.org/x/sys/unix"`, ""},
	{"libraries", "harness/x.go", `import "golang.org/x/sysinfo"`, "only [] may"},
	{"libraries", "evidence/x.go", `import "html"`, ""},
	{"libraries", "evidence/x.go", `import "html/template"`, "every start slower"},

	{"purity", "kernel/x.go", `import ("time"; "lifeloop/session"); var t time.Time`, ""},
	{"purity", "kernel/x.go", `import "os"`, "imports os"},
	{"purity", "view/x.go", `import "context"`, "imports context"},
	{"purity", "canon/x.go", `import "lifeloop/internal/durable"`, "which is not pure"},
	{"purity", "kernel/x.go", `import . "time"`, "dot import"},
	{"purity", "kernel/x.go", `import "time"; func f() { _ = time.Now() }`, "time.Now"},
	{"purity", "kernel/x.go", `import clock "time"; var now = clock.Now`, "time.Now"},
	{"purity", "profiles/x.go", `import "path/filepath"; func f() { filepath.Join("a"); filepath.Abs("a") }`, "filepath.Abs"},
	{"purity", "synth/x.go", `func f() { go f() }`, "goroutine"},
	{"purity", "synth/x.go", `type t struct { c chan int }`, "channel"},
	{"purity", "telemetry/x.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
	{"purity", "telemetry/x.go", `func f() { println() }`, "println"},
	{"purity", "supervisor/x.go", `import "os"; func f() { go f() }`, ""},

	{"dialects", "view/x.go", `const a, b = "state_changed", "ATTEMPT_START"`, ""},
	{"dialects", "kernel/x.go", `const a = "state_changed"`, "HCP"},
	{"dialects", "supervisor/x.go", `const a = "got ATTEMPT_START"`, "L0"},
	{"dialects", "kernel/x.go", "type t struct { A int `json:\"task_submit\"` }", "HCP"},
	{"dialects", "view/x.go", `const a = "gait.gate.trace"`, "Gait"},
	{"dialects", "kernel/x.go", `const a = "attempt_started"; const ATTEMPT_START = 1`, ""},

	{"harness names", "profiles/x.go", `const a = "codex"`, ""},
	{"harness names", "kernel/x.go", `func f(a string) bool { return a == "codex" }`, `"codex" may be written in`},
	{"harness names", "supervisor/x.go", `const a = "claude-hook"`, `"claude" may be written in`},
	{"harness names", "harness/x.go", `const a = "run claude here"`, `"claude" may be written in`},
	{"harness names", "kernel/x.go", `type t struct { isGemini bool }`, "named after a harness"},
	{"harness names", "cmd/lifeloop-wrap/x.go", `const help = "lifeloop-wrap run -- claude"`, ""},
	{"harness names", "cmd/lifeloop-wrap/x.go", `const a = "claude"`, `"claude" may be written in`},

	{"client words", "profiles/x.go", `const a = "continuity-renewal"`, ""},
	{"client words", "kernel/x.go", `const a = "continuity-renewal"`, "client's word"},
	{"client words", "kernel/x.go", "// The continuity of the session.\nvar a = 1", "client's word"},
	{"client words", "synth/x.go", `const a = "recursive inference"`, "client's word"},
	{"client words", "kernel/x.go", `type sessionContinuity int`, "client's word"},
	{"client words", "kernel/x.go", `const a = "continuation"`, ""},

	{"state", "kernel/x.go", `func init() {}`, "init function"},
	{"state", "kernel/x.go", `type t int; func (t) init() {}`, ""},
	{"state", "kernel/x.go", `var count int`, "no initial value"},
	{"state", "kernel/x.go", `var count = 0; func f() { count++ }`, "f writes to the package variable count"},
	{"state", "kernel/x.go", `var count = 0; func f() { count := 1; count++ }`, ""},
	{"state", "kernel/x.go", `var m = map[int]int{}; func f() { m[1] = 2 }`, "f writes to the package variable m"},
	{"state", "kernel/x.go", `var m = map[int]int{1: 2}; func f() { delete(m, 1) }`, "f writes to the package variable m"},
	{"state", "kernel/x.go", `var s = struct{ a int }{}; func f() { g(&s.a) }; func g(*int) {}`, "f writes to the package variable s"},
	{"state", "kernel/x.go", `var m = make(map[int]int)`, "made empty"},
	{"state", "harness/x.go", `import "sync"; var mu sync.Mutex`, "is shared state"},
	{"state", "harness/x.go", `import "sync"; var table = sync.OnceValue(func() map[int]int { return make(map[int]int) })`, ""},
	{"state", "harness/x.go", `var testOnlyPause func()`, ""},
	{"state", "harness/x.go", `var Table = map[int]int{1: 2}`, "export a function"},
	{"state", "harness/x.go", `import "errors"; var ErrGone = errors.New("gone")`, ""},
	{"state", "harness/x.go", `import "os"; func f() { os.Args = nil }`, "f writes to os.Args"},
	{"state", "manifests/x.go", "import \"embed\"\n//go:embed *.json\nvar files embed.FS", ""},

	{"tickers", "watchers/x.go", `import "time"; var t = time.NewTicker(1)`, "time.NewTicker"},
	{"tickers", "watchers/x.go", `import "time"; var t = time.NewTimer(1)`, ""},
}

func TestPackageComments(t *testing.T) {
	const good = "// Package p is good.\npackage p\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"one comment in one of two files", map[string]string{"a.go": good, "b.go": "package p\n"}, ""},
		{"none", map[string]string{"a.go": "package p\n", "b.go": "package p\n"}, "has no comment"},
		{"two", map[string]string{"a.go": good, "b.go": good}, "already"},
		{"that of another package", map[string]string{"a.go": "// Package q is good.\npackage p\n"}, "does not begin"},
		{"a build tag is not a comment", map[string]string{"a.go": "//go:build linux\n\npackage p\n"}, "has no comment"},
		{"a program may begin with any word", map[string]string{"a.go": "// Wraps things.\npackage main\n"}, ""},
	} {
		var files []file
		for _, name := range slices.Sorted(maps.Keys(c.files)) {
			files = append(files, plant(t, "kernel/"+name, c.files[name]))
		}
		expect(t, c.name, rules["comments"](files), c.want)
	}
}

// The rule finds a write to a variable of another package.
func TestStateOfAnotherPackage(t *testing.T) {
	files := []file{
		plant(t, "view/x.go", "package view\nvar ErrGone = error(nil)\n"),
		plant(t, "supervisor/x.go", "package supervisor\nimport \"lifeloop/view\"\nfunc f() { view.ErrGone = nil }\n"),
	}
	expect(t, "a write from outside", rules["state"](files), "f writes to lifeloop/view.ErrGone")
}

func plant(t *testing.T, path, source string) file {
	t.Helper()
	f, err := parse(path, []byte(source))
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, source)
	}
	return f
}

func expect(t *testing.T, what string, broken []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(broken) > 0:
		t.Errorf("%s\n\tis allowed, but was reported: %q", what, broken)
	case want != "" && !slices.ContainsFunc(broken, func(s string) bool { return strings.Contains(s, want) }):
		t.Errorf("%s\n\treported %q, want %q in it", what, broken, want)
	}
}

// tree reads files with any build tag, while go list lists the packages for
// this platform. Every package that go list lists must be among those that tree
// has read.
func TestTreeReadsEveryPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "lifeloop/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, f := range tree(t) {
		read[f.pkg] = true
	}
	for _, p := range strings.Fields(string(out)) {
		if folder, _ := ours(p); !read[folder] {
			t.Errorf("%s was not read", p)
		}
	}
}
