package acts

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lifeloop/gate"
	"lifeloop/telemetry"
)

func scene() Scene {
	return Scene{Session: "s", Identity: "alice", Workspace: "/srv/w", Home: "/home/alice", Producer: "test", Now: time.Unix(0, 0),
		Exists: func(p string) bool {
			return p == "/srv/w/Makefile" || p == "/srv/w/src/main.go" || p == "/srv/w/src/.env"
		},
		Resolve: func(p string) string {
			at := "/"
			for part := range strings.SplitSeq(p, "/") {
				at = path.Join(at, part)
				switch at {
				case "/srv/w/out":
					at = "/var/out"
				case "/srv/w/link":
					at = "/srv/outside/sub"
				}
			}
			return at
		}}
}

// classes are the data classes of a tool call, sorted.
func classes(t *testing.T, use telemetry.ToolUse) string {
	t.Helper()
	in, err := Tool{use}.Intent(scene())
	if err != nil {
		t.Fatalf("%q: %v", use.Commands, err)
	}
	var found []string
	for _, target := range in.Targets {
		if target.Sensitivity != "" {
			found = append(found, target.Sensitivity)
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// TestCommands: a command that deletes or writes outside of the workspace is found
// however it is wrapped, or reported as undecidable. Harmless commands have no class.
func TestCommands(t *testing.T) {
	table, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(table)) {
		row = strings.TrimSuffix(row, "\n")
		if row == "" || row[0] == '#' {
			continue
		}
		want, line, ok := strings.Cut(row, " | ")
		if !ok {
			t.Fatalf("not a row: %s", row)
		}
		want, line = strings.TrimPrefix(want, "-"), strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(line)
		if got := classes(t, telemetry.ToolUse{Name: "Bash", Commands: []string{line}, Dir: "/srv/w"}); got != want {
			t.Errorf("%s\n\tis %q, want %q", line, got, want)
		}
	}
}

func TestFileTools(t *testing.T) {
	for _, c := range []struct{ path, op, want, value string }{
		{"a/b.go", "write", "", "a/b.go"},
		{"/srv/w/a/../b.go", "write", "", "b.go"},
		{"/srv/wide/x", "write", "outside_write", "/srv/wide/x"},
		{"../x", "delete", "outside_write", "/srv/x"},
		{"/srv/w", "delete", "outside_write", "."},
		{"/srv/w/", "write", "", "."},
		{"link/../victim", "write", "outside_write", "/srv/outside/victim"},
		{"link/../victim", "delete", "outside_write", "/srv/outside/victim"},
		{".claude", "write", "harness_settings", ".claude"},
		{"sub/.gemini/extensions", "delete", "harness_settings", "sub/.gemini/extensions"},
		{"opencode.json", "write", "harness_settings", "opencode.json"},
		{"sub/.opencode/plugins/x.js", "write", "harness_settings", "sub/.opencode/plugins/x.js"},
		{".opencode", "delete", "harness_settings", ".opencode"},
		{".opencode/agent/review.md", "write", "", ".opencode/agent/review.md"},
		{"/home/alice/.config/opencode/opencode.jsonc", "write", "harness_settings outside_write", "~/.config/opencode/opencode.jsonc"},
		{"~/notes", "write", "outside_write", "~/notes"},
		{"/home/alice/.ssh/id_rsa", "read", "secret", "~/.ssh/id_rsa"},
		{"/home/alice/.ssh/config", "write", "outside_write secret", "~/.ssh/config"},
		{"out/x", "write", "outside_write", "/var/out/x"},
		{"out/", "delete", "outside_write", "/var/out"},
		{"out/.", "delete", "outside_write", "/var/out"},
		{"out/..", "delete", "outside_write", "/var"},
		{"out", "delete", "", "out"}, // deletes the link, not its target
		{"/etc/hosts", "read", "", "/etc/hosts"},
		{"~bob/x", "read", "undecidable", "path"},
	} {
		use := telemetry.ToolUse{Name: "Edit", Paths: []telemetry.PathUse{{Path: c.path, Op: c.op}}, Dir: "/srv/w"}
		if got := classes(t, use); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.op, c.path, got, c.want)
		}
		in, _ := Tool{use}.Intent(scene())
		if got := in.Targets[0].Value; got != c.value {
			t.Errorf("%s is shown as %s, want %s", c.path, got, c.value)
		}
	}
	if got := classes(t, telemetry.ToolUse{Name: "Bash", Opaque: true}); got != Undecidable {
		t.Errorf("arguments that are not understood: %q", got)
	}
}

// TestPatternsOfTools: a search tool reads the files that its pattern matches. The path of
// a tool that writes is not a pattern if the harness is known to use the path literally.
func TestPatternsOfTools(t *testing.T) {
	for _, c := range []struct{ path, op, want, tool string }{
		{"{.env,x}", "match", "secret", "Write"},
		{"**/{.env,id_rsa}", "match", "secret", "Write"},
		{"*.{pem,key}", "match", "secret", "Write"},
		{"{a,{b,.{c,env}}}", "match", "secret", "Write"},
		{"{.env}", "match", "secret", "mcp__fs__put"},
		{`.e\nv`, "match", "secret", "Write"},
		{"*.go .env", "match", "secret", "Write"},
		{"*.go,.env", "match", "secret", "Write"},
		{".*", "match", "secret", "Write"},
		{"!.env", "match", "", "Write"},
		{"**/*.{ts,tsx}", "match", "", "Write"},
		{strings.Repeat("{a,b}", 9), "match", "undecidable", "Write"},
		{"app/[id]/page.tsx", "write", "", "Write"},
		{"app/[...slug]/../page.tsx", "write", "", "Write"},
		{"app/[id]/../../../x", "write", "outside_write", "Write"},
		{"app/[id]/page.tsx", "write", "undecidable", "mcp__fs__put"},
	} {
		if got := classes(t, telemetry.ToolUse{Name: c.tool, Paths: []telemetry.PathUse{{Path: c.path, Op: c.op}}, Dir: "/srv/w"}); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.op, c.path, got, c.want)
		}
	}
}

// TestNoArgumentIsInAnIntent: an intent has digests in the place of arguments.
func TestNoArgumentIsInAnIntent(t *testing.T) {
	use := telemetry.ToolUse{Name: "Bash", Commands: []string{"echo canary"}, Args: telemetry.SizedOf([]byte(`{"command":"echo canary"}`))}
	in, err := Tool{use}.Intent(scene())
	if err != nil {
		t.Fatal(err)
	}
	if _, has := in.Args["arguments_digest"]; !has || len(in.Args) != 2 {
		t.Errorf("args: %v", in.Args)
	}
	launch, err := Launch{Adapter: "claude", Program: "claude", Args: []string{"-p", "a prompt"}}.Intent(scene())
	if err != nil || launch.ToolName != "harness.launch" || launch.Targets[0].EndpointClass != "proc.exec" {
		t.Errorf("%+v, %v", launch, err)
	}
	if launch.Context.RiskClass != "critical" { // the risk_level R5 of docs/contract/hcp.md
		t.Errorf("risk class %s", launch.Context.RiskClass)
	}
	for _, v := range launch.Args {
		if s, is := v.(string); is && strings.Contains(s, "prompt") {
			t.Errorf("an argument: %s", s)
		}
	}
	renewal, err := Renewal{Adapter: "claude", Program: "claude", ID: "rnw_1", Profile: "handoff", Client: "notes", By: "user", Path: "relaunch", Number: 1}.Intent(scene())
	if err != nil || renewal.ToolName != "harness.renew" || renewal.Context.RiskClass != "critical" || len(renewal.Targets) != 2 {
		t.Errorf("%+v, %v", renewal, err)
	}
	delivery, err := Delivery{Client: "notes", ID: "pay_1", Kind: "note", Digest: "sha256:" + strings.Repeat("0", 64), Placement: "pre_prompt_frame", Slot: "pre_frame_trailing", Bytes: 3}.Intent(scene())
	if err != nil || delivery.ToolName != "harness.inject" || delivery.Context.RiskClass != "medium" || delivery.Args["payload_digest"] != strings.Repeat("0", 64) {
		t.Errorf("%+v, %v", delivery, err)
	}
	again, err := Renewal{Adapter: "claude", Program: "claude", ID: "rnw_2", Profile: "handoff", Client: "notes", By: "user", Path: "relaunch", Number: 2}.Intent(scene())
	if err != nil || again.IntentDigest == renewal.IntentDigest {
		t.Errorf("two renewals have one intent: %v", err)
	}
}

// FuzzTool: every intent of a command line has a target, and every path that is written
// is inside the workspace or has a class.
func FuzzTool(f *testing.F) {
	for _, seed := range []string{"rm -rf /", "()0", "cd x && ls > y", "bash -c 'echo $(cat <(ls))'", "a=b; c $a", "${x:=1} {a,b}", "time -p find . -exec sh -c 'rm {}' \\;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		in, err := Tool{telemetry.ToolUse{Name: "Bash", Commands: []string{line}, Dir: "/srv/w"}}.Intent(scene())
		if err != nil {
			return // a tool call without an intent is refused
		}
		for _, target := range in.Targets {
			if target.Kind == "path" && target.EndpointClass != "fs.read" && path.IsAbs(target.Value) && target.Sensitivity == "" {
				t.Errorf("%q writes %s without a class", line, target.Value)
			}
		}
		if !slices.ContainsFunc(in.Targets, func(t gate.Target) bool { return t.Value != "" }) {
			t.Errorf("%q has no target", line)
		}
	})
}

// TestLimits: a line that would take long to analyse is undecidable. The limits count parts
// of the line, and not time, so that the result is the same on every machine.
func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`echo "$(`, n) + "ls" + strings.Repeat(`)"`, n) }
	quoted := func(n int) string { return strings.Repeat(`echo ')' "$(`, n) + "ls" + strings.Repeat(`)"`, n) }
	var cds strings.Builder
	for i := range 60 {
		cds.WriteString("cd /srv/w/" + strings.Repeat("a", i+1) + ";")
	}
	for _, c := range []struct{ name, line, want string }{
		{"nested", nested(maxNesting), ""},
		{"nested without quotes", strings.Repeat("echo $(", maxNesting) + "ls" + strings.Repeat(")", maxNesting), ""},
		{"nested too deep", nested(maxNesting + 1), Undecidable},
		{"nested too deep with quotes", quoted(maxNesting + 1), Undecidable},
		{"parentheses", strings.Repeat("(", 100000) + "ls" + strings.Repeat(")", 100000), Undecidable},
		{"long", "echo " + strings.Repeat("a", maxLine-len("echo ")), ""},
		{"too long", "echo " + strings.Repeat("a", maxLine), Undecidable},
		{"words of a function", "f() { cat " + strings.Repeat("a ", 1000) + "; }; " + strings.Repeat("f;", maxWords/1000-1), ""},
		{"too many words of a function", "f() { cat " + strings.Repeat("a ", 1000) + "; }; " + strings.Repeat("f;", maxWords/1000+1), Undecidable},
		{"programs of a function", "f() { awk '{x=" + strings.Repeat("a+", 500) + "1}' f; }; " + strings.Repeat("f;", 400), ""},
		{"too long programs of a function", "f() { awk '{x=" + strings.Repeat("a+", 5000) + "1}' f; }; " + strings.Repeat("f;", 100), Undecidable},
		{"copies", strings.Repeat("cp -a a/b c;", 200) + "> c/x", ""},
		{"too many copies", manyCopies(maxCopied + 1), Undecidable},
		{"choices of a function", "x=" + strings.Repeat("a", 500) + "; x=b; f() { cat " + strings.Repeat("$x ", 1000) + "; }; f", Undecidable},
		{"long choices", "x=" + strings.Repeat("a", 4000) + "; x=" + strings.Repeat("b", 4000) + "; cat " + strings.Repeat("$x$x$x ", 4000) + "$(printf '" + strings.Repeat("a", 9000) + "%s'" + strings.Repeat(" a", 9000) + ")", ""},
		{"a word of many variables", "x=a; x=b; cat " + strings.Repeat("$x", 30000), ""},
		{"many words of a loop", "for f in {1..60}; do touch " + strings.Repeat("$f ", 20000) + "; done", Undecidable},
		{"braces that do not end", "rm " + strings.Repeat("{-..0", 9000), Undecidable},
		{"many sequences", "rm " + strings.Repeat("{a..z} ", 9000), Undecidable},
		{"a long word of a loop", "for f in a .." + strings.Repeat("/", maxText) + "x; do touch $f; done", Undecidable},
		{"too many targets", cds.String() + "touch " + manyWords(300), Undecidable},
	} {
		if got := classes(t, telemetry.ToolUse{Name: "Bash", Commands: []string{c.line}, Dir: "/srv/w"}); got != c.want {
			t.Errorf("%s is %q, want %q", c.name, got, c.want)
		}
	}
}

// TestManyTargets: a policy sees each address, command and secret of a line, however many
// addresses there are, because it may deny one by its domain, name or class.
func TestManyTargets(t *testing.T) {
	line := "curl "
	for i := range 120 {
		line += "a://" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "{1..64} "
	}
	for i := range 4000 {
		line += "a://" + strconv.Itoa(i) + " "
	}
	in, err := Tool{telemetry.ToolUse{Name: "Bash", Commands: []string{line + "a://last; nc x; cat .env"}, Dir: "/srv/w"}}.Intent(scene())
	if err != nil || len(in.Targets) < maxPaths {
		t.Fatalf("%d targets, %v", len(in.Targets), err)
	}
	for _, value := range []string{"a://last", "nc", ".env"} {
		if !slices.ContainsFunc(in.Targets, func(t gate.Target) bool { return t.Value == value }) {
			t.Errorf("%s is not among %d targets", value, len(in.Targets))
		}
	}
}

// TestCopiesAreSearchedOnce: each write is compared with each copy, but a path is not looked
// up in the file system again for each pair of a write and a copy.
func TestCopiesAreSearchedOnce(t *testing.T) {
	asked := map[string]int{}
	at := scene()
	at.Resolve = func(p string) string { asked[p]++; return p }
	line := strings.Repeat("cp -a d/a d; cp -a d/b d; ", 30) + strings.Repeat("> d/x; > d/y; ", 30)
	Tool{telemetry.ToolUse{Name: "Bash", Commands: []string{line}, Dir: "/srv/w"}}.Intent(at)
	if len(asked) == 0 {
		t.Fatal("no path was looked up")
	}
	for p, n := range asked {
		if n > 200 {
			t.Errorf("%s was looked up %d times", p, n)
		}
	}
}

// manyCopies returns n commands that copy different files.
func manyCopies(n int) string {
	var b strings.Builder
	for _, w := range strings.Fields(manyWords(n)) {
		b.WriteString("cp -a " + w + " d;")
	}
	return b.String()
}

// manyWords returns n different words.
func manyWords(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("w", i%20+1) + string(rune('a'+i/20)) + " ")
	}
	return b.String()
}
