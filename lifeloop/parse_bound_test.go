package lifeloop

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client may answer with as many flaws as fit into its answer. They are
// counted to a bound, so the work grows with the answer and not with its square.
func TestFlawsAreCountedToABound(t *testing.T) {
	answer := `{"status":"observed","receipt_refs":[` + strings.Repeat("0,", 400_000) + `0]}`
	_, err := ParseCallbackResponse([]byte(answer))
	var v *ValidationError
	require.True(t, errors.As(err, &v))
	require.Len(t, v.Problems, maxProblems)
	require.Equal(t, "receipt_refs[0]", v.Problems[0].Path)
}
