//go:build e2e && linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/semver"
)

// Environment variables of the test program inside a world, which is the isolated home of
// one test.
const (
	insideVar   = "LIFELOOP_E2E_INSIDE" // set inside the world of one test
	programsVar = "LIFELOOP_E2E_PROGRAMS"
	sourceVar   = "LIFELOOP_E2E_SOURCE"
	versionsVar = "LIFELOOP_E2E_VERSIONS" // the versions that run: NAME=VERSION, separated by commas
)

// newestVar asks for the newest published version of each harness, in place of the
// pinned one.
const newestVar = "E2E_NEWEST"

var newest = os.Getenv(newestVar) != ""

// The test rig, as TestMain found it.
var (
	programs string                // folder of lifeloop-wrap, lifeloop-hook and fakeclient
	source   string                // the folder of this package
	missing  error                 // why no test can run on this machine
	absent   = map[string]error{}  // why the stories of a harness cannot run, by its name
	running  = map[string]string{} // the version of each harness that runs, by its name
)

func TestMain(m *testing.M) {
	if os.Getenv(insideVar) != "" {
		programs, source = os.Getenv(programsVar), os.Getenv(sourceVar)
		for one := range strings.SplitSeq(os.Getenv(versionsVar), ",") {
			name, version, _ := strings.Cut(one, "=")
			running[name] = version
		}
		receiveIgnored()
		os.Exit(m.Run())
	}
	os.Exit(outside(m))
}

// receiveIgnored makes the programs of the tests start with the default actions of the
// signals that nohup, or a shell in the background, has made this process ignore. Some
// stories send these signals.
func receiveIgnored() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// outside builds the programs and checks the prerequisites, once.
func outside(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lifeloop-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // another user runs the programs in some stories
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	programs = dir
	if source, err = os.Getwd(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	for _, program := range []string{"./cmd/lifeloop-wrap", "./cmd/lifeloop-hook", "./testdata/fakeclient"} {
		name := filepath.Base(program)
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "linked", name), program)
		build.Dir = filepath.Dir(source)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: build %s: %v\n%s", program, err, out)
			return 1
		}
		// The tests run a copy, as a user does. A copy starts faster than the file that the
		// linker has just written, because the pages of that file are cached one by one.
		if err := install(filepath.Join(dir, "linked", name), filepath.Join(dir, name)); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: install %s: %v\n", program, err)
			return 1
		}
	}
	if missing = prerequisites(); missing != nil {
		fmt.Fprintf(os.Stderr, "\n*** NO END-TO-END TEST CAN RUN: %v ***\n\n", missing)
		return m.Run()
	}
	for _, k := range []kind{claude, codex, gemini, opencode, openclaw} {
		if err := installed(k); err != nil {
			fmt.Fprintf(os.Stderr, "\n*** NO STORY OF %s CAN RUN: %v ***\n\n", strings.ToUpper(k.name), err)
			absent[k.name] = err
		}
	}
	return m.Run()
}

// install copies a program.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// harnesses is the folder of the harnesses to run: the pinned ones, or the newest ones.
func harnesses() string {
	if dir := os.Getenv("HARNESSES_DIR"); dir != "" {
		return dir
	}
	if newest {
		return filepath.Join(filepath.Dir(source), ".harnesses-newest")
	}
	return filepath.Join(filepath.Dir(source), ".harnesses")
}

// since reports whether the harness that runs has this version or a later one.
func (k kind) since(version string) bool {
	return semver.Compare("v"+running[k.name], "v"+version) >= 0
}

func prerequisites() error {
	home, err := os.MkdirTemp("", "lifeloop-e2e-home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if out, err := isolated(context.Background(), home, nil, "true").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot create namespaces (this needs root, or a kernel that permits them to users): %w: %s",
			err, strings.TrimSpace(string(out)))
	}
	if os.Getenv("HARNESSES_DIR") == "" {
		args := []string{harnesses()}
		if newest {
			args = append(args, "latest")
		}
		install := exec.Command(filepath.Join(source, "install-harnesses.sh"), args...)
		install.Stdout, install.Stderr = os.Stderr, os.Stderr
		if err := install.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: install-harnesses.sh:", err) // the tests use the harnesses that are already installed
		}
	}
	return nil
}

// bin is the folder of a harness's program.
func (k kind) bin() string { return filepath.Join(harnesses(), k.folder, "node_modules", ".bin") }

// path returns the variable PATH for a harness that is in a folder of its own.
func (k kind) path() []string {
	if k.folder == "" {
		return nil
	}
	return []string{"PATH=" + k.bin() + ":/usr/local/bin:/usr/bin:/bin"}
}

// installed returns why the stories of a harness cannot run on this machine.
func installed(k kind) error {
	program := filepath.Join(k.bin(), k.name)
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%s is not installed: %w", k.name, err)
	}
	home, err := os.MkdirTemp("", "lifeloop-e2e-home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	out, err := isolated(context.Background(), home, k.path(), program, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s does not start: %w", k.name, err)
	}
	words := strings.Fields(string(out))
	at := slices.IndexFunc(words, func(w string) bool { return semver.IsValid("v" + w) })
	if at < 0 || !newest && words[at] != k.version {
		return fmt.Errorf("%s has version %q; the stories need %s", k.name, strings.TrimSpace(string(out)), k.version)
	}
	running[k.name] = words[at]
	return nil
}

// isolated returns a command that isolate.sh runs in its own namespaces.
func isolated(ctx context.Context, home string, env []string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(source, "isolate.sh"), append([]string{home}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // no signal from inside the world reaches this process
		Pdeathsig: syscall.SIGKILL,
	}
	cmd.Env = append(os.Environ(), "TERM=xterm-256color",
		"ISOLATE_PATH="+filepath.Join(harnesses(), "node_modules", ".bin"),
		"ISOLATE_ENV="+strings.Join(env, " "),
		"ISOLATE_SHOW="+strings.Join([]string{filepath.Dir(source), harnesses(), programs, filepath.Dir(os.Args[0])}, ":"))
	return cmd
}

// alone plays a test in its own world. Outside a world, it starts this program
// again inside a new one, for this test only. Inside, it plays the test.
func alone(t *testing.T, k kind, play func(t *testing.T)) {
	if os.Getenv(insideVar) == "" && missing == nil && absent[k.name] == nil {
		t.Parallel()
	}
	inSequence(t, k, play)
}

// inSequence plays a test as alone does, but not in parallel with other tests.
func inSequence(t *testing.T, k kind, play func(t *testing.T)) {
	if os.Getenv(insideVar) != "" {
		play(t)
		return
	}
	if missing != nil {
		t.Skipf("no end-to-end test can run: %v", missing)
	}
	if err := absent[k.name]; err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	var versions []string
	for name, version := range running {
		versions = append(versions, name+"="+version)
	}
	cmd := isolated(ctx, t.TempDir(), append(k.path(), insideVar+"=1", pairsVar+"="+os.Getenv(pairsVar), newestVar+"="+os.Getenv(newestVar), programsVar+"="+programs, sourceVar+"="+source,
		versionsVar+"="+strings.Join(versions, ",")),
		self, "-test.run", pattern, "-test.v", "-test.timeout", "590s")
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, text)
	case strings.Contains(text, "--- SKIP"):
		t.Skip(text)
	case !strings.Contains(text, "--- PASS"):
		t.Fatalf("nothing ran inside:\n%s", text)
	}
	t.Log("\n" + text)
}
