package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoLineIsWiderThanTheScreen(t *testing.T) {
	p := &page{}
	p.line("  name", strings.Repeat("word and ", 60))
	p.wrap("    ", "      ", "short "+strings.Repeat("x", 100)+" short")
	lines := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
	for _, line := range lines {
		if len(line) > columns && !strings.Contains(line, "xxx") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	require.Equal(t, strings.Fields(strings.Repeat("word and ", 60)), strings.Fields(strings.Join(lines[:len(lines)-3], " "))[1:])
	require.Equal(t, []string{"    short", "      " + strings.Repeat("x", 100), "      short"}, lines[len(lines)-3:])
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, writable(dir))
	require.NoError(t, writable(filepath.Join(dir, "not", "yet")))
	require.Error(t, writable(file))
	if err := writable(filepath.Join(file, "below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "it makes nothing")
}
