package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
)

// A tampering is an export after a change, with all digests made again.
type tampering struct {
	what string
	name string                       // the artifact that is verified
	in   string                       // the changed archive if name is another file, else empty
	edit func(t testing.TB, f folder) // changes files of the archive or, if no archive is changed, of the export
	code string                       // of the problem; empty if there is only a note
	note string                       // a part of the expected note; unused if code is set
	ref  string                       // the verdict of the reference
	key  bool                         // verified with the key that signed the export
}

// A folder has the content of each file, by its name.
type folder map[string][]byte

func change(name, from, to string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		require.Contains(t, string(f[name]), from)
		f[name] = bytes.Replace(f[name], []byte(from), []byte(to), 1)
	}
}

func everywhere(from, to string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		for name := range f {
			f[name] = bytes.ReplaceAll(f[name], []byte(from), []byte(to))
		}
	}
}

func without(name string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) { delete(f, name) }
}

// swapped exchanges two parts of a file; a comes before b.
func swapped(name, a, b string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		before, rest, found := strings.Cut(string(f[name]), a)
		require.True(t, found, a)
		between, after, found := strings.Cut(rest, b)
		require.True(t, found, b)
		f[name] = []byte(before + b + between + a + after)
	}
}

// cut removes the lines from number from up to, but not including, number to. The first
// line has the number 0.
func cut(name string, from, to int) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		f[name] = bytes.Join(slices.Delete(slices.Collect(bytes.Lines(f[name])), from, to), nil)
	}
}

// twice repeats the line with this number, with a change.
func twice(name string, n int, from, to string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		lines := slices.Collect(bytes.Lines(f[name]))
		again := bytes.Replace(lines[n], []byte(from), []byte(to), 1)
		require.NotEqual(t, lines[n], again)
		f[name] = bytes.Join(slices.Insert(lines, n+1, again), nil)
	}
}

// reproved changes the first proof record, and makes the hashes and signatures of all
// records again.
func reproved(from, to string) func(testing.TB, folder) {
	return func(t testing.TB, f folder) {
		change(proofsFile, from, to)(t, f)
		var out [][]byte
		previous := ""
		for line := range bytes.Lines(f[proofsFile]) {
			var record map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &record))
			var integrity map[string]string
			require.NoError(t, json.Unmarshal(record["integrity"], &integrity))
			hash, err := proofHash(record, previous)
			require.NoError(t, err)
			integrity["record_hash"] = hash
			if previous != "" {
				integrity["previous_record_hash"] = previous
			}
			integrity["signature"] = "base64:" + base64.StdEncoding.EncodeToString(ed25519.Sign(testKey(), []byte(hash)))
			record["integrity"] = must(canon.Marshal(integrity))
			out = append(out, must(canon.Marshal(record)))
			previous = hash
		}
		f[proofsFile] = bytes.Join(out, []byte("\n"))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const (
	run22 = "22222222-2222-4222-8222-222222222222"
	first = `"intent_id":"act_000003_00"`
)

// tamperings are the changes that TestTampered verifies; TestVerifyWithoutUs asks the
// Python verifier about each.
func tamperings() []tampering {
	return []tampering{
		{what: "a run_id of another form", name: "runpack.zip", edit: everywhere("run_2222", "walk_2222"), code: "run_id", ref: "ok"},
		{what: "an intent of another run", name: "runpack.zip", edit: change(intentsFile, "run_2222", "run_3333"), code: "run_id", ref: "ok"},
		{what: "a short digest of arguments", name: "runpack.zip", edit: change(intentsFile, `"args_digest":"8b55`, `"args_digest":"8b5`), code: "inner_file", ref: "ok"},
		{what: "a short digest of a receipt", name: "runpack.zip", edit: change(refsFile, `"content_digest":"00`, `"content_digest":"0`), code: "inner_file", ref: "ok"},
		{what: "a digest of a query in upper case", name: "runpack.zip", edit: change(refsFile, `"query_digest":"ab`, `"query_digest":"AB`), code: "inner_file", ref: "ok"},
		{what: "another number of references", name: "runpack.zip", edit: change(refsFile, `"created_at"`, `"context_ref_count":2,"created_at"`), code: "inner_file", ref: "ok"},
		{what: "an unknown status", name: "runpack.zip", edit: change(resultsFile, `"status":"ok"`, `"status":"good"`), code: "inner_file", ref: "ok"},
		{what: "a result of no intent", name: "runpack.zip", edit: change(resultsFile, first, `"intent_id":"act_000002_00"`), code: "inner_file", ref: "ok"},
		{what: "an intent without its result", name: "runpack.zip", edit: cut(resultsFile, 0, 1), code: "inner_file", ref: "ok"},
		{what: "two results of an intent", name: "runpack.zip", edit: twice(resultsFile, 0, `"status":"ok"`, `"status":"error"`), code: "inner_file", ref: "ok"},
		{what: "an intent twice", name: "runpack.zip", edit: twice(intentsFile, 0, "harness.launch", "harness.lunch"), code: "inner_file", ref: "ok"},
		{what: "an unknown member of the manifest", name: "runpack.zip", edit: change(manifestFile, `{`, `{"approved_by":"CISO",`), note: "members: approved_by of manifest.json", ref: "ok"},
		{what: "files of the manifest in another order", name: "runpack.zip", edit: swapped(manifestFile, `"path":"intents.jsonl"`, `"path":"refs.json"`), code: "manifest", ref: "ok"},
		{what: "a member twice", name: "runpack.zip", edit: change(runFile, `"env":`, `"env":{},"env":`), code: "inner_file", ref: "ok"},
		{what: "a byte order mark", name: "runpack.zip", edit: change(runFile, `{`, "\ufeff{"), code: "inner_file", ref: "ok"},
		{what: "receipts in another order", name: "cp_0001.zip", edit: swapped(refsFile, `"ref_id":"chain"`, `"ref_id":"events"`), code: "inner_file", ref: "ok"},

		{what: "contents in another order", name: "job.zip", edit: swapped(packManifestFile, `{"path":"job_events.jsonl"`, `{"path":"job_payload.json"`), code: "hash_mismatch", ref: "fail"},
		{what: "an entry of another type", name: "job.zip", edit: change(packManifestFile, `"type":"jsonl"`, `"type":"json"`), code: "manifest", ref: "ok"},
		{what: "a file declared twice", name: "job.zip", edit: change(packManifestFile, `"contents":[`, `"contents":[{"path":"job_events.jsonl","sha256":"","type":"jsonl"},`), code: "manifest", ref: "fail"},
		{what: "a pack of another schema", name: "job.zip", edit: change(packManifestFile, "gait.pack.manifest", "gait.sack.manifest"), code: "schema", ref: "fail"},
		{what: "a pack of another version", name: "job.zip", edit: change(packManifestFile, `"1.0.0"`, `"2.0.0"`), code: "schema", ref: "fail"},
		{what: "a pack of a call", name: "job.zip", edit: change(packManifestFile, `"pack_type":"job"`, `"pack_type":"call"`), code: "pack_type", ref: "fail"},
		{what: "an unknown member of the pack", name: "job.zip", edit: change(packManifestFile, `{`, `{"approved_by":"CISO",`), code: "manifest", ref: "fail"},
		{what: "an event of another job", name: "job.zip", edit: change(jobEventsFile, "job_2222", "job_3333"), code: "source_ref", ref: "fail"},
		{what: "an event of another revision", name: "job.zip", edit: change(jobEventsFile, `"revision":2`, `"revision":3`), code: "payload", ref: "ok"},
		{what: "a job without events", name: "job.zip", edit: without(jobEventsFile), code: "missing_file", ref: "fail"},
		{what: "a job without its last event", name: "job.zip", edit: cut(jobEventsFile, 2, 3), code: "payload", ref: "ok"},
		{what: "another number of approvals", name: "job.zip", edit: change(jobPayloadFile, `"approval_count":0`, `"approval_count":1`), code: "payload", ref: "fail"},
		{what: "another number of checkpoints", name: "job.zip", edit: change(jobPayloadFile, `"checkpoint_count":2`, `"checkpoint_count":3`), code: "payload", ref: "fail"},
		{what: "an unknown status of the job", name: "job.zip", edit: everywhere(`"status":"completed"`, `"status":"done"`), code: "payload", ref: "fail"},
		{what: "another status than the job's", name: "job.zip", edit: change(jobPayloadFile, `"status":"completed"`, `"status":"blocked"`), code: "payload", ref: "ok"},
		{what: "an unknown member of the job", name: "job.zip", edit: change(jobPayloadFile, `{`, `{"approved_by":"CISO",`), code: "payload", ref: "fail"},
		{what: "a payload of another schema", name: "job.zip", edit: change(jobPayloadFile, "gait.pack.job", "gait.pack.jab"), code: "schema", ref: "fail"},
		{what: "an unknown member of the run", name: "pack.zip", edit: change(runPayloadFile, `{`, `{"approved_by":"CISO",`), code: "payload", ref: "fail"},
		{what: "another number of results", name: "pack.zip", edit: change(runPayloadFile, `"results_count":4`, `"results_count":5`), code: "payload", ref: "ok"},
		{what: "a number of intents in another form", name: "pack.zip", edit: change(runPayloadFile, `"intents_count":4`, `"intents_count":4.0`), code: "payload", ref: "fail"},
		{what: "a proof of another file", name: "job.zip", edit: reproved(`"entry_path":"job_events.jsonl"`, `"entry_path":"job_state.json"`), code: "proof", ref: "ok"},
		{what: "a proof of another size", name: "job.zip", edit: reproved(`"entry_size_bytes":573`, `"entry_size_bytes":574`), code: "proof", ref: "ok"},
		{what: "a proof signed by another key", name: "job.zip", edit: reproved(`"signing_key_id":"34`, `"signing_key_id":"35`), code: "signature", ref: "fail", key: true},

		{what: "a receipt of another session", name: ChainFile, in: "cp_0001.zip", edit: change(refsFile, `"source_locator":"session:2222`, `"source_locator":"session:3333`), code: "session_id", ref: "ok"},
		{what: "a checkpoint of another time", name: ChainFile, edit: change(ChainFile, `"created_at":"2026-01-02T03:04:09`, `"created_at":"2026-01-02T03:04:08`), code: "checkpoint", ref: "ok", key: true},
		{what: "a chain of another time", name: ChainFile, edit: change(ChainFile, `"created_at":"2026-01-02T03:04:05`, `"created_at":"2026-01-02T03:04:04`), code: "head", ref: "ok", key: true},
		{what: "a chain with a relationship", name: ChainFile, edit: change(ChainFile, `"session_id":"`+run22+`"}`, `"relationship":{"policy_ref":{}},"session_id":"`+run22+`"}`), code: "checkpoint", ref: "ok", key: true},
		{what: "the head of a chain with a relationship", name: ChainFile, edit: change(ChainFile, `],"created_at"`, `],"relationship":{"policy_ref":{}},"created_at"`), code: "chain", ref: "ok", key: true},
		{what: "an unknown member of the chain", name: ChainFile, edit: change(ChainFile, `{`, `{"approved_by":"CISO",`), note: "members: approved_by of the chain", ref: "ok", key: true},
		{what: "an unknown member of a checkpoint of the chain", name: ChainFile, edit: change(ChainFile, `[{`, `[{"approved_by":"CISO",`), code: "not_a_chain", ref: "ok", key: true},
		{what: "an index in another form", name: ChainFile, edit: change(ChainFile, `"checkpoint_index":1`, `"checkpoint_index":1.0`), code: "not_a_chain", ref: "fail", key: true},

		{what: "no event", name: JournalFile, edit: func(t testing.TB, f folder) { cut(JournalFile, 3, 6)(t, f); cut(JournalFile, 1, 2)(t, f) }, code: "events", ref: "ok", key: true},
		{what: "no event of the first checkpoint", name: JournalFile, edit: cut(JournalFile, 1, 2), code: "events", ref: "ok", key: true},
		{what: "no last event of a checkpoint", name: JournalFile, edit: cut(JournalFile, 5, 6), code: "journal", ref: "fail", key: true},
		{what: "events in the header", name: JournalFile, edit: change(JournalFile, `"events":[]`, `"events":[{"verdict":"allow"}]`), code: "journal", ref: "ok", key: true},
		{what: "an unknown member of the header", name: JournalFile, edit: change(JournalFile, `{"header":{`, `{"header":{"approved_by":"CISO",`), note: "members: approved_by of line 1", ref: "ok", key: true},
		{what: "an unknown member of an event", name: JournalFile, edit: change(JournalFile, `{"event":{`, `{"event":{"approved_by":"CISO",`), note: "members: approved_by of line 2", ref: "ok", key: true},
		{what: "an unknown member of a checkpoint", name: JournalFile, edit: change(JournalFile, `{"checkpoint":{`, `{"checkpoint":{"approved_by":"CISO",`), note: "members: approved_by of line 3", ref: "ok", key: true},
		{what: "an unknown member of a record", name: JournalFile, edit: change(JournalFile, `{"event":`, `{"approved_by":"CISO","event":`), code: "journal", ref: "ok", key: true},
		{what: "a second content of a record", name: JournalFile, edit: change(JournalFile, `{"event":`, `{"checkpoint":{},"event":`), code: "journal", ref: "ok", key: true},
		{what: "a checkpoint with a relationship", name: JournalFile, edit: change(JournalFile, `{"checkpoint":{`, `{"checkpoint":{"relationship":{"policy_ref":{}},`), code: "checkpoint", ref: "ok", key: true},
		{what: "a sequence in another form", name: JournalFile, edit: change(JournalFile, `"sequence":1`, `"sequence":1e0`), code: "journal", ref: "fail", key: true},
		{what: "a journal of another schema", name: JournalFile, edit: change(JournalFile, "gait.runpack.session_journal", "gait.runpack.session_journey"), code: "journal", ref: "fail", key: true},
		{what: "a journal of another time", name: JournalFile, edit: everywhere("2026-01-02T03:04:05", "2026-01-02T03:04:04"), code: "head", ref: "ok"},
		{what: "an event of another session", name: JournalFile, edit: change(JournalFile, `"sequence":1,"session_id":"2222`, `"sequence":1,"session_id":"3333`), code: "journal", ref: "ok", key: true},
		{what: "an event of another tool", name: JournalFile, edit: change(JournalFile, `"tool_name":"harness.launch"`, `"tool_name":"harness.lunch"`), code: "events", ref: "ok", key: true},
		{what: "an event of another intent", name: JournalFile, edit: change(JournalFile, `"intent_digest":"41`, `"intent_digest":"14`), code: "events", ref: "ok", key: true},
		{what: "an event with another verdict", name: JournalFile, edit: change(JournalFile, `"verdict":"block"`, `"verdict":"allow"`), code: "events", ref: "ok", key: true},
		{what: "an event of another version", name: JournalFile, edit: change(JournalFile, `"schema_id":"gait.runpack.session_event","schema_version":"1.0.0"`, `"schema_id":"gait.runpack.session_event","schema_version":"1.0.1"`), code: "events", ref: "ok", key: true},

		{what: "a second verdict in another case", name: "trace_000003.json", edit: change("trace_000003.json", `"verdict":"allow"`, `"verdict":"allow","Verdict":"block"`), code: "trace", ref: "fail", key: true},
		{what: "a first verdict in another case", name: "trace_000003.json", edit: change("trace_000003.json", `"verdict":"allow"`, `"Verdict":"block","verdict":"allow"`), code: "trace", ref: "ok", key: true},
		{what: "an unknown member of a signature", name: "trace_000003.json", edit: change("trace_000003.json", `"signature":{`, `"signature":{"approved_by":"CISO",`), note: "members: approved_by of signature", ref: "ok", key: true},
	}
}

// made returns the files of the export after the change.
func (c tampering) made(t testing.TB) map[string][]byte {
	all := files(t, guarded(t), testKey())
	if strings.HasSuffix(c.name, ".zip") {
		c.in = c.name
	}
	if c.in == "" {
		whole := maps.Clone(all)
		c.edit(t, all)
		require.NotEqual(t, whole[c.name], all[c.name])
		return all
	}
	names, inside := entriesOf(t, all[c.in])
	c.edit(t, inside)
	all[c.in] = c.redigested(t, names, inside)
	if c.in != c.name {
		relinked(t, all)
	}
	return all
}

// redigested packs the files of an archive. The manifest gets the digests of the files and,
// if c.key is set, a new signature. The other members of the manifest's entries are kept,
// even if they are wrong.
func (c tampering) redigested(t testing.TB, names []string, inside map[string][]byte) []byte {
	file, entries, ident := manifestFile, "files", "manifest_digest"
	if _, pack := inside[packManifestFile]; pack {
		file, entries, ident = packManifestFile, "contents", "pack_id"
		if !strings.HasPrefix(c.what, "a proof") { // proof records are optional, and these could describe the old files
			delete(inside, proofsFile)
		}
	}
	var m map[string]any
	require.NoError(t, json.Unmarshal(inside[file], &m))
	kept := []any{}
	for _, e := range m[entries].([]any) {
		e := e.(map[string]any)
		if content, present := inside[e["path"].(string)]; present {
			if c.code != "hash_mismatch" {
				e["sha256"] = sign.Sum(content)
			}
			kept = append(kept, e)
		}
	}
	m[entries] = kept
	delete(m, "signatures")
	m[ident] = ""
	covered := maps.Clone(m)
	if file == manifestFile {
		delete(covered, "approved_by") // the digest of a runpack covers the known members only
	}
	m[ident] = must(sign.Digest(covered))
	if c.key {
		m["signatures"] = []sign.Signature{must(sign.Sign(testKey(), must(sign.Digest(m))))}
	}
	inside[file] = must(canon.Marshal(m))
	names = slices.DeleteFunc(names, func(name string) bool { _, present := inside[name]; return !present })
	return zipped(t, names, inside)
}

// relinked makes the links of a chain again for its changed runpacks.
func relinked(t testing.TB, all map[string][]byte) {
	var c chain
	require.NoError(t, json.Unmarshal(all[ChainFile], &c))
	previous := ""
	for i := range c.Checkpoints {
		cp := &c.Checkpoints[i]
		_, inside := entriesOf(t, all[cp.RunpackPath])
		var m manifest
		require.NoError(t, json.Unmarshal(inside[manifestFile], &m))
		cp.ManifestDigest, cp.PrevCheckpointDigest = m.ManifestDigest, previous
		cp.CheckpointDigest = cp.digest()
		previous = cp.CheckpointDigest
	}
	all[ChainFile] = must(canon.Marshal(c))
}

func (c tampering) kind() Kind {
	switch {
	case c.name == ChainFile:
		return ChainKind
	case c.name == JournalFile:
		return JournalKind
	case strings.HasPrefix(c.name, "trace_"):
		return TraceKind
	case c.name == "job.zip" || c.name == "pack.zip":
		return PackKind
	}
	return RunpackKind
}

func (c tampering) options() (o Options) {
	if c.key {
		o.PublicKey = testKey().Public().(ed25519.PublicKey)
		o.RequireSignature = true
	}
	return o
}

// Each change is refused with the code in its row, or noted. In compat mode, the verdict is
// that of the reference.
func TestTampered(t *testing.T) {
	for _, c := range tamperings() {
		t.Run(c.name+": "+c.what, func(t *testing.T) {
			all, kind := c.made(t), c.kind()
			o := c.options()
			o.Beside = (&changing{all: all}).beside
			r := Verify(kind, all[c.name], o)
			if c.code == "" {
				require.True(t, r.OK, "%v", r.Problems)
				require.Contains(t, strings.Join(r.Notes, "\n"), c.note)
			} else {
				require.Contains(t, codes(r), c.code, "%v %q", r.Problems, r.Notes)
			}
			o.Compat = true
			r = Verify(kind, all[c.name], o)
			require.Equal(t, c.ref, verdict(r), "%v", r.Problems)
		})
	}
}
