package main

import (
	"errors"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/dispatch"
	"lifeloop/internal/conformance"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
)

func clientCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "client", Short: "Test a client program against the contract"})
	c := conformance.Config{}
	test := &cobra.Command{
		Use:   "test [flags] -- CMD [ARG…]",
		Short: "Send a client every event and report what it does wrong",
		Long: `test runs CMD as a client. It first sends one sample of each event, one of them
twice, and one with unknown members. Then it runs two sessions with a scripted
harness: prompts, a compaction, /clear, a payload that comes too late for its
prompt, a crash and the retry after it. --mode sets the mode of the client, oneshot
or persistent; by default, all this is done in each mode that the client supports.
No ledger is written.

With --profile it runs one more session, which is renewed once: the programs of this
renewal profile run, and the report has each step with its receipt.

The report has the client's answer to each event, whether the answer asks for a renewal,
the receipt of each event of the sessions, and each violation with the sentence of the
contract that it violates. The exit code is 1 if there is a violation.`,
		Example: `  lifeloop-wrap client test -- ./notes.py
  lifeloop-wrap client test --profile handoff -- ./notes.py
  lifeloop-wrap client test --mode persistent --json -- ./notes-client --project .`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("client test needs a command").withHint("lifeloop-wrap client test -- ./notes.py, for example")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.Timeout <= 0:
				return usage("--timeout must be more than 0")
			case c.Mode != "" && c.Mode != conformance.Oneshot && c.Mode != conformance.Persistent:
				return usage("--mode %s: want oneshot or persistent", c.Mode)
			}
			if _, ok := manifests.Get(c.AdapterID); !ok {
				return usage("--adapter %s: no such adapter", c.AdapterID).withHint("lifeloop-wrap manifest list shows the adapters")
			}
			cfg, _, err := g.load(cmd)
			if err != nil {
				return err
			}
			store.RemoveTemps()
			c.Command, c.Profiles = args, cfg.Profiles
			if err := c.CheckProfile(); err != nil {
				return usage("--profile: %v", err)
			}
			calls, err := beginCalls()
			if err != nil {
				return err
			}
			report, err := conformance.Run(calls.ctx, c)
			interrupted := calls.ctx.Err() != nil
			calls.end()
			switch {
			case err != nil || interrupted:
				return untested(err, interrupted)
			case g.json:
				err = printJSON(cmd.OutOrStdout(), report)
			default:
				err = report.Print(cmd.OutOrStdout())
			}
			if err == nil && !report.OK {
				err = exitCode(exitNo)
			}
			return err
		},
	}
	fl := test.Flags()
	fl.SetInterspersed(false) // words after CMD are arguments of CMD
	fl.StringVar(&c.AdapterID, "adapter", manifests.IDs()[0], "`ID` of the adapter whose manifest the test's sessions use")
	fl.StringVar(&c.ClientID, "client-id", "client", "`ID` of the client, passed to it in LIFELOOP_CLIENT_ID")
	fl.StringVar(&c.Mode, "mode", "", "oneshot or persistent (default: each mode that the client supports)")
	fl.StringVar(&c.Profile, "profile", "", "`NAME` of a renewal profile; a renewal with its programs is tested too")
	durationFlag(fl, &c.Timeout, "timeout", dispatch.DefaultTimeout, "time limit of one call")
	cmd.AddCommand(test)
	return cmd
}

// untested returns the error of a test that has no report.
func untested(err error, interrupted bool) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES):
		return no(lifeloop.TransportError, "%v", err)
	case interrupted:
		return no(lifeloop.Timeout, "the test was interrupted")
	}
	return no(lifeloop.InternalError, "%v", err)
}
