package kernel_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"lifeloop/canon"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// This file has the words of the scenarios about renewal.

// renewable returns the renewal claims of a harness. support is how well the wrapper can
// reset the harness.
func renewable(support lifeloop.Support) *lifeloop.RenewalClaims {
	c := &lifeloop.RenewalClaims{}
	c.Reset.Native, c.Reset.WrapperMediated, c.Reset.Manual = lifeloop.Unavailable, support, lifeloop.Unavailable
	c.Continuation.Observation, c.Continuation.PayloadDelivery = lifeloop.Native, lifeloop.Native
	return c
}

// renewalOption reads one word about the profiles of renewal.
func (w *world) renewalOption(cfg *kernel.Config, a datadriven.CmdArg) bool {
	switch a.Key {
	case "profile":
		name, client, _ := strings.Cut(a.Vals[0], ":")
		cfg.Renewals = append(cfg.Renewals, renewal.Rules{Profile: name, Client: client, Paths: []renewal.Path{renewal.Relaunch},
			Limits: renewal.Limits{Idle: 15 * time.Minute, Observe: 2 * time.Minute}})
		cfg.Stores, cfg.Renews = true, true
		if cfg.Manifest.Renewal == nil {
			cfg.Manifest.Renewal = renewable(lifeloop.Synthesized)
		}
	case "paths":
		cfg.Renewals[0].Paths = nil
		for _, path := range a.Vals {
			cfg.Renewals[0].Paths = append(cfg.Renewals[0].Paths, renewal.Path(path))
		}
	case "in-place": // the harness can be reset by typed keys
		cfg.Clears = true
		cfg.Manifest.Renewal.Reset.Native = lifeloop.Native
		if len(a.Vals) > 0 {
			cfg.Manifest.Renewal.Reset.Native = lifeloop.Support(a.Vals[0])
		}
	case "by-plugin": // a plugin resets the harness, and keeps a line that the user has begun
		cfg.Means, cfg.KeepsLine = renewal.ByPlugin, true
	case "by-hook": // the answer of a hook at the end of a turn resets the harness, and keeps the line
		cfg.Means, cfg.KeepsLine = renewal.ByHook, true
	case "keeps-line":
		cfg.KeepsLine = true
	case "at":
		cfg.Renewals[0].At = a.Vals[0]
	case "cut":
		cfg.Renewals[0].Cut = true
	case "max":
		cfg.Renewals[0].Max = w.integer(a.Vals[0])
	case "prints": // the launch has a prompt, which a relaunch would repeat
		cfg.Renews = false
	case "no-store":
		cfg.Stores = false
	case "renewal":
		cfg.Manifest.Renewal = renewable(lifeloop.Support(a.Vals[0]))
	case "scoped": // the claim holds only with one of these profiles
		cfg.Manifest.Renewal = renewable(lifeloop.Synthesized)
		cfg.Manifest.Renewal.Profiles = a.Vals
	case "manual":
		cfg.Manifest.Renewal = renewable(lifeloop.Unavailable)
		cfg.Manifest.Renewal.Reset.Manual = lifeloop.Manual
	default:
		return false
	}
	return true
}

func (w *world) renew(d *datadriven.TestData) input.Input {
	in := input.RenewAsked{Ask: w.ask(), Reason: strings.TrimSpace(d.Input)}
	for _, a := range d.CmdArgs {
		in.Profile = a.Key
	}
	return in
}

func (w *world) prepared(d *datadriven.TestData) input.Input {
	in := input.RenewalPrepared{Renewal: d.CmdArgs[0].Key, Digest: string(canon.Sum([]byte(d.CmdArgs[1].Key)))[:13]}
	w.words(d.CmdArgs[2:], map[string]func(string){
		"expires": func(v string) { in.Expires = new(w.now.Add(w.duration(v)).UTC()) },
		"fail":    func(v string) { in.Failure, in.Why, in.Digest = lifeloop.FailureClass(v), "said so", "" },
	})
	return in
}

func (w *world) continued(d *datadriven.TestData) input.Input {
	text := d.CmdArgs[1].Key
	if n, err := strconv.Atoi(text); err == nil {
		text = strings.Repeat("x", n)
	}
	in := continuation(d.CmdArgs[0].Key, text)
	w.words(d.CmdArgs[2:], map[string]func(string){
		"fail": func(v string) {
			in = input.RenewalContinued{Renewal: in.Renewal, Failure: lifeloop.FailureClass(v), Why: "said so"}
		},
	})
	return in
}

func (w *world) typed(d *datadriven.TestData) input.Input {
	in := input.KeysTyped{Renewal: d.CmdArgs[0].Key}
	w.words(d.CmdArgs[1:], map[string]func(string){
		"undo": func(string) { in.Undo = true },
		"busy": func(string) { in.Busy = true },
		"fail": func(v string) { in.Failure = v },
	})
	return in
}

func (w *world) fresh(d *datadriven.TestData) input.Input {
	return input.FreshSeen{Renewal: d.CmdArgs[0].Key, ID: d.CmdArgs[1].Key, Source: "threads", Detail: "lock"}
}

// continuation is the outcome of a continue command that printed a text.
func continuation(id, text string) input.RenewalContinued {
	return input.RenewalContinued{Renewal: id, Text: lifeloop.NewOpaque(text), Digest: string(canon.Sum([]byte(text)))}
}
