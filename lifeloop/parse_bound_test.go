package lifeloop

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client's answer may have very many flaws. Their number is bounded, so that
// the work grows with the answer and not with its square.
func TestProblemsAreBounded(t *testing.T) {
	answer := `{"status":"observed","receipt_refs":[` + strings.Repeat("0,", 400_000) + `0]}`
	_, err := ParseCallbackResponse([]byte(answer))
	var v *ValidationError
	require.True(t, errors.As(err, &v))
	require.Len(t, v.Problems, maxProblems)
	require.Equal(t, "receipt_refs[0]", v.Problems[0].Path)
}
