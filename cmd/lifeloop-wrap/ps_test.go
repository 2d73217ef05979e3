package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/view"
)

// TestContextText checks the column CONTEXT of ps.
func TestContextText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	window, fraction := int64(200_000), 0.6125
	of := func(c view.Context) *view.Context {
		c.Tokens, c.Window, c.Fraction = 122_500, &window, &fraction
		return &c
	}
	for _, c := range []struct {
		context *view.Context
		now     time.Time
		want    string
	}{
		{nil, now, "-"},
		{of(view.Context{At: now}), now, "61% of 200k"},
		{of(view.Context{At: now.Add(-12 * time.Second)}), now, "61% of 200k (12s ago)"},
		{of(view.Context{At: now.Add(-90 * time.Minute), Stale: true}), now, "61% of 200k (stale, 1h ago)"},
		{of(view.Context{At: now.Add(-time.Hour)}), time.Time{}, "61% of 200k"}, // an ended session
		{&view.Context{Tokens: 6066, Estimate: true, At: now.Add(-3 * 24 * time.Hour)}, now, "6k tokens (estimate, 3d ago)"},
		{&view.Context{Tokens: 950, At: now.Add(time.Hour)}, now, "950 tokens"}, // the clock was set back
	} {
		require.Equal(t, c.want, contextText(c.context, c.now))
	}
	require.Equal(t, []string{"0", "999", "1k", "123k", "1M", "1.1M"},
		[]string{tokenText(0), tokenText(999), tokenText(1000), tokenText(122_500), tokenText(1_000_000), tokenText(1_050_001)})
}
