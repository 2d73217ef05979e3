package evidence

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/evidence/sign"
)

// driver runs the verifier on each line of standard input: KIND FILE KEY REQUIRE.
const driver = `
import sys, io, contextlib
sys.argv = ["verify.py"]
import verify
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify.main(*line.split())
    print(code, said.getvalue().strip())
`

// TestVerifyWithoutUs runs the verifier of docs/verify-without-us.md: it gives the
// verdict of this package on every recording and on an export.
func TestVerifyWithoutUs(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	doc, err := os.ReadFile("../docs/verify-without-us.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(doc), "```python\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	write("verify.py", []byte(program))
	write("driver.py", []byte(driver))

	var input bytes.Buffer
	var want []string
	ask := func(name string, kind Kind, path, key string, required bool, verdict string) {
		word := ""
		if required {
			word = "require"
		}
		fmt.Fprintln(&input, kind, path, key, word)
		want = append(want, name+" "+verdict)
	}
	for _, f := range fixtures(t) {
		path, err := filepath.Abs(filepath.Join("testdata", f.path))
		require.NoError(t, err)
		key := "-"
		if f.options.PublicKey != nil {
			key = write("key-"+sign.KeyID(f.options.PublicKey), sign.EncodeKey(f.options.PublicKey))
		}
		ask(f.path+" "+f.why, f.kind, path, key, f.options.RequireSignature, verdict(Verify(f.kind, read(t, f.path), f.options)))
	}
	key := testKey()
	public := write("key", sign.EncodeKey(key.Public().(ed25519.PublicKey)))
	all := files(t, recorded(t, 0), key)
	for name, data := range all {
		write(name, data)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "cp_") && name != "cp_0001.zip" {
			continue // the chain verifies them all
		}
		ask(name, Detect(all[name]), filepath.Join(dir, name), public, name != JournalFile, "ok")
	}
	// A changed event of a journal is detected if its runpacks are available.
	changed := bytes.Replace(all[JournalFile], []byte(`"tool_name":"harness.launch"`), []byte(`"tool_name":"harness.launch","verdict":"allow"`), 1)
	ask("a changed journal", JournalKind, write("changed.jsonl", changed), "-", false, "fail")

	// A changed rule is detected too. No digest of the reference covers rules.
	policy := files(t, guarded(t), key)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "policy"), 0o700))
	for name, data := range policy {
		write("policy/"+name, data)
	}
	ask("a journal under a policy", JournalKind, filepath.Join(dir, "policy", JournalFile), "-", false, "ok")
	rule := bytes.Replace(policy[JournalFile], []byte(`"matched_rule_ids":["rule"]`), []byte(`"matched_rule_ids":["role"]`), 1)
	ask("a journal with another rule", JournalKind, write("policy/rule.jsonl", rule), "-", false, "fail")

	cmd := exec.Command(python, filepath.Join(dir, "driver.py"))
	cmd.Stdin, cmd.Stderr = &input, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(want))
	for i, line := range lines {
		got := "fail"
		if strings.HasPrefix(line, "0 ") {
			got = "ok"
		}
		if !strings.HasSuffix(want[i], " "+got) {
			t.Errorf("%s, but the Python verifier says %s", want[i], line)
		}
	}
}
