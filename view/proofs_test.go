package view

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// Two kinds of capabilities count for a version: those that worked before the version was
// known, and those that earlier sessions have proven and that work again in this launch.
func TestProofsOfAVersion(t *testing.T) {
	var p Proofs
	saw := func(event lifeloop.Event) kernel.Observed {
		return kernel.Observed{Record: lifeloop.EventRecord{Event: event, Evidence: []lifeloop.Evidence{{Source: "hook"}}}}
	}
	for _, f := range []kernel.Fact{
		kernel.Launching{},
		saw(lifeloop.FrameOpening),
		saw(lifeloop.FrameOpened),
		kernel.VersionSeen{Adapter: "fake", Version: "2.0.0", Here: []string{"frame.opening"}, Before: []string{"frame.opened", "frame.ended", "context.compacted"}},
		saw(lifeloop.FrameEnded),
		saw(lifeloop.FrameEnding),
	} {
		p.Apply(kernel.Entry{Fact: f})
	}
	require.Equal(t, []Proof{{Adapter: "fake", Version: "2.0.0", Capabilities: []string{"frame.opened", "frame.opening", "frame.ended"}}}, p.All())
}
