package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

func whyCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "why SESSION EVENT_ID",
		Short: "Show the evidence of an event",
		Long: `why prints the evidence of one event: its sources, how its harness session was
identified, the earlier events of its frame, how far each file was read, and what
the clients answered. EVENT_ID is an id that "lifeloop-wrap events" prints, or
enough of its last characters to tell it from all others.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, session, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			facts := st.Folder(session).Facts(0)
			id, err := eventID(facts, session, args[1])
			if err != nil {
				return err
			}
			why := view.NewWhy(id)
			for e, err := range facts {
				if err != nil {
					return damaged(session, err)
				}
				why.Apply(e)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), why)
			}
			return printWhy(cmd.OutOrStdout(), why)
		},
	}
}

// eventID resolves EVENT_ID: an id, or the last characters of exactly one.
func eventID(facts iter.Seq2[kernel.Entry, error], session, name string) (string, error) {
	var found []string
	for e, err := range facts {
		if err != nil {
			return "", damaged(session, err)
		}
		o, ok := view.Event(e.Fact)
		if ok && o.EventID == name {
			return name, nil
		}
		if ok && name != "" && strings.HasSuffix(o.EventID, name) {
			found = append(found, o.EventID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", no(lifeloop.InvalidRequest, "session %s has no event %s", session, name).withHint("lifeloop-wrap events %s lists them", session)
	}
	return "", usage("%s is the end of %d event ids", name, len(found)).withHint("one of them is %s", found[0])
}

func printWhy(w io.Writer, why *view.Why) error {
	e := why.Event
	fmt.Fprintf(w, "%s  %s, at %s\n", e.EventID, e.Event, e.At)
	if len(e.Data) > 0 {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  data     %s\n", data)
	}
	fmt.Fprintf(w, "  source   %s (%s)\n", why.Reasons(), e.IntegrationMode)
	chain := func(title string, links []view.Link) {
		if len(links) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, l := range links {
			fmt.Fprintf(w, "  %s  #%d %s: %s\n", l.At.Local().Format("15:04:05.000"), l.Seq, l.Fact, l.Text)
		}
	}
	chain("session", why.Session)
	chain("frame", why.Frame)
	chain("files read", why.Sources)
	chain("activity", why.Activity)
	chain("clients", why.Clients)
	return nil
}
