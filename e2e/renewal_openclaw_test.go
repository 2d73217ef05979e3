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
	return story{harness: openclaw, tty: true, argv: []string{"openclaw", "gateway", "run", "--bind", "loopback"}, config: inPlace, replies: replies}
}

// TestRenewalOpenclaw renews a session of a gateway by our plugin in it: the process
// and the session's id stay, and the next prompt carries the continuation.
func TestRenewalOpenclaw(t *testing.T) {
	s := clawGateway(mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA"), mock.Says("PSI"))
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the gateway", func() bool { return openclawReady(r.shown()) })
		r.openclawAsks("first prompt (p1)", "ALPHA")
		r.openclawAsks("second prompt (p2)", "BETA")
		w.asks("wait", "last", "--for", "idle")
		w.asks("renew", "last")
		r.await("the fresh session", func() bool { return w.renewals().Last.State == "resumed" || w.renewals().Last.Outcome != "" })
		last := w.renewals().Last
		require.Equal(t, "resumed", string(last.State), "%+v", last)
		require.Equal(t, "in_place", string(last.Path))
		require.Equal(t, deref(last.OldSession), deref(last.NewSession), "OpenClaw keeps the id")
		require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")
		require.Equal(t, 2, r.modelAsked(), "no turn begins by itself")
		r.openclawAsks("go on (p3)", "OMEGA")
		renewed(r)
		r.openclawAsks("and on (p4)", "PSI")
		r.signals(whatWasStarted, syscall.SIGTERM)
		r.leavesWith(128 + int(syscall.SIGTERM))
		require.Equal(t, 1, strings.Count(w.questions()[3], handedOver), "it stays in the conversation, once")
		w.checkRenewed("/openclaw-agent.sqlite")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}
