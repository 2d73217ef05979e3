package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"lifeloop/dispatch"
	"lifeloop/internal/config"
	"lifeloop/internal/vt"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/renewal/profile"
	"lifeloop/renewal/unwrapped"
	"lifeloop/vault"
)

// This file connects installed hooks with package unwrapped, which renews without the
// wrapper.

// hostVault returns the vault for the continuations of sessions without the
// wrapper.
func hostVault(stateDir string) *vault.Vault {
	return vault.At(filepath.Join(stateDir, "host", "vault"))
}

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
	if class, why := unwrapped.Refusal(manifest, p); class != "" {
		return no(class, "renewal profile %q cannot be installed for adapter %q: %s", name, adapter, why).
			withHint("without --profile, lifeloop-wrap host apply installs hooks that do not renew sessions")
	}
	return nil
}

// renewal returns the Renewal that renews the harness session of a hook call. It uses the
// profile that h names. A failure of the renewal is printed on stderr.
func (h hostCall) renewal(cfg config.Config, manifest lifeloop.Manifest, dir string, around func(string) dispatch.Config, stderr io.Writer) (*unwrapped.Renewal, error) {
	if err := checkHostProfile(cfg, h.adapter, h.profile); err != nil {
		return nil, err
	}
	cfg.Renewal.Profiles = []string{h.profile}
	active, err := cfg.Active()
	if err != nil {
		return nil, err
	}
	return unwrapped.New(unwrapped.Config{Profile: active[0], Manifest: manifest, Dir: realPath(dir), Vault: hostVault(cfg.StateDir), NewID: newID, Around: around,
		Report: func(what string, err error) {
			fmt.Fprintf(stderr, "lifeloop-wrap: %s: %s\n", what, vt.Plain(err.Error()))
		}})
}

// joinRenewal puts r into the map clients in the place of the client that owns the
// profile; r passes events on to that client. In the slice known, joinRenewal sets the
// event and the time-out that r needs for that client, after adding the client if it is
// missing. It returns the slice.
func joinRenewal(r *unwrapped.Renewal, known []setup.Client, clients clientPrograms) []setup.Client {
	owner := r.Owner()
	i := slices.IndexFunc(known, func(c setup.Client) bool { return c.ID == owner })
	if i < 0 {
		known, i = append(known, setup.Client{ID: owner, Events: map[lifeloop.Event]bool{}}), len(known)
	}
	clients[owner] = r.Serve(clients[owner], maps.Clone(known[i].Events))
	known[i].Events[r.DeliversAt()] = true
	known[i].Timeout = hostHookRenewalTime
	return known
}
