package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"lifeloop/control"
	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/internal/proven"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/view"
)

// A session holds the files and the socket of one run.
type session struct {
	id     string
	cfg    config.Config
	folder store.Folder
	temp   *store.Temp // the folder of a run with --no-ledger; otherwise nil
	ledger *ledger.Log
	record store.Recorder // writes the session's summary from all committed entries
	door   *control.Server
	log    zerolog.Logger
	logTo  *os.File

	published store.Published // which checkpoints of the evidence were published
}

// open opens the ledger and the socket of a session. Call close even after an error.
func (s *session) open(f runFlags) error {
	store.RemoveTemps()
	s.folder = store.Open(s.cfg.StateDir).Folder(s.id)
	// To open the socket takes about as long as to create the ledger. No other process uses
	// a new id, so both are done at the same time. For another id, the socket must wait for
	// the lock of the ledger, which shows whether a process runs the session.
	openDoor := s.openDoor
	if f.resume == "" && f.sessionID == "" {
		openDoor = background(s.openDoor)
		defer openDoor() // waits, even after an error, because close must close the socket
	}
	if err := s.openLedger(f.noLedger, f.resume != ""); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	err := openDoor()
	if err == nil {
		err = s.folder.SetSocket(s.door.Path())
	}
	if err != nil {
		return refused(lifeloop.InternalError, "open the session's socket: %v", err)
	}
	return nil
}

// background calls f in a goroutine. The returned function waits for the result.
func background(f func() error) (wait func() error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return sync.OnceValue(func() error { return <-result })
}

func (s *session) openDoor() (err error) {
	s.door, err = control.Open(s.id)
	return err
}

// openLedger opens the ledger of a session that is recovered, or creates a new one. If the
// session is unrecorded, openLedger creates a folder for its other files.
func (s *session) openLedger(unrecorded, recovered bool) error {
	if recovered {
		return s.reopen()
	}
	if unrecorded {
		temp, err := store.CreateTemp()
		if err != nil {
			return refused(lifeloop.InternalError, "make a folder for this run: %v", err)
		}
		s.folder, s.temp = temp.Folder, temp
		return nil
	}
	created, err := createLedger(s.folder)
	var locked *durable.LockedError
	switch {
	case errors.Is(err, os.ErrExist), errors.As(err, &locked):
		return taken(store.Open(s.cfg.StateDir).Read(s.id))
	case err != nil:
		return noLedger(s.folder, err)
	}
	s.ledger = created
	return nil
}

// noLedger returns the error for a ledger that cannot be created.
func noLedger(folder store.Folder, err error) *failure {
	return refused(lifeloop.InternalError, "create a ledger in %s: %v", folder, err).
		withHint("--state-dir chooses another folder; --no-ledger stores no ledger")
}

// createLedger creates the ledger of a new session in a new folder. After an error
// it removes the folder, unless it existed before. The names of the folder and its file
// are not durable yet: the caller must call [ledger.Log.Named], which waits for that.
func createLedger(folder store.Folder) (created *ledger.Log, err error) {
	_, missing := os.Lstat(string(folder))
	if err = folder.Secure(); err == nil {
		created, err = ledger.Create(string(folder), ledger.Options{})
	}
	if err != nil && missing != nil {
		folder.Discard()
	}
	return created, err
}

// taken returns the error for an id that another session already has.
func taken(k store.Session) *failure {
	const another = "choose another id, or run without --session-id"
	switch {
	case k.Liveness == store.Live:
		return refused(lifeloop.StateConflict, "session %s is already live", k.SessionID).
			withHint("lifeloop-wrap status %s shows the session; for a new session, %s", k.SessionID, another)
	case k.Damage != nil:
		return refused(lifeloop.StateConflict, "session %s already exists, and its ledger cannot be read: %v", k.SessionID, k.Damage).withHint(another)
	case k.Ended():
		return refused(lifeloop.StateConflict, "session %s already exists and has ended: %s", k.SessionID, k.Ending()).withHint(another)
	}
	return refused(lifeloop.StateConflict, "session %s already exists and is lost: its wrapper died", k.SessionID).
		withHint("to continue it: lifeloop-wrap %s; for a new session, %s", k.ResumeCommand(), another)
}

func (s *session) openLog() error {
	level, err := zerolog.ParseLevel(s.cfg.LogLevel)
	if err != nil || s.cfg.LogFile == "" {
		s.log = zerolog.Nop()
		return nil
	}
	if s.logTo, err = os.OpenFile(s.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600); err != nil {
		return refused(lifeloop.InternalError, "open the log: %v", err)
	}
	s.log = zerolog.New(zerolog.SyncWriter(vt.NewFilter(s.logTo))).Level(level).With().Timestamp().Str("session_id", s.id).Logger()
	return nil
}

// tidy removes what a session that has ended does not need, and writes its summary.
func (s *session) tidy() {
	s.giveBack()
	if s.ledger == nil || s.unwritten() {
		s.folder.Forget()
		return
	}
	// The prepare program of a renewal can store a continuation (see package vault) while
	// the session ends. Nothing can use that continuation, so Clear erases its text.
	if err := sessionVault(s.folder).Clear(time.Now()); err != nil {
		s.log.Warn().Err(err).Msg("cannot erase the stored continuations of renewals")
	}
	s.record.Conclude(s.id, s.folder)
}

// unwritten reports whether the ledger has no entry.
func (s *session) unwritten() bool {
	seq, _ := s.ledger.Last()
	return seq == 0
}

// close releases the resources of open. It closes the ledger of a session that
// was refused before it ran; after a run, the supervisor has already closed the
// ledger.
func (s *session) close() {
	if s.door != nil {
		_ = s.door.Close()
	}
	if s.ledger != nil {
		_ = s.ledger.Close()
		if s.unwritten() {
			s.folder.Discard()
		}
		retain(s.cfg, s.id, vt.NewFilter(os.Stderr))
	}
	if s.logTo != nil {
		_ = s.logTo.Close()
	}
	if s.temp != nil {
		s.temp.Remove()
	}
}

// newID returns a new id for an event, a call and the like.
func newID(prefix string) string { return prefix + uuid.NewString() }

func (s *session) kernelConfig(l *launcher, first setup.Launch, argv []string) kernel.Config {
	dir, _ := os.Getwd() // the folder is only recorded, so an error is ignored
	digest := sha256.Sum256([]byte(strings.Join(argv[1:], "\x00")))
	c := kernel.Config{
		Session: s.id, Wants: wants(s.cfg.Requires), Ledger: s.ledger != nil, Launch: first, Policy: l.policy,
		Tick: s.cfg.Tick, ClientDrain: s.cfg.ClientDrain,
		Limits: setup.Limits{AbortGrace: s.cfg.Attempts.Timeouts.AbortGrace, SignDelay: supervisor.SignDelay, ClientPatience: cmp.Or(s.cfg.HookPatience, -1)},
		NewID:  newID,
		Began: kernel.Began{SessionID: s.id, AdapterID: first.Manifest.AdapterID, AdapterVersion: first.Manifest.AdapterVersion,
			Program: filepath.Base(argv[0]), Args: len(argv) - 1, ArgsDigest: "sha256:" + hex.EncodeToString(digest[:]),
			WorkDir: dir, Version: version, PID: os.Getpid(), PTY: l.terminal.Pty(), Clients: []string{}, Policy: cmp.Or(l.gate.digest(), "none"),
			Meta: s.cfg.Attempts.Meta},
	}
	c.Renewing, c.Guarding = s.renewing(l.profiles), setup.Guarding{Gate: l.gate.digest(), ApprovalWait: l.approvalWait}
	for _, w := range l.ways {
		c.Manifests = append(c.Manifests, w.manifest)
	}
	c.Clients = kernelClients(s.cfg.Clients)
	for i := range c.Clients {
		c.Clients[i].Program = true
		c.Began.Clients = append(c.Began.Clients, c.Clients[i].ID)
	}
	return c
}

// remember stores which capabilities worked with untested versions.
func (s *session) remember(proofs view.Proofs) {
	if s.ledger == nil {
		return
	}
	for _, p := range proofs.All() {
		if err := proven.Add(s.cfg.StateDir, time.Now(), p.Adapter, p.Version, p.Capabilities); err != nil {
			s.log.Warn().Err(err).Msg("cannot store the capabilities that worked")
		}
	}
}
