//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// This file is the kill matrix of a session with a renewal. A client asks for
// the renewal after the first turn. At one append to the ledger, a process is killed or
// the disk is full. In every case each renewal has one end, and the parent of each receipt
// of a renewal is the previous receipt of the same renewal. The continuation is taken from
// the vault at most once.

// renewalConfig is the configuration of a session whose client asks for a renewal
// once. Each plot replaces the word PATH.
const renewalConfig = `
clients:
  - id: notes
    events: [frame.ended]
    command: [sh, -c, 'cat >/dev/null; if mkdir asking 2>/dev/null; then echo "{\"status\":\"delivered\",\"session_boundary\":{\"action\":\"renew\"}}"; else echo "{\"status\":\"observed\"}"; fi']
profiles:
  - name: handoff
    client: notes
    asks: {member: session_boundary.action, value: renew}
    prepare: {command: [sh, -c, 'echo x >>prepared; echo canary-$(wc -l <prepared)']}
    continue: {command: [sh, -c, 'read token; echo $token >>given; echo "go on with $token."']}
    paths: [PATH]
renewal: {profiles: [handoff]}
client_drain: 3s
`

// renewalPlot is a harness that waits after its first turn. Each later launch has one
// turn and ends.
func renewalPlot() plot {
	return plot{config: strings.Replace(renewalConfig, "PATH", "relaunch", 1), flags: []string{"--pty", "always"}, argv: []string{"claude"},
		env: []string{"FAKEHARNESS_LAUNCHES=count", "FAKEHARNESS_SCRIPT=first",
			`FAKEHARNESS_SCRIPT_JSON={"start":{}}{"show_context":true}{"turn":{"prompt":"q","answer":"b","used":20000}}{"end":"other"}`},
		files: map[string]string{"first": `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":160000}}{"sleep_ms":60000}`}}
}

// inPlacePlot is a harness that takes keys after its first turn, until its context is
// emptied or the user leaves it.
func inPlacePlot() plot {
	p := renewalPlot()
	p.open = true
	p.config = strings.Replace(renewalConfig, "PATH", "in_place, relaunch", 1)
	p.files = map[string]string{"first": `{"start":{}}{"raw_mode":true}{"turn":{"prompt":"p","answer":"a","used":160000}}{"interact":{"show_context":true,"clears":1}}{"turn":{"prompt":"q","answer":"b","used":20000}}{"end":"other"}`}
	return p
}

// inPlaceCodexPlot is the session of [inPlacePlot] with a stand-in for Codex. A lock file
// shows the fresh thread (Codex's word for a conversation) before the next turn. The first
// hook of the thread is called only in this turn.
func inPlaceCodexPlot() plot {
	p := inPlacePlot()
	p.argv = []string{"codex"}
	next := `{"turn":{"prompt":"q","answer":"b","used":20000}}{"show_context":true}{"end":"other"}`
	p.env = []string{"FAKEHARNESS_LAUNCHES=count", "FAKEHARNESS_SCRIPT=first", `FAKEHARNESS_SCRIPT_JSON={"start":{}}` + next}
	p.files = map[string]string{"first": `{"start":{}}{"raw_mode":true}{"turn":{"prompt":"p","answer":"a","used":160000}}{"interact":{"clears":1}}{"sleep_ms":500}` + next}
	return p
}

// byHookPlot is a session with a stand-in for Gemini CLI, whose hook at the end of a turn
// can empty the context. The client asks for the renewal in its answer to frame.ending.
// The next prompt comes at once.
func byHookPlot() plot {
	p := renewalPlot()
	p.config = strings.NewReplacer("PATH", "in_place, relaunch", "frame.ended", "frame.ending").Replace(renewalConfig)
	p.flags = append(p.flags, "--adapter", "gemini")
	p.argv = []string{"fakeharness", "--as", "gemini"}
	next := `{"turn":{"prompt":"q","answer":"b","used":20000}}{"show_context":true}{"end":"exit"}`
	p.env = []string{"FAKEHARNESS_LAUNCHES=count", "FAKEHARNESS_SCRIPT=first", `FAKEHARNESS_SCRIPT_JSON={"start":{}}` + next}
	p.files = map[string]string{"first": `{"start":{}}{"turn":{"prompt":"p","answer":"a","used":160000}}` + next}
	return p
}

// renewed checks the promises about renewals, and returns the end of each.
func (m *matrix) renewed() (ends []renewal.State) {
	t := m.t
	state, parent := renewal.Idle, ""
	var last lifeloop.Receipt
	for _, e := range m.entries() {
		switch f := e.Fact.(type) {
		case kernel.RenewalMoved:
			require.NoError(t, renewal.Check(state, f.To))
			state = f.To
			switch {
			case f.To == renewal.Asked:
				parent = ""
			case f.To.Over():
				ends = append(ends, f.To)
				require.Equal(t, f.To == renewal.Delivered, f.Failure == "")
			}
		case kernel.ReceiptIssued:
			if f.Renewal == "" {
				continue
			}
			if parent == "" {
				require.Nil(t, f.Receipt.ParentReceiptID)
			} else {
				require.Equal(t, parent, *f.Receipt.ParentReceiptID)
			}
			parent, last = f.Receipt.ReceiptID, f.Receipt
		}
	}
	require.True(t, state == renewal.Idle || state.Over(), "a renewal without an end: %s", state)
	if state.Over() {
		want := lifeloop.Failed
		if state == renewal.Delivered {
			want = lifeloop.Delivered
		}
		require.Equal(t, want, last.Status, "the last receipt of a renewal that is %s", state)
	}

	given, _ := os.ReadFile(filepath.Join(m.dir, "given")) // missing if the command under "continue" was not run
	lines := strings.Fields(string(given))
	require.LessOrEqual(t, len(lines), 1, "the continuation left the vault twice")
	require.LessOrEqual(t, strings.Count(m.printed, "go on with canary"), len(lines), "it was delivered twice")
	if state == renewal.Delivered {
		require.Len(t, lines, 1)
	}
	held, err := filepath.Glob(filepath.Join(m.sessionDir(), "vault", "*.held"))
	require.NoError(t, err)
	require.Empty(t, held, "a continuation is left of a renewal that is %s", state)
	return ends
}

// facts returns the facts of the ledger as text.
func (m *matrix) facts() string {
	var b strings.Builder
	for _, e := range m.entries() {
		fmt.Fprintf(&b, "%s %T %+v\n", e.At.Format(time.StampMilli), e.Fact, e.Fact)
	}
	return b.String()
}

func TestKillRenewal(t *testing.T) { killRenewal(t, renewalPlot()) }

// TestKillRenewalInPlace kills sessions whose renewal types keys.
func TestKillRenewalInPlace(t *testing.T) { killRenewal(t, inPlacePlot()) }

// TestKillRenewalInPlaceCodex kills sessions of a harness whose fresh harness session is
// known before its first hook is called.
func TestKillRenewalInPlaceCodex(t *testing.T) {
	calm := killRenewal(t, inPlaceCodexPlot())
	require.True(t, slices.ContainsFunc(calm.entries(), func(e kernel.Entry) bool {
		o, ok := e.Fact.(kernel.Observed)
		return ok && o.Record.Event == lifeloop.SessionStarted && slices.ContainsFunc(o.Record.Evidence, func(ev lifeloop.Evidence) bool { return ev.Source == "threads" })
	}), "the lock does not show the fresh thread: %s", calm.facts())
}

// TestKillRenewalByHook kills sessions whose renewal answers a hook. After the answer the
// harness empties its context and keeps its harness session.
func TestKillRenewalByHook(t *testing.T) {
	calm := killRenewal(t, byHookPlot())
	require.True(t, slices.ContainsFunc(calm.entries(), func(e kernel.Entry) bool {
		f, ok := e.Fact.(kernel.RenewalTyped)
		return ok && f.Means == renewal.ByHook
	}), "no hook was answered: %s", calm.facts())
	require.Contains(t, calm.printed, "Agent execution stopped: lifeloop-wrap renews the context")
}

// killRenewal plays a story without a kill, and then once for each point of the kill
// matrix. It returns the session without a kill.
func killRenewal(t *testing.T, story plot) *matrix {
	t.Parallel()
	bin := built(t, besides)

	calm := newMatrix(t, bin, story)
	require.Equal(t, 1, calm.live("none before 0"), calm.printed)
	calm.holds()
	require.Equal(t, []renewal.State{renewal.Delivered}, calm.renewed(), "%s", calm.facts())
	require.Equal(t, 1, strings.Count(calm.printed, "go on with canary-1."), calm.printed)
	batches := map[time.Time]bool{}
	for _, e := range calm.entries() {
		batches[e.At] = true
	}

	points, all := pointsOf(len(batches))
	began := time.Now()
	var delivered, failed, undone, never atomic.Int64
	t.Run("points", func(t *testing.T) {
		for _, point := range points {
			t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
				t.Parallel()
				m := newMatrix(t, bin, story)
				m.live(point)
				if !m.there() {
					return
				}
				m.holds()
				ends := m.renewed()
				switch {
				case slices.Contains(ends, renewal.Delivered):
					delivered.Add(1)
				case slices.Contains(ends, renewal.Failed):
					failed.Add(1)
				case len(ends) > 0:
					undone.Add(1)
				default:
					never.Add(1)
				}
				if t.Failed() {
					t.Log(m.printed)
				}
			})
		}
	})
	t.Logf("%d of %d points of the kill matrix of a renewal in %v: %d delivered, %d failed, %d refused or rolled back, %d never asked for",
		len(points), all, time.Since(began).Round(time.Second), delivered.Load(), failed.Load(), undone.Load(), never.Load())
	return calm
}
