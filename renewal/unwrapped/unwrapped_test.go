package unwrapped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/dispatch"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
	"lifeloop/renewal/profile"
	"lifeloop/vault"
)

// A world is a folder in which hooks are called. It is also the client of the profile, and
// each call of the client returns answer and failure.
type world struct {
	t        *testing.T
	cfg      Config
	reported []string
	answer   dispatch.Answer
	failure  error
	calls    int
}

// Call implements the client.
func (w *world) Call(context.Context, []byte) (dispatch.Answer, error) {
	w.calls++
	return w.answer, w.failure
}

func newWorld(t *testing.T) *world {
	m, ok := manifests.Get("codex")
	require.True(t, ok)
	w := &world{t: t, answer: dispatch.Answer{Body: []byte(`{"status":"delivered"}`)}}
	p := profile.Profile{}
	p.SetDefaults()
	p.Name, p.Client, p.Asks = "handoff", "notes", profile.Asks{Member: "do", Value: "renew"}
	p.Prepare.Command = []string{"sh", "-c", "echo token of $LIFELOOP_HARNESS_SESSION_ID"}
	p.Continue.Command = []string{"sh", "-c", "read -r token; echo text for $token"}
	ids, now := 0, time.Unix(1778100000, 0)
	w.cfg = Config{Profile: p, Manifest: m, Dir: t.TempDir(), Vault: vault.At(filepath.Join(t.TempDir(), "vault")),
		NewID:  func(prefix string) string { ids++; return fmt.Sprint(prefix, ids) },
		Report: func(what string, err error) { w.reported = append(w.reported, what+": "+err.Error()) },
		Now:    func() time.Time { return now }}
	return w
}

// hook calls a hook of a harness session and returns the texts of the answer's payloads.
func (w *world) hook(session string, event lifeloop.Event) []string {
	w.t.Helper()
	r, err := New(w.cfg)
	require.NoError(w.t, err)
	r.Serve(w, map[lifeloop.Event]bool{lifeloop.FrameEnding: true})
	asked := lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: lifeloop.CallbackRequest{SchemaVersion: lifeloop.Version, Event: event, EventID: "evt_1",
		AdapterID: w.cfg.Manifest.AdapterID, AdapterVersion: "1", IntegrationMode: lifeloop.NativeHook, InvocationID: "inv_1", HarnessSessionID: &session}}
	if event == lifeloop.FrameEnding || event == lifeloop.FrameOpening {
		asked.Request.FrameContext = &lifeloop.FrameContext{FrameID: "f1", FrameClass: lifeloop.TopLevel}
	}
	envelope, err := asked.Encode()
	require.NoError(w.t, err)
	answer, err := r.Call(w.t.Context(), envelope)
	require.Equal(w.t, w.failure, err)
	var texts []string
	if response, err := lifeloop.ParseCallbackResponse(answer.Body); err == nil {
		for _, p := range response.ClientPayloads {
			require.Equal(w.t, "notes", p.ClientID)
			texts = append(texts, p.Body.Reveal())
		}
	}
	return texts
}

// asks makes the client's answers ask for a renewal.
func (w *world) asks() { w.answer.Body = []byte(`{"status":"delivered","do":"renew"}`) }

// held returns the number of continuations in the vault.
func (w *world) held() int {
	held, err := w.cfg.Vault.Held(func(vault.Binding) bool { return true }, w.cfg.Now())
	require.NoError(w.t, err)
	return len(held)
}

// If the client asks for a renewal, the hook prepares a continuation. A hook at the start
// of another harness session delivers this continuation, once. The client is called only
// for the events that it subscribed to.
func TestTwoCalls(t *testing.T) {
	w := newWorld(t)
	require.Empty(t, w.hook("old", lifeloop.FrameEnding))
	require.Zero(t, w.held(), "nothing asked")
	w.asks()
	require.Empty(t, w.hook("old", lifeloop.FrameEnding))
	require.Empty(t, w.hook("old", lifeloop.FrameEnding))
	require.Equal(t, 1, w.held(), "the newest continuation of a session replaces the older one")
	require.Empty(t, w.hook("old", lifeloop.SessionStarted), "it was not reset")
	require.Empty(t, w.hook("new", lifeloop.FrameOpening), "text is accepted at the start of a session")
	require.Equal(t, []string{"text for token of old\n"}, w.hook("new", lifeloop.SessionStarted))
	require.Empty(t, w.hook("third", lifeloop.SessionStarted))
	require.Zero(t, w.held())
	require.Empty(t, w.reported)
	require.Equal(t, 3, w.calls)
}

// A continuation that cannot be assigned or has expired is reported and not delivered.
func TestNotDelivered(t *testing.T) {
	w := newWorld(t)
	w.asks()
	w.hook("one", lifeloop.FrameEnding)
	w.hook("two", lifeloop.FrameEnding)
	require.Empty(t, w.hook("new", lifeloop.SessionStarted))
	require.Equal(t, []string{"deliver a continuation: 2 harness sessions in this folder have prepared a continuation, and it is not known which of them was reset (operator_required)"}, w.reported)
	require.Equal(t, 2, w.held())

	require.NoError(t, Forget(w.cfg.Vault, w.cfg.Now(), func(b vault.Binding) bool { return b.HarnessSession == "two" }))
	require.Equal(t, 1, w.held())
	later := w.cfg.Now().Add(25 * time.Hour)
	w.cfg.Now, w.reported = func() time.Time { return later }, nil
	require.Empty(t, w.hook("new", lifeloop.SessionStarted))
	require.Equal(t, []string{"deliver a continuation: the continuation of harness session one expired before it could be delivered (timeout)"}, w.reported)
	require.Empty(t, w.hook("new", lifeloop.SessionStarted))
	require.Len(t, w.reported, 1, "it is reported once")
}

// If a renewal fails, the client's answer is returned unchanged. If the client fails, its
// error is returned, and nothing is prepared.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.asks()
	w.cfg.Profile.Prepare.Command = []string{"sh", "-c", "exit 3"}
	w.hook("old", lifeloop.FrameEnding)
	require.Equal(t, []string{"prepare a renewal: client notes: exit status 3 (transport_error)"}, w.reported)

	w.reported = nil
	w.cfg.Manifest = negotiate.Weaken(w.cfg.Manifest, negotiate.ContinuationDelivery, lifeloop.Unavailable)
	w.hook("old", lifeloop.FrameEnding)
	require.Equal(t, []string{"prepare a renewal: required capability renewal.continuation.payload_delivery is unavailable (capability_unsupported)"}, w.reported)

	w.reported, w.failure = nil, errors.New("the client failed")
	w.hook("old", lifeloop.FrameEnding)
	require.Empty(t, w.reported)
	require.Zero(t, w.held())
}

// A continuation is not delivered in another folder, or to the harness of another adapter.
func TestBinding(t *testing.T) {
	w := newWorld(t)
	w.asks()
	w.hook("old", lifeloop.FrameEnding)
	here := w.cfg.Dir
	w.cfg.Dir = filepath.Join(here, "elsewhere")
	require.NoError(t, os.Mkdir(w.cfg.Dir, 0o700))
	require.Empty(t, w.hook("new", lifeloop.SessionStarted))
	w.cfg.Dir, w.cfg.Manifest.AdapterID = here, "other"
	require.Empty(t, w.hook("new", lifeloop.SessionStarted))
	require.Empty(t, w.reported)
	require.Equal(t, 1, w.held())
}
