// Package conformance tests a client program against the contract, for the
// client's author. The contract is the rules for clients in docs/writing-a-client.md,
// docs/renewal.md and docs/contract/lifeloop.md. The package sends the client one
// document for each event, and then more documents that reveal common faults. Then it
// runs sessions with the client. These sessions use the real packages supervisor, kernel
// and dispatch, but the harness is scripted, and no ledger is written.
//
// It has no rules of its own about payloads and receipts: in these sessions the kernel
// accepts or rejects each answer.
//
//	report, err := conformance.Run(ctx, conformance.Config{Command: words, ClientID: "notes", AdapterID: id})
//	err = report.Print(os.Stdout)
package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"lifeloop/dispatch"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/renewal/profile"
)

// A Config says what to test and how.
type Config struct {
	Command   []string      // the client's program and its arguments, run without a shell
	ClientID  string        // the id passed to the client
	AdapterID string        // the id in a [lifeloop.Manifest]; the sessions have the capabilities of this manifest
	Mode      string        // Oneshot, Persistent, or "" for each mode that the client supports
	Timeout   time.Duration // time limit of one call; 0 means the default of a session
	// Profiles are the configured renewal profiles, by which an answer may ask for a
	// renewal. The built-in ones are added; a configured one takes precedence over a
	// built-in one with the same name.
	Profiles []profile.Profile
	// Profile names one of Profiles or a built-in one. A session is renewed by this
	// profile. Its prepare program prints the continuation token, and its continue
	// program, if it has one, turns the token into the text for the model. If Profile is
	// empty, no session is renewed.
	Profile string
}

// The modes of a client, with the names in the configuration.
const (
	Oneshot    = "oneshot"
	Persistent = "persistent"
)

// A Report is the result of the test, in the form of `client test --json`.
type Report struct {
	OK         bool        `json:"ok"` // there is no violation
	AdapterID  string      `json:"adapter_id"`
	Command    []string    `json:"command"`
	Modes      []Mode      `json:"modes"`
	Calls      []Call      `json:"calls"`
	Renewals   []Renewal   `json:"renewals"` // one renewal in each mode, if Config.Profile is set
	Violations []Violation `json:"violations"`
	Notes      []string    `json:"notes"`
}

// A Mode is one way to run the client.
type Mode struct {
	Mode   string `json:"mode"`
	Tested bool   `json:"tested"`
	Why    string `json:"why,omitempty"` // why the mode was not tested
}

// A Call is one event sent to the client.
type Call struct {
	Mode  string         `json:"mode"`
	Step  string         `json:"step"` // the step of the test in which the event was sent
	Event lifeloop.Event `json:"event"`
	// EventID is the event_id of the document; several calls may have the same one.
	EventID    string `json:"event_id"`
	DurationMS int64  `json:"duration_ms"`
	// Answer is the JSON that the client printed. It is null if the client printed no
	// valid JSON, or if the call failed, for example by a time-out or an exit code.
	Answer json.RawMessage `json:"answer"`
	// Renews lists all profiles by which the answer asks for a renewal. In a session, the
	// answer can ask only for an active profile whose client ([profile.Profile.Owner]) is
	// this client.
	Renews []string `json:"asks_for_renewal,omitempty"`
	// Failure is the reason why there is no valid answer; empty if there is one.
	Failure string `json:"failure,omitempty"`
	// Receipt is the receipt that the session recorded. It is null outside of a
	// session, and for receipt.emitted, which has no receipt.
	Receipt *lifeloop.Receipt `json:"receipt"`
}

// A Violation is a sentence of the contract that the client broke.
type Violation struct {
	Rule     string         `json:"rule"`
	Mode     string         `json:"mode"`
	Step     string         `json:"step"`            // the first step in which the sentence was broken
	Event    lifeloop.Event `json:"event,omitempty"` // the first event that showed the violation; empty if no single event did
	Found    string         `json:"found"`
	Times    int            `json:"times"`
	Sentence string         `json:"sentence"`
	Document string         `json:"document"`
	// Stderr is the end of the text that the client's process had printed to stderr when
	// the violation was found. It is empty for a violation in a session.
	Stderr string `json:"stderr,omitempty"`
}

// A kit is the state of one test of one client.
type kit struct {
	cfg      Config
	manifest lifeloop.Manifest
	timeouts map[string]int // number of calls that timed out, by mode
	mark     string         // an environment variable that all processes of the client inherit
	*Report
}

// Run tests a client. The error is a problem of the machine or the configuration,
// such as a program that does not exist; violations are in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	c.Timeout = cmp.Or(c.Timeout, dispatch.DefaultTimeout)
	manifest, ok := manifests.Get(c.AdapterID)
	switch {
	case !ok:
		return nil, fmt.Errorf("no adapter has the id %s", c.AdapterID)
	case len(c.Command) == 0:
		return nil, errors.New("no command to test")
	}
	if _, err := exec.LookPath(c.Command[0]); err != nil {
		return nil, fmt.Errorf("find the client: %w", err)
	}
	k := &kit{cfg: c, manifest: manifest, mark: newMark(), timeouts: map[string]int{}, Report: &Report{AdapterID: c.AdapterID, Command: c.Command,
		Modes: []Mode{}, Calls: []Call{}, Renewals: []Renewal{}, Violations: []Violation{}, Notes: []string{}}}
	if err := c.CheckProfile(); err != nil {
		return nil, err
	}
	if err := k.choose(ctx); err != nil {
		return nil, err
	}
	for _, m := range k.Modes {
		if !m.Tested {
			continue
		}
		if err := k.test(ctx, m.Mode); err != nil {
			return nil, err
		}
	}
	for i := range k.Calls {
		k.Calls[i].Renews = k.renews(k.Calls[i])
	}
	k.OK = len(k.Violations) == 0
	return k.Report, ctx.Err()
}

// renews lists the profiles by which a valid answer asks for a renewal.
func (k *kit) renews(c Call) (names []string) {
	known := map[string]bool{}
	for _, p := range slices.Concat(k.cfg.Profiles, profile.Builtin()) {
		if !known[p.Name] && c.Failure == "" && p.Asks.In(c.Answer) {
			names = append(names, p.Name)
		}
		known[p.Name] = true
	}
	return names
}

// test sends the client every document in one mode, and then runs two sessions. If
// Config.Profile is set, it also runs a session that is renewed.
func (k *kit) test(ctx context.Context, mode string) error {
	send := k.sendOneshot
	if mode == Persistent {
		send = k.sendPersistent
	}
	if err := send(ctx, documents()); err != nil {
		return err
	}
	for _, subscribed := range []func(lifeloop.Event) bool{ofHarness, ofWrapper} {
		if k.givenUp(mode) {
			break
		}
		if err := k.session(ctx, mode, subscribed, nil); err != nil {
			return err
		}
	}
	if k.cfg.Profile != "" && !k.givenUp(mode) {
		if err := k.renewal(ctx, mode); err != nil {
			return err
		}
	}
	if k.givenUp(mode) {
		k.Notes = append(k.Notes, mode+": the client did not get all events, because it exceeded its time limit repeatedly")
	}
	return nil
}

// maxTimeouts is the number of time-outs after which the test of a mode ends,
// because a client that never answers would delay the test at every event.
const maxTimeouts = 3

func (k *kit) givenUp(mode string) bool { return k.timeouts[mode] >= maxTimeouts }

// violate records a violation, or counts it if it was recorded before.
func (k *kit) violate(mode, step string, event lifeloop.Event, r rule, stderr []byte, found string, args ...any) {
	for i := range k.Violations {
		if v := &k.Violations[i]; v.Rule == r.id && v.Mode == mode {
			v.Times++
			return
		}
	}
	k.Violations = append(k.Violations, Violation{Rule: r.id, Mode: mode, Step: step, Event: event, Found: fmt.Sprintf(found, args...),
		Times: 1, Sentence: r.sentence, Document: r.document, Stderr: lastWords(stderr)})
}

// violated reports whether one of the rules was broken in a mode.
func (k *kit) violated(mode string, rules ...rule) bool {
	for _, v := range k.Violations {
		for _, r := range rules {
			if v.Rule == r.id && v.Mode == mode {
				return true
			}
		}
	}
	return false
}
