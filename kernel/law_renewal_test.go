package kernel_test

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// This file has the judge's laws of renewal, by the facts alone: each renewal ends
// once, as delivered, rolled back, refused or failed; no reset and no command
// without a fact before it; each token is used at most once, and what it gave is
// placed at most once.

type renewalAccount struct {
	renewal   string          // the newest one
	progress  renewal.State   // of it
	linkTo    string          // its newest receipt
	consumed  map[string]bool // tokens
	token     string          // the newest token
	renewals  int             // launches for a renewal
	fresh     bool            // the launch of this step is that of a renewal
	tokens    int             // tokens so far
	command   kernel.Effect   // that runs
	crashedIn bool            // a crash during the reset
	renewed   bool            // a fresh launch has not shown its session yet
}

func newRenewalAccount() renewalAccount { return renewalAccount{consumed: map[string]bool{}} }

func (j *judge) renewalFact(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.RenewalMoved:
		j.renewalMoved(f)
	case kernel.RenewalCalled:
		j.renewalCalled(f)
	}
}

func (j *judge) renewalMoved(f kernel.RenewalMoved) {
	require.NoError(j.t, renewal.Check(j.progress, f.To))
	if f.To == renewal.Asked {
		j.renewalAccount = renewalAccount{renewal: f.Renewal, consumed: j.consumed, renewals: j.renewals, tokens: j.tokens}
	}
	require.Equal(j.t, j.renewal, f.Renewal, "one renewal at a time")
	j.progress = f.To
	j.reach["renewal "+string(f.To)]++
	if f.Failure != "" {
		j.reach["renewal "+string(f.Failure)]++
		require.NotEmpty(j.t, f.Why)
	}
	switch f.To {
	case renewal.Prepared:
		j.token = f.Digest
	case renewal.Resetting:
		require.True(j.t, j.running, "a reset without a harness")
	case renewal.Resumed:
		j.renewed = false
		if j.crashedIn {
			j.reach["renewal finished after a crash"]++
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
	require.False(j.t, j.running, "a token is consumed before the old session has ended")
	require.Contains(j.t, j.sessions[j.scope], lifeloop.SessionEnded)
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
func (j *judge) renewalEffect(e kernel.Effect) {
	switch e := e.(type) {
	case kernel.PrepareRenewal:
		require.Equal(j.t, j.renewal, e.Renewal)
		j.command = e
	case kernel.ContinueRenewal:
		require.True(j.t, j.consumed[e.Digest], "a token is used before that is recorded")
		j.command = e
	case kernel.DiscardToken:
		require.True(j.t, !j.consumed[e.Digest] || j.crashedIn, "a token that was used is removed")
		require.True(j.t, j.progress.Over())
	}
}

// linked checks that the receipts of a renewal are linked.
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

// forget notes a crash: a command that ran, and a continuation that waited, are lost.
func (j *judge) forget() {
	j.command, j.crashedIn = nil, j.progress == renewal.Resetting
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
	cfg.Renewals = []renewal.Rules{{Profile: "p1", Client: "client1", Paths: []renewal.Path{renewal.Relaunch}, Cut: !chance(r, "not cut", 4),
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
		w.feed(kernel.RenewAsked{Ask: "a1", Profile: pick(w.r, "profile", "", "p1")})
	}
}

// advance takes the next step of a renewal that is under way, if there is one.
func (w *fate) advance() bool {
	switch {
	case w.judge.command != nil:
		w.feed(w.drawRenewal())
	case w.renewed && w.alive:
		w.newSession()
	case w.progress == renewal.Resetting && w.alive:
		w.exit()
	case w.progress == renewal.Resetting && w.due:
		w.feed(kernel.SourcesDrained{})
	default:
		return false
	}
	return true
}

// newSession lets the harness of a renewal begin its session, and read what its hook
// answers.
func (w *fate) newSession() {
	w.hooks++
	in := kernel.HookCalled{Hook: fmt.Sprint("h", w.hooks), Deadline: w.now.Add(4 * time.Second)}
	sig := telemetry.Signal{Source: "hook", Kind: telemetry.SessionLive, Session: w.id, Cause: "startup", Detail: "SessionStart"}
	in.Call = telemetry.HookCall{Event: "SessionStart", Slot: telemetry.SlotSession, Capacity: 9500, Session: sig.Session, Signals: []telemetry.Signal{sig}}
	w.feed(in)
	if !chance(w.r, "not soon", 3) {
		w.now = w.now.Add(4 * time.Second)
		w.feed(kernel.Wake{})
	}
	w.feed(kernel.HookClosed{Hook: in.Hook, Delivered: w.asked[in.Hook].answers > 0})
}

// drawRenewal draws the outcome of the command that runs.
func (w *fate) drawRenewal() kernel.Input {
	failure := pick(w.r, "command fails", "", "", "", lifeloop.TransportError)
	defer func() { w.judge.command = nil }()
	switch e := w.judge.command.(type) {
	case kernel.PrepareRenewal:
		in := kernel.RenewalPrepared{Renewal: e.Renewal, Failure: failure, Why: "said so"}
		if failure == "" {
			w.tokens++
			in.Digest = fmt.Sprint("sha256:", w.tokens)
			if chance(w.r, "expires", 4) {
				in.Expires = new(w.now.Add(pick(w.r, "expires in", 0, time.Minute)))
			}
		}
		return in
	case kernel.ContinueRenewal:
		if failure != "" {
			return kernel.RenewalContinued{Renewal: e.Renewal, Failure: failure, Why: "said so"}
		}
		return continuation(e.Renewal, strings.Repeat("x", pick(w.r, "continuation", 5, 100, 9000)))
	}
	return kernel.Wake{}
}
