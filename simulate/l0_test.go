package simulate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/session"
	"lifeloop/simulate"
	"lifeloop/view"
)

// A scenario is a world of testdata/l0 with its expected events of L0. The file
// index.json there describes the format.
type scenario struct {
	Name   string          `json:"name"`
	Adopt  string          `json:"adopt"`
	Why    string          `json:"why"`
	World  json.RawMessage `json:"world"`
	Expect struct {
		Types     []any             `json:"types"`
		Full      []any             `json:"full"`
		Callbacks [][]any           `json:"callbacks"`
		Launches  []string          `json:"launches"`
		Outcome   string            `json:"outcome"`
		WithinMS  *float64          `json:"within_ms"`
		Meta      map[string]string `json:"meta"`
	} `json:"expect"`
}

// TestL0Scenarios runs every world under testdata/l0, twice: the same world
// gives the same bytes.
func TestL0Scenarios(t *testing.T) {
	files, err := filepath.Glob("../testdata/l0/*.json")
	require.NoError(t, err)
	n := 0
	for _, file := range files {
		if filepath.Base(file) == "index.json" {
			continue
		}
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		var of struct {
			Category  string     `json:"category"`
			Scenarios []scenario `json:"scenarios"`
		}
		strict := json.NewDecoder(bytes.NewReader(doc))
		strict.DisallowUnknownFields()
		require.NoError(t, strict.Decode(&of), file)
		n += len(of.Scenarios)
		for _, s := range of.Scenarios {
			t.Run(s.Name, func(t *testing.T) { s.run(t) })
		}
	}
	require.Equal(t, 91, n)
}

func (s scenario) run(t *testing.T) {
	w, err := parse(string(s.World))
	require.NoError(t, err)
	got := w.Run()
	require.False(t, got.Stuck, "the world has an end")
	events, callbacks, written := emitted(t, got)
	_, _, again := emitted(t, w.Run())
	require.Equal(t, string(written), string(again), "the same world gives the same bytes")
	lawful(t, events)

	tail(t, s.Expect.Types, slices.DeleteFunc(slices.Clone(events), isLaunch))
	if s.Expect.Full != nil {
		tail(t, s.Expect.Full, slices.CompactFunc(slices.Clone(events), func(a, b map[string]any) bool {
			return a["type"] == "TIMEOUT_RESET" && b["type"] == "TIMEOUT_RESET"
		}))
	}
	require.Equal(t, lines(s.Expect.Callbacks), lines(callbacks))
	for i, want := range s.Expect.Callbacks {
		matches(t, fmt.Sprintf("callback %d, %s", i, want[0]), want[1:], callbacks[i][1:])
	}
	require.Equal(t, s.Expect.Launches, append([]string{}, got.Launches...))
	state := map[string]session.State{"completed": session.Completed, "failed": session.Failed, "aborted": session.Aborted, "rejected": session.Rejected}
	require.Equal(t, state[s.Expect.Outcome], got.State)
	if s.Expect.WithinMS != nil {
		require.LessOrEqual(t, number(t, events[len(events)-1]["ts"])-number(t, events[0]["ts"]), *s.Expect.WithinMS)
	}
	for _, e := range events {
		if s.Expect.Meta != nil {
			require.Equal(t, s.Expect.Meta, texts(e["meta"]), "%v", e["type"])
		}
	}
}

// emitted returns the events and callbacks of a run as a reader decodes them,
// and as bytes.
func emitted(t *testing.T, r simulate.Result) (events []map[string]any, callbacks [][]any, written []byte) {
	t.Helper()
	apply := l0(r)
	for _, entry := range r.Entries {
		for _, e := range apply(entry) {
			doc, err := json.Marshal(e)
			require.NoError(t, err)
			written = append(append(written, doc...), '\n')
			var m map[string]any
			require.NoError(t, json.Unmarshal(doc, &m))
			events = append(events, m)
			for _, c := range view.L0Callbacks(e) {
				doc, err := json.Marshal(append([]any{c.Name}, c.Args...))
				require.NoError(t, err)
				written = append(append(written, doc...), '\n')
				var args []any
				require.NoError(t, json.Unmarshal(doc, &args))
				callbacks = append(callbacks, args)
			}
		}
	}
	return events, callbacks, written
}

// lawful checks the rules that the events of every session follow.
func lawful(t *testing.T, events []map[string]any) {
	t.Helper()
	require.NotEmpty(t, events)
	require.Equal(t, "SESSION_START", events[0]["type"], "SESSION_START is the first event")
	for i, e := range events {
		typ := e["type"].(string)
		require.Equal(t, float64(i+1), e["seq"], "%s", typ)
		require.NotEmpty(t, e["streamId"])
		require.Equal(t, events[0]["streamId"], e["streamId"], "%s", typ)
		require.Equal(t, events[0]["meta"], e["meta"], "%s", typ)
		if i == 0 {
			continue
		}
		before := events[i-1]
		require.GreaterOrEqual(t, number(t, e["ts"]), number(t, before["ts"]), "%s", typ)
		switch typ {
		case "SESSION_START":
			t.Fatalf("SESSION_START is emitted exactly once")
		case "ATTEMPT_START":
			require.Equal(t, "RETRY_ATTEMPT", before["type"])
		case "RESUME_START":
			require.Equal(t, "CONTINUATION_START", before["type"])
		case "FALLBACK_MODEL_SELECTED":
			require.Equal(t, "FALLBACK_START", before["type"])
		case "RETRY_END", "FALLBACK_END":
			require.Contains(t, []any{"COMPLETE", "RETRY_END"}, before["type"])
		case "NETWORK_ERROR":
			require.Equal(t, "ERROR", events[i+1]["type"])
		}
		require.NotEqual(t, "FALLBACK_END", before["type"], "%s after the end", typ)
	}
}

func isLaunch(e map[string]any) bool {
	typ := e["type"].(string)
	return typ == "STREAM_INIT" || typ == "STREAM_READY" || typ == "TIMEOUT_START" || typ == "TIMEOUT_RESET" || strings.HasPrefix(typ, "ADAPTER_")
}

// tail compares events with the expected ones. The order is compared only up to the
// first COMPLETE, RETRY_END or FALLBACK_END.
func tail(t *testing.T, want []any, got []map[string]any) {
	t.Helper()
	fields := make([]map[string]any, len(want))
	for i, w := range want {
		if name, ok := w.(string); ok {
			w = map[string]any{"type": name}
		}
		fields[i] = w.(map[string]any)
	}
	got = slices.Clone(got)
	for _, list := range [][]map[string]any{fields, got} {
		if i := slices.IndexFunc(list, ends); i >= 0 {
			slices.SortStableFunc(list[i:], func(a, b map[string]any) int { return strings.Compare(name(a), name(b)) })
		}
	}
	require.Equal(t, names(fields), names(got))
	for i, want := range fields {
		for field, value := range want {
			matches(t, fmt.Sprintf("event %d, %s.%s", i, name(want), field), value, got[i][field])
		}
	}
}

func ends(e map[string]any) bool {
	return slices.Contains([]string{"COMPLETE", "RETRY_END", "FALLBACK_END"}, name(e))
}

func name(e map[string]any) string { return e["type"].(string) }

func names(events []map[string]any) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(name(e) + "\n")
	}
	return b.String()
}

func lines(callbacks [][]any) string {
	var b strings.Builder
	for _, c := range callbacks {
		fmt.Fprintln(&b, c[0], len(c)-1)
	}
	return b.String()
}

// matches compares a value with an expected one. "<…>" matches any value except
// null and "", ">=N" a number that is at least N, "~TEXT" a string that
// contains TEXT, and an object any object with at least its members.
func matches(t *testing.T, what string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case string:
		least, isLeast := strings.CutPrefix(w, ">=")
		part, isPart := strings.CutPrefix(w, "~")
		switch {
		case strings.HasPrefix(w, "<") && strings.HasSuffix(w, ">"):
			require.NotNil(t, got, what)
			require.NotEqual(t, "", got, what)
		case isLeast:
			n, err := strconv.ParseFloat(least, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, number(t, got), n, what)
		case isPart:
			require.Contains(t, got, part, what)
		default:
			require.Equal(t, want, got, what)
		}
	case map[string]any:
		m, ok := got.(map[string]any)
		require.True(t, ok, "%s is %v", what, got)
		for k, v := range w {
			matches(t, what+"."+k, v, m[k])
		}
	case []any:
		l, ok := got.([]any)
		require.True(t, ok && len(l) == len(w), "%s is %v and should be %v", what, got, want)
		for i := range w {
			matches(t, fmt.Sprintf("%s[%d]", what, i), w[i], l[i])
		}
	default:
		require.Equal(t, want, got, what)
	}
}

func number(t *testing.T, v any) float64 {
	t.Helper()
	n, ok := v.(float64)
	require.True(t, ok, "%v is not a number", v)
	return n
}

func texts(v any) map[string]string {
	out := map[string]string{}
	m, _ := v.(map[string]any)
	for k, v := range m {
		out[k] = fmt.Sprint(v)
	}
	return out
}
