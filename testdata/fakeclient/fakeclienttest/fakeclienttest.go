// Package fakeclienttest builds the scripted callback client and reads the
// envelopes that it received. It is for tests only.
//
//	client, err := fakeclienttest.Build(t.TempDir())
//	// run client with --log asked.jsonl
//	asked := fakeclienttest.Asked(t, "asked.jsonl")
package fakeclienttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build compiles fakeclient into dir and returns the program's path. The
// test's working directory must lie in this module, as it does under go test.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "fakeclient")
	cmd := exec.Command("go", "build", "-o", path, "lifeloop/testdata/fakeclient")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fakeclient: %w\n%s", err, out)
	}
	return path, nil
}

// A Request is the part of a logged envelope that most tests need.
type Request struct {
	SchemaVersion string `json:"schema_version"`
	Request       struct {
		Event     string         `json:"event"`
		EventID   string         `json:"event_id"`
		EventData map[string]any `json:"event_data"`
	} `json:"request"`
	Payloads []json.RawMessage `json:"payloads"`
}

// Asked returns the entries of a log of fakeclient, in order. A missing log is
// empty: the client was not called.
func Asked(t testing.TB, log string) []Request {
	t.Helper()
	f, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var asked []Request
	for dec := json.NewDecoder(f); ; {
		var r Request
		err := dec.Decode(&r)
		if err == io.EOF {
			return asked
		}
		if err != nil {
			t.Fatalf("log %s, entry %d: %v", log, len(asked)+1, err)
		}
		asked = append(asked, r)
	}
}
