package evidence

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
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

// TestVerifyWithoutUs runs the verifier of docs/verify-without-us.md. The verifier gives
// the same verdicts as this package on every recording and on an export. It refuses an
// export with a changed, removed or added file.
func TestVerifyWithoutUs(t *testing.T) {
	for _, program := range []string{"python3", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	doc, err := os.ReadFile("../docs/verify-without-us.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(doc), "```python\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	q := &questions{T: t, dir: t.TempDir()}
	q.write("verify.py", []byte(program))
	q.recordings()
	key := testKey()
	all := files(t, recorded(t, 0), key)
	q.export(all, q.write("key", sign.EncodeKey(key.Public().(ed25519.PublicKey))))
	q.archives(all)
	q.chains(all)
	q.journals(all, files(t, guarded(t), key))
	q.unsigned(all, filepath.Join(q.dir, "key"))
	q.tampered(filepath.Join(q.dir, "key"))
	q.members(all)
	q.signers(all["runpack.zip"], filepath.Join(q.dir, "key"))

	cmd := exec.Command("python3", q.write("driver.py", []byte(driver)))
	cmd.Stdin, cmd.Stderr = &q.input, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(q.want))
	for i, line := range lines {
		got := "fail"
		if strings.HasPrefix(line, "0 ") {
			got = "ok"
		}
		if !strings.HasSuffix(q.want[i], " "+got) {
			t.Errorf("%s, but the Python verifier says %s", q.want[i], line)
		}
	}
}

// questions are asked of the verifier, each with the answer that it must give.
type questions struct {
	*testing.T
	dir   string
	input bytes.Buffer // for the driver
	want  []string
}

func (q *questions) write(name string, data []byte) string {
	path := filepath.Join(q.dir, name)
	require.NoError(q, os.WriteFile(path, data, 0o600))
	return path
}

func (q *questions) ask(name string, kind Kind, path, key string, required bool, verdict string) {
	word := ""
	if required {
		word = "require"
	}
	fmt.Fprintln(&q.input, kind, path, key, word)
	q.want = append(q.want, name+" "+verdict)
}

func (q *questions) recordings() {
	for _, f := range fixtures(q) {
		path, err := filepath.Abs(filepath.Join("testdata", f.path))
		require.NoError(q, err)
		key := "-"
		if f.options.PublicKey != nil {
			key = q.write("key-"+sign.KeyID(f.options.PublicKey), sign.EncodeKey(f.options.PublicKey))
		}
		q.ask(f.path+" "+f.why, f.kind, path, key, f.options.RequireSignature, verdict(Verify(f.kind, read(q, f.path), f.options)))
	}
}

func (q *questions) export(all map[string][]byte, public string) {
	for name, data := range all {
		q.write(name, data)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "cp_") && name != "cp_0001.zip" {
			continue // the verification of the chain includes all runpacks of checkpoints
		}
		q.ask(name, Detect(all[name]), filepath.Join(q.dir, name), public, true, "ok")
	}
}

func (q *questions) archives(all map[string][]byte) {
	for _, name := range []string{"runpack.zip", "pack.zip", "job.zip", "cp_0001.zip"} {
		for i, c := range changedArchives(q.T, all[name]) {
			file := q.write(fmt.Sprintf("changed-%d-%s", i, name), c.data)
			q.ask(name+" "+c.what, Detect(all[name]), file, "-", false, "fail")
		}
	}
}

func (q *questions) chains(all map[string][]byte) {
	for i, c := range [][2]string{
		{`"schema_id":"gait.runpack.session_chain"`, `"schema_id":"gait.runpack.session_train"`},
		{`"runpack_path":"cp_0001.zip"`, `"runpack_path":"../` + filepath.Base(q.dir) + `/cp_0001.zip"`},
		{`"runpack_path":"cp_0001.zip"`, `"runpack_path":"cp_0002.zip"`},
		{`"checkpoint_index":2`, `"checkpoint_index":3`},
		{`"run_id":"run_`, `"run_id":"ran_`},
		{`"sequence_start":1`, `"sequence_start":0`},
	} {
		chain := bytes.Replace(all[ChainFile], []byte(c[0]), []byte(c[1]), 1)
		require.NotEqual(q, all[ChainFile], chain, c)
		q.ask("a chain with "+c[1], ChainKind, q.write(fmt.Sprintf("chain-%d.json", i), chain), "-", false, "fail")
		require.False(q, verified(ChainFile, mapWith(all, ChainFile, chain), Options{}).OK, c)
	}
}

// members asks about documents with one more member, as withMember adds it. The verifier
// must give the verdict of this package.
func (q *questions) members(all map[string][]byte) {
	n := 0
	ask := func(what string, kind Kind, name string, data []byte) {
		n++
		r := verified(name, mapWith(all, name, data), Options{})
		q.ask(what, kind, q.write(fmt.Sprintf("member-%d-%s", n, name), data), "-", false, verdict(r))
	}
	for _, name := range []string{"runpack.zip", "job.zip"} {
		names, content := entriesOf(q, all[name])
		for _, file := range slices.Sorted(maps.Keys(content)) {
			if file == proofsFile {
				continue
			}
			for what, doc := range withMember(q, content[file]) {
				inside := maps.Clone(content)
				inside[file] = doc
				data := zipped(q, names, inside)
				if file != manifestFile && file != packManifestFile {
					data = tampering{}.redigested(q, slices.Clone(names), inside)
				}
				ask(file+" of "+name+" with "+what, Detect(all[name]), name, data)
			}
		}
	}
	for name, kind := range map[string]Kind{ChainFile: ChainKind, JournalFile: JournalKind} {
		for what, doc := range withMember(q, all[name]) {
			ask(name+" with "+what, kind, name, doc)
		}
	}
	require.Greater(q, n, 100)
}

// withMember returns copies of a file, each with one more member in its last document. Each
// object of the document gets, in turn, an unknown member and a copy of each of its members
// under the name in upper case. In a list, only the last object is changed.
func withMember(t testing.TB, file []byte) map[string][]byte {
	lines := slices.Collect(bytes.Lines(file))
	last := len(lines) - 1
	all := map[string][]byte{}
	var doc map[string]any
	require.NoError(t, json.Unmarshal(lines[last], &doc))
	try := func(what string, object map[string]any, name string, value any) {
		object[name] = value
		all[what] = bytes.Join(append(slices.Clone(lines[:last]), must(json.Marshal(doc))), nil)
		delete(object, name)
	}
	var walk func(at string, object map[string]any)
	walk = func(at string, object map[string]any) {
		try(at+"approved_by", object, "approved_by", "CISO")
		for name, value := range maps.Clone(object) {
			try(at+strings.ToUpper(name), object, strings.ToUpper(name), value)
			if list, is := value.([]any); is && len(list) > 0 {
				value = list[len(list)-1]
			}
			if inner, is := value.(map[string]any); is {
				walk(at+name+".", inner)
			}
		}
	}
	walk("", doc)
	return all
}

func mapWith(all map[string][]byte, name string, data []byte) map[string][]byte {
	all = maps.Clone(all)
	all[name] = data
	return all
}

// journals asks about journals in the folder of their runpacks. The verifier compares a
// journal with its runpacks, and so detects each change. In a journal and its runpacks, no
// digest of the reference implementation of Gait covers matched_rule_ids. The digest that
// eventsRef adds to each checkpoint's runpack does.
func (q *questions) journals(all, policy map[string][]byte) {
	changed := bytes.Replace(all[JournalFile], []byte(`"tool_name":"harness.launch"`), []byte(`"tool_name":"harness.launch","verdict":"allow"`), 1)
	q.ask("a changed journal", JournalKind, q.write("changed.jsonl", changed), "-", false, "fail")
	moved := bytes.Replace(all[JournalFile], []byte(`"runpack_path":"cp_0001.zip"`), []byte(`"runpack_path":"cp_0901.zip"`), 1)
	q.ask("a journal with a runpack that is not there", JournalKind, q.write("moved.jsonl", moved), "-", false, "fail")
	require.NoError(q, os.Mkdir(filepath.Join(q.dir, "policy"), 0o700))
	for name, data := range policy {
		q.write("policy/"+name, data)
	}
	q.ask("a journal under a policy", JournalKind, filepath.Join(q.dir, "policy", JournalFile), "-", false, "ok")
	rule := bytes.Replace(policy[JournalFile], []byte(`"matched_rule_ids":["rule"]`), []byte(`"matched_rule_ids":["role"]`), 1)
	q.ask("a journal with another rule", JournalKind, q.write("policy/rule.jsonl", rule), "-", false, "fail")
}

// unsigned asks about three journals without a signature: one without its runpacks, which
// contain the signatures, one without checkpoints, and one that is only a header.
func (q *questions) unsigned(all map[string][]byte, public string) {
	require.NoError(q, os.Mkdir(filepath.Join(q.dir, "alone"), 0o700))
	whole := slices.Collect(bytes.Lines(all[JournalFile]))
	events := slices.DeleteFunc(slices.Clone(whole), func(line []byte) bool { return bytes.Contains(line, []byte(`"record_type":"checkpoint"`)) })
	require.Less(q, len(events), len(whole))
	for name, lines := range map[string][][]byte{"alone/journal.jsonl": whole, "events.jsonl": events, "header.jsonl": whole[:1]} {
		data := bytes.Join(lines, nil)
		file := q.write(name, data)
		o := Options{PublicKey: testKey().Public().(ed25519.PublicKey), Beside: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(file), name)) }}
		require.False(q, Verify(JournalKind, data, o).OK, name)
		q.ask(name+" without a key", JournalKind, file, "-", false, "ok")
		q.ask(name+" with a key", JournalKind, file, public, false, "fail")
		q.ask(name+" with a required signature", JournalKind, file, public, true, "fail")
	}
}

// tampered asks about each change of TestTampered.
func (q *questions) tampered(public string) {
	for i, c := range tamperings() {
		folder := fmt.Sprintf("tampered-%d", i)
		require.NoError(q, os.Mkdir(filepath.Join(q.dir, folder), 0o700))
		for name, data := range c.made(q) {
			q.write(filepath.Join(folder, name), data)
		}
		key, answer := "-", "fail"
		if c.key {
			key = public
		}
		if c.code == "" {
			answer = "ok"
		}
		q.ask(c.name+" with "+c.what, c.kind(), filepath.Join(q.dir, folder, c.name), key, c.key, answer)
	}
}

// signers asks about a runpack that two parties signed, about one that only another party
// signed, and about runpacks with a wrong signature.
func (q *questions) signers(data []byte, public string) {
	names, inside := entriesOf(q, data)
	var m manifest
	require.NoError(q, json.Unmarshal(inside[manifestFile], &m))
	mine := m.Signatures[0]
	other, err := sign.Sign(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize)), mine.SignedDigest)
	require.NoError(q, err)
	wrong := mine
	wrong.Sig = other.Sig
	for what, signatures := range map[string][]sign.Signature{
		"two signers": {other, mine}, "another signer": {other}, "a wrong signature": {wrong}, "a right and a wrong signature": {mine, wrong},
	} {
		m.Signatures = signatures
		inside[manifestFile] = canonical(q, must(json.Marshal(m)))
		data := zipped(q, names, inside)
		r := Verify(RunpackKind, data, Options{PublicKey: testKey().Public().(ed25519.PublicKey)})
		require.Equal(q, what == "two signers", r.OK, "%s: %v", what, r.Problems)
		q.ask(what, RunpackKind, q.write("signers-"+strings.ReplaceAll(what, " ", "-")+".zip", data), public, true, verdict(r))
	}
}

type changedArchive struct {
	what string
	data []byte
}

// changedArchives returns well-formed archives that differ from an archive in one file, and
// the archive with a wrong offset of its directory.
func changedArchives(t *testing.T, data []byte) (list []changedArchive) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	content := map[string][]byte{}
	for _, f := range r.File {
		rc, err := f.Open()
		require.NoError(t, err)
		content[f.Name], err = io.ReadAll(rc)
		require.NoError(t, err)
	}
	add := func(what string, edit func(map[string][]byte)) {
		files := maps.Clone(content)
		edit(files)
		changed, err := writeArchive(files)
		require.NoError(t, err)
		list = append(list, changedArchive{what, changed})
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		add("without "+name, func(files map[string][]byte) { delete(files, name) })
		add("with a longer "+name, func(files map[string][]byte) { files[name] = append(bytes.Clone(files[name]), "{}"...) })
		if text := bytes.Replace(content[name], []byte("0"), []byte("1"), 1); !bytes.Equal(text, content[name]) {
			add("with a changed digit in "+name, func(files map[string][]byte) { files[name] = text })
		}
	}
	add("with another file", func(files map[string][]byte) { files["more.json"] = []byte("{}") })
	broken := bytes.Clone(data)
	broken[len(broken)-6] ^= 1 // the lowest byte of the directory's offset
	return append(list, changedArchive{"with a broken directory", broken})
}
