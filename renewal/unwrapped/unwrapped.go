// Package unwrapped renews a harness session that runs without the wrapper. Such a renewal
// consists of two hook calls. In the first one the client asks for the renewal, and the
// continuation is prepared and stored in the vault. Then the user resets the harness,
// because a hook cannot. At the start of the next harness session, the second call takes
// the continuation and answers with its text.
//
// It resets no harness, issues no receipt, and stores nothing except in the vault. It
// delivers nothing if more than one harness session of the folder has prepared a
// continuation. It prints nothing: failures of a renewal are reported to the caller, and
// no error quotes a continuation.
//
//	r, err := unwrapped.New(unwrapped.Config{Profile: p, Manifest: m, Dir: dir, Vault: v, NewID: newID, Report: report})
//	clients[r.Owner()] = r.Serve(clients[r.Owner()], subscribed)
//	owner.Events[r.DeliversAt()] = true // the supervisor calls r instead of the client
package unwrapped

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lifeloop/canon"
	"lifeloop/dispatch"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/renewal/programs"
	"lifeloop/supervisor"
	"lifeloop/vault"
)

// keepEnded is how long the vault keeps the record that a continuation was used
// or discarded.
const keepEnded = 30 * 24 * time.Hour

// Refusal negotiates the capabilities that a renewal by hooks needs. It uses only those
// claims of the manifest that also hold if hooks are called without a wrapper
// (negotiate.OneCall). class is empty if a harness with this manifest can be renewed by
// p; otherwise why names the first missing capability. Refusal is called before hooks are
// installed, and before the programs of a profile run.
func Refusal(m lifeloop.Manifest, p profile.Profile) (class lifeloop.FailureClass, why string) {
	wants := []negotiate.Want{
		{Capability: negotiate.ContinuationObservation, Level: lifeloop.Required, AcceptPartial: true},
		{Capability: negotiate.ContinuationDelivery, Level: lifeloop.Required, AcceptPartial: true},
		{Capability: negotiate.ContinuationStore, Level: lifeloop.Required},
	}
	for _, r := range negotiate.Capabilities(negotiate.OneCall(m, p.Name, p.Family()), wants, p.Name, p.Family()) {
		if r.Failure != "" {
			return r.Failure, fmt.Sprintf("required capability %s is %s", r.Want.Capability, r.Have)
		}
	}
	return "", ""
}

// A Config is what the renewals of one hook call need. Its fields are required unless
// their comments say otherwise.
type Config struct {
	Profile  profile.Profile   // the active profile; it has a prepare command
	Manifest lifeloop.Manifest // of the harness that calls the hook
	Dir      string            // the working directory of the hook, absolute and without symbolic links
	Vault    *vault.Vault
	NewID    func(prefix string) string // returns an id that no other call returns
	// Report is called for each failure of a renewal, after which the call continues. what
	// is a phrase such as "prepare a renewal".
	Report func(what string, err error)
	// Around has the meaning of Around in [programs.Config]; it may be nil.
	Around func(client string) dispatch.Config
	Now    func() time.Time // nil means time.Now
}

// A Renewal performs the steps of a renewal in one hook call. Package supervisor calls
// the Renewal instead of the client that owns the profile. If that client is configured,
// the Renewal passes on the events that the client subscribed to, and reads its answers.
type Renewal struct {
	cfg      Config
	programs *programs.Programs
	client   supervisor.Client       // the client that owns the profile; nil if it is not configured
	events   map[lifeloop.Event]bool // the events that the client receives
}

// New checks the configuration and starts nothing. The programs of the profile inherit
// variables from the environment of this process. It is an error if Dir is not absolute
// or Vault is nil.
func New(cfg Config) (*Renewal, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p, err := programs.New(programs.Config{Profiles: []profile.Profile{cfg.Profile}, Vault: cfg.Vault, Dir: cfg.Dir, Around: cfg.Around, Now: cfg.Now})
	if err != nil {
		return nil, err
	}
	return &Renewal{cfg: cfg, programs: p}, nil
}

// Serve makes r pass events on to client, which owns the profile. client is nil if the
// owner is not configured. events are those that the client itself has subscribed to.
// Serve returns r.
func (r *Renewal) Serve(client supervisor.Client, events map[lifeloop.Event]bool) *Renewal {
	r.client, r.events = client, events
	return r
}

// Owner returns the id of the client that owns the profile.
func (r *Renewal) Owner() string { return r.cfg.Profile.Owner() }

// DeliversAt returns the event whose answer carries the continuation: session.started if
// the manifest claims more than partial support for text there, otherwise frame.opening.
func (r *Renewal) DeliversAt() lifeloop.Event {
	if negotiate.Support(r.cfg.Manifest, "placement."+string(lifeloop.PreSession)).Stronger(lifeloop.Partial) {
		return lifeloop.SessionStarted
	}
	return lifeloop.FrameOpening
}

// Call passes an event on to the client and performs the renewal. A failure of the
// renewal is reported (Config.Report) and does not change the client's answer. Call
// returns an error if the envelope is invalid or the client fails.
func (r *Renewal) Call(ctx context.Context, envelope []byte) (dispatch.Answer, error) {
	asked, err := lifeloop.Parse[lifeloop.DispatchEnvelope](envelope)
	if err != nil {
		return dispatch.Answer{}, err
	}
	answer := dispatch.Answer{}
	if r.client != nil && r.events[asked.Request.Event] {
		if answer, err = r.client.Call(ctx, envelope); err != nil {
			return answer, err
		}
	} else if answer.Body, err = (lifeloop.CallbackResponse{Status: lifeloop.Delivered}).Encode(); err != nil {
		return answer, err
	}
	if asked.Request.HarnessSessionID == nil {
		// A continuation is stored with the id of its harness session. Without an id,
		// none can be prepared or delivered.
		return answer, nil
	}
	ref := effect.RenewalRef{Profile: r.cfg.Profile.Name, Client: r.Owner(), Adapter: asked.Request.AdapterID, Session: *asked.Request.HarnessSessionID}
	if r.programs.Asks(ref.Client, answer.Body) != "" {
		r.report("prepare a renewal", r.prepare(ctx, ref))
	}
	if asked.Request.Event == r.DeliversAt() {
		body, err := r.deliver(ctx, ref, answer.Body)
		answer.Body = body
		r.report("deliver a continuation", err)
	}
	return answer, nil
}

func (r *Renewal) report(what string, err error) {
	if err != nil {
		r.cfg.Report(what, err)
	}
}

// prepare stores a continuation of the harness session, and removes earlier ones of
// the same session.
func (r *Renewal) prepare(ctx context.Context, ref effect.RenewalRef) error {
	if class, why := Refusal(r.cfg.Manifest, r.cfg.Profile); class != "" {
		return fmt.Errorf("%s (%s)", why, class)
	}
	now := r.cfg.Now()
	if err := r.cfg.Vault.Sweep(now, now.Add(-keepEnded)); err != nil {
		return err
	}
	ref.Renewal = r.cfg.NewID("host-")
	if _, _, err := r.programs.Prepare(ctx, ref); err != nil {
		return err
	}
	return discard(r.cfg.Vault, r.cfg.Now(), func(b vault.Binding) bool {
		return r.ours(b) && b.HarnessSession == ref.Session && b.Renewal != ref.Renewal
	})
}

// ours reports whether a continuation belongs to this profile's client, adapter and
// folder.
func (r *Renewal) ours(b vault.Binding) bool {
	return b.Client == r.Owner() && b.Adapter == r.cfg.Manifest.AdapterID && b.Dir == r.cfg.Dir
}

// Forget erases the continuations for which match returns true, and those that have
// expired at now.
func Forget(v *vault.Vault, now time.Time, match func(vault.Binding) bool) error {
	return errors.Join(v.Sweep(now, now.Add(-keepEnded)), discard(v, now, match))
}

// discard removes the continuations for which match returns true.
func discard(v *vault.Vault, now time.Time, match func(vault.Binding) bool) error {
	held, err := v.Held(match, now)
	for _, t := range held {
		var refused *vault.RefusedError
		if gone := v.Discard(t, now); !errors.As(gone, &refused) { // a RefusedError means that another process has taken the continuation
			err = errors.Join(err, gone)
		}
	}
	return err
}

// pick returns the one continuation of an earlier harness session in this folder, and
// erases those that have expired; ok is false if there is none. There must be only one,
// because the hook cannot know which of several sessions in one folder was reset.
func (r *Renewal) pick(session string) (t vault.Ticket, ok bool, err error) {
	now := r.cfg.Now()
	before := func(b vault.Binding) bool { return r.ours(b) && b.HarnessSession != session }
	held, err := r.cfg.Vault.Held(before, now)
	all, errAll := r.cfg.Vault.Held(before, time.Time{})                        // all has the expired ones too: none has expired at the zero time
	err = errors.Join(err, errAll, r.cfg.Vault.Sweep(now, now.Add(-keepEnded))) // expired continuations are removed here too, not only in prepare
	switch {
	case err != nil:
		return t, false, err
	case len(held) == 0 && len(all) > 0:
		return t, false, fmt.Errorf("the continuation of harness session %s expired before it could be delivered (%s)", all[0].HarnessSession, lifeloop.Timeout)
	case len(held) == 0:
		return t, false, nil
	case len(held) > 1:
		return t, false, fmt.Errorf("%d harness sessions in this folder have prepared a continuation, and it is not known which of them was reset (%s)", len(held), lifeloop.OperatorRequired)
	}
	return held[0], true, nil
}

// deliver adds the continuation of an earlier harness session to an answer.
func (r *Renewal) deliver(ctx context.Context, ref effect.RenewalRef, body []byte) ([]byte, error) {
	t, ok, err := r.pick(ref.Session)
	if !ok {
		return body, err
	}
	response, err := lifeloop.ParseCallbackResponse(body)
	if err != nil {
		return body, nil // return the answer unchanged; the kernel reports that it is invalid
	}
	ref.Renewal, ref.Session = t.Renewal, t.HarnessSession
	text, err := r.programs.Continue(ctx, ref, string(t.Digest))
	if err != nil {
		return body, err
	}
	digest := string(canon.Sum([]byte(text.Reveal())))
	response.ClientPayloads = append(response.ClientPayloads, renewal.Payload(r.cfg.NewID("pay_"), ref.Client, text, digest))
	next, err := response.Encode()
	if err != nil {
		return body, err
	}
	return next, nil
}
