package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
)

// The digest is computed from the bytes in the source, unchanged.
func TestSized(t *testing.T) {
	require.Nil(t, SizedOf(nil))
	require.Nil(t, SizedOf([]byte("null")))
	require.Equal(t, &Sized{Digest: string(canon.Sum([]byte(`{"q":1}`))), Size: 7}, SizedOf([]byte(`{"q":1}`)))
}
