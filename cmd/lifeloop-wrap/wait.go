package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/nearest"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	hcp "lifeloop/session"
	"lifeloop/view"
)

// forEnded is what is waited for unless something else is said: any of the
// states that a session ends in.
const forEnded = "ended"

// An awaited is what somebody waits for.
type awaited struct {
	word  string
	event lifeloop.Event            // one that is told from now on; empty for what may hold already
	holds func(s *view.Status) bool // nil for an event
}

// awaitedWords are the words that a wait knows.
func awaitedWords() []string {
	words := []string{forEnded}
	for _, s := range hcp.States() {
		words = append(words, string(s))
	}
	words = append(words, kernel.Activities()...)
	for _, e := range lifeloop.Events() {
		words = append(words, string(e))
	}
	return words
}

// awaitedBy is what a word means. States may be written in small letters.
func awaitedBy(word string) (awaited, error) {
	for _, known := range awaitedWords() {
		if !strings.EqualFold(word, known) {
			continue
		}
		a := awaited{word: known}
		switch {
		case known == forEnded:
			a.holds = (*view.Status).Ended
		case lifeloop.Event(known).Valid():
			a.event = lifeloop.Event(known)
		case known == strings.ToUpper(known):
			a.holds = func(s *view.Status) bool { return s.State == known }
		default:
			a.holds = func(s *view.Status) bool { return s.Activity == known }
		}
		return a, nil
	}
	return awaited{}, usage("wait --for %s: no such state, activity or event%s", word, nearest.Hint(word, awaitedWords())).
		withHint("lifeloop-wrap wait --help lists them all")
}

func waitCmd(g *globals) *cobra.Command {
	word, limit := forEnded, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait SESSION",
		Short: "Wait until a session has ended, is in a state, or tells an event",
		Long: `wait returns when the session is what --for says:

  ended        over, in whatever state it ended; this is the default
  a state      PENDING REJECTED RUNNING PAUSED ABORTING ABORTED COMPLETED FAILED
  an activity  ` + strings.Join(kernel.Activities(), " ") + `
  an event     frame.ended, session.started, context.compacted, and the others of
               "lifeloop-wrap events"

A state or an activity may hold already, and then it returns at once. Of events
the next one counts that is told from now on. It prints nothing; with --json the
fact that ended the wait.

Exit 0 when it came to that; 1 when the session ended without it, its wrapper
died, or --timeout is over, and the error says which.`,
		Example: `  lifeloop-wrap wait last --for needs_input && notify-send "it asks something"
  lifeloop-wrap wait last --for idle --timeout 10m
  lifeloop-wrap abort last && lifeloop-wrap wait last`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := awaitedBy(word)
			if err != nil {
				return err
			}
			if limit < 0 || limit == 0 && cmd.Flags().Changed("timeout") {
				return usage("wait --timeout %s: want a time to wait", limit).withHint("leave it out to wait for ever")
			}
			st, id, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if limit > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, limit)
				defer stop()
			}
			met, err := what.await(ctx, st.Folder(id), id)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				return no(lifeloop.Timeout, "session %s: no %s within %s", id, what.word, limit)
			case err != nil || !g.json:
				return err
			}
			return printJSON(cmd.OutOrStdout(), met)
		},
	}
	cmd.Flags().StringVar(&word, "for", word, "`WHAT` to wait for: ended, a state, an activity, or an event")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "give up after this `TIME`; else never")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(awaitedWords(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// A met is what ended a wait: a line of `events --as facts` that says for which
// session, for what, and whether it held before anybody waited. Where no fact
// made it so its last four members are null: a wrapper that died says nothing.
type met struct {
	SessionID string      `json:"session_id"`
	For       string      `json:"for"`
	Already   bool        `json:"already"`
	Seq       *uint64     `json:"seq"`
	At        *time.Time  `json:"at"`
	Kind      *string     `json:"kind"`
	Fact      kernel.Fact `json:"fact"`
}

func (m met) by(e kernel.Entry) met {
	kind := e.Fact.Kind()
	m.Seq, m.At, m.Kind, m.Fact = &e.Seq, &e.At, &kind, e.Fact
	return m
}

// await waits until the session is as awaited, and returns the entry that made
// it so. It follows the ledger until the session's last entry or until the
// wrapper is gone.
func (a awaited) await(ctx context.Context, folder store.Folder, id string) (met, error) {
	m := met{SessionID: id, For: a.word}
	next := uint64(1)
	var made kernel.Entry // the entry since which the state or activity holds
	k := store.Session{Folder: folder}
	// see folds an entry and reports whether it ends the wait.
	see := func(e kernel.Entry) bool {
		held := a.holds != nil && a.holds(&k.Status)
		k.Apply(e)
		next = e.Seq + 1
		if a.holds != nil && a.holds(&k.Status) && !held {
			made = e
		}
		if a.event != "" {
			r, ok := view.Event(e.Fact)
			return ok && r.Event == a.event
		}
		return a.holds(&k.Status)
	}
	// Existing entries are folded first: only the present state counts.
	for e, err := range folder.Facts(0) {
		if err != nil {
			return m, damaged(id, err)
		}
		see(e)
	}
	k.SessionID = id
	if a.holds != nil && a.holds(&k.Status) {
		m.Already = true
		return m.by(made), nil
	}
	if k.Ended() {
		return m, a.without(k)
	}
	for e, err := range folder.Follow(ctx, next) {
		switch {
		case err != nil:
			return m, damaged(id, err)
		case see(e):
			return m.by(e), nil
		case k.Ended():
			return m, a.without(k)
		}
	}
	if ctx.Err() != nil {
		return m, ctx.Err()
	}
	if k.Lose(); a.holds != nil && a.holds(&k.Status) {
		return m, nil
	}
	return m, notLive(k)
}

// without says that a session ended and what was waited for did not come.
func (a awaited) without(k store.Session) error {
	return no(lifeloop.StateConflict, "session %s ended without %s: %s", k.SessionID, a.word, k.Ending())
}
