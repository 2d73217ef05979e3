package supervisor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// The reason of a failed call says in words where the answer is wrong, and repeats
// nothing of it.
func TestWhereAnAnswerIsWrong(t *testing.T) {
	for answer, want := range map[string]string{
		`secret`:              ": expected one JSON object",
		`[]`:                  ": expected one JSON object",
		`{}`:                  ": look at its member status",
		`{}{}`:                ": expected one JSON object",
		`{"status":"secret"}`: ": look at its member status",
	} {
		_, err := lifeloop.ParseCallbackResponse([]byte(answer))
		require.Error(t, err, answer)
		require.Equal(t, want, where(err), answer)
	}
}
