//go:build lifeloopdebug

package supervisor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
)

// A debug build stops at an invalid document.
func TestAnInvalidDocumentPanics(t *testing.T) {
	for _, out := range []kernel.Output{
		{Facts: []kernel.Fact{kernel.ReceiptIssued{}}},
		{Facts: []kernel.Fact{kernel.Observed{}}},
		{Effects: []effect.Effect{effect.Dispatch{}}},
	} {
		require.Panics(t, func() { checkDocuments(out) })
	}
	require.Panics(t, func() { checkManifest(lifeloop.Manifest{}) })
	require.NotPanics(t, func() { checkDocuments(kernel.Output{}) })
}
