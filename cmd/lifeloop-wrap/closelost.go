package main

import (
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// This file closes a session whose wrapper died: `abort SESSION`. It appends the
// facts that end the session; it starts no harness and calls no client.

// closeLost closes a lost session.
func (g *globals) closeLost(cmd *cobra.Command, l *lostSession, reason string) error {
	known := l.st.Read(l.id)
	if known.Damage != nil {
		return no(lifeloop.InternalError, "session %s: %v", l.id, known.Damage).
			withHint("lifeloop-wrap ledger verify %s shows the damage; nothing can be appended to a damaged ledger, so the session cannot be closed", l.id)
	}
	s := &session{id: l.id, folder: l.st.Folder(l.id)}
	if err := s.reopen(); err != nil {
		return err
	}
	defer func() {
		_ = s.ledger.Close() // the error does not matter, because all entries are already synced
		l.st.Summarize(l.id)
	}()
	k, err := s.lostKernel(known.AdapterID, g.savedClients(l.st.Folder(l.id)))
	if err != nil {
		return err
	}
	// Take the next two steps before CloseLost appends the last fact. If this process
	// crashes before that fact, the session is still lost, and a second abort can close it.
	s.giveBack()
	if err := sessionVault(s.folder).Clear(time.Now()); err != nil {
		return no(lifeloop.InternalError, "session %s: remove the stored continuation of its renewal: %v", s.id, err)
	}
	if err := supervisor.CloseLost(k, s.ledger, time.Now(), reason); err != nil {
		return no(lifeloop.InternalError, "session %s: %v", s.id, err)
	}
	s.folder.Forget()
	return nil
}

// savedClients returns the clients of a session, from the command line that started
// it and the configuration that this command line names. If these cannot be read,
// there are no clients, and the events get no receipts.
func (g *globals) savedClients(folder store.Folder) []config.Client {
	from, err := os.Getwd()
	if err != nil {
		return nil
	}
	defer func() { _ = os.Chdir(from) }()
	saved := &globals{}
	run := runCmd(saved)
	saved.addFlags(run.Flags())
	if g.config != "" { // this command's --config replaces the saved one, as in run --resume
		_ = run.Flags().Set("config", g.config) // cannot fail: the flag accepts any text
	}
	if _, err := recall(run, folder, nil); err != nil {
		return nil
	}
	cfg, _, err := saved.load(run)
	if err != nil {
		return nil
	}
	return cfg.Clients
}

// lostKernel returns the kernel of a lost session, without a launcher. adapter
// is the adapter of the session's last launch.
func (s *session) lostKernel(adapter string, clients []config.Client) (*kernel.Kernel, error) {
	var k *kernel.Kernel
	for e, err := range s.folder.Facts(0) {
		if err != nil {
			return nil, no(lifeloop.InternalError, "read the ledger of session %s: %v", s.id, err)
		}
		if k == nil {
			began, _ := e.Fact.(kernel.Began) // the first fact of every session
			k = kernel.New(s.lostConfig(adapter, began, clients))
		}
		k.Fold(e)
	}
	if k == nil {
		k = kernel.New(s.lostConfig(adapter, kernel.Began{}, clients))
	}
	return k, nil
}

func (s *session) lostConfig(adapter string, began kernel.Began, clients []config.Client) kernel.Config {
	_, manifest, _ := adapterOf(adapter)
	cfg := kernel.Config{Session: s.id, Ledger: true, Launch: setup.Launch{Manifest: manifest}, Began: began,
		NewID: newID}
	for _, c := range kernelClients(clients) {
		if slices.Contains(began.Clients, c.ID) {
			cfg.Clients = append(cfg.Clients, c)
		}
	}
	for _, id := range began.Clients { // add the clients that are not configured any more; they subscribe to no event
		if !slices.ContainsFunc(cfg.Clients, func(c setup.Client) bool { return c.ID == id }) {
			cfg.Clients = append(cfg.Clients, setup.Client{ID: id})
		}
	}
	return cfg
}
