package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/renewal/programs"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
	"lifeloop/vault"
)

// This file tests a renewal: the client's answers may ask for it, and the programs of
// the profile make the continuation token. The vault is in a temporary folder.

// A Renewal is what happened in the session with a renewal.
type Renewal struct {
	Mode    string `json:"mode"`
	Profile string `json:"profile"`
	// AskedBy is "client", or "test" if no answer of the client asked for the renewal.
	AskedBy      string                `json:"asked_by"`
	States       []renewal.State       `json:"states"`
	Outcome      renewal.State         `json:"outcome"`
	FailureClass lifeloop.FailureClass `json:"failure_class,omitempty"`
	Why          string                `json:"why,omitempty"`
	Steps        []RenewalStep         `json:"steps"`
}

// A RenewalStep is one of the steps prepare, reset, observation and delivery. The
// receipt of each step names the receipt of the previous step as its parent.
type RenewalStep struct {
	Step    string            `json:"step"`
	Receipt *lifeloop.Receipt `json:"receipt"`
}

// renewed describes the renewal of a scripted session (see [world]): its record, and the
// active profile with its programs.
type renewed struct {
	*Renewal
	profile  profile.Profile
	programs *programs.Programs
	launches int
	id       string // id of the renewal
	again    int    // number of the client's requests for another renewal
	command  string // the last program that ran: prepare or continue
}

// CheckProfile returns why Profile cannot be tested.
func (c Config) CheckProfile() error {
	if c.Profile == "" {
		return nil
	}
	_, err := c.activeProfile()
	return err
}

// activeProfile returns the profile that c.Profile names. Its field Client is set to the
// tested client, which therefore owns the continuation.
func (c Config) activeProfile() (profile.Profile, error) {
	for _, p := range slices.Concat(c.Profiles, profile.Builtin()) {
		if p.Name != c.Profile {
			continue
		}
		if p.Self() {
			return p, fmt.Errorf("profile %s needs no client, so it cannot be tested with one", p.Name)
		}
		if len(p.Prepare.Command) == 0 {
			return p, fmt.Errorf("profile %s has no prepare command", p.Name)
		}
		p.Client = c.ClientID
		return p, nil
	}
	return profile.Profile{}, fmt.Errorf("there is no profile %s", c.Profile)
}

// renewal runs a session that is renewed once.
func (k *kit) renewal(ctx context.Context, mode string) error {
	p, err := k.cfg.activeProfile()
	if err != nil {
		return err
	}
	temp, err := store.CreateTemp() // if this process is killed, a later RemoveTemps removes the continuation token
	if err != nil {
		return err
	}
	defer temp.Remove()
	work, err := os.Getwd()
	if err != nil {
		return err
	}
	r := &renewed{profile: p, Renewal: &Renewal{Mode: mode, Profile: p.Name, AskedBy: "test", States: []renewal.State{}, Steps: []RenewalStep{}}}
	r.programs, err = programs.New(programs.Config{Profiles: []profile.Profile{p}, Vault: vault.At(filepath.Join(string(temp.Folder), "vault")), Dir: work,
		Around: func(string) dispatch.Config { return dispatch.Config{Env: []string{k.mark}} }})
	if err != nil {
		return err
	}
	if err := k.session(ctx, mode, ofHarness, r); err != nil {
		return err
	}
	k.Renewals = append(k.Renewals, *r.Renewal)
	k.judgeRenewal(r)
	return nil
}

// judgeRenewal derives violations and notes from a renewal.
func (k *kit) judgeRenewal(r *renewed) {
	if r.AskedBy == "test" {
		k.Notes = append(k.Notes, fmt.Sprintf("%s: no answer of the client asked for a renewal (the key `asks` of the profile says how), so the test asked for it", r.Mode))
	}
	if r.again > 0 {
		k.Notes = append(k.Notes, fmt.Sprintf("%s: further requests of the client for a renewal: %d; they were refused, because the test renews its session only once", r.Mode, r.again))
	}
	broke := notPrepared
	switch {
	case r.Outcome == renewal.Delivered:
		return
	case r.command == "":
		k.Notes = append(k.Notes, fmt.Sprintf("%s: the renewal was %s before the prepare command ran: %s", r.Mode, r.Outcome, r.Why))
		return
	case r.command == "continue":
		broke = notContinued
	}
	k.violate(r.Mode, stepRenewal, lifeloop.SessionStarted, broke, nil, "the renewal ended as %s (%s): %s", r.Outcome, r.FailureClass, r.Why)
}

// renewing describes the active profile to the kernel. For the test it changes three
// rules: a reset is a relaunch, no running turn is interrupted, and a session is renewed
// only once.
func (r *renewed) renewing() setup.Renewing {
	rules := r.profile.Rules()
	rules.Paths, rules.Cut, rules.Limits.Session = []renewal.Path{renewal.Relaunch}, false, 1
	return setup.Renewing{Stores: true, Renewals: []renewal.Rules{rules}}
}

// moved records a new state of a renewal. The caller holds mu of the session's world.
func (r *renewed) moved(f kernel.RenewalMoved) {
	if r.id == "" {
		r.id = f.Renewal
	}
	if r.id != f.Renewal { // only the first renewal is tested
		if f.To == renewal.Asked {
			r.again++
		}
		return
	}
	r.States = append(r.States, f.To)
	if f.To == renewal.Asked && f.By == renewal.ByClient {
		r.AskedBy = "client"
	}
	if f.To.Over() {
		r.Outcome, r.FailureClass, r.Why = f.To, f.Failure, f.Why
	}
}

// step adds a receipt of the renewal to r.Steps. The caller holds mu of the session's
// world.
func (r *renewed) step(doc *lifeloop.Receipt) {
	name := "delivery"
	switch doc.Event {
	case lifeloop.SessionEnding:
		name = "prepare"
	case lifeloop.SessionEnded:
		name = "reset"
	case lifeloop.SessionStarted:
		if len(doc.PayloadReceipts) == 0 && !slices.ContainsFunc(r.Steps, func(s RenewalStep) bool { return s.Step == "observation" }) {
			name = "observation"
		}
	}
	r.Steps = append(r.Steps, RenewalStep{name, doc})
}

const stepRenewal = "a renewal"

// renewalLaunch plays the first or the second launch of a renewal. In the first, a turn
// fills the context. The second has one turn in the fresh harness session.
func (s *world) renewalLaunch(post func(input.Input), number int) input.ChildExited {
	r := s.renewed
	over := func() bool { return r.Outcome != "" }
	reset := func() bool { return over() || number == 1 && slices.Contains(r.States, renewal.Resetting) }
	// If the client asks for the renewal early, the reset may begin before the event e.
	// The script then does not wait for e, because the first launch is about to end.
	until := func(e lifeloop.Event) {
		s.await(string(e), func() bool { return s.events[e] >= number || reset() })
	}
	s.name(stepRenewal)
	session, turn, tokens := firstSession, "turn-1", int64(160000)
	if number > 1 {
		s.name("the fresh session")
		session, turn, tokens = lastSession, "turn-2", 20000
	}
	s.hook("SessionStart", lifeloop.PreSession, io.Discard, telemetry.Signal{Kind: telemetry.SessionLive, Session: session, Cause: "startup"})
	until(lifeloop.SessionStarted)
	s.prompt(session, turn, io.Discard)
	until(lifeloop.FrameOpened)
	s.signals(post, used(session, tokens))
	until(lifeloop.ContextPressureObserved)
	s.done(post, session, turn)
	until(lifeloop.FrameEnded)
	if number == 1 {
		s.await("the answers before the renewal", func() bool { return len(s.open) == 0 || len(r.States) > 0 })
		s.askRenewal()
		s.await("the reset", reset)
		s.mu.Lock()
		resetting := !over()
		s.mu.Unlock()
		if resetting {
			// The wrapper ends this launch, so the script plays no end.
			return input.ChildExited{}
		}
	}
	s.await("the end of the renewal", over)
	s.begin("the end")
	s.hook("SessionEnd", "", io.Discard, telemetry.Signal{Kind: telemetry.SessionGone, Session: session, Reason: "prompt_input_exit"})
	return input.ChildExited{}
}

// askRenewal asks for the renewal as a user does, unless the client has asked.
func (s *world) askRenewal() {
	s.mu.Lock()
	asked := len(s.renewed.States) > 0
	s.mu.Unlock()
	if asked {
		return
	}
	body, err := json.Marshal(supervisor.SessionCommand{Profile: s.renewed.profile.Name})
	var out []byte
	if err == nil {
		out, err = control.Do(s.socket, control.Command{Name: supervisor.CommandRenew, Input: body}, time.Now().Add(s.patience()))
	}
	var answer supervisor.CommandAnswer
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.incomplete = errors.Join(s.incomplete, err)
	case answer.Error != "" && s.renewed.Outcome == "":
		s.renewed.Outcome, s.renewed.FailureClass, s.renewed.Why = renewal.Refused, answer.FailureClass, answer.Error
	}
}

// lines returns one line that describes the renewal, followed by one line for the
// receipt of each step.
func (r Renewal) lines() (list []string) {
	states := make([]string, len(r.States))
	for i, s := range r.States {
		states[i] = string(s)
	}
	first := fmt.Sprintf("renewal (%s, %s), asked for by the %s: %s", r.Mode, r.Profile, r.AskedBy, strings.Join(states, ", "))
	if r.Why != "" {
		first += fmt.Sprintf(": %s: %s", r.FailureClass, r.Why)
	}
	list = append(list, first)
	for _, s := range r.Steps {
		list = append(list, fmt.Sprintf("  %-11s  %s, %s", s.Step, s.Receipt.Event, receiptText(s.Receipt)))
	}
	return list
}
