package kernel_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
)

// Every trouble that package input declares has a case in the kernel. A word that package
// input does not declare has none.
func TestEveryTroubleHasACase(t *testing.T) {
	source, err := os.ReadFile("input/input.go")
	require.NoError(t, err)
	words := regexp.MustCompile(`Trouble += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, words)
	for _, word := range words {
		require.True(t, kernel.Judges(input.Trouble(word[1])), word[1])
	}
	require.False(t, kernel.Judges("unknown"))
}
