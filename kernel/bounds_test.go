package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// answered plays a session to its end. The client answers the first call with r while
// a hook with a slot waits for r. answered returns the facts from the answer on.
func answered(t *testing.T, r *lifeloop.CallbackResponse) []kernel.Entry {
	w := &world{t: t, now: start, cfg: defaults(), l0: &l0Judge{}, hcp: &hcpJudge{}}
	w.cfg.Clients = []setup.Client{{ID: "notes", Events: map[lifeloop.Event]bool{lifeloop.SessionStarted: true, lifeloop.ReceiptEmitted: true}}}
	w.cfg.Hooks, w.cfg.HarnessSession = true, "S1"
	w.k = kernel.New(w.cfg)
	w.step(input.Start{})
	w.step(input.Launched{PID: 1})
	w.step(input.HookCalled{Hook: "h1", Deadline: w.now.Add(time.Minute), Call: telemetry.HookCall{Event: "SessionStart", Session: "S1",
		Slot: "pre_session", Capacity: 1 << 20, Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: "hook", Detail: "SessionStart", Session: "S1", Cause: "startup"}}}})
	before := len(w.entries)
	w.step(input.Returned{Call: "call_1", Response: r})
	w.step(input.HookClosed{Hook: "h1", Delivered: true})
	w.step(input.ChildExited{})
	w.step(input.SourcesDrained{})
	return w.entries[before:]
}

func receiptOf(t *testing.T, facts []kernel.Entry) lifeloop.Receipt {
	for _, e := range facts {
		if f, ok := e.Fact.(kernel.ReceiptIssued); ok && f.Call == "call_1" {
			return f.Receipt
		}
	}
	require.Fail(t, "the call has no receipt")
	return lifeloop.Receipt{}
}

// crowd returns payloads whose ids, kinds and keys have n bytes each.
func crowd(count, n int) (out []lifeloop.PayloadEnvelope) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for i := range count {
		p := payload("notes", i, []string{"developer_equivalent_frame", strings.Repeat(`"`, n), "x"})
		p.PayloadID, p.ContentDigest = fmt.Sprintf("%03d", i)+strings.Repeat(`"`, n-3), &digest
		p.IdempotencyKey = new(p.PayloadID)
		out = append(out, p)
	}
	return out
}

// Whatever a client answers, all facts of the answer together have at most 256 KiB, and
// the receipt at most 64 KiB. The number and the size of the warnings are limited too.
func TestAnAnswerIsBounded(t *testing.T) {
	for name, r := range map[string]*lifeloop.CallbackResponse{
		"the most that is accepted": {Status: lifeloop.Observed, ClientPayloads: crowd(64, 32), Warnings: repeated(40, strings.Repeat("\x01", 2000))},
		"long names":                {Status: lifeloop.Observed, ClientPayloads: crowd(8, 250), Warnings: repeated(40, strings.Repeat(`"`, 2000))},
		"too many payloads":         {Status: lifeloop.Observed, ClientPayloads: crowd(3000, 20)},
		"too long names":            {Status: lifeloop.Observed, ClientPayloads: crowd(60, 250)},
		"very many warnings":        {Status: lifeloop.Observed, Warnings: repeated(200_000, "w")},
		"one long warning":          {Status: lifeloop.Observed, Warnings: []string{strings.Repeat("ü", 1<<19)}},
	} {
		t.Run(name, func(t *testing.T) {
			total := 0
			facts := answered(t, r)
			for _, e := range facts {
				_, body, err := kernel.Encode(e.Fact)
				require.NoError(t, err)
				text, err := canon.Transform(body)
				require.NoError(t, err)
				total += len(text)
			}
			require.LessOrEqual(t, total, 256<<10, "bytes of all facts")
			doc := receiptOf(t, facts)
			text, err := json.Marshal(doc)
			require.NoError(t, err)
			require.LessOrEqual(t, len(text), 64<<10, "bytes of the receipt")
			require.LessOrEqual(t, len(doc.Warnings), 32)
			for _, w := range doc.Warnings {
				require.LessOrEqual(t, len(w), 1024)
				require.True(t, utf8.ValidString(w))
			}
		})
	}
}

func repeated(n int, s string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// A warning that is too long ends with an ellipsis. If there are too many warnings, the
// first 24 and the last 7 are stored.
func TestWarningsAreCut(t *testing.T) {
	warnings := append(append([]string{strings.Repeat("a", 1025), strings.Repeat("b", 1024)}, repeated(40, "c")...), "last")
	got := receiptOf(t, answered(t, &lifeloop.CallbackResponse{Status: lifeloop.Observed, Warnings: warnings})).Warnings
	require.Len(t, got, 32)
	require.Equal(t, strings.Repeat("a", 1021)+"…", got[0])
	require.Equal(t, warnings[1], got[1])
	require.Equal(t, "further warnings were dropped: a receipt has at most 32", got[24])
	require.Equal(t, "last", got[31])
}

// An answer over a limit fails as a whole: none of its payloads is placed.
func TestAnAnswerOverItsLimitIsFailed(t *testing.T) {
	for why, payloads := range map[string][]lifeloop.PayloadEnvelope{
		"the answer has 65 payloads: at most 64 are accepted":                                                       crowd(65, 4),
		"the ids, kinds and idempotency keys of the answer's payloads have 24480 bytes: at most 12288 are accepted": crowd(17, 241),
	} {
		facts := answered(t, &lifeloop.CallbackResponse{Status: lifeloop.Observed, ClientPayloads: payloads})
		doc := receiptOf(t, facts)
		require.Equal(t, lifeloop.Failed, doc.Status)
		require.Equal(t, lifeloop.InvalidRequest, *doc.FailureClass)
		require.Equal(t, []string{why}, doc.Warnings)
		require.Empty(t, doc.PayloadReceipts)
		for _, e := range facts {
			require.NotEqual(t, "placing", kernel.Kind(e.Fact))
		}
	}
}

// While the payload of a call waits for a slot, the receipts of the client's later
// calls wait too. If more than 1,000 receipts wait, the kernel gives up the payload and
// issues all receipts in their order.
func TestReceiptsDoNotWaitForever(t *testing.T) {
	cfg := defaults()
	cfg.Hooks, cfg.HarnessSession = true, "S1"
	cfg.Clients = []setup.Client{{ID: "notes", Timeout: time.Second,
		Events: map[lifeloop.Event]bool{lifeloop.SessionStarted: true, lifeloop.FrameOpening: true, lifeloop.FrameEnded: true}}}
	k := kernel.New(cfg)
	var events []string // events in the order of their receipts
	calls, given := 0, 0
	var step func(in input.Input)
	step = func(in input.Input) {
		out := k.Step(start, in)
		for _, f := range out.Facts {
			switch f := f.(type) {
			case kernel.ReceiptIssued:
				events = append(events, f.Receipt.EventID)
			case kernel.PayloadSettled:
				given = calls
				require.Equal(t, "too many receipts wait for this payload", f.Why)
				require.Empty(t, events, "a receipt overtook the first one")
			}
		}
		for _, e := range out.Effects {
			if d, ok := e.(effect.Dispatch); ok {
				calls++
				answer := &lifeloop.CallbackResponse{Status: lifeloop.Observed}
				if calls == 1 {
					answer.ClientPayloads = []lifeloop.PayloadEnvelope{payload("notes", 1, []string{"pre_prompt_frame", "note", "text"})}
				}
				step(input.Returned{Call: d.Call, Response: answer})
			}
		}
	}
	step(input.Start{})
	step(input.Launched{PID: 1})
	step(input.HookCalled{Hook: "h1", Deadline: start.Add(time.Minute), Call: telemetry.HookCall{Event: "SessionStart", Session: "S1",
		Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: "hook", Detail: "SessionStart", Session: "S1", Cause: "startup"}}}})
	for i := 0; given == 0 && i < 600; i++ {
		frame := fmt.Sprint("c", i)
		step(input.FrameRequested{Ask: "a", Open: true, Frame: frame})
		step(input.FrameRequested{Ask: "a", Frame: frame})
	}
	require.Equal(t, 1001, given)
	require.Len(t, events, 1001)
}
