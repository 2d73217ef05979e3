package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

func eventCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "event", Short: "Send an event to a client by hand"})
	var client, id string
	var timeout time.Duration
	invoke := &cobra.Command{
		Use:   "invoke --client CMDLINE [--timeout D]",
		Short: "Send a dispatch envelope to a client and print its answer",
		Long: `invoke reads one DispatchEnvelope on standard input, runs the client with it
exactly as a session would, and prints the client's CallbackResponse. Both are
validated; an invalid envelope is not sent. The exit code is 1 if the client
gave no valid answer. With --json the error has the failure class and the retry
class that a receipt of this call would have; without --json the end of the
client's standard error is shown.`,
		Example: `  lifeloop-wrap event invoke --client './notes-client --project .' <envelope.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usage("--timeout must be more than 0")
			}
			c, err := config.ParseClientFlag(id + "=" + client)
			if err != nil {
				return usage("--client: %v", err)
			}
			text, err := readInput(cmd, "-")
			if err != nil {
				return err
			}
			envelope, err := lifeloop.Parse[lifeloop.DispatchEnvelope](text)
			if err != nil {
				return invalid("dispatch_envelope", err)
			}
			warnings, err := negotiate.DropExpired(&envelope, time.Now().Unix())
			if err != nil {
				return no(lifeloop.PayloadRejected, "%v", err)
			}
			answer, err := invokeClient(cmd, c, timeout, envelope, !g.json)
			if err != nil {
				return err
			}
			answer.Warnings = append(answer.Warnings, warnings...)
			out, err := answer.Encode()
			if err != nil {
				return no(lifeloop.InvalidRequest, "%v", err)
			}
			_, err = cmd.OutOrStdout().Write(append(out, '\n'))
			return err
		},
	}
	fl := invoke.Flags()
	fl.StringVar(&client, "client", "", "`CMDLINE` of the client, run without a shell")
	fl.StringVar(&id, "client-id", "client", "`ID` of the client, passed to it in LIFELOOP_CLIENT_ID")
	durationFlag(fl, &timeout, "timeout", dispatch.DefaultTimeout, "time limit for the client")
	if err := invoke.MarkFlagRequired("client"); err != nil {
		panic(err) // does not happen, because the flag is defined above
	}
	cmd.AddCommand(invoke)
	return cmd
}

// invokeClient makes the call. The answer has the schema version of the request
// (DECISIONS L1, L11).
func invokeClient(cmd *cobra.Command, c config.Client, timeout time.Duration, envelope lifeloop.DispatchEnvelope, showStderr bool) (answer lifeloop.CallbackResponse, err error) {
	doc, err := envelope.Encode()
	if err != nil {
		return answer, no(lifeloop.InvalidRequest, "%v", err)
	}
	cfg := dispatch.Config{ID: c.ID, Command: c.Command, Timeout: timeout}
	own := []string{"LIFELOOP_CLIENT_ID=" + c.ID}
	if id := envelope.Request.HarnessTaskID; id != nil {
		own = append(own, "LIFELOOP_SESSION_ID="+*id)
	}
	cfg.Env = c.Of(os.Environ(), own...)
	if showStderr {
		store.RemoveTemps()
		temp, err := store.CreateTemp()
		if err != nil {
			return answer, no(lifeloop.InternalError, "create a folder for the client's standard error: %v", err)
		}
		defer temp.Remove()
		cfg.StderrFile = filepath.Join(string(temp.Folder), "stderr")
	}
	one, err := dispatch.NewOneshot(cfg)
	if err != nil {
		return answer, usage("--client: %v", err)
	}
	calls, err := beginCalls()
	if err != nil {
		return answer, err
	}
	answered, err := one.Call(calls.ctx, doc)
	calls.end()
	if text, readErr := os.ReadFile(cfg.StderrFile); readErr == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", strings.TrimSuffix(string(text), "\n"))
	}
	var failed *dispatch.Failure
	switch {
	case errors.As(err, &failed):
		return answer, no(failed.Class, "%v", failed)
	case err != nil:
		return answer, no(lifeloop.TransportError, "%v", err)
	}
	answer, err = lifeloop.ParseCallbackResponse(answered.Body)
	if err == nil {
		err = answer.Validate(envelope.Request.SchemaVersion)
	}
	switch body := bytes.TrimSpace(answered.Body); {
	case err == nil:
	case len(body) == 0:
		return answer, no(lifeloop.InvalidRequest, "%s printed nothing, want a JSON object", c.Command[0])
	case body[0] != '{' || !json.Valid(body):
		return answer, no(lifeloop.InvalidRequest, "%s did not print a JSON object; it began with %q", c.Command[0], body[:min(len(body), 40)])
	default:
		return answer, invalid("callback_response from "+c.Command[0], err)
	}
	warn(cmd.ErrOrStderr(), lifeloop.Unknown("callback_response", answered.Body))
	answer.SchemaVersion = envelope.Request.SchemaVersion
	return answer, nil
}

// calls has what a command without a session needs to call programs: clients, or the
// CMD of evidence anchor.
type calls struct {
	ctx     context.Context // ends at a signal to this process; its end also ends the running program
	orphans *harness.Orphans
	stop    context.CancelFunc
}

func beginCalls() (*calls, error) {
	orphans, err := harness.Adopt()
	if err != nil {
		return nil, no(lifeloop.InternalError, "%v", err)
	}
	ctx, stop := harness.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	return &calls{ctx, orphans, stop}, nil
}

// end ends the processes that the called programs left running. After a call of a client,
// end is called before anything is printed, because printing to a closed stdout or
// stderr ends this process.
func (c *calls) end() {
	c.orphans.End()
	c.stop() // only after End: stop removes the signal handler, and then a second signal would end this process before the orphans have ended
}
