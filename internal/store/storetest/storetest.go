// Package storetest writes the ledgers of long sessions, for tests and
// measurements. Their facts come from a kernel, as in a run of the wrapper.
//
//	err := storetest.Long(stateDir, id, 1_000_000)
package storetest

import (
	"fmt"
	"os"
	"time"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/telemetry"
)

// Long writes a session that runs the program sleep, with at least this many
// entries. Its wrapper died while the harness worked, so the session can be
// recovered. Each turn has a tool and a model call, and one client is called for
// every event.
func Long(stateDir, id string, entries int) error {
	folder := store.Open(stateDir).Folder(id)
	log, err := ledger.Create(string(folder), ledger.Options{})
	if err != nil {
		return err
	}
	defer log.Close()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	folder.SaveCommand(store.CommandLine{Dir: dir, Argv: []string{"sleep", "0.1"}, Flags: map[string][]string{"pty": {"never"}}})
	s := newLongSession(id, dir)
	for turn := 0; s.written < entries; turn++ {
		if s.play(turn); len(s.records) < 1000 && s.written+len(s.records) < entries {
			continue
		}
		if _, err := log.Append(s.records, false); err != nil {
			return err
		}
		s.written, s.records = s.written+len(s.records), s.records[:0]
	}
	return nil
}

type longSession struct {
	k       *kernel.Kernel
	now     time.Time
	records []ledger.Record
	written int
}

func newLongSession(id, dir string) *longSession {
	n := 0
	generic, _ := manifests.Get("generic")
	notes := setup.Client{ID: "notes", Events: map[lifeloop.Event]bool{}, Timeout: time.Second}
	for _, e := range lifeloop.Events() {
		notes.Events[e] = true
	}
	return &longSession{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), k: kernel.New(kernel.Config{
		Session: id, Ledger: true, Launch: setup.Launch{Manifest: generic}, Clients: []setup.Client{notes},
		NewID: func(prefix string) string { n++; return fmt.Sprintf("%s%012d", prefix, n) },
		Began: kernel.Began{SessionID: id, AdapterID: "generic", Program: "sleep", WorkDir: dir, Clients: []string{}, Policy: "none"}})}
}

// play simulates one turn. For turn 0, it first simulates the start of the session.
func (s *longSession) play(turn int) {
	if turn == 0 {
		s.step(input.Start{})
		s.step(input.Launched{PID: 1})
	}
	name := fmt.Sprintf("turn-%08d", turn)
	for _, kind := range []telemetry.Kind{telemetry.Prompt, telemetry.ToolStart, telemetry.ToolEnd, telemetry.UsageSeen, telemetry.TurnEnd} {
		sig := telemetry.Signal{Kind: kind, Source: "transcript", Detail: "record", Turn: name, Outcome: telemetry.Completed}
		switch kind {
		case telemetry.ToolStart, telemetry.ToolEnd:
			sig.Tool, sig.ToolName = "tool-"+name, "Bash"
		case telemetry.UsageSeen:
			sig.Usage = &telemetry.Usage{ID: name, Used: int64(1 + turn*7919%200_000), Input: 1000, Output: 10}
			sig.Window, sig.WindowSource = 200_000, "reported"
		}
		s.now = s.now.Add(time.Second)
		s.step(input.SignalsSeen{Signals: []telemetry.Signal{sig}, Source: "transcript", Position: &input.Position{Path: "/t", Offset: int64(turn)}})
	}
}

func (s *longSession) step(in input.Input) {
	out := s.k.Step(s.now, in)
	for _, f := range out.Facts {
		kind, body, err := kernel.Encode(f)
		if err != nil {
			panic(err) // does not happen, because every fact can be encoded as JSON
		}
		s.records = append(s.records, ledger.Record{Kind: kind, At: s.now, Body: body})
	}
	for _, e := range out.Effects {
		if call, ok := e.(effect.Dispatch); ok {
			s.step(input.Returned{Call: call.Call, Response: &lifeloop.CallbackResponse{Status: lifeloop.Observed}})
		}
	}
}
