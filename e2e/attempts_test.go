//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// The sessions of these stories have several launches, or a delayed one. They have
// no bare counterpart.

// plays runs a story in its own world, only wrapped.
func (s story) plays(t *testing.T, play func(w *world)) {
	alone(t, s.harness, func(t *testing.T) { play(newWorld(t, s)) })
}

// A standing is the part of `status --json` that the tests use.
type standing struct {
	summary
	SessionID        string `json:"session_id"`
	HarnessSessionID string `json:"harness_session_id"`
	State            string `json:"state"`
	Activity         string `json:"activity"`
	Adapter          string `json:"adapter_id"`
	Profile          string `json:"profile"`
	Attempt          int    `json:"attempt"`
}

func (w *world) status() (s standing) {
	w.t.Helper()
	out, err := w.tool("--json", "status", "last")
	require.NoError(w.t, err, out)
	require.NoError(w.t, json.Unmarshal([]byte(out), &s), out)
	return s
}

// checkUsage compares the usage and the number of turns in the status with the records of
// the model server. Each call of the main conversation must be counted exactly once.
func (w *world) checkUsage(s standing) {
	w.t.Helper()
	given := w.given(0, nil)
	if s.Usage.Main != given.Main || s.Turns != len(given.Turns) {
		w.t.Errorf("status: %+v in %d turns, but the model server gave %+v in %v", s.Usage.Main, s.Turns, given.Main, given.Turns)
	}
}

// A move is an event of the protocol L0 (docs/contract/l0.md), without the fields that
// all events have.
type move struct {
	Type     string `json:"type"`
	Error    string `json:"error"`
	Failure  string `json:"failureType"`
	Recovery string `json:"recoveryStrategy"`
	Attempt  int    `json:"attempt"`
}

// l0 is the session as events of L0.
func (w *world) l0() []move {
	w.t.Helper()
	out, err := w.tool("events", "last", "--as", "l0")
	require.NoError(w.t, err)
	return lines[move](w.t, out)
}

func types(all []move) (out []string) {
	for _, m := range all {
		out = append(out, m.Type)
	}
	return out
}

// oneLaunch are the L0 events of a launch that succeeds.
const oneLaunch = "STREAM_INIT ADAPTER_WRAP_START ADAPTER_DETECTED ADAPTER_WRAP_END STREAM_READY"

// compareL0 compares the types of the L0 events.
func (w *world) compareL0(want string) {
	w.t.Helper()
	got := strings.ReplaceAll(strings.Join(types(w.l0()), " "), oneLaunch, "(launch)")
	if want = strings.Join(strings.Fields(want), " "); got != want {
		w.t.Errorf("as L0:\n  %s\nwant:\n  %s", got, want)
	}
}

// An hcpEvent is the payload of an envelope of the protocol HCP (docs/contract/hcp.md).
type hcpEvent struct {
	Type     string         `json:"event_type"`
	Sequence int            `json:"sequence"`
	Data     map[string]any `json:"data"`
}

// hcp is the session as events of HCP, whose sequence has no gap.
func (w *world) hcp() []hcpEvent {
	w.t.Helper()
	out, err := w.tool("events", "last", "--as", "hcp")
	require.NoError(w.t, err)
	var all []hcpEvent
	for i, e := range lines[struct {
		Payload hcpEvent `json:"payload"`
	}](w.t, out) {
		if e.Payload.Sequence != i+1 {
			w.t.Errorf("HCP: event %d has sequence %d", i+1, e.Payload.Sequence)
		}
		all = append(all, e.Payload)
	}
	return all
}

// compareHCP compares the errors, state changes and end in the HCP events.
func (w *world) compareHCP(want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.hcp() {
		word := func(name string) string { return e.Data[name].(string) }
		switch e.Type {
		case "session_created":
			got = append(got, "created "+word("state"))
		case "state_changed":
			got = append(got, word("from_state")+" "+word("to_state")+" "+word("reason"))
		case "error":
			text := "error " + word("code")
			if e.Data["recoverable"] == true {
				text += " recoverable"
			}
			got = append(got, text)
		case "session_closed":
			got = append(got, "closed "+word("final_state"))
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("as HCP:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// checkTerminal checks that the terminal is restored after a run.
func (r *run) checkTerminal() {
	r.t.Helper()
	if !poll(2*time.Second, func() bool {
		return len(modesLeft(r.shown())) == 0 && *attributes(r.t, r.tty) == *r.before
	}) {
		r.t.Errorf("the terminal has the modes %v and the attributes\n%+v, want\n%+v", modesLeft(r.shown()), attributes(r.t, r.tty), r.before)
	}
}

// TestLaunchedAgain kills a harness at its prompt. It is relaunched in the same
// terminal, and the user continues.
func TestLaunchedAgain(t *testing.T) {
	s := story{harness: claude, tty: true, argv: claudeArgs(), flags: []string{"--retries", "1"}}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "hello (p1)")
		before := harnessPID()
		r.signals(theHarness, syscall.SIGKILL)
		r.await("the next launch", func() bool {
			now := harnessPID()
			return now != 0 && now != before
		})
		claudeReady(r)
		claudeTurn(r, "again (p2)")
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()

		rec := w.recorded()
		compareEvents(t, sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "SIGKILL"),
			starts("S? S2", "startup"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "prompt_input_exit")), rec.events)
		rec.checkReceipts(t, everyStory)
		w.compareL0(`SESSION_START (launch) ERROR RETRY_START RETRY_ATTEMPT ATTEMPT_START (launch) COMPLETE RETRY_END`)
		if failed := w.l0()[6]; failed != (move{"ERROR", "SIGKILL ended the harness", "model", "retry", 0}) {
			t.Errorf("as L0: %+v", failed)
		}
		w.compareHCP("created RUNNING", "error execution_error recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED")
		status := w.status()
		if status.Attempt != 2 || status.State != "COMPLETED" {
			t.Errorf("status: attempt %d, %s", status.Attempt, status.State)
		}
		w.checkUsage(status)
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// quoted is a command line as the value of a flag.
func quoted(argv []string) string {
	var words []string
	for _, a := range argv {
		words = append(words, "'"+a+"'") // none of our arguments contains a quote
	}
	return strings.Join(words, " ")
}

// ended are the ends of the session's attempts, from its ledger.
func (w *world) ended() (out []ending) {
	w.t.Helper()
	text, err := w.tool("events", "last", "--as", "facts")
	require.NoError(w.t, err)
	for _, f := range lines[struct {
		Kind string `json:"kind"`
		Fact ending `json:"fact"`
	}](w.t, text) {
		if f.Kind == "attempt_ended" {
			out = append(out, f.Fact)
		}
	}
	return out
}

type ending struct {
	Name     string `json:"name"`
	Cause    string `json:"cause"`
	Evidence string `json:"evidence"`
	Code     int    `json:"code"`
	Recovery string `json:"recovery"`
}

// TestLaunchedToContinue kills a harness in the middle of a turn. The policy says
// that the next launch continues its session.
func TestLaunchedToContinue(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), flags: []string{"--retries", "1"}, config: "attempts: {continuation: true}",
		replies: []mock.Reply{mock.Says("well"), {Silent: true}},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "one (p1)")
		r.types("two (p2)\r")
		r.await("the question", func() bool { return w.modelAsked() == 2 && r.transcripts("two (p2)") > 0 })
		session, before := w.sessions()[0], harnessPID()
		r.signals(theHarness, syscall.SIGKILL)
		r.await("the next launch", func() bool {
			now := harnessPID()
			return now != 0 && now != before
		})
		claudeReady(r)
		claudeTurn(r, "three (p3)")
		if asked := w.questions()[2]; !strings.Contains(asked, "(p1)") || !strings.Contains(asked, "(p2)") {
			t.Errorf("the model was asked: %s", asked)
		}
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()

		compareEvents(t, sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"),
			frame("S1 F2", "abandoned"), ends("S1", "SIGKILL"), starts("S1", "resume"), frame("S1 F3", "completed"),
			pressure("low", "S1 F3"), ends("S1", "prompt_input_exit")), w.recorded().events)
		w.compareL0(`SESSION_START (launch) CHECKPOINT_SAVED ERROR RETRY_START RETRY_ATTEMPT ATTEMPT_START
			CONTINUATION_START RESUME_START (launch) COMPLETE RETRY_END`)
		w.compareHCP("created RUNNING", "error execution_error recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED")
		if got := w.sessions(); !slices.Equal(got, []string{session}) {
			t.Errorf("sessions on record: %v, want %s alone", got, session)
		}
		w.checkUsage(w.status())
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestFallback lets the model reject the requests of Claude Code until Claude Code fails.
// Codex, another harness, then does the work in the same session.
func TestFallback(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		cause  string
	}{
		"rate limit":   {429, "rate_limit"},
		"server error": {529, "server_error"},
	} {
		refused := mock.Reply{Error: c.status, RetryAfter: "1"}
		s := story{
			harness: claude, argv: claudeArgs("-p", "do it (p1)"), flags: []string{"--fallback", quoted(codexExec("do it (p2)"))},
			env:     append([]string{"CLAUDE_CODE_MAX_RETRIES=1"}, codex.env...),
			replies: []mock.Reply{refused, refused, mock.Says("done")},
		}
		t.Run(name, func(t *testing.T) {
			s.plays(t, func(w *world) {
				r := w.start(s, true)
				if code := r.leaves(); code != 0 || !strings.HasSuffix(r.shown(), "\ndone\n") {
					t.Errorf("exit code %d, and printed: %q", code, r.shown())
				}
				rec := w.recorded()
				compareEvents(t, sequence(starts("S1", "startup"), frame("S1 F1", "failed transport_error"), ends("S1", "other"),
					starts("S? S2", "startup"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "other")), rec.events)
				rec.checkReceipts(t, everyStory)
				ends := w.ended()
				require.Len(t, ends, 2)
				if by := ends[0].Evidence; by != "hook" && by != "transcript" { // both report the failure, and the later report counts
					t.Errorf("the evidence of the first attempt's failure is %s", by)
				}
				ends[0].Evidence = ""
				require.Equal(t, []ending{
					{Name: "primary", Cause: c.cause, Code: 1, Recovery: "fallback"},
					{Name: "fallback-1", Evidence: "exit 0"},
				}, ends)
				w.compareL0("SESSION_START (launch) ERROR FALLBACK_START FALLBACK_MODEL_SELECTED (launch) COMPLETE FALLBACK_END")
				w.compareHCP("created RUNNING", "error resource_unavailable recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED")
				status := w.status()
				if status.State != "COMPLETED" || status.Adapter != "codex" || status.Profile != "fallback-1" || status.Attempt != 1 {
					t.Errorf("status: %+v", status)
				}
				w.checkUsage(status)
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// TestRateLimitExit ends a session at its first rate limit, even where the harness
// would wait for the next prompt.
func TestRateLimitExit(t *testing.T) {
	for name, s := range map[string]story{
		"claude":    {harness: claude, tty: true, argv: claudeArgs()},
		"claude -p": {harness: claude, argv: claudeArgs("-p", "do it (p1)")},
		"codex":     {harness: codex, tty: true, argv: codexArgs()},
	} {
		s.flags, s.replies = []string{"--on-limit", "exit"}, []mock.Reply{mock.Fails(429)}
		t.Run(name, func(t *testing.T) {
			s.plays(t, func(w *world) {
				r := w.start(s, true)
				switch {
				case !s.tty:
				case s.harness.name == codex.name:
					codexReady(r)
					codexSends(r, "do it (p1)")
				default:
					claudeReady(r)
					r.types("do it (p1)\r")
				}
				r.leavesWith(75)
				if s.tty {
					r.checkTerminal()
				}
				ends := w.ended()
				require.Len(t, ends, 1)
				if e := ends[0]; e.Cause != "rate_limit" || e.Evidence != "stopped for rate_limit" || e.Recovery != "halt" {
					t.Errorf("the attempt ended: %+v", e)
				}
				w.compareL0("SESSION_START (launch) ERROR")
				w.compareHCP("created RUNNING", "error resource_unavailable", "RUNNING FAILED rate_limit", "closed FAILED")
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// limited returns headers by which Codex learns when the limit is lifted.
func limited(wait time.Duration) func() map[string]string {
	return func() map[string]string {
		return map[string]string{"X-Codex-Primary-Used-Percent": "100", "X-Codex-Primary-Window-Minutes": "300",
			"X-Codex-Primary-Reset-At": strconv.FormatInt(time.Now().Add(wait).Unix(), 10)}
	}
}

// TestRateLimitWait waits for the end of a usage limit, at the time that Codex
// reports, and retries.
func TestRateLimitWait(t *testing.T) {
	s := story{
		harness: codex, argv: codexExec("do it (p1)"), flags: []string{"--on-limit", "wait"},
		replies: []mock.Reply{{Error: 429, Limit: true, Header: limited(9 * time.Second)}, mock.Says("done")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the wait", func() bool { return len(w.model.Calls()) == 1 && w.status().State == "PAUSED" })
		if code := r.leaves(); code != 0 || r.shown() != "done\n" {
			t.Errorf("exit code %d, and printed: %q", code, r.shown())
		}
		require.Equal(t, []ending{
			{Name: "codex", Cause: "rate_limit", Evidence: "rollout", Code: 1, Recovery: "retry"},
			{Name: "codex", Evidence: "exit 0"},
		}, w.ended())
		w.compareL0("SESSION_START (launch) ERROR RETRY_START RETRY_ATTEMPT ATTEMPT_START (launch) COMPLETE RETRY_END")
		w.compareHCP("created RUNNING", "error resource_unavailable recoverable", "RUNNING PAUSED limit", "PAUSED RUNNING retry",
			"RUNNING COMPLETED exit 0", "closed COMPLETED")
		if status := w.status(); status.Usage.Main != w.given(0, nil).Main || status.Turns != 2 {
			t.Errorf("status: %+v", status)
		}
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}
