package examples_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEmbed supervises a harness whose first launch fails. Client and callbacks
// run on two goroutines, so the order of their lines is checked separately.
func TestEmbed(t *testing.T) {
	embed, err := build("embed", "lifeloop/examples/embed")
	require.NoError(t, err)
	harness, err := build("fakeharness", "lifeloop/testdata/fakeharness")
	require.NoError(t, err)
	cmd := exec.Command(embed, harness, "--launches", filepath.Join(t.TempDir(), "launches"),
		"--script-json", `{"print":"first"}{"exit":3}`, "--script-json", `{"print":"second"}`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Equal(t, "first\nsecond\n", string(stdout))

	var events, callbacks []string
	for line := range strings.Lines(stderr.String()) {
		line = strings.TrimSpace(line)
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			events = append(events, event)
		} else {
			callbacks = append(callbacks, line)
		}
	}
	require.Equal(t, []string{"session.started", "session.ended", "session.started", "session.ended"}, events)
	require.Equal(t, []string{"attempt: 1", "error: the harness exited with code 3, retry true", "attempt: 2", "complete: retries 1"}, callbacks)
}
