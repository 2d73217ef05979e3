package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel/input"
)

// troubleText has a text for every trouble of a source. It returns any other word
// unchanged.
func TestEveryTroubleHasAText(t *testing.T) {
	source, err := os.ReadFile("../../kernel/input/input.go")
	require.NoError(t, err)
	words := regexp.MustCompile(`Trouble += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, words)
	for _, word := range words {
		require.NotEqual(t, word[1], troubleText(input.Trouble(word[1])))
	}
	require.Equal(t, "unknown", troubleText("unknown"))
}
