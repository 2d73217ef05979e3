package main

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// This file closes a session whose wrapper died: `abort SESSION`. It appends
// what is true of the end, and neither launches nor calls anything.

// closeLost closes a lost session.
func (g *globals) closeLost(cmd *cobra.Command, l *lostSession, reason string) error {
	if k := l.st.Read(l.id); k.Damage != nil {
		return no(lifeloop.InternalError, "session %s: %v", l.id, k.Damage).
			withHint("lifeloop-wrap ledger verify %s shows where; a damaged ledger cannot be continued", l.id)
	}
	s := &session{id: l.id, folder: l.st.Folder(l.id)}
	if err := s.reopen(); err != nil {
		return err
	}
	defer s.ledger.Close()
	k, err := s.lostKernel(g.savedClients(l.st.Folder(l.id)))
	if err != nil {
		return err
	}
	if err := supervisor.CloseLost(k, s.ledger, time.Now(), reason); err != nil {
		return no(lifeloop.InternalError, "session %s: %v", s.id, err)
	}
	if socket, err := s.folder.Socket(); err == nil {
		_ = os.Remove(socket) // the wrapper left it
	}
	s.folder.Forget()
	return nil
}

// savedClients are the clients of the command line that started a session. If it
// cannot be read any more, there are none: events then make no receipts.
func (g *globals) savedClients(folder store.Folder) []config.Client {
	from, err := os.Getwd()
	if err != nil {
		return nil
	}
	defer func() { _ = os.Chdir(from) }()
	run := runCmd(g)
	if _, err := recall(run, folder, nil); err != nil {
		return nil
	}
	cfg, _, err := g.load(run)
	if err != nil {
		return nil
	}
	return cfg.Clients
}

// lostKernel is the kernel of a lost session, with no launcher.
func (s *session) lostKernel(clients []config.Client) (*kernel.Kernel, error) {
	var entries []kernel.Entry
	var began kernel.Began
	adapter := ""
	for e, err := range s.folder.Facts(0) {
		if err != nil {
			return nil, no(lifeloop.InternalError, "read the ledger of session %s: %v", s.id, err)
		}
		switch f := e.Fact.(type) {
		case kernel.Began:
			began = f
		case kernel.Launching:
			adapter = f.Adapter
		}
		entries = append(entries, e)
	}
	_, manifest, _ := adapterOf(cmp.Or(adapter, began.AdapterID))
	cfg := kernel.Config{Session: s.id, Ledger: true, Setup: kernel.Setup{Manifest: manifest}, Began: began,
		NewID: func(prefix string) string { return prefix + uuid.NewString() }}
	for _, c := range kernelClients(clients) {
		if slices.Contains(began.Clients, c.ID) {
			cfg.Clients = append(cfg.Clients, c)
		}
	}
	for _, id := range began.Clients { // a client that is not configured any more is subscribed to nothing
		if !slices.ContainsFunc(cfg.Clients, func(c kernel.Client) bool { return c.ID == id }) {
			cfg.Clients = append(cfg.Clients, kernel.Client{ID: id})
		}
	}
	return kernel.Replay(cfg, slices.Values(entries)), nil
}
