package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// forEnded is the default of --for: any final state.
const forEnded = "ended"

// An awaited is a value of --for: the event, state or activity to wait for.
type awaited struct {
	word  string
	event lifeloop.Event            // the event to wait for; empty for a state or an activity
	holds func(s *view.Status) bool // reports whether the state or activity is reached; nil for an event
}

// awaitedWords are the values of --for.
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

// awaitedBy parses a value of --for. Upper and lower case mean the same.
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
		withHint("lifeloop-wrap wait --help lists all states, activities and events")
}

// awaitedEvents lists the events in the help of wait, three on a line.
func awaitedEvents() string {
	var lines []string
	for names := range slices.Chunk(lifeloop.Events(), 3) {
		lines = append(lines, strings.Trim(fmt.Sprint(names), "[]"))
	}
	return strings.Join(lines, "\n               ")
}

func waitCmd(g *globals) *cobra.Command {
	word, limit := forEnded, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait SESSION",
		Short: "Wait until a session ends, reaches a state or reports an event",
		Long: `wait returns when the session has reached what --for names:

  ended        any final state; this is the default
  a state      PENDING REJECTED RUNNING PAUSED ABORTING ABORTED COMPLETED FAILED
  an activity  ` + strings.Join(kernel.Activities(), " ") + `
  an event     ` + awaitedEvents() + `

If the session has the state or activity already, wait returns at once. An event
counts only if it happens after wait has started. wait prints nothing; with --json,
it prints the ledger entry that ended the wait.

The exit code is 0 when the session has reached what --for names, and 1 when it
ended without that, its wrapper died, or --timeout was reached; the error says which.`,
		Example: `  lifeloop-wrap wait last --for needs_input && notify-send "the harness asks"
  lifeloop-wrap wait last --for idle --timeout 10m
  lifeloop-wrap abort last && lifeloop-wrap wait last`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := awaitedBy(word)
			if err != nil {
				return err
			}
			if limit < 0 || limit == 0 && cmd.Flags().Changed("timeout") {
				return usage("--timeout must be more than 0").withHint("without --timeout, wait has no limit")
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
			o, err := what.await(ctx, st.Folder(id), id)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				return no(lifeloop.Timeout, "session %s: --for %s was not reached within %s", id, what.word, limit)
			case err != nil || !g.json:
				return err
			}
			return printJSON(cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&word, "for", word, "`WHAT` to wait for: ended, a state, an activity or an event")
	durationFlag(cmd.Flags(), &limit, "timeout", 0, "longest time to wait (default no limit)")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(awaitedWords(), cobra.ShellCompDirectiveNoFileComp)) // cannot fail, because the flag exists
	return cmd
}

// An outcome describes the end of a wait: the session, the awaited value, whether
// it was already reached before the wait, and the entry that ended the wait. The
// last four members are null if there is no such entry, for example because the
// wrapper died.
type outcome struct {
	SessionID string      `json:"session_id"`
	For       string      `json:"for"`
	Already   bool        `json:"already"`
	Seq       *uint64     `json:"seq"`
	At        *time.Time  `json:"at"`
	Kind      *string     `json:"kind"`
	Fact      kernel.Fact `json:"fact"`
}

func (m outcome) by(e kernel.Entry) outcome {
	kind := kernel.Kind(e.Fact)
	m.Seq, m.At, m.Kind, m.Fact = &e.Seq, &e.At, &kind, e.Fact
	return m
}

// await waits for the awaited event, state or activity. The outcome has the entry of the
// event, or the entry with which the state or activity began. await follows the ledger
// until the session's last entry, or until the wrapper has died.
func (a awaited) await(ctx context.Context, folder store.Folder, id string) (outcome, error) {
	m := outcome{SessionID: id, For: a.word}
	next := uint64(1)
	holds := false        // the state or activity is reached
	var made kernel.Entry // the entry with which the state or activity began
	k := store.Session{Folder: folder}
	// see applies an entry and reports whether it ends the wait.
	see := func(e kernel.Entry) bool {
		k.Apply(e)
		next = e.Seq + 1
		if a.event != "" {
			r, ok := view.Event(e.Fact)
			return ok && r.Event == a.event
		}
		held := holds
		if holds = a.holds(&k.Status); holds && !held {
			made = e
		}
		return holds
	}
	// Apply all existing entries before the first check, because an event or a state of
	// the past does not end the wait.
	for e, err := range folder.Facts(0) {
		if err != nil {
			return m, damaged(id, err)
		}
		see(e)
	}
	k.SessionID = id
	if holds {
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

// without returns the error for a session that ended without the awaited event,
// state or activity.
func (a awaited) without(k store.Session) error {
	return no(lifeloop.StateConflict, "session %s ended without %s: %s", k.SessionID, a.word, k.Ending())
}
