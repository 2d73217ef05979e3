package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/vt"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/supervisor"
	"lifeloop/view"
)

// program returns a dispatch.Config with the fields that are the same for all programs
// of a session. The guard ends the processes of such a program if they outlive the
// wrapper. Env has only the variables that the wrapper sets.
func (s *session) program(t *harness.Terminal) dispatch.Config {
	return dispatch.Config{Env: []string{"LIFELOOP_SESSION_ID=" + s.id, t.Mark()}, Started: t.Own, Ended: t.Disown, Forks: t.Forks(), Cgroup: t.Cgroup()}
}

// clients returns the configured clients.
func (s *session) clients(t *harness.Terminal) (clientPrograms, error) {
	return newClientPrograms(s.cfg.Clients, func(id string) dispatch.Config {
		c := s.program(t)
		c.StderrFile = filepath.Join(string(s.folder), "stderr-"+fileName(id))
		return c
	})
}

// clientPrograms are the configured clients by id. A persistent client is started at
// its first call, a oneshot client at each call.
type clientPrograms map[string]supervisor.Client

// newClientPrograms returns the programs of the configured clients. For a client's id,
// around returns a dispatch.Config with the fields that the caller chooses. Env in this
// Config has only the variables of the caller; newClientPrograms adds the others.
func newClientPrograms(clients []config.Client, around func(id string) dispatch.Config) (clientPrograms, error) {
	out := clientPrograms{}
	for _, c := range clients {
		cfg := around(c.ID)
		cfg.ID, cfg.Command, cfg.Timeout = c.ID, c.Command, c.Timeout
		cfg.Env = c.Of(os.Environ(), append(cfg.Env, "LIFELOOP_CLIENT_ID="+c.ID)...)
		var err error
		if c.Mode == config.Persistent {
			out[c.ID], err = dispatch.NewPersistent(cfg)
		} else {
			out[c.ID], err = dispatch.NewOneshot(cfg)
		}
		if err != nil {
			return nil, usage("%v", err)
		}
	}
	return out, nil
}

// close ends the persistent clients concurrently, so that it takes only as long as the
// slowest client.
func (c clientPrograms) close() {
	var wg sync.WaitGroup
	for _, client := range c {
		if p, ok := client.(*dispatch.Persistent); ok {
			wg.Go(p.Close)
		}
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

// kernelClients converts the configured clients to the kernel's form.
func kernelClients(clients []config.Client) []setup.Client {
	var out []setup.Client
	for _, c := range clients {
		k := setup.Client{ID: c.ID, Events: map[lifeloop.Event]bool{}, Timeout: c.Timeout, Wants: wants(c.Requires)}
		for _, e := range lifeloop.Events() {
			k.Events[e] = config.Match(c.Events, string(e))
		}
		out = append(out, k)
	}
	return out
}

// warnFailing reports the clients with failed calls. It is called after the
// terminal was restored, so that nothing is written to the harness's screen.
func warnFailing(w io.Writer, clients []view.ClientCalls, asJSON bool) {
	for _, c := range clients {
		if asJSON {
			_ = printJSON(w, struct {
				Warning string `json:"warning"`
				view.ClientCalls
			}{"client_failed", c})
			continue
		}
		fmt.Fprintf(w, "lifeloop-wrap: client %s: %s\n", vt.Plain(c.ClientID), vt.Plain(c.Text()))
	}
}
