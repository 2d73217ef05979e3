package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/supervisor"
)

// startable makes a subprocess client of each configured one. The guard learns of
// every process and ends those that outlive the wrapper.
func (s *session) startable(t *harness.Terminal) (clientPrograms, error) {
	return newClientPrograms(s.cfg.Clients, func(id string) dispatch.Config {
		return dispatch.Config{
			Env:        append(os.Environ(), "LIFELOOP_SESSION_ID="+s.id, "LIFELOOP_CLIENT_ID="+id),
			StderrFile: filepath.Join(string(s.folder), "stderr-"+fileName(id)), Started: t.Own, Ended: t.Disown}
	})
}

// clientPrograms are the configured clients. Each starts with its first call.
type clientPrograms struct {
	byID       map[string]supervisor.Client
	persistent []*dispatch.Persistent
}

// newClientPrograms makes them; around returns the caller's part of a client's
// configuration.
func newClientPrograms(clients []config.Client, around func(id string) dispatch.Config) (clientPrograms, error) {
	out := clientPrograms{byID: map[string]supervisor.Client{}}
	for _, c := range clients {
		cfg := around(c.ID)
		cfg.ID, cfg.Command, cfg.Timeout = c.ID, c.Command, c.Timeout
		if c.Mode == config.Persistent {
			p, err := dispatch.NewPersistent(cfg)
			if err != nil {
				return out, usage("%v", err)
			}
			out.byID[c.ID], out.persistent = p, append(out.persistent, p)
			continue
		}
		one, err := dispatch.NewOneshot(cfg)
		if err != nil {
			return out, usage("%v", err)
		}
		out.byID[c.ID] = one
	}
	return out, nil
}

// close ends the persistent clients concurrently, so that many slow ones take no
// longer than one.
func (c clientPrograms) close() {
	var wg sync.WaitGroup
	for _, p := range c.persistent {
		wg.Go(p.Close)
	}
	wg.Wait()
}

// fileName turns a client's id into a file name.
func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '.' || r < ' ' {
			return '_'
		}
		return r
	}, id)
}

func wants(rs []config.Require) []negotiate.Want {
	var out []negotiate.Want
	for _, r := range rs {
		out = append(out, negotiate.Want(r))
	}
	return out
}

// kernelClients are the configured clients as the kernel sees them.
func kernelClients(clients []config.Client) []kernel.Client {
	var out []kernel.Client
	for _, c := range clients {
		k := kernel.Client{ID: c.ID, Events: map[lifeloop.Event]bool{}, Timeout: c.Timeout, Wants: wants(c.Requires)}
		for _, e := range lifeloop.Events() {
			k.Events[e] = config.Match(c.Events, string(e))
		}
		out = append(out, k)
	}
	return out
}
