//go:build linux

package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe that the shell passes is read to its end, or until the time limit is reached.
func TestPipesAreReadWithALimit(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("text")
	require.NoError(t, err)
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	_, _, err = readNamed(name, time.Millisecond)
	require.ErrorContains(t, err, "the other end of the pipe did not close it within 1ms")
	_, err = w.WriteString("more text")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	data, _, err := readNamed(name, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "more text", string(data))
}
