package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

func whyCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "why SESSION EVENT_ID",
		Short: "Show why lifeloop-wrap reported an event",
		Long: `why prints the evidence of one event: its sources, how its harness session was
identified, and the earlier events of its frame. why also prints the files that the
harness had reported before the event, the activity of the session at the event, and
what the clients answered. For each file that is a source of the event, why prints how
far lifeloop-wrap had read the file before and after the event. EVENT_ID is an id that
"lifeloop-wrap events" prints, or enough of its last characters to distinguish it from
all others.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, session, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			why, err := st.Folder(session).Why(args[1])
			missing, none := errors.AsType[*store.NoEventError](err)
			switch {
			case none && missing.Matches > 1:
				return usage("%v", missing).withHint("one of these events is %s", missing.One)
			case none:
				return no(lifeloop.InvalidRequest, "session %s has no event %s", session, args[1]).withHint("lifeloop-wrap events %s lists the events", session)
			case err != nil:
				return damaged(session, err)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), why)
			}
			return printWhy(cmd.OutOrStdout(), why)
		},
	}
}

func printWhy(w io.Writer, why *view.Why) error {
	e := why.Event
	fmt.Fprintf(w, "%s  %s, at %s\n", vt.Plain(e.EventID), vt.Plain(string(e.Event)), vt.Plain(e.At))
	if len(e.Data) > 0 {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  data     %s\n", vt.Plain(string(data)))
	}
	fmt.Fprintf(w, "  source   %s (%s)\n", vt.Plain(why.Reasons()), vt.Plain(string(e.IntegrationMode)))
	chain := func(title string, links []view.Link) {
		if len(links) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, l := range links {
			fmt.Fprintf(w, "  %s  #%d %s: %s\n", l.At.Local().Format("15:04:05.000"), l.Seq, vt.Plain(l.Fact), vt.Plain(l.Text))
		}
	}
	chain("session", why.Session)
	chain("frame", why.Frame)
	chain("files read", why.Sources)
	chain("activity", why.Activity)
	chain("clients", why.Clients)
	return nil
}
