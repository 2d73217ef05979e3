package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/testdata/fakeclient/fakeclienttest"
)

var built = sync.OnceValues(func() (string, error) { return fakeclienttest.Build(clientFolder) })

var clientFolder string // the folder of fakeclient

func TestMain(m *testing.M) {
	var err error
	if clientFolder, err = os.MkdirTemp("", "lifeloop-conformance-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(clientFolder)
	os.Exit(code)
}

// run tests fakeclient with some flags.
func run(t *testing.T, mode string, timeout time.Duration, flags ...string) *Report {
	t.Helper()
	client, err := built()
	require.NoError(t, err)
	r, err := Run(context.Background(), Config{ClientID: "client", AdapterID: "claude", Command: append([]string{client}, flags...), Mode: mode, Timeout: timeout})
	require.NoError(t, err)
	return r
}

// A correct client breaks no rule. It receives and answers every event, and the report
// has calls from each of the listed steps of the script.
func TestAGoodClient(t *testing.T) {
	for _, c := range []struct {
		mode  string
		flags []string
	}{
		{Oneshot, []string{"--on", "frame.opening", "--payload", "placement=pre_prompt_frame,body=note"}},
		{Persistent, []string{"--persistent", "--name-event", "--on", "frame.opening", "--payload", "placement=pre_prompt_frame,requirement=required,body=note"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			r := run(t, "", time.Minute, c.flags...)
			require.True(t, r.OK)
			require.Empty(t, r.Violations)
			require.Empty(t, r.Notes)
			samples, events, steps, placed := map[lifeloop.Event]int{}, map[lifeloop.Event]bool{}, map[string]bool{}, map[string]lifeloop.Status{}
			for _, call := range r.Calls {
				require.Equal(t, c.mode, call.Mode)
				require.Empty(t, call.Failure)
				require.NotNil(t, call.Answer)
				steps[call.Step] = true
				switch {
				case call.Step == stepSample:
					samples[call.Event]++
				case call.Step != stepAgain && call.Step != stepUnknown:
					events[call.Event] = true
					if call.Receipt == nil {
						require.Equal(t, lifeloop.ReceiptEmitted, call.Event)
						continue
					}
					for _, p := range call.Receipt.PayloadReceipts {
						placed[call.Step] = p.Status
					}
				}
			}
			for _, e := range lifeloop.Events() {
				require.Equal(t, 1, samples[e], "samples of %s", e)
				require.True(t, events[e], "%s in a session", e)
			}
			for _, step := range []string{"/clear", "a crash", "a retry", "a hook answer that is not read", "receipts and ticks"} {
				require.True(t, steps[step], step)
			}
			require.Equal(t, lifeloop.Delivered, placed["a prompt"])
			require.Equal(t, lifeloop.Failed, placed["a hook answer that is not read"])
			var text strings.Builder
			require.NoError(t, r.Print(&text))
			require.Contains(t, text.String(), "No violation in ")
		})
	}
}

// Each faulty client breaks exactly its own rule.
func TestBrokenClients(t *testing.T) {
	const payload = "--payload"
	for _, c := range []struct {
		name, mode string
		want       rule
		timeout    time.Duration // 0 means a minute, which no test reaches
		flags      []string
	}{
		{"exit code", Oneshot, exitStatus, 0, []string{"--exit", "3", "--stderr", "my disk is full"}},
		{"killed", Oneshot, exitStatus, 0, []string{"--crash"}},
		{"silent", Oneshot, noAnswer, 3 * time.Second, []string{"--delay", "1h"}},
		{"stays alive", Oneshot, staysAlive, 3 * time.Second, []string{"--stay"}},
		{"leaves a process", Oneshot, leftBehind, 0, []string{"--fork-linger", "1m"}},
		{"half a document", Oneshot, notJSON, 0, []string{"--bad-json"}},
		{"no document", Oneshot, notJSON, 0, []string{"--answer", "done"}},
		{"too large", Oneshot, tooLarge, 0, []string{"--oversize", "1048577"}},
		{"no status", Oneshot, badMember, 0, []string{"--answer", `{"warnings":[]}`}},
		{"unknown status", Oneshot, badMember, 0, []string{"--answer", `{"status":"seen"}`}},
		{"payload without members", Oneshot, badMember, 0, []string{payload, "id=,placement=receipt_only"}},
		{"other version", Oneshot, badVersion, 0, []string{"--answer", `{"status":"observed","schema_version":"lifeloop.v0.1"}`}},
		{"failed without a class", Oneshot, badFailure, 0, []string{"--answer", `{"status":"failed"}`}},
		{"retry too loose", Oneshot, looseRetry, 0, []string{"--status", "failed", "--failure-class", "invalid_request", "--retry-class", "safe_retry"}},
		{"body and reference", Oneshot, bodyAndRef, 0, []string{payload, "placement=receipt_only,body=x,ref=blob://x"}},
		{"wrong size", Oneshot, sizeDigest, 0, []string{payload, "placement=receipt_only,body=x,size=7"}},
		{"wrong digest", Oneshot, sizeDigest, 0, []string{payload, "placement=receipt_only,body=x,digest=sha256:" + strings.Repeat("0", 64)}},
		{"unknown placement", Oneshot, badPlace, 0, []string{payload, "placement=somewhere,body=x"}},
		{"strict", Oneshot, unknownName, 0, []string{"--strict"}},
		{"key used again", Oneshot, keyReused, 0, []string{"--vary", payload, "key=k,placement=receipt_only"}},

		{"extra line", Persistent, extraOutput, 0, []string{"--persistent", "--twice"}},
		{"one event behind", Persistent, wrongOrder, 0, []string{"--persistent", "--lag"}},
		{"dies", Persistent, endedEarly, 0, []string{"--persistent", "--after", "3", "--crash"}},
		{"never answers a line", Persistent, noAnswer, 3 * time.Second, nil},
		{"half a line", Persistent, notJSON, 0, []string{"--persistent", "--bad-json"}},
		{"stays at the end", Persistent, staysAtEnd, 3 * time.Second, []string{"--persistent", "--stay"}},
		{"strict about lines", Persistent, unknownName, 0, []string{"--persistent", "--strict"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timeout := c.timeout
			if timeout == 0 {
				timeout = time.Minute
			}
			r := run(t, c.mode, timeout, c.flags...)
			require.False(t, r.OK)
			var broke []string
			for _, v := range r.Violations {
				broke = append(broke, v.Rule)
			}
			require.Equal(t, []string{c.want.id}, broke, "%+v", r.Violations)
			v := r.Violations[0]
			require.Equal(t, c.want.sentence, v.Sentence)
			require.NotEmpty(t, v.Found)
			if slices.Contains(c.flags, "--stderr") {
				require.Equal(t, "my disk is full", v.Stderr)
			}
			var text bytes.Buffer
			require.NoError(t, r.Print(&text))
			require.Contains(t, text.String(), "violation: "+c.want.id+" ("+c.mode)
			require.Contains(t, text.String(), "the contract: "+c.want.sentence+" ("+c.want.document+")")
		})
	}
}

// The quoted sentences are in their documents, word for word.
func TestSentencesAreThoseOfTheDocuments(t *testing.T) {
	texts := map[string]string{}
	for _, doc := range []string{guide, contract, renewing} {
		text, err := os.ReadFile(filepath.Join("../..", doc))
		require.NoError(t, err)
		texts[doc] = string(text)
	}
	for _, r := range []rule{noAnswer, staysAlive, exitStatus, endedEarly, notJSON, tooLarge, badMember, badVersion, badFailure, looseRetry,
		bodyAndRef, sizeDigest, badPlace, extraOutput, wrongOrder, leftBehind, staysAtEnd, unknownName, keyReused, notPrepared, notContinued} {
		require.Contains(t, texts[r.document], r.sentence, r.id)
	}
}

// With each adapter, Run plays the script to the end and finds no violation.
func TestEveryAdapter(t *testing.T) {
	client, err := built()
	require.NoError(t, err)
	for _, id := range []string{"claude", "codex", "gemini", "opencode", "openclaw", "hermes", "generic"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r, err := Run(context.Background(), Config{ClientID: "client", Command: []string{client}, AdapterID: id, Mode: Oneshot, Timeout: time.Minute})
			require.NoError(t, err)
			require.True(t, r.OK, "%+v", r.Violations)
		})
	}
}

// Each member that the sample document of an event has is also sent in a session.
func TestSamplesAreLikeThoseOfASession(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	require.True(t, run(t, Persistent, time.Minute, "--persistent", "--log", log).OK)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	sent := map[lifeloop.Event]map[string]bool{}
	lines := slices.Collect(strings.Lines(string(text)))
	for _, line := range lines[len(documents()):] {
		var doc struct{ Request map[string]any }
		require.NoError(t, json.Unmarshal([]byte(line), &doc))
		event := lifeloop.Event(doc.Request["event"].(string))
		if sent[event] == nil {
			sent[event] = map[string]bool{}
		}
		for name := range members(doc.Request) {
			sent[event][name] = true
		}
	}
	for _, event := range lifeloop.Events() {
		text, err := Sample(event).Encode()
		require.NoError(t, err)
		var doc struct{ Request map[string]any }
		require.NoError(t, json.Unmarshal(text, &doc))
		for name := range members(doc.Request) {
			require.True(t, sent[event][name], "%s: a session never sends %s", event, name)
		}
	}
}

// members returns the names of the members of a request and of its event_data.
func members(request map[string]any) map[string]bool {
	out := map[string]bool{}
	for name := range request {
		out[name] = true
	}
	data, _ := request["event_data"].(map[string]any)
	for name := range data {
		out["event_data."+name] = true
	}
	return out
}
