//go:build e2e && linux

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// clawGateway is a story of a gateway that is renewed in place. Its sessions get their
// prompts from other processes.
func clawGateway(replies ...mock.Reply) story {
	return story{harness: openclaw, tty: true, argv: []string{"openclaw", "gateway", "run", "--bind", "loopback"}, config: inPlace,
		flags: gatewayGrace, replies: replies}
}

// resumes waits for the fresh session of the newest renewal.
func (w *world) resumes() {
	w.t.Helper()
	w.await("the fresh session", func() bool { last := w.renewals().Last; return last.State == "resumed" || last.Outcome != "" })
	last := w.renewals().Last
	require.Equal(w.t, "resumed", string(last.State), "%s %s", last.Failure, last.Why)
}

// TestRenewalOpenclaw renews a session of a gateway by our plugin in the gateway. The
// process and the session's id stay, and the continuation is added to the next prompt.
func TestRenewalOpenclaw(t *testing.T) {
	s := clawGateway(mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA"), mock.Says("PSI"))
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the gateway", func() bool { return openclawReady(r.shown()) })
		r.openclawAsks("first prompt (p1)", "ALPHA")
		r.openclawAsks("second prompt (p2)", "BETA")
		w.asks("wait", "last", "--for", "idle")
		w.asks("renew", "last")
		w.resumes()
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		require.Equal(t, deref(last.OldSession), deref(last.NewSession), "OpenClaw keeps the id")
		require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")
		require.Equal(t, 2, r.modelAsked(), "no turn begins by itself")
		r.openclawAsks("go on (p3)", "OMEGA")
		renewed(r)
		r.openclawAsks("and on (p4)", "PSI")
		r.signals(whatWasStarted, syscall.SIGTERM)
		r.leavesWith(128 + int(syscall.SIGTERM))
		require.NotContains(t, w.questions()[3], handedOver, "it was put before one prompt")
		w.checkRenewed("/openclaw-agent.sqlite")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// asksOnce asks for a renewal in the answer to its first event.
var asksOnce = client{id: "asker", events: "frame.ended", program: `cat >/dev/null
if mkdir "$LIFELOOP_STATE_DIR/../asked" 2>/dev/null; then echo '{"status":"observed","session_boundary":{"action":"renew"}}'
else echo '{"status":"observed"}'; fi`}

// TestRenewalOpenclawAsked: a client asks for a renewal in its answer to the end of a turn.
func TestRenewalOpenclawAsked(t *testing.T) {
	s := clawGateway(mock.Says("ALPHA"), mock.Says("OMEGA"))
	s.clients = []client{asksOnce}
	s.config = strings.Replace(inPlace, "client: notes", "client: asker\n    asks: {member: session_boundary.action, value: renew}", 1)
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the gateway", func() bool { return openclawReady(r.shown()) })
		r.openclawAsks("first prompt (p1)", "ALPHA")
		r.await("the request", func() bool { return w.renewals().Last != nil })
		w.resumes()
		require.Equal(t, "client", string(w.renewals().Last.By))
		r.openclawAsks("go on (p2)", "OMEGA")
		renewed(r)
		r.signals(whatWasStarted, syscall.SIGTERM)
		r.leavesWith(128 + int(syscall.SIGTERM))
		w.checkFirstRequest(1, handedOver, "first prompt", "ALPHA")
		w.checkChain("asker")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
	})
}

// TestRenewalOpenclawElsewhere: after the reset, the next prompt is sent to another session
// of the gateway. The wrapper then follows the other session, so the renewal fails. No
// session gets the continuation.
func TestRenewalOpenclawElsewhere(t *testing.T) {
	s := clawGateway(mock.Says("ALPHA"), mock.Says("OTHER"), mock.Says("OMEGA"))
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the gateway", func() bool { return openclawReady(r.shown()) })
		r.openclawAsks("first prompt (p1)", "ALPHA")
		w.asks("wait", "last", "--for", "idle")
		w.asks("renew", "last")
		w.resumes()
		require.Contains(t, r.openclaw("agent", "--agent", "main", "--session-key", "agent:main:other", "--message", "elsewhere (p2)"), "OTHER")
		r.await("the end of the renewal", func() bool { return w.renewals().Last.Outcome != "" })
		last := w.renewals().Last
		require.Equal(t, "failed", string(last.Outcome))
		require.Equal(t, "payload_rejected", string(last.Failure))
		require.Equal(t, "the harness session ended", last.Why)
		r.openclawAsks("go on (p3)", "OMEGA")
		r.signals(whatWasStarted, syscall.SIGTERM)
		r.leavesWith(128 + int(syscall.SIGTERM))
		for i, asked := range w.questions() {
			require.NotContains(t, asked, handedOver, "request %d", i)
		}
		require.NotContains(t, w.questions()[2], "first prompt", "the session was reset")
		require.Empty(t, w.ownFiles(handedOver), "after the end of the renewal")
	})
}

// TestRenewalOpenclawLocal: a session that runs in the wrapped process, without a gateway,
// cannot be renewed. The request is refused, and the ledger has the reason.
func TestRenewalOpenclawLocal(t *testing.T) {
	s := story{harness: openclaw, argv: openclawAgent("run it (p1)"), config: inPlace, replies: openclawRuns}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the session", func() bool {
			out, err := w.tool("--json", "status", "last")
			return err == nil && strings.Contains(out, `"RUNNING"`)
		})
		out, err := w.tool("renew", "last")
		require.Error(t, err, out)
		require.Equal(t, "refused", string(w.renewals().Last.Outcome))
		require.Equal(t, "required capability renewal.continuation.observation is unavailable", w.renewals().Last.Why)
		r.leavesWith(0)
		facts, err := r.tool("events", "last", "--as", "facts")
		require.NoError(t, err)
		require.Contains(t, facts, "only a gateway can reset its sessions")
		for i, asked := range w.questions() {
			require.NotContains(t, asked, handedOver, "request %d", i)
		}
	})
}
