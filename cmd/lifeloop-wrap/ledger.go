package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
)

func ledgerCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "ledger", Short: "Verify or recover a session's ledger"})
	verify := &cobra.Command{Use: "verify SESSION", Short: "Check every entry and link of a ledger"}
	cut := &cobra.Command{Use: "recover SESSION", Short: "Remove an unfinished last line, left by a crash"}
	cmd.AddCommand(g.onSession(verify, g.verifyLedger), g.onSession(cut, g.recoverLedger))
	return cmd
}

func (g *globals) verifyLedger(cmd *cobra.Command, st store.Store, id string) error {
	r, err := ledger.Verify(string(st.Folder(id)))
	if other := st.Folder(id).Check(); other != nil {
		return damaged(id, other)
	}
	if err != nil {
		f := no(lifeloop.StateConflict, "session %s: %v", id, err)
		if _, corrupt := errors.AsType[*ledger.CorruptError](err); corrupt {
			return f.withHint("the entries before the damage are valid; a damaged ledger cannot be repaired, and nothing more can be appended to it")
		}
		return f
	}
	text := fmt.Sprintf("ok: %d entries in %d segment(s), last %s\n", r.Entries, r.Segments, r.Last)
	if r.TornBytes > 0 {
		text += fmt.Sprintf("the last line is unfinished (%d bytes): the writer died, or is writing now\n", r.TornBytes)
	}
	return g.print(cmd, map[string]any{"ok": true, "session_id": id, "entries": r.Entries,
		"segments": r.Segments, "last_digest": r.Last, "torn_bytes": r.TornBytes}, text)
}

func (g *globals) recoverLedger(cmd *cobra.Command, st store.Store, id string) error {
	if err := st.Private(); err != nil {
		return no(lifeloop.InternalError, "nothing is changed: %v", err)
	}
	r, err := ledger.Recover(string(st.Folder(id)))
	if err != nil {
		return no(lifeloop.StateConflict, "session %s: %v", id, err)
	}
	text := fmt.Sprintf("removed %d bytes of an unfinished line; %d entries remain\n", r.TornBytes, r.Entries)
	if r.TornBytes == 0 {
		text = fmt.Sprintf("nothing to recover: %d entries are valid\n", r.Entries)
	}
	return g.print(cmd, map[string]any{"ok": true, "session_id": id, "entries": r.Entries, "cut_bytes": r.TornBytes}, text)
}
