package session_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/session"
)

// A model is the state machine of HCP L2 as a table: for each ordered pair of
// states, whether it is a move.
type model struct {
	States   []session.State `json:"states"`
	Terminal []session.State `json:"terminal"`
	Initial  struct {
		To session.State `json:"to"`
	} `json:"initial"`
	ValidCount int `json:"valid_count"`
	PairCount  int `json:"pair_count"`
	Matrix     []struct {
		From  session.State `json:"from"`
		To    session.State `json:"to"`
		Valid bool          `json:"valid"`
	} `json:"matrix"`
}

func readModel(t *testing.T) model {
	t.Helper()
	doc, err := os.ReadFile("testdata/transitions.json")
	require.NoError(t, err)
	var m model
	require.NoError(t, json.Unmarshal(doc, &m))
	return m
}

// TestModel compares the machine with transitions.json: the same states, the same
// terminal states, and the same nine moves among the 64 pairs.
func TestModel(t *testing.T) {
	m := readModel(t)
	require.ElementsMatch(t, m.States, session.States())
	for _, s := range m.States {
		require.Equal(t, slices.Contains(m.Terminal, s), s.Terminal(), "%s", s)
	}
	require.NoError(t, session.Check(session.None, m.Initial.To))
	type pair [2]session.State
	pairs, moves := map[pair]bool{}, 0
	for _, p := range m.Matrix {
		require.Contains(t, m.States, p.From)
		require.Contains(t, m.States, p.To)
		require.NotContains(t, pairs, pair{p.From, p.To})
		pairs[pair{p.From, p.To}] = true
		err := session.Check(p.From, p.To)
		if p.Valid != (err == nil) {
			t.Errorf("%s to %s: %v, and the model says %t", p.From, p.To, err, p.Valid)
		}
		if p.Valid {
			moves++
		}
	}
	require.Len(t, pairs, 64)
	require.Equal(t, m.PairCount, len(pairs))
	require.Equal(t, 9, moves)
	require.Equal(t, m.ValidCount, moves)
}

// TestModelReach checks that every state can be reached from the initial state, and
// that a terminal state can be reached from every state.
func TestModelReach(t *testing.T) {
	m := readModel(t)
	seen := map[session.State]bool{}
	ends := map[session.State]bool{}
	var walk func(s session.State)
	walk = func(s session.State) {
		if seen[s] {
			return
		}
		seen[s] = true
		for _, to := range session.States() {
			if session.Check(s, to) == nil {
				walk(to)
			}
		}
	}
	walk(m.Initial.To)
	require.Len(t, seen, len(m.States))
	// Search backward from the terminal states.
	for _, s := range m.Terminal {
		ends[s] = true
	}
	for range m.States {
		for _, from := range m.States {
			for _, to := range m.States {
				if ends[to] && session.Check(from, to) == nil {
					ends[from] = true
				}
			}
		}
	}
	require.Len(t, ends, len(m.States), "a state from which no terminal state can be reached")
}
