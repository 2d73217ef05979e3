package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"lifeloop/canon"
	"lifeloop/dispatch"
	"lifeloop/internal/config"
	"lifeloop/internal/vt"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/renewal/programs"
	"lifeloop/supervisor"
	"lifeloop/vault"
)

// A renewal without the wrapper consists of two hook calls. In the first one the
// client asks for the renewal, and the continuation is prepared and stored in the
// vault. Then the user resets the harness, because a hook cannot. At the start of
// the next harness session, the second call takes the continuation and answers with
// its text.

// hostVault returns the vault for the continuations of sessions without the
// wrapper.
func hostVault(stateDir string) *vault.Vault {
	return vault.At(filepath.Join(stateDir, "host", "vault"))
}

// keepEnded is how long the vault keeps the record that a continuation was used
// or discarded.
const keepEnded = 30 * 24 * time.Hour

// checkHostProfile returns an error if the hooks of an adapter cannot renew by the
// named profile. An empty name is valid.
func checkHostProfile(cfg config.Config, adapter, name string) error {
	if name == "" {
		return nil
	}
	p, err := profile.Find(cfg.Profiles, name)
	if err != nil {
		return usage("%v", err)
	}
	if p.Self() {
		return no(lifeloop.CapabilityUnsupported, "profile %s asks the harness for a note, but a hook cannot do that", name).
			withHint("use lifeloop-wrap run --profile %s instead", name)
	}
	_, manifest, _ := adapterOf(adapter)
	if class, why := renewable(manifest, p); class != "" {
		return no(class, "renewal profile %q cannot be installed for adapter %q: %s", name, adapter, why).
			withHint("without --profile, lifeloop-wrap host apply installs the hooks that every session needs")
	}
	return nil
}

// renewable negotiates the capabilities that a renewal by hooks needs. It is called
// before hooks are installed, and before the programs of a profile run.
func renewable(m lifeloop.Manifest, p profile.Profile) (class lifeloop.FailureClass, why string) {
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

// A hostRenewal performs the steps of a renewal in one hook call. The kernel calls
// it in place of the client that owns the profile. It passes each event on to that
// client, if it is configured, and reads the answers.
type hostRenewal struct {
	profile  profile.Profile
	manifest lifeloop.Manifest
	dir      string
	vault    *vault.Vault
	programs *programs.Programs
	client   supervisor.Client       // nil if the owner is not a configured client
	events   map[lifeloop.Event]bool // the events that the client receives
	stderr   io.Writer
}

func newHostRenewal(h hostCall, cfg config.Config, manifest lifeloop.Manifest, dir string, around func(string) dispatch.Config, stderr io.Writer) (*hostRenewal, error) {
	if err := checkHostProfile(cfg, h.adapter, h.profile); err != nil {
		return nil, err
	}
	cfg.Renewal.Profiles = []string{h.profile}
	active, err := cfg.Active()
	if err != nil {
		return nil, err
	}
	r := &hostRenewal{profile: active[0], manifest: manifest, dir: realPath(dir), vault: hostVault(cfg.StateDir), stderr: stderr}
	r.programs, err = programs.New(programs.Config{Profiles: active, Vault: r.vault, Dir: r.dir, Around: around, Environ: os.Environ()})
	return r, err
}

// join replaces the client that owns the profile by r.
func (r *hostRenewal) join(known []setup.Client, clients clientPrograms) []setup.Client {
	owner := r.profile.Owner()
	r.client = clients[owner]
	clients[owner] = r
	i := slices.IndexFunc(known, func(c setup.Client) bool { return c.ID == owner })
	if i < 0 {
		known, i = append(known, setup.Client{ID: owner, Events: map[lifeloop.Event]bool{}}), len(known)
	}
	r.events = maps.Clone(known[i].Events)
	known[i].Events[r.deliversAt()] = true
	known[i].Timeout = hostHookRenewalTime
	return known
}

// deliversAt returns the event whose answer carries the continuation: the
// first event of a harness session for which the harness's hook accepts text.
func (r *hostRenewal) deliversAt() lifeloop.Event {
	if negotiate.Support(r.manifest, "placement."+string(lifeloop.PreSession)).Stronger(lifeloop.Partial) {
		return lifeloop.SessionStarted
	}
	return lifeloop.FrameOpening
}

// Call passes an event on to the client and performs the renewal. A failure of the
// renewal is reported on stderr and does not change the client's answer.
func (r *hostRenewal) Call(ctx context.Context, envelope []byte) (dispatch.Answer, error) {
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
		return answer, nil // do nothing, because a continuation must be bound to a harness session
	}
	ref := effect.RenewalRef{Profile: r.profile.Name, Client: r.profile.Owner(), Adapter: asked.Request.AdapterID, Session: *asked.Request.HarnessSessionID}
	if r.programs.Asks(ref.Client, answer.Body) != "" {
		r.report("prepare a renewal", r.prepare(ctx, ref))
	}
	if asked.Request.Event == r.deliversAt() {
		body, err := r.deliver(ctx, ref, answer.Body)
		if answer.Body = body; err != nil {
			r.report("deliver a continuation", err)
		}
	}
	return answer, nil
}

func (r *hostRenewal) report(what string, err error) {
	if err != nil {
		fmt.Fprintf(r.stderr, "lifeloop-wrap: %s: %s\n", what, vt.Plain(err.Error()))
	}
}

// prepare stores a continuation of the harness session, and removes earlier ones of
// the same session.
func (r *hostRenewal) prepare(ctx context.Context, ref effect.RenewalRef) error {
	if class, why := renewable(r.manifest, r.profile); class != "" {
		return fmt.Errorf("%s (%s)", why, class)
	}
	now := time.Now()
	if err := r.vault.Sweep(now, now.Add(-keepEnded)); err != nil {
		return err
	}
	ref.Renewal = "host-" + uuid.NewString()
	if _, _, err := r.programs.Prepare(ctx, ref); err != nil {
		return err
	}
	return discardHeld(r.vault, func(b vault.Binding) bool {
		return r.ours(b) && b.HarnessSession == ref.Session && b.Renewal != ref.Renewal
	})
}

// ours reports whether a continuation belongs to this profile's client, adapter and
// folder.
func (r *hostRenewal) ours(b vault.Binding) bool {
	return b.Client == r.profile.Owner() && b.Adapter == r.manifest.AdapterID && b.Dir == r.dir
}

// discardHeld removes the continuations that match.
func discardHeld(v *vault.Vault, match func(vault.Binding) bool) error {
	now := time.Now()
	held, err := v.Held(match, now)
	for _, t := range held {
		var refused *vault.RefusedError
		if gone := v.Discard(t, now); !errors.As(gone, &refused) { // a RefusedError means that another process has taken the continuation
			err = errors.Join(err, gone)
		}
	}
	return err
}

// refOf returns the reference of a stored continuation.
func refOf(ref effect.RenewalRef, t vault.Ticket) effect.RenewalRef {
	ref.Renewal, ref.Session = t.Renewal, t.HarnessSession
	return ref
}

// deliver adds the continuation of an earlier harness session to an answer. There must
// be only one such continuation, because the hook cannot know which of several
// sessions in one folder was reset.
func (r *hostRenewal) deliver(ctx context.Context, ref effect.RenewalRef, body []byte) ([]byte, error) {
	now := time.Now()
	before := func(b vault.Binding) bool { return r.ours(b) && b.HarnessSession != ref.Session }
	held, err := r.vault.Held(before, now)
	all, errAll := r.vault.Held(before, time.Time{})                        // at the zero time none has expired
	err = errors.Join(err, errAll, r.vault.Sweep(now, now.Add(-keepEnded))) // removes the expired ones now, not only when the next one is prepared
	switch {
	case err != nil:
		return body, err
	case len(held) == 0 && len(all) > 0:
		return body, fmt.Errorf("the continuation of harness session %s expired before this session started (%s)", all[0].HarnessSession, lifeloop.Timeout)
	case len(held) == 0:
		return body, nil
	case len(held) > 1:
		return body, fmt.Errorf("%d harness sessions in this folder have prepared a continuation, and it is not known which of them was reset (%s)", len(held), lifeloop.OperatorRequired)
	}
	response, err := lifeloop.ParseCallbackResponse(body)
	if err != nil {
		return body, nil // return the answer unchanged; the kernel reports that it is invalid
	}
	text, err := r.programs.Continue(ctx, refOf(ref, held[0]), string(held[0].Digest))
	if err != nil {
		return body, err
	}
	response.ClientPayloads = append(response.ClientPayloads, renewal.Payload("pay_"+uuid.NewString(), ref.Client, text, string(canon.Sum([]byte(text.Reveal())))))
	next, err := response.Encode()
	if err != nil {
		return body, err
	}
	return next, nil
}
