package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
)

// A proof is one record of proof_records.jsonl. It describes a file of the pack and
// is linked to the previous record.
type proof struct {
	Event     json.RawMessage `json:"event"`
	Integrity struct {
		RecordHash         string `json:"record_hash"`
		PreviousRecordHash string `json:"previous_record_hash"`
		SigningKeyID       string `json:"signing_key_id"`
		Signature          string `json:"signature"`
	} `json:"integrity"`
}

// proofEvent is a record's description of a file.
type proofEvent struct {
	PackType         string `json:"pack_type"`
	SourceRef        string `json:"source_ref"`
	ProducerVersion  string `json:"producer_version"`
	EntryPath        string `json:"entry_path"`
	EntryType        string `json:"entry_type"`
	EntrySHA256      string `json:"entry_sha256"`
	EntrySizeBytes   int    `json:"entry_size_bytes"`
	EntryPermissions int    `json:"entry_permissions"`
}

// proofHash returns the hash of all members of a record, with integrity replaced by
// the link to the previous record. If agent_id is absent, it is hashed as "", and an
// absent metadata as null.
func proofHash(record map[string]json.RawMessage, previous string) (string, error) {
	members := maps.Clone(record)
	link, err := json.Marshal(map[string]string{"previous_record_hash": previous})
	if err != nil {
		return "", err
	}
	members["integrity"] = link
	for name, absent := range map[string]string{"agent_id": `""`, "metadata": `null`} {
		if _, present := members[name]; !present {
			members[name] = json.RawMessage(absent)
		}
	}
	text, err := canon.Marshal(members)
	return "sha256:" + sign.Sum(text), err
}

// proofs verifies the chain of proof records.
func (r *Report) proofs(doc []byte, a archive, m packManifest, o Options) {
	var files []packEntry // files that the records must describe, in this order
	for _, e := range m.Contents {
		if e.Path != proofsFile {
			files = append(files, e)
		}
	}
	previous, n := "", 0
	lines(doc, func(line int, text []byte) bool {
		at := fmt.Sprintf("%s:%d", proofsFile, line)
		var record map[string]json.RawMessage
		var p proof
		if err := checkSize(text); err != nil {
			r.problem("proof", at, "%v", err)
			return false
		}
		if _, err := canon.Transform(text); err != nil {
			r.problem("proof", at, "%v", err)
			return false
		}
		if err := json.Unmarshal(text, &record); err != nil {
			r.problem("proof", at, "%v", err)
			return false
		}
		if err := json.Unmarshal(text, &p); err != nil {
			r.problem("proof", at, "%v", err)
			return false
		}
		hash, err := proofHash(record, p.Integrity.PreviousRecordHash)
		if err != nil || hash != p.Integrity.RecordHash || p.Integrity.PreviousRecordHash != previous {
			r.problem("proof", at, "its hash, or its link to the previous record, is wrong")
			return false
		}
		previous = hash
		r.proofSignature(at, p, o)
		if !o.Compat && (n >= len(files) || !p.isOf(files[n], len(a.files[files[n].Path]), m)) {
			r.problem("proof", at, "the record does not match the next file in the manifest's contents")
			return false
		}
		n++
		r.ProofsVerified++
		return true
	})
	if !o.Compat && n != len(files) {
		r.problem("proof", proofsFile, "%d records for %d files", n, len(files))
	}
}

func (r *Report) proofSignature(at string, p proof, o Options) {
	switch sig, ok := strings.CutPrefix(p.Integrity.Signature, "base64:"); {
	case p.Integrity.Signature == "" && o.RequireSignature:
		r.problem("signature", at, "the record is not signed")
	case p.Integrity.Signature == "" || o.PublicKey == nil:
	case !ok:
		r.problem("signature", at, "the record's signature does not begin with \"base64:\"")
	case p.Integrity.SigningKeyID != "" && p.Integrity.SigningKeyID != sign.KeyID(o.PublicKey):
		r.problem("signature", at, "the record is signed with another key")
	default:
		if err := sign.VerifyBytes(o.PublicKey, []byte(p.Integrity.RecordHash), sig); err != nil {
			r.problem("signature", at, "%v", err)
		}
	}
}

// isOf reports whether a record describes a file of the pack. The producer_version of the
// record is not compared, because another version may have written the record.
func (p proof) isOf(e packEntry, size int, m packManifest) bool {
	var have proofEvent
	if unknown, err := decodeExact(p.Event, &have); err != nil || len(unknown) > 0 {
		return false
	}
	return have == proofEvent{m.PackType, m.SourceRef, have.ProducerVersion, e.Path, e.Type, e.SHA256, size, 0o644}
}

// writeProofs writes a record for each file, in the order of their names, without
// a last line end, as the reference does.
func writeProofs(m packManifest, files map[string][]byte, key ed25519.PrivateKey) ([]byte, error) {
	var out [][]byte
	previous := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		at := m.CreatedAt.UTC().Format(time.RFC3339Nano)
		record := map[string]any{"agent_id": "gait", "controls": map[string]any{"permissions_enforced": false},
			"event":    proofEvent{m.PackType, m.SourceRef, m.ProducerVersion, name, entryType(name), sign.Sum(files[name]), len(files[name]), 0o644},
			"metadata": map[string]any{"artifact_kind": "gait.pack.entry"}, "record_type": "tool_invocation", "record_version": "1.0",
			"source": "gait.pack", "source_product": "gait", "timestamp": at}
		id, err := sign.Digest(map[string]any{"timestamp": at, "source": record["source"], "source_product": record["source_product"],
			"agent_id": record["agent_id"], "record_type": record["record_type"], "event": record["event"]})
		if err != nil {
			return nil, err
		}
		record["record_id"] = "prf-" + at + "-" + id[:8]
		doc, err := canon.Marshal(record)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(doc, &members); err != nil {
			return nil, err
		}
		hash, err := proofHash(members, previous)
		if err != nil {
			return nil, err
		}
		integrity := map[string]string{"record_hash": hash}
		if previous != "" {
			integrity["previous_record_hash"] = previous
		}
		if key != nil {
			integrity["signing_key_id"] = sign.KeyID(key.Public().(ed25519.PublicKey))
			integrity["signature"] = "base64:" + base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(hash)))
		}
		record["integrity"] = integrity
		line, err := canon.Marshal(record)
		if err != nil {
			return nil, err
		}
		out = append(out, line)
		previous = hash
	}
	return bytes.Join(out, []byte("\n")), nil
}
