package examples_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/fakeharness"
	"lifeloop/lifeloop"
)

var threadSync = sync.OnceValues(func() (string, error) { return build("thread-sync", "lifeloop/examples/thread-sync") })

// invoke sends an envelope to a client with `event invoke`.
func (w *world) invoke(client string, e lifeloop.DispatchEnvelope) lifeloop.CallbackResponse {
	w.t.Helper()
	doc, err := e.Encode()
	require.NoError(w.t, err)
	cmd := exec.Command(w.wrap, "event", "invoke", "--client", client, "--timeout", "2m")
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, w.env, bytes.NewReader(doc)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(w.t, err, complaints.String())
	answer, err := lifeloop.ParseCallbackResponse(out)
	require.NoError(w.t, err)
	return answer
}

// playThrough wraps the scripted harness with one client. It returns the number
// of events of each kind that the client received, according to its receipts, and
// the number of receipts by status. No event is skipped, however slow the client
// is on a loaded machine.
func (w *world) playThrough(client map[string]any) (took map[lifeloop.Event]int, statuses map[string]int) {
	w.t.Helper()
	const story, clientID = "claude-demo", "example"
	w.env = append(w.env, fakeharness.Environment(story, w.dir, true)...)
	harness := filepath.Join(w.dir, fakeharness.NameOf(story))
	require.NoError(w.t, os.Symlink(w.wrap, harness))
	client["id"], client["timeout"] = clientID, "2m"
	config, err := json.Marshal(map[string]any{"clients": []any{client}})
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, ".lifeloop.yaml"), config, 0o600))
	w.run("trust")
	w.run("run", "--client-drain", "2m", "--", harness)
	took, statuses = map[lifeloop.Event]int{}, map[string]int{}
	for _, r := range w.receipts() {
		require.Equal(w.t, clientID, r.ClientID)
		statuses[string(r.Status)]++
		took[r.Event]++
		require.Equal(w.t, lifeloop.Observed, r.Status, "%s: %v", r.Event, r.Warnings)
	}
	require.NotEmpty(w.t, took)
	return took, statuses
}

func envelope(event lifeloop.Event, id string) lifeloop.DispatchEnvelope {
	session, key := "thread-1", "idem_"+id
	r := lifeloop.CallbackRequest{
		SchemaVersion: lifeloop.Version, Event: event, EventID: id, AdapterID: "any", AdapterVersion: "1", InvocationID: "inv_" + id,
		IntegrationMode: lifeloop.LauncherWrapper, HarnessSessionID: &session, IdempotencyKey: &key,
	}
	if event.Frame() {
		r.FrameContext = &lifeloop.FrameContext{FrameID: "frame-1", FrameClass: lifeloop.TopLevel}
	}
	return lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: r}
}

// A repeated event is stored once, and a contradicting one is refused.
func TestThreadSync(t *testing.T) {
	client, err := threadSync()
	require.NoError(t, err)
	w := newWorld(t)
	state := filepath.Join(w.dir, "threads.jsonl")
	client = "'" + client + "' --state '" + state + "'"
	show := func() string {
		program, _ := threadSync()
		out, err := exec.Command(program, "--state", state, "--show").Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}

	opening, ended := envelope(lifeloop.FrameOpening, "evt_2"), envelope(lifeloop.FrameEnded, "evt_3")
	ended.Request.EventData = map[string]any{"outcome": "completed"}
	receipt := envelope(lifeloop.ReceiptEmitted, "evt_4")
	receipt.Request.EventData = map[string]any{"receipt_id": "lfr_1", "status": "delivered"}
	observed := lifeloop.CallbackResponse{SchemaVersion: lifeloop.Version, Status: lifeloop.Observed}
	for _, e := range []lifeloop.DispatchEnvelope{envelope(lifeloop.SessionStarted, "evt_1"), opening} {
		require.Equal(t, observed, w.invoke(client, e))
	}
	require.JSONEq(t, `{"thread":"thread-1","ended":false,"open_frames":["frame-1"],"frames":{},"receipts":{}}`, show())

	// A partial last line, of a killed writer, is dropped.
	f, err := os.OpenFile(state, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"adapter_id":"any","event_`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for _, e := range []lifeloop.DispatchEnvelope{ended, receipt} {
		require.Equal(t, observed, w.invoke(client, e))
	}
	const whole = `{"thread":"thread-1","ended":false,"open_frames":[],"frames":{"completed":1},"receipts":{"delivered":1}}`
	require.JSONEq(t, whole, show())

	before, err := os.ReadFile(state)
	require.NoError(t, err)
	again := observed
	again.Warnings = []string{"repeated; nothing written"}
	retried := ended
	retried.Request.InvocationID = "inv_of_the_retry"
	require.Equal(t, again, w.invoke(client, retried))
	conflict := lifeloop.StateConflict
	refused := lifeloop.CallbackResponse{SchemaVersion: lifeloop.Version, Status: lifeloop.Failed, FailureClass: &conflict}
	otherOutcome := ended
	otherOutcome.Request.EventData = map[string]any{"outcome": "failed"}
	require.Equal(t, refused, w.invoke(client, otherOutcome))
	sameKey := ended
	sameKey.Request.EventID = "evt_9"
	require.Equal(t, refused, w.invoke(client, sameKey))
	after, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, 4, bytes.Count(after, []byte("\n")))

	older := envelope(lifeloop.SessionEnded, "evt_5")
	const v01 = "lifeloop.v0.1"
	older.SchemaVersion, older.Request.SchemaVersion = v01, v01
	require.Equal(t, lifeloop.CallbackResponse{SchemaVersion: v01, Status: lifeloop.Observed}, w.invoke(client, older))
	require.Contains(t, show(), `"ended":true`)
}

// In a wrapped session, the file that the thread-sync client writes agrees with the ledger.
func TestThreadSyncBelowAHarness(t *testing.T) {
	client, err := threadSync()
	require.NoError(t, err)
	w := newWorld(t)
	state := filepath.Join(w.dir, "threads.jsonl")
	took, statuses := w.playThrough(map[string]any{"command": []string{client, "--state", state}, "events": []string{"*", "receipt.emitted"}})

	out, err := exec.Command(client, "--state", state, "--show").Output()
	require.NoError(t, err)
	frames, receipts := 0, map[string]int{}
	for line := range strings.Lines(string(out)) {
		var thread struct {
			Thread           string
			Ended            bool
			Open             []string `json:"open_frames"`
			Frames, Receipts map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &thread))
		if len(thread.Open) > 0 {
			t.Errorf("thread %s has frames open: %v", thread.Thread, thread.Open)
		}
		frames += thread.Frames["completed"]
		for status, n := range thread.Receipts {
			receipts[status] += n
		}
	}
	if frames != took[lifeloop.FrameEnded] {
		t.Errorf("%d completed frames, and it received %d:\n%s", frames, took[lifeloop.FrameEnded], out)
	}
	require.Equal(t, statuses, receipts)
	require.Contains(t, string(out), `"ended":true`)
	stored, err := os.ReadFile(state)
	require.NoError(t, err)
	if bytes.Contains(stored, []byte("nightly build")) {
		t.Error("the file holds the text of a prompt")
	}
}

func note(id, body string) lifeloop.PayloadEnvelope {
	sum := sha256.Sum256([]byte(body))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	b := lifeloop.NewOpaque(body)
	return lifeloop.PayloadEnvelope{
		SchemaVersion: 1, PayloadID: id, ClientID: "signals", PayloadKind: "signal", Format: "text", ContentEncoding: "utf8",
		Body: &b, ByteSize: int64(len(body)), ContentDigest: &digest, Redaction: "none", Metadata: map[string]any{},
		AcceptablePlacements: []lifeloop.AcceptablePlacement{{Placement: lifeloop.SideChannelContext, Requirement: lifeloop.Preferred}},
	}
}

// Bodies and references arrive unchanged, and the client itself decides whether it acts on
// a repeated payload.
func TestPayloadConsumer(t *testing.T) {
	need(t, "python3")
	w := newWorld(t)
	inbox := filepath.Join(w.dir, "inbox")
	client := "'" + example(t, "payload-consumer/consumer.py") + "' '" + inbox + "' --again-after 2"
	n := 0
	hand := func(ps ...lifeloop.PayloadEnvelope) lifeloop.CallbackResponse {
		n++
		e := envelope(lifeloop.SupervisorTick, "evt_"+string(rune('a'+n)))
		e.Payloads = ps
		return w.invoke(client, e)
	}
	answered := func(s lifeloop.Status, warnings ...string) lifeloop.CallbackResponse {
		return lifeloop.CallbackResponse{SchemaVersion: lifeloop.Version, Status: s, Warnings: warnings}
	}
	acts := func() int {
		text, err := os.ReadFile(filepath.Join(inbox, "acted.jsonl"))
		require.NoError(t, err)
		return bytes.Count(text, []byte("\n"))
	}

	const body = "{\"payloads\":[]}\n\"Quotes\", ümlauts and a \u2028 line"
	text := note("pay_1", body)
	raw := note("pay_2", string([]byte{0, 0xff, 0xfe}))
	encoded := lifeloop.NewOpaque(base64.StdEncoding.EncodeToString([]byte{0, 0xff, 0xfe}))
	raw.ContentEncoding, raw.Body = "base64", &encoded
	ref := note("pay_3", "")
	place := "blob://somewhere/it is not followed"
	ref.Body, ref.BodyRef, ref.ContentDigest = nil, &place, nil

	require.Equal(t, answered(lifeloop.Observed), hand())
	require.Equal(t, answered(lifeloop.Delivered), hand(text, raw, ref))
	require.Equal(t, 3, acts())
	sum := sha256.Sum256([]byte(body))
	got, err := os.ReadFile(filepath.Join(inbox, "bodies", hex.EncodeToString(sum[:])))
	require.NoError(t, err)
	require.Equal(t, body, string(got))
	noted, err := os.ReadFile(filepath.Join(inbox, "acted.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(noted), `"body_ref": "blob://somewhere/it is not followed"`)

	require.Equal(t, answered(lifeloop.Skipped, "payload pay_1 is repeat 1 and was counted only"), hand(text))
	require.Equal(t, 3, acts())
	n-- // the same dispatch again, which the client does not count as another event
	require.Equal(t, answered(lifeloop.Observed, "handled before"), hand(text))
	require.Equal(t, answered(lifeloop.Delivered), hand(text))
	require.Equal(t, 4, acts())
}

// Below a wrapped harness the payload consumer receives events, but no payloads of
// clients.
func TestPayloadConsumerBelowAHarness(t *testing.T) {
	need(t, "python3")
	w := newWorld(t)
	inbox := filepath.Join(w.dir, "inbox")
	took, _ := w.playThrough(map[string]any{"command": []string{example(t, "payload-consumer/consumer.py"), inbox},
		"events": []string{"session.*", "frame.ended"}})
	text, err := os.ReadFile(filepath.Join(inbox, "seen.json"))
	require.NoError(t, err)
	var state struct {
		Events int
		Seen   map[string]int
	}
	require.NoError(t, json.Unmarshal(text, &state))
	sum := 0
	for _, n := range took {
		sum += n
	}
	if state.Events != sum || len(state.Seen) != 0 {
		t.Errorf("it received %d events and %d signals; its receipts say %d and none", state.Events, len(state.Seen), sum)
	}
}
