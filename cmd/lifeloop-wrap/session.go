package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"lifeloop/control"
	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
)

// A session holds the files and the socket of one run.
type session struct {
	id     string
	cfg    config.Config
	folder store.Folder
	temp   string // a folder to remove at the end, with --no-ledger
	ledger *ledger.Log
	door   *control.Server
	log    zerolog.Logger
	logTo  *os.File
}

func (s *session) open(noLedger, recovered bool) error {
	st := store.Open(s.cfg.StateDir)
	s.folder = st.Folder(s.id)
	if recovered {
		if err := s.reopen(); err != nil {
			return err
		}
	} else if noLedger {
		dir, err := os.MkdirTemp("", "lifeloop-")
		if err != nil {
			return refused(lifeloop.InternalError, "make a folder for this run: %v", err)
		}
		s.folder, s.temp = store.Folder(dir), dir
	} else {
		created, err := ledger.Create(string(s.folder), ledger.Options{})
		var locked *durable.LockedError
		switch {
		case errors.Is(err, os.ErrExist), errors.As(err, &locked):
			return taken(st.Read(s.id))
		case err != nil:
			return refused(lifeloop.InternalError, "create a ledger in %s: %v", s.folder, err).
				withHint("--state-dir chooses another folder, --no-ledger stores none")
		}
		s.ledger = created
	}
	if err := s.openLog(); err != nil {
		return err
	}
	path, err := control.SocketPath(s.id)
	if err == nil {
		s.door, err = control.Listen(path)
	}
	if err == nil {
		err = s.folder.SetSocket(path)
	}
	if err != nil {
		return refused(lifeloop.InternalError, "open the session's socket: %v", err)
	}
	return nil
}

// taken describes the session that already has a chosen id.
func taken(k store.Session) *failure {
	const another = "leave --session-id out or choose another id"
	switch {
	case k.Liveness == store.Live:
		return refused(lifeloop.StateConflict, "session %s is already live", k.SessionID).
			withHint("lifeloop-wrap status %s shows it; for a new session %s", k.SessionID, another)
	case k.Damage != nil:
		return refused(lifeloop.StateConflict, "session %s already exists, and its ledger cannot be read: %v", k.SessionID, k.Damage).withHint(another)
	case k.Ended():
		return refused(lifeloop.StateConflict, "session %s already exists and has ended: %s", k.SessionID, k.Ending()).withHint(another)
	}
	return refused(lifeloop.StateConflict, "session %s already exists and is lost: its wrapper died", k.SessionID).
		withHint("to continue it: lifeloop-wrap %s; for a new session %s", k.ResumeCommand(), another)
}

func (s *session) openLog() error {
	level, err := zerolog.ParseLevel(s.cfg.LogLevel)
	if err != nil || s.cfg.LogFile == "" {
		s.log = zerolog.Nop()
		return nil
	}
	if s.logTo, err = os.OpenFile(s.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return refused(lifeloop.InternalError, "open the log: %v", err)
	}
	s.log = zerolog.New(s.logTo).Level(level).With().Timestamp().Str("session_id", s.id).Logger()
	return nil
}

// close releases what open took. The supervisor closes the ledger of a session
// that ran; that of a session that was refused before is closed here.
func (s *session) close() {
	if s.door != nil {
		_ = s.door.Close()
	}
	if s.ledger != nil {
		seq, _ := s.ledger.Last()
		_ = s.ledger.Close()
		if seq == 0 {
			_ = os.RemoveAll(string(s.folder)) // nothing happened in it
		}
	}
	if s.logTo != nil {
		_ = s.logTo.Close()
	}
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
	}
}

func (s *session) kernelConfig(l *launcher, first kernel.Setup, argv []string) kernel.Config {
	dir, _ := os.Getwd() // the launcher found it a moment ago
	digest := sha256.Sum256([]byte(strings.Join(argv[1:], "\x00")))
	c := kernel.Config{
		Session: s.id, Wants: wants(s.cfg.Requires), Ledger: s.ledger != nil, Setup: first, Policy: l.policy,
		Tick: s.cfg.Tick, ClientDrain: s.cfg.ClientDrain, AbortGrace: s.cfg.Attempts.Timeouts.AbortGrace,
		Limits: kernel.Limits{SignDelay: supervisor.SignDelay, ClientPatience: cmp.Or(s.cfg.HookPatience, -1)},
		NewID:  func(prefix string) string { return prefix + uuid.NewString() },
		Began: kernel.Began{SessionID: s.id, AdapterID: first.Manifest.AdapterID, AdapterVersion: first.Manifest.AdapterVersion,
			Program: filepath.Base(argv[0]), Args: len(argv) - 1, ArgsDigest: "sha256:" + hex.EncodeToString(digest[:]),
			WorkDir: dir, Version: version, PID: os.Getpid(), PTY: l.terminal.Pty(), Clients: []string{}, Policy: "none",
			Meta: s.cfg.Attempts.Meta},
	}
	for _, w := range l.ways {
		c.Manifests = append(c.Manifests, w.manifest)
	}
	c.Clients = kernelClients(s.cfg.Clients)
	for _, cl := range c.Clients {
		c.Began.Clients = append(c.Began.Clients, cl.ID)
	}
	return c
}
