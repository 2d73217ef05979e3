package main

import (
	"encoding/json"
	"fmt"
	"io"

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
the clients answered. EVENT_ID is an id that "lifeloop-wrap events" prints, or a
unique end of one.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := reader{g: g}
			id, err := r.eventID(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			why := view.NewWhy(id)
			if err := r.each(cmd, args[0], func(e kernel.Entry) error { why.Apply(e); return nil }); err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), why)
			}
			return printWhy(cmd.OutOrStdout(), why)
		},
	}
}

// eventID resolves EVENT_ID: an id, or a unique end of one.
func (r *reader) eventID(cmd *cobra.Command, session, name string) (string, error) {
	var found []string
	err := r.each(cmd, session, func(e kernel.Entry) error {
		o, ok := view.Event(e.Fact)
		switch {
		case !ok || name == "" || len(o.EventID) < len(name):
		case o.EventID == name:
			found = []string{name}
			return errFound
		case o.EventID[len(o.EventID)-len(name):] == name:
			found = append(found, o.EventID)
		}
		return nil
	})
	if err != nil && err != errFound {
		return "", err
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", no(lifeloop.InvalidRequest, "session %s has no event %s", session, name).withHint("lifeloop-wrap events %s lists them", session)
	}
	return "", usage("%s is the end of %d event ids", name, len(found)).withHint("one of them is %s", found[0])
}

// errFound ends a search.
var errFound = fmt.Errorf("found")

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
