package evidence

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a key, a signature is reported as not checked, and not as missing.
func TestSignatureWithoutAKey(t *testing.T) {
	doc, err := os.ReadFile("testdata/trace/own_ok_minimal.json")
	require.NoError(t, err)
	r := Verify(TraceKind, doc, Options{})
	require.True(t, r.Unreadable)
	require.Equal(t, SignatureSkipped, r.SignatureStatus)
	require.Contains(t, r.Notes[0], "the signature was not checked")

	r = Verify(TraceKind, []byte("no trace"), Options{})
	require.True(t, r.Unreadable)
	require.Contains(t, r.Notes[0], "no signature was checked")
}
