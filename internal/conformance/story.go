package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"lifeloop/control"
	"lifeloop/internal/hook"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
)

// This file is the script of the session's harness. After each step it waits
// until the client has answered, so that the order is the same on a slow
// machine.

const (
	firstSession, clearedSession, lastSession = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"

	window = 200000
)

// begin waits until the client has answered everything so far, and then names
// the next step.
func (s *world) begin(step string) {
	s.await("the answers before "+step, func() bool { return len(s.open) == 0 })
	s.name(step)
}

// name names the next step.
func (s *world) name(step string) {
	s.mu.Lock()
	s.step = step
	s.mu.Unlock()
}

// until waits for the n-th event of a kind.
func (s *world) until(event lifeloop.Event, n int) {
	s.await(string(event), func() bool { return s.events[event] >= n })
}

// signals reports signals as if the harness had written them to its transcript.
func (s *world) signals(post func(input.Input), sigs ...telemetry.Signal) {
	for i := range sigs {
		sigs[i].Source, sigs[i].Detail = "transcript", "record"
	}
	post(input.SignalsSeen{Signals: sigs})
}

// hook calls a hook and writes its answer to out. In the step with a hook answer that is
// not read, out returns an error.
func (s *world) hook(event string, class lifeloop.Placement, out io.Writer, sig telemetry.Signal) {
	call := telemetry.HookCall{Event: event, Session: sig.Session, Turn: sig.Turn, Capacity: 9500}
	if s.manifest.Placement[class].Support.Stronger(lifeloop.Unavailable) {
		call.Slot = string(class)
	}
	sig.Source, sig.Detail = "hook", event
	call.Signals = []telemetry.Signal{sig}
	body, err := json.Marshal(call)
	if err == nil {
		err = hook.Call(s.socket, hookKey, event, body, out, time.Now().Add(s.patience()))
	}
	if err != nil && !errors.Is(err, errSlotLost) {
		s.mu.Lock()
		s.incomplete = errors.Join(s.incomplete, err)
		s.mu.Unlock()
	}
}

// errSlotLost is the error of a harness that no longer reads the answer of its hook. The
// slot is then lost: the place in the model's context that the answer would have filled.
var errSlotLost = errors.New("the harness no longer waits")

// lost is a writer for a harness that no longer reads the answer of its hook.
type lost struct{}

func (lost) Write([]byte) (int, error) { return 0, errSlotLost }

// prompt opens a turn.
func (s *world) prompt(session, turn string, out io.Writer) {
	class := lifeloop.PreFrameTrailing
	if !s.manifest.Placement[class].Support.Stronger(lifeloop.Unavailable) {
		class = lifeloop.PreFrameLeading
	}
	s.hook("UserPromptSubmit", class, out, telemetry.Signal{Kind: telemetry.Prompt, Session: session, Turn: turn})
}

// done ends a turn.
func (s *world) done(post func(input.Input), session, turn string) {
	s.hook("Stop", "", io.Discard, telemetry.Signal{Kind: telemetry.TurnStop, Session: session, Turn: turn, Outcome: telemetry.Completed})
	s.signals(post, telemetry.Signal{Kind: telemetry.TurnEnd, Session: session, Turn: turn, Outcome: telemetry.Completed})
}

// used returns the signal of a model call. After the call, the context has the given
// number of tokens.
func used(session string, tokens int64) telemetry.Signal {
	return telemetry.Signal{Kind: telemetry.UsageSeen, Session: session, Window: window, WindowSource: "statusline",
		Usage: &telemetry.Usage{ID: session, Used: tokens, Input: tokens}}
}

// frame opens or closes a frame on behalf of the client.
func (s *world) frame(c supervisor.FrameCommand) {
	body, err := json.Marshal(c)
	if err == nil {
		_, err = control.Do(s.socket, control.Command{Name: supervisor.CommandFrame, Input: body}, time.Now().Add(s.patience()))
	}
	if err != nil {
		s.mu.Lock()
		s.incomplete = errors.Join(s.incomplete, err)
		s.mu.Unlock()
	}
}

// firstLaunch plays a launch with two prompts, /clear, a third prompt whose slot
// is lost, and a crash during the fourth.
func (s *world) firstLaunch(post func(input.Input)) input.ChildExited {
	s.hook("SessionStart", lifeloop.PreSession, io.Discard, telemetry.Signal{Kind: telemetry.SessionLive, Session: firstSession, Cause: "startup"})
	s.until(lifeloop.SessionStarted, 1)

	s.begin("a prompt")
	s.prompt(firstSession, "turn-1", io.Discard)
	s.until(lifeloop.FrameOpened, 1)
	s.begin("a tool's result")
	s.hook("PostToolUse", lifeloop.ToolResult, io.Discard, telemetry.Signal{Kind: telemetry.ToolEnd, Session: firstSession, Turn: "turn-1", Tool: "tool-1", ToolName: "Bash"})
	s.signals(post, used(firstSession, 60000))
	s.until(lifeloop.ContextPressureObserved, 1)
	s.done(post, firstSession, "turn-1")
	s.until(lifeloop.FrameEnded, 1)

	if s.manifest.LifecycleEvents[lifeloop.FrameOpening].Support.Stronger(lifeloop.Manual) { // with an untested version, only support that is stronger than manual gets weaker
		s.begin("an untested version")
		s.signals(post, telemetry.Signal{Kind: telemetry.Alive, Session: firstSession, Version: "99.0.0"})
		s.until(lifeloop.CapabilityDegraded, 1)
	}

	s.begin("a prompt with a nested frame")
	s.prompt(firstSession, "turn-2", io.Discard)
	s.until(lifeloop.FrameOpened, 2)
	s.frame(supervisor.FrameCommand{Do: "open", FrameID: "nested-1", Parent: "turn-2"})
	s.until(lifeloop.FrameOpened, 3)
	s.frame(supervisor.FrameCommand{Do: "close", FrameID: "nested-1"})
	s.done(post, firstSession, "turn-2")
	s.until(lifeloop.FrameEnded, 3)

	s.begin("a compaction")
	before := int64(160000)
	s.signals(post, used(firstSession, before),
		telemetry.Signal{Kind: telemetry.Compacted, Session: firstSession, Compaction: &telemetry.Compaction{Half: "record", Trigger: "auto", Before: &before}})
	s.until(lifeloop.ContextCompacted, 1)

	s.begin("a gap in the harness's record numbers")
	s.signals(post, telemetry.Signal{Kind: telemetry.Gap, Session: firstSession, Missing: &[2]uint64{12, 14}})
	s.until(lifeloop.ReceiptGapDetected, 1)

	s.begin("/clear")
	s.hook("SessionEnd", "", io.Discard, telemetry.Signal{Kind: telemetry.SessionGone, Session: firstSession, Reason: "clear"})
	s.hook("SessionStart", lifeloop.PreSession, io.Discard, telemetry.Signal{Kind: telemetry.SessionLive, Session: clearedSession, Cause: "clear"})
	s.until(lifeloop.SessionStarted, 2)

	s.begin("a hook answer that is not read")
	s.prompt(clearedSession, "turn-3", lost{})
	s.until(lifeloop.FrameOpened, 4)
	s.done(post, clearedSession, "turn-3")
	s.until(lifeloop.FrameEnded, 4)

	s.begin("a crash")
	s.prompt(clearedSession, "turn-4", io.Discard)
	s.until(lifeloop.FrameOpened, 5)
	s.begin("a crash")
	return input.ChildExited{Signal: 11}
}

// secondLaunch plays the retry after the crash.
func (s *world) secondLaunch(post func(input.Input)) input.ChildExited {
	s.begin("a retry")
	s.hook("SessionStart", lifeloop.PreSession, io.Discard, telemetry.Signal{Kind: telemetry.SessionLive, Session: lastSession, Cause: "startup"})
	s.until(lifeloop.SessionStarted, 3)
	s.prompt(lastSession, "turn-5", io.Discard)
	s.until(lifeloop.FrameOpened, 6)
	s.done(post, lastSession, "turn-5")
	s.until(lifeloop.FrameEnded, 6)
	s.begin("the end")
	s.hook("SessionEnd", "", io.Discard, telemetry.Signal{Kind: telemetry.SessionGone, Session: lastSession, Reason: "prompt_input_exit"})
	return input.ChildExited{}
}

// shortLaunch plays a launch with the events about the wrapper: receipts and a
// tick.
func (s *world) shortLaunch(post func(input.Input)) input.ChildExited {
	s.name("receipts and ticks")
	s.hook("SessionStart", lifeloop.PreSession, io.Discard, telemetry.Signal{Kind: telemetry.SessionLive, Session: firstSession, Cause: "startup"})
	s.until(lifeloop.SessionStarted, 1)
	s.signals(post, used(firstSession, 60000))
	// From here on, a slow client may get ticks faster than it answers them. So the
	// next steps do not wait until all answers have arrived.
	s.until(lifeloop.SupervisorTick, 1)
	s.name("the end")
	s.hook("SessionEnd", "", io.Discard, telemetry.Signal{Kind: telemetry.SessionGone, Session: firstSession, Reason: "prompt_input_exit"})
	return input.ChildExited{}
}
