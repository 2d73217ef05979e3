package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"lifeloop/internal/conformance"
	"lifeloop/lifeloop"
)

var update = flag.Bool("update", false, "write examples/events")

// events/ holds a sample of each event, as `client test` sends it. Each is valid by
// the schema. Rewrite them with go test ./examples -run TestSampleEvents -update.
func TestSampleEvents(t *testing.T) {
	schema := schemaOf(t, "dispatch_envelope")
	var want []string
	for _, event := range lifeloop.Events() {
		doc, err := conformance.Sample(event).Encode()
		require.NoError(t, err)
		var pretty bytes.Buffer
		require.NoError(t, json.Indent(&pretty, doc, "", "  "))
		pretty.WriteByte('\n')
		path := filepath.Join("events", string(event)+".json")
		want = append(want, path)
		if *update {
			require.NoError(t, os.MkdirAll("events", 0o755))
			require.NoError(t, os.WriteFile(path, pretty.Bytes(), 0o644))
		}
		stored, err := os.ReadFile(path)
		require.NoError(t, err, "go test ./examples -run TestSampleEvents -update writes it")
		require.Equal(t, pretty.String(), string(stored))

		parsed, err := lifeloop.Parse[lifeloop.DispatchEnvelope](stored)
		require.NoError(t, err)
		require.Equal(t, event, parsed.Request.Event)
		require.Empty(t, lifeloop.Unknown("dispatch_envelope", stored))
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(stored))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(value))
	}
	slices.Sort(want)
	there, err := filepath.Glob("events/*")
	require.NoError(t, err)
	require.Equal(t, want, there)
}

// The examples keep the contract in the mode oneshot, the only one that they support.
func TestExamplesKeepTheContract(t *testing.T) {
	need(t, "python3", "sh")
	sync, err := threadSync()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, command := range map[string][]string{
		"log.sh":           {"env", "EVENT_LOG=" + filepath.Join(dir, "log"), example(t, "log.sh")},
		"notes.py":         {example(t, "notes.py")},
		"thread-sync":      {sync, "--state", filepath.Join(dir, "threads.jsonl")},
		"payload-consumer": {example(t, "payload-consumer/consumer.py"), filepath.Join(dir, "inbox")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := conformance.Run(context.Background(), conformance.Config{ClientID: "example", AdapterID: "claude", Command: command, Timeout: 2 * time.Minute, Mode: conformance.Oneshot})
			require.NoError(t, err)
			require.Empty(t, r.Violations)
			for _, c := range r.Calls {
				require.Empty(t, c.Failure, "%s, %s", c.Step, c.Event)
			}
		})
	}
}

// schemaOf compiles the published schema of a kind of document.
func schemaOf(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for _, name := range append(lifeloop.Kinds(), "common") {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(lifeloop.Schema(name)))
		require.NoError(t, err)
		require.NoError(t, c.AddResource("urn:lifeloop:v0.2:"+name, value))
	}
	schema, err := c.Compile("urn:lifeloop:v0.2:" + kind)
	require.NoError(t, err)
	return schema
}
