package supervisor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// The reason of a failed call says in words where the answer is wrong, and repeats
// nothing of it.
func TestWhereAnAnswerIsWrong(t *testing.T) {
	for answer, want := range map[string]string{
		`secret`:                    ": expected one JSON object: the text is not JSON at byte 1",
		`["secret"]`:                ": expected an object, got an array",
		`{}`:                        ": look at its member status",
		`{}{}`:                      ": expected one JSON object: the text is not JSON at byte 3",
		`{"status":"secret"}`:       ": look at its member status",
		`{"status":"\ud800secret"}`: ": expected text that is valid Unicode throughout",
		`{"secret":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`: ": expected at most 64 levels of nesting",
	} {
		_, err := lifeloop.ParseCallbackResponse([]byte(answer))
		require.Error(t, err, answer)
		require.Equal(t, want, where(err), answer)
	}
}
