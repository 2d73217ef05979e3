package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/fakeharness"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// The demo runs this program with a scripted harness and a small client. Both
// are this program too: the harness is started through a link with the
// harness's name, the client by a hidden command.

const (
	demoClient = "demo-client"
	demoNote   = "The nightly build must stay under a second."
	// demoNotes is the continuation: what the fresh harness session has to know.
	demoNotes = "The tables are cached now, and 412 commits are measured. Next: the change log.\n"
)

// demoConfig has the client, and a profile that renews the session when its context is
// nearly full. A hook waits up to 4 s for the client's earlier calls, so that the hook
// delivers the client's note even on a busy machine.
const demoConfig = `hook_patience: 4s
clients:
  - id: notes
    command: %s
    events: ["*"]
profiles:
  - name: handoff
    client: notes
    prepare: {command: [cat, %q]}
    paths: [relaunch]
renewal: {at: {pressure: critical}}
`

func demoCmd(g *globals) *cobra.Command {
	var fast bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play a session with a scripted harness: events, a payload, a renewal, receipts, a verified ledger",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store.RemoveTemps()
			temp, err := store.CreateTemp()
			if err != nil {
				return err
			}
			defer temp.Remove()
			signals := make(chan os.Signal, 1)
			harness.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			err = demo(cmd, string(temp.Folder), fast, signals)
			select {
			case sig := <-signals:
				// untilSignal has not read this signal, because the wrapped run had already
				// ended, perhaps by the same signal.
				return killedBy(sig)
			default:
				return err
			}
		},
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "skip the pauses")
	return cmd
}

// demo runs a session with all its files below dir, and prints the session's events and
// receipts. It returns an error if an event or a payload that the demo must show is
// missing. A signal ends the demo.
func demo(cmd *cobra.Command, dir string, fast bool, signals <-chan os.Signal) error {
	out := cmd.OutOrStdout()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(dir, fakeharness.NameOf(fakeharness.DemoStories))
	if err := os.Symlink(exe, program); err != nil {
		return err
	}
	client, err := json.Marshal([]string{exe, demoClient})
	if err != nil {
		return err
	}
	config, notes := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "NOTES.md")
	err = errors.Join(os.WriteFile(notes, []byte(demoNotes), 0o600), os.WriteFile(config, fmt.Appendf(nil, demoConfig, client, notes), 0o600))
	if err != nil {
		return err
	}
	name := filepath.Base(program)
	fmt.Fprintf(out, "$ lifeloop-wrap run --client notes=./notes --profile handoff -- %s      (a scripted stand-in; no model, no network)\n\n", name)

	state := filepath.Join(dir, "state")
	run := exec.Command(exe, "--config", config, "--state-dir", state, "run", "--profile", "handoff", "--pty", "always", "--client-drain", "1m", "--", program) // 1m is enough for the client to answer every event even on a busy machine
	run.Dir, run.Stdin, run.Stdout, run.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
	run.Env = append(os.Environ(), fakeharness.Environment(fakeharness.DemoStories, dir, fast)...)
	if err := untilSignal(run, signals); err != nil {
		return err
	}

	st := store.Open(state)
	id, err := st.Find("last")
	if err != nil {
		return err
	}
	return printDemo(cmd, st, id)
}

// untilSignal runs the wrapper and passes signals on to it. After a signal, untilSignal
// waits until the wrapper has ended the harness and itself, and then returns the
// signal's exit code.
func untilSignal(run *exec.Cmd, signals <-chan os.Signal) error {
	// Keep this thread until the wrapper has ended: the wrapper receives SIGTERM when the
	// thread that started the wrapper ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	harness.EndWithParent(run)
	if err := run.Start(); err != nil {
		return fmt.Errorf("the demo's run of lifeloop-wrap: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	var killed error
	for {
		select {
		case sig := <-signals:
			killed = killedBy(sig)
			_ = run.Process.Signal(sig) // an error means that the wrapper has ended
		case err := <-ended:
			if killed == nil && err != nil {
				return fmt.Errorf("the demo's run of lifeloop-wrap: %w", err)
			}
			return killed
		}
	}
}

// killedBy returns the exit code for a signal.
func killedBy(sig os.Signal) error { return exitCode(128 + int(sig.(syscall.Signal))) }

func printDemo(cmd *cobra.Command, st store.Store, id string) error {
	out := cmd.OutOrStdout()
	var text strings.Builder
	events, receipts := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0), tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	shown := map[string]int{} // number of events per name, of payloads per status, and of delivered payloads per placement
	number := map[string]int{}
	all := 0
	fmt.Fprintf(out, "\n$ lifeloop-wrap events last      (what the client received)\n")
	for e, err := range st.Folder(id).Facts(0) {
		if err != nil {
			return err
		}
		if r, ok := view.Receipt(e.Fact); ok {
			all++
			for _, p := range r.PayloadReceipts {
				shown[string(p.Status)]++
				if p.Status == lifeloop.Delivered {
					shown[string(p.Placement)]++
				}
				fmt.Fprintf(receipts, "#%d\t%s\t%s\t%s\t%s\t%d bytes\n", *r.Sequence, r.Event, p.PayloadKind, p.Placement, p.Status, p.ByteSize)
			}
		}
		r, ok := view.Event(e.Fact)
		if !ok {
			continue
		}
		shown[string(r.Event)]++
		frame := ""
		if r.FrameContext != nil {
			if number[r.FrameContext.FrameID] == 0 {
				number[r.FrameContext.FrameID] = len(number) + 1
			}
			frame = fmt.Sprint("frame ", number[r.FrameContext.FrameID])
		}
		fmt.Fprintf(events, "%s\t%s\t%s\t%s\tby %s\n", r.At[11:23], r.Event, frame, demoDetail(r), r.Evidence[0].Source)
	}
	if err := errors.Join(events.Flush(), receipts.Flush()); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n$ lifeloop-wrap receipts last      (%d in all; only those with a payload are shown)\n%s", all, &text)
	fmt.Fprintf(out, "\n$ lifeloop-wrap ledger verify last\n")
	if err := (&globals{}).verifyLedger(cmd, st, id); err != nil {
		return err
	}
	if shown["frame.ended"] < 2 || shown["context.compacted"] != 1 || shown["delivered"] == 0 || shown[string(lifeloop.DeveloperEquivalentFrame)] != 1 || shown["context.pressure_observed"] < 2 {
		return fmt.Errorf("the demo did not show all that it must; it showed %v", shown)
	}
	return nil
}

func demoDetail(r lifeloop.EventRecord) string {
	switch r.Event {
	case lifeloop.ContextPressureObserved:
		f, _ := r.Data["fraction"].(float64)
		return fmt.Sprintf("%v, %.0f %% of %v tokens", r.Data["level"], f*100, r.Data["window_tokens"])
	case lifeloop.ContextCompacted:
		return fmt.Sprintf("%v, from %v tokens", r.Data["trigger"], r.Data["tokens_before"])
	case lifeloop.FrameEnding, lifeloop.FrameEnded:
		return fmt.Sprint(r.Data["outcome"])
	case lifeloop.SessionStarting, lifeloop.SessionStarted:
		return fmt.Sprint(r.Data["cause"])
	case lifeloop.SessionEnding, lifeloop.SessionEnded:
		return fmt.Sprint(r.Data["reason"])
	}
	return ""
}

// demoClientMain is a complete client: it reads an event from stdin and answers
// every frame.opening with a note for the model.
func demoClientMain(stdin io.Reader, stdout io.Writer) int {
	doc, err := io.ReadAll(stdin)
	if err != nil {
		return 1
	}
	env, err := lifeloop.Parse[lifeloop.DispatchEnvelope](doc)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	answer := lifeloop.CallbackResponse{Status: lifeloop.Observed}
	if env.Request.Event == lifeloop.FrameOpening {
		body := lifeloop.NewOpaque(demoNote)
		answer.ClientPayloads = []lifeloop.PayloadEnvelope{{
			SchemaVersion: 1, PayloadID: "pay_" + strings.TrimPrefix(env.Request.EventID, "evt_"), ClientID: os.Getenv("LIFELOOP_CLIENT_ID"),
			PayloadKind: "note", Format: "text", ContentEncoding: "utf8", Body: &body, ByteSize: int64(len(demoNote)),
			AcceptablePlacements: []lifeloop.AcceptablePlacement{{Placement: lifeloop.PrePromptFrame, Requirement: lifeloop.Preferred}},
			Redaction:            "none", Metadata: map[string]any{},
		}}
	}
	out, err := answer.Encode()
	if err == nil {
		_, err = stdout.Write(append(out, '\n'))
	}
	if err != nil {
		return 1
	}
	return 0
}
