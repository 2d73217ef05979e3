package kernel_test

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// This file has the judge's laws of renewal. Each renewal ends once, as delivered, rolled
// back, refused or failed. A fact precedes each reset, each key and each command. Each
// token is used at most once, and its text is placed at most once. Keys are typed only
// at the prompt of a harness that takes them. No reset begins that would lose a line
// that the user has begun.

type renewalAccount struct {
	renewal   string          // id of the newest renewal
	progress  renewal.State   // state of the newest renewal
	linkTo    string          // id of the newest receipt of the newest renewal
	consumed  map[string]bool // tokens that were used
	token     string          // the newest token
	renewals  int             // launches for a renewal
	fresh     bool            // the launch of this step is that of a renewal
	tokens    int             // tokens so far
	command   effect.Effect   // the command that runs
	crashedIn bool            // the wrapper crashed during the reset
	renewed   bool            // the launch after a reset has not reported its session yet
	begun     bool            // the user has begun a line
	resetAccount
	breakerAccount
}

// resetAccount has the path of the newest renewal and, if the path is renewal.InPlace,
// the progress of the reset.
type resetAccount struct {
	path     renewal.Path
	keys     string // the keys that are to be typed next
	emptying string // the hook whose answer empties the context
	typed    bool   // the keys of the reset were recorded
}

// breakerAccount records how much the newest renewal left in the context, and whether
// the breaker must refuse further renewals.
type breakerAccount struct {
	trigger   int64
	resumedIn int   // the scope of the fresh harness session
	seen      bool  // the context pressure of the fresh session was observed
	left      int64 // the first token count of the fresh session; 0 if none was recorded
	stopped   bool  // a renewal left at least trigger/2 tokens: the breaker refuses further renewals
}

func newRenewalAccount() renewalAccount { return renewalAccount{consumed: map[string]bool{}} }

func (j *judge) renewalFact(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.Observed:
		j.seen = j.seen || f.Record.Event == lifeloop.ContextPressureObserved && j.scope == j.resumedIn
	case kernel.ContextMeasured:
		if f.Tokens != nil && !f.Stale && j.left == 0 && j.scope == j.resumedIn {
			j.left = *f.Tokens
			j.stopped = j.stopped || j.trigger > 0 && j.left*2 >= j.trigger
		}
	case kernel.RenewalMoved:
		j.renewalMoved(f)
	case kernel.RenewalCalled:
		j.renewalCalled(f)
	case kernel.HarnessSessionOpened:
		j.inPlace(f)
	case kernel.RenewalTyped:
		require.Equal(j.t, j.renewal, f.Renewal)
		require.Equal(j.t, renewal.Resetting, j.progress)
		require.Equal(j.t, renewal.InPlace, j.path)
		require.True(j.t, j.consumed[j.token], "keys before the continuation is in hand")
		require.True(j.t, j.running, "keys without a harness")
		require.True(j.t, f.Keys == "reset" || j.typed && f.Means != renewal.ByHook, "nothing to stop or to take back")
		if f.Keys != "stop" {
			j.keys, j.typed = f.Keys, true
		}
	case kernel.RenewalRerouted:
		require.Equal(j.t, j.renewal, f.Renewal)
		require.Equal(j.t, renewal.InPlace, j.path)
		if j.cfg.Means == renewal.ByHook { // the hook at the end of the turn is possibly not called
			require.Contains(j.t, []renewal.State{renewal.Negotiated, renewal.Prepared, renewal.Resetting}, j.progress)
		} else {
			require.Equal(j.t, renewal.Resetting, j.progress)
			require.True(j.t, j.typed || !j.running, "another path before the first was tried")
		}
		require.NotEmpty(j.t, f.Why)
		j.path = f.Path
		j.reach["rerouted to "+string(f.Path)]++
	}
}

func (j *judge) renewalMoved(f kernel.RenewalMoved) {
	require.NoError(j.t, renewal.Check(j.progress, f.To))
	if f.To == renewal.Asked {
		require.True(j.t, !j.seen || j.left > 0 || j.scope != j.resumedIn, "what the renewal before left is not recorded")
		j.renewalAccount = renewalAccount{renewal: f.Renewal, consumed: j.consumed, renewals: j.renewals, tokens: j.tokens, begun: j.begun,
			breakerAccount: breakerAccount{stopped: j.stopped, trigger: f.Trigger}}
	}
	require.Equal(j.t, j.renewal, f.Renewal, "one renewal at a time")
	j.progress = f.To
	j.reach["renewal "+string(f.To)]++
	if f.Failure != "" {
		j.reach["renewal "+string(f.Failure)]++
		require.NotEmpty(j.t, f.Why)
	}
	switch f.To {
	case renewal.Negotiated:
		j.path = f.Path
		require.False(j.t, j.stopped, "a renewal after one that left too much")
	case renewal.Prepared:
		j.token = f.Digest
	case renewal.Resetting:
		require.True(j.t, j.running, "a reset without a harness")
		require.True(j.t, !j.begun || j.path == renewal.InPlace && j.cfg.KeepsLine, "the user's line is lost")
	case renewal.Resumed:
		if j.path == renewal.InPlace {
			require.True(j.t, j.typed && j.running, "a fresh session in place without keys")
		}
		j.renewed, j.resumedIn = false, f.Scope
		if j.crashedIn {
			j.reach["renewal finished after a crash"]++
		}
	case renewal.Delivered:
		if j.path == renewal.InPlace {
			j.reach["delivered in place"]++
			j.reach["delivered in place by "+cmp.Or(string(j.cfg.Means), "keys")]++
		}
	case renewal.Refused, renewal.RolledBack, renewal.Failed:
		j.renewed = false
		require.NotEmpty(j.t, f.Failure)
	}
}

func (j *judge) renewalCalled(f kernel.RenewalCalled) {
	require.Equal(j.t, j.renewal, f.Renewal)
	if f.Command == "prepare" {
		require.Equal(j.t, renewal.Negotiated, j.progress)
		return
	}
	require.Equal(j.t, renewal.Resetting, j.progress)
	require.Equal(j.t, j.token, f.Digest)
	require.False(j.t, j.consumed[f.Digest], "a token is consumed twice")
	j.consumed[f.Digest] = true
	if j.running { // only a reset in place needs the continuation before the old session ends
		require.Equal(j.t, renewal.InPlace, j.path)
		return
	}
	require.Contains(j.t, j.sessions[j.scope], lifeloop.SessionEnded, "a token is consumed before the old session has ended")
}

// inPlace notes that a fresh session of the running harness takes the continuation.
func (j *judge) inPlace(f kernel.HarnessSessionOpened) {
	if f.Cause == "renewal" && j.progress == renewal.Resetting && j.path == renewal.InPlace && j.typed {
		j.owners[j.renewal] = owner{event: lifeloop.SessionStarting, scope: f.Scope}
		j.payloads[j.renewal+"#0"] = 0
	}
}

// renewing checks a launch that continues an attempt.
func (j *judge) renewing(f kernel.Launching) {
	j.renewals++
	require.False(j.t, j.aborted, "a launch after an abort")
	j.fresh = f.Checkpoint == "" && !j.progress.Over()
	if !j.fresh {
		require.Equal(j.t, renewal.Failed, j.progress)
		j.reach["returned to the old session"]++
		j.fresh = f.Checkpoint == ""
		return
	}
	require.True(j.t, j.consumed[j.token])
	j.renewed = true
	j.owners[j.renewal] = owner{event: lifeloop.SessionStarting, scope: j.scope}
	j.payloads[j.renewal+"#0"] = 0
}

// renewalEffect checks that the commands of a profile run one at a time, and after
// their facts.
func (j *judge) renewalEffect(e effect.Effect) {
	switch e := e.(type) {
	case effect.PrepareRenewal:
		require.Equal(j.t, j.renewal, e.Renewal)
		j.command = e
	case effect.ContinueRenewal:
		require.True(j.t, j.consumed[e.Digest], "a token is used before that is recorded")
		j.command = e
	case effect.TypeKeys:
		require.Equal(j.t, j.renewal, e.Renewal)
		require.NotEmpty(j.t, j.keys, "keys without a fact")
		require.Equal(j.t, j.keys == "undo", e.Undo)
		if e.Undo {
			j.reach["keys taken back"]++
		}
		j.keys, j.command = "", e
	case effect.HookAnswer:
		if e.Clear {
			require.Equal(j.t, "reset", j.keys, "a context is emptied without a fact")
			require.Equal(j.t, renewal.ByHook, j.cfg.Means)
			require.True(j.t, j.asked[e.Hook].clears, "a hook that cannot empty the context")
			j.keys, j.emptying = "", e.Hook
			j.reach["emptied by a hook"]++
		}
	case effect.DiscardToken:
		require.True(j.t, !j.consumed[e.Digest] || j.crashedIn, "a token that was used is removed")
		require.True(j.t, j.progress.Over())
	}
}

// linked checks that the parent of each receipt of a renewal is the receipt before it.
func (j *judge) linked(f kernel.ReceiptIssued) {
	if f.Renewal == "" {
		return
	}
	require.Equal(j.t, j.renewal, f.Renewal)
	parent := ""
	if f.Receipt.ParentReceiptID != nil {
		parent = *f.Receipt.ParentReceiptID
	}
	require.Equal(j.t, j.linkTo, parent, "the receipt of the step before")
	j.linkTo = f.Receipt.ReceiptID
}

// forget notes a crash: a command that was still running is lost, and so is a continuation
// that was not settled yet.
func (j *judge) forget() {
	j.command, j.keys, j.crashedIn = nil, "", j.progress == renewal.Resetting
	maps.DeleteFunc(j.payloads, func(key string, settled int) bool { return settled == 0 && strings.HasPrefix(key, "rnw_") })
}

func (j *judge) renewalsEnded() {
	if state := j.progress; state != "" {
		require.True(j.t, state.Over(), "renewal %s is left %s", j.renewal, state)
	}
}

// drawRenewals draws the active profiles.
func drawRenewals(r *rapid.T, cfg *kernel.Config) {
	if !chance(r, "renewals", 2) {
		return
	}
	cfg.Manifest.Renewal = renewable(lifeloop.Synthesized)
	if chance(r, "weak reset", 8) {
		cfg.Manifest.Renewal = renewable(drawSupport(r, "reset"))
	}
	if !chance(r, "any placement", 4) {
		cfg.Manifest.Placement[lifeloop.PreSession] = lifeloop.PlacementClaim{Support: lifeloop.Native, MaxBytes: new(int64(8192))}
	}
	cfg.Stores = !chance(r, "no vault", 10)
	cfg.Resumes, cfg.Renews = chance(r, "resumes", 2), !chance(r, "prints", 10)
	paths := []renewal.Path{renewal.Relaunch}
	if chance(r, "in place", 2) {
		paths = pick(r, "paths", []renewal.Path{renewal.InPlace, renewal.Relaunch}, []renewal.Path{renewal.InPlace})
		cfg.Clears, cfg.Means = !chance(r, "no keys", 6), pick(r, "means", renewal.ByKeys, renewal.ByPlugin, renewal.ByHook)
		cfg.KeepsLine = cfg.Means != renewal.ByKeys || chance(r, "keeps a line", 2)
		cfg.Manifest.Renewal.Reset.Native = lifeloop.Native
	}
	cfg.Renewals = []renewal.Rules{{Profile: "p1", Client: "client1", Paths: paths, Cut: !chance(r, "not cut", 4),
		At: pick(r, "at", "", "high", "moderate"), Limits: renewal.Limits{Max: pick(r, "max", 0, 0, 1, 2), Session: pick(r, "session limit", 0, 0, 2), Idle: pick(r, "wait", 0, 0, 0, time.Second)}}}
	if chance(r, "two profiles", 3) {
		cfg.Renewals = append(cfg.Renewals, renewal.Rules{Profile: "p2", Paths: []renewal.Path{renewal.Relaunch}})
	}
	for i := range cfg.Manifests {
		cfg.Manifests[i].Renewal = cfg.Manifest.Renewal
	}
}

// renews draws the outcome of a command that runs, or a request for a renewal.
func (w *fate) renews() {
	switch {
	case w.judge.command != nil:
		w.feed(w.drawRenewal())
	default:
		w.feed(input.RenewAsked{Ask: "a1", Profile: pick(w.r, "profile", "", "p1")})
	}
}

// advance takes the next step of a renewal that is under way, if there is one.
func (w *fate) advance() bool {
	switch {
	case w.judge.command != nil:
		if w.alive && chance(w.r, "the user types", 3) {
			w.feed(input.LineSeen{Begun: chance(w.r, "a line", 2)})
		}
		w.feed(w.drawRenewal())
	case w.cfg.Means == renewal.ByHook && w.path == renewal.InPlace && w.alive && !w.progress.Over() && w.progress != renewal.Resumed:
		w.endsTurn()
	case w.path == renewal.InPlace && w.alive && w.typed && w.progress == renewal.Resetting:
		w.clears()
	case w.path == renewal.InPlace && w.alive && !w.progress.Over() && w.progress != renewal.Resumed:
		w.toPrompt()
	case w.path == renewal.Relaunch && w.alive && (w.progress == renewal.Negotiated || w.progress == renewal.Prepared) && chance(w.r, "the user types", 3):
		w.toPrompt()
	case w.renewed && w.alive:
		w.newSession()
	case w.progress == renewal.Resetting && w.alive:
		w.exit()
	case w.progress == renewal.Resetting && w.due:
		w.feed(input.SourcesDrained{})
	default:
		return false
	}
	return true
}

// newSession lets the harness of a renewal begin its session, and read what its hook
// answers.
func (w *fate) newSession() {
	w.begins(w.id, "startup")
	if w.alive && chance(w.r, "as full as before", 3) {
		full := telemetry.Signal{Source: "transcript", Kind: telemetry.UsageSeen, Session: w.id, Detail: "r",
			Usage: &telemetry.Usage{ID: "m", Used: 190_000}, Window: 200_000, WindowSource: "reported"}
		w.feed(input.SignalsSeen{Signals: []telemetry.Signal{full}})
	}
}

// begins calls the hook of a harness session that begins.
func (w *fate) begins(id, cause string) {
	w.hooks++
	in := input.HookCalled{Hook: fmt.Sprint("h", w.hooks), Deadline: w.now.Add(4 * time.Second)}
	sig := telemetry.Signal{Source: "hook", Kind: telemetry.SessionLive, Session: id, Cause: cause, Detail: "SessionStart"}
	in.Call = telemetry.HookCall{Event: "SessionStart", Slot: telemetry.SlotSession, Capacity: 9500, Session: sig.Session, Signals: []telemetry.Signal{sig}}
	w.feed(in)
	if !chance(w.r, "not soon", 3) {
		w.now = w.now.Add(4 * time.Second)
		w.feed(input.Wake{})
	}
	w.feed(input.HookClosed{Hook: in.Hook, Delivered: w.asked[in.Hook].answers > 0})
}

// toPrompt lets the turn end and the harness wait for the user, who may have begun a line.
func (w *fate) toPrompt() {
	for len(w.open) > 0 && !w.over {
		open := w.open[len(w.open)-1]
		w.feed(input.FrameRequested{Ask: "a1", Frame: open})
		if len(w.open) > 0 && w.open[len(w.open)-1] == open {
			w.feed(input.SignalsSeen{Signals: []telemetry.Signal{{Source: "hook", Kind: telemetry.TurnEnd, Session: w.id, Turn: open, Detail: "r"}}})
			break
		}
	}
	w.feed(input.LineSeen{Begun: chance(w.r, "a line", 6)})
	w.feed(input.SignalsSeen{Signals: []telemetry.Signal{{Source: "registry", Kind: telemetry.Idle, Session: w.id, Detail: "r"}}})
}

// clears draws the effect of the typed keys: the harness ends its session and begins a
// fresh one, does only one of the two, or ignores the keys.
func (w *fate) clears() {
	if chance(w.r, "the keys have no effect", 3) {
		w.now = w.now.Add(15 * time.Second)
		w.feed(input.Wake{})
		return
	}
	if chance(w.r, "its process holds it", 4) {
		w.feed(input.FreshSeen{Renewal: w.renewal, ID: w.otherID(), Source: "threads", Detail: "lock"})
		if chance(w.r, "the hook comes later", 2) {
			w.toPrompt()
			return
		}
	} else if !chance(w.r, "no end", 3) {
		w.feed(input.SignalsSeen{Signals: []telemetry.Signal{{Source: "hook", Kind: telemetry.SessionGone, Session: w.id, Reason: "clear", Detail: "SessionEnd"}}})
	}
	if chance(w.r, "no start", 5) {
		return
	}
	w.begins(w.otherID(), "clear")
}

// endsTurn lets a harness that is reset by a hook end its turn, or follow the answer of
// that hook.
func (w *fate) endsTurn() {
	switch {
	case w.typed && w.emptying != "":
		hook := w.emptying
		w.emptying = ""
		w.feed(input.HookClosed{Hook: hook, Delivered: !chance(w.r, "not delivered", 8)})
	case w.typed && chance(w.r, "the next prompt is sent", 3):
		w.hooks++
		sig := telemetry.Signal{Source: "hook", Kind: telemetry.Prompt, Session: w.id, Detail: "UserPromptSubmit"}
		w.feed(input.HookCalled{Hook: fmt.Sprint("h", w.hooks), Deadline: w.now.Add(4 * time.Second), Call: telemetry.HookCall{
			Event: "UserPromptSubmit", Slot: telemetry.SlotFrame, Capacity: 9500, Session: w.id, Signals: []telemetry.Signal{sig}}})
	case w.typed && !chance(w.r, "no report", 4):
		w.feed(input.SignalsSeen{Signals: []telemetry.Signal{{Source: "transcript", Kind: telemetry.Cleared, Session: w.id, Detail: "r"}}})
		w.now = w.now.Add(2 * time.Second)
		w.feed(input.Wake{})
	case w.typed || chance(w.r, "no hook", 4):
		w.toPrompt()
		w.now = w.now.Add(pick(w.r, "rest", 0, 2*time.Second, 15*time.Second))
		w.feed(input.Wake{})
	default:
		w.hooks++
		sig := telemetry.Signal{Source: "hook", Kind: telemetry.TurnStop, Session: w.id, Outcome: telemetry.Completed, Detail: "Stop"}
		w.feed(input.HookCalled{Hook: fmt.Sprint("h", w.hooks), Deadline: w.now.Add(9 * time.Second),
			Call: telemetry.HookCall{Event: "Stop", Session: w.id, Clears: true, Signals: []telemetry.Signal{sig}}})
	}
}

// otherID is the id of a fresh session of the same harness.
func (w *fate) otherID() string { return fmt.Sprint("S", w.hooks+100) }

// drawRenewal draws the outcome of the command that runs.
func (w *fate) drawRenewal() input.Input {
	failure := pick(w.r, "command fails", "", "", "", lifeloop.TransportError)
	defer func() { w.judge.command = nil }()
	switch e := w.judge.command.(type) {
	case effect.PrepareRenewal:
		in := input.RenewalPrepared{Renewal: e.Renewal, Failure: failure, Why: "said so"}
		if failure == "" {
			w.tokens++
			in.Digest = fmt.Sprint("sha256:", w.tokens)
			if chance(w.r, "expires", 4) {
				in.Expires = new(w.now.Add(pick(w.r, "expires in", 0, time.Minute)))
			}
		}
		return in
	case effect.TypeKeys:
		return input.KeysTyped{Renewal: e.Renewal, Undo: e.Undo, Busy: !e.Undo && chance(w.r, "busy", 6),
			Failure: pick(w.r, "keys fail", "", "", "", "", "interrupted before the last key")}
	case effect.ContinueRenewal:
		if failure != "" {
			return input.RenewalContinued{Renewal: e.Renewal, Failure: failure, Why: "said so"}
		}
		return continuation(e.Renewal, strings.Repeat("x", pick(w.r, "continuation", 5, 100, 9000)))
	}
	return input.Wake{}
}
