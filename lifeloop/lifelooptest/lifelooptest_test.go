package lifelooptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

const event = `{"schema_version":"lifeloop.v0.2","event":"frame.ended","event_id":"evt_1","adapter_id":"a","integration_mode":"native_hook",` +
	`"harness_session_id":null,"frame_context":{"frame_id":"f","frame_class":"top_level"},"at_epoch_s":1767323045,` +
	`"at":"2026-01-02T03:04:05.000Z","evidence":[{"source":"transcript","detail":"0199a213-81c0-7800-8aa1-bbab2a035a53"}],"data":{}}`

// Each example of the contract is valid by its schema and by the rules.
func TestCheck(t *testing.T) {
	files, err := filepath.Glob("../testdata/contract/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		kind, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "_renewal")
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, Check(kind, doc))
		require.Error(t, Check(kind, []byte(`{}`)), kind)
	}
	require.NoError(t, Check(EventRecord, []byte(event)))
	require.ErrorContains(t, Check("recipe", []byte(`{}`)), `no schema of kind "recipe"`)
}

// For event records, the schema and Parse reject the same flaws.
func TestFlawsOfAnEvent(t *testing.T) {
	schemas, err := compiled()
	require.NoError(t, err)
	require.NotNil(t, schemas[EventRecord])
	for was, is := range map[string]string{
		`"frame.ended"`: `"frame.over"`, `"evt_1"`: `""`, `"native_hook"`: `"by_hand"`, `"harness_session_id":null,`: ``,
		`"top_level"`: `"subcall"`, `"at_epoch_s":1767323045`: `"at_epoch_s":-1`, `"source":"transcript"`: `"source":""`,
		`"evidence":[{"source":"transcript","detail":"0199a213-81c0-7800-8aa1-bbab2a035a53"}]`: `"evidence":[]`,
		`"frame_context":{"frame_id":"f","frame_class":"top_level"},`:                          ``, `"data":{}`: `"data":null`, `lifeloop.v0.2`: `lifeloop.v0.3`,
	} {
		doc := strings.Replace(event, was, is, 1)
		require.NotEqual(t, event, doc, was)
		require.ErrorContains(t, Check(EventRecord, []byte(doc)), "jsonschema", is)
		_, err := lifeloop.Parse[lifeloop.EventRecord]([]byte(doc))
		require.Error(t, err, is)
	}
}

func TestLine(t *testing.T) {
	broken := strings.Replace(event, `"evt_1"`, `"evt_\u0001"`, 1)
	for line, valid := range map[string]bool{
		event: true, broken: false, `{"body":{"record":` + event + `},"prev":"x"}`: true, `{"body":{"record":` + broken + `},"prev":"x"}`: false,
		`{"body":{"receipt":{}},"prev":"x"}`: false, `{"body":{"pid":1},"prev":"x"}`: true, `{"receipt_id":"r"}`: false,
		`{"request":{}}`: false, `{"else":1}`: true, `no json`: true,
	} {
		if err := Line([]byte(line)); (err == nil) != valid {
			t.Errorf("%s: %v", line, err)
		}
	}
}
