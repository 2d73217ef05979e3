package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"lifeloop/control"
	"lifeloop/instructions"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// fakeRequests decodes the events of a harness that asks. A record is a word:
// "prompt" must come before the question about that prompt; any other word is a sign
// of life. After "prompt", signs of life are held back until the question arrives.
type fakeRequests struct {
	telemetry.Tally
	prompted bool
	turns    int
	held     []telemetry.Signal
}

func (d *fakeRequests) Decode(record []byte) []telemetry.Signal {
	if string(record) == "prompt" {
		d.prompted = true
		return nil
	}
	d.held = append(d.held, telemetry.Signal{Kind: telemetry.Alive, Source: "plugin", Detail: string(record)})
	if d.prompted {
		return nil
	}
	return d.End()
}

func (d *fakeRequests) Request(late bool) (telemetry.Request, bool) {
	if !d.prompted {
		return telemetry.Request{}, late
	}
	d.prompted = false
	d.turns++
	call, _ := decodeHook("Prompt", fmt.Appendf(nil, "p%d", d.turns))
	return telemetry.Request{Calls: []telemetry.HookCall{call}, Then: d.End()}, true
}

func (d *fakeRequests) End() []telemetry.Signal {
	out := d.held
	d.held = nil
	return out
}

// asks sends one question of the harness and returns when it is over.
func (r *rig) asks(more ...func(*fakeCaller)) *fakeCaller {
	<-r.door.ready
	c := &fakeCaller{rig: r, event: "question", gone: make(chan struct{})}
	for _, f := range more {
		f(c)
	}
	r.door.calls.Add(1)
	defer r.door.calls.Done()
	began := time.Now()
	r.door.s.question(r.door.ctx, r.door.s.current.Load(), c)
	c.after = time.Since(began)
	return c
}

// streams connects a plugin and returns a channel: each word sent to it becomes
// a record, and closing it ends the stream.
func (r *rig) streams(key string, pid int) chan<- string {
	<-r.door.ready
	records := make(chan string)
	r.door.calls.Go(func() {
		r.door.s.Follow(r.door.ctx, control.Stream{Key: key, Event: "plugin", PID: pid, Send: r.launcher.send, Records: func(yield func([]byte) bool) {
			for {
				select {
				case record, more := <-records:
					if !more || !yield([]byte(record)) {
						return
					}
				case <-r.door.ctx.Done():
					return
				}
			}
		}})
	})
	return records
}

// asking runs a session whose harness can ask the wrapper a question before each request
// to its model, and returns the session's rig. play is what the harness does in the session.
func asking(t *testing.T, play func(r *rig)) *rig {
	r := newRig(t)
	r.answers["notes"] = brings("remember")
	r.launcher.asks = &fakeRequests{}
	r.launcher.play = func(func(input.Input)) {
		r.hook("Start", "")
		time.Sleep(time.Second)
		play(r)
		r.launcher.child.end(input.ChildExited{})
	}
	_, err := r.run()
	require.NoError(t, err)
	return r
}

// settled returns the states of the payloads that were settled.
func (r *rig) settled() (out []string) {
	for _, f := range r.ledger.facts {
		if f, ok := f.(kernel.PayloadSettled); ok {
			out = append(out, string(f.Status))
		}
	}
	return out
}

// If a question arrives before the events that show its session and turn, it waits
// for them, and its answer contains the payload.
func TestAQuestionWaitsForItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, func(r *rig) {
			plugin := r.streams(hookKey, 7)
			go func() {
				time.Sleep(time.Second)
				plugin <- "prompt"
			}()
			if c := r.asks(); c.after != time.Second+10*time.Millisecond || c.answers != 1 || strings.Count(string(c.out), "remember") != 1 {
				t.Errorf("after %v: %d answers, %q", c.after, c.answers, c.out)
			}
			if c := r.asks(); c.after != eventTime || c.answers != 1 || len(c.out) > 0 {
				t.Errorf("a later request: after %v: %d answers, %q", c.after, c.answers, c.out)
			}
			close(plugin)
		})
		require.Equal(t, []string{"delivered"}, r.settled())
	})
}

// If a client is slow, a question gets an empty answer in time. If the harness stops
// waiting, the question gets no answer.
func TestAHarnessStopsWaitingForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.answers["notes"] = func(ctx context.Context, event string) (string, error) {
			if event == string(lifeloop.FrameOpening) {
				return asleep(time.Minute)(ctx, event)
			}
			return observed, nil
		}
		r.launcher.asks = &fakeRequests{}
		r.launcher.play = func(func(input.Input)) {
			r.hook("Start", "")
			plugin := r.streams(hookKey, 7)
			plugin <- "prompt"
			if c := r.asks(); c.after != 5*time.Second-hookMargin || len(c.out) > 0 {
				t.Errorf("after %v: %q", c.after, c.out)
			}
			plugin <- "prompt"
			c := r.asks(func(c *fakeCaller) { time.AfterFunc(time.Second/2, func() { close(c.gone) }) })
			if c.after != time.Second/2 || c.answers != 0 {
				t.Errorf("after %v: %d answers", c.after, c.answers)
			}
			close(plugin)
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		require.Empty(t, r.settled())
	})
}

// A stream is not read if it lacks the key of the launch, or if it comes from another
// process than the first stream. At the end of a stream, held signals are released.
func TestOnlyThePluginStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, func(r *rig) {
			plugin := r.streams(hookKey, 7)
			plugin <- "begins"
			for _, foreign := range []chan<- string{r.streams("another", 7), r.streams(hookKey, 8)} {
				synctest.Wait()
				select {
				case foreign <- "prompt":
					t.Error("a foreign stream is read")
				default:
				}
			}
			plugin <- "prompt"
			plugin <- "held"
			close(plugin)
			synctest.Wait()
		})
		var seen, foreign []string
		for _, f := range r.ledger.facts {
			switch f := f.(type) {
			case kernel.ActivitySeen:
				seen = append(seen, f.Source)
			case kernel.UnknownCounted:
				foreign = append(foreign, f.Source)
			}
		}
		require.Contains(t, seen, "plugin")
		require.NotEmpty(t, foreign)
	})
}

// onlyCaller accepts calls only from the process pid. launched is the pid of the harness.
type onlyCaller struct{ pid, launched int }

func (c *onlyCaller) Launched(pid int) { c.launched = pid }
func (c *onlyCaller) Own(pid int) bool { return pid == c.pid }

// A program that has inherited the hooks, with their key, gets no payload, reports no
// prompt and streams nothing.
func TestOnlyTheHarnessCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		callers := &onlyCaller{pid: 7}
		r.answers["notes"] = brings("remember")
		r.launcher.asks, r.launcher.callers = &fakeRequests{}, callers
		by := func(pid int, event, body string) *fakeCaller {
			c := &fakeCaller{rig: r, event: event, gone: make(chan struct{})}
			r.door.s.hook(r.door.ctx, control.Hook{Key: hookKey, Event: event, Input: []byte(body), PID: pid}, c)
			return c
		}
		r.launcher.play = func(func(input.Input)) {
			<-r.door.ready
			by(7, "Start", "")
			require.Empty(t, by(8, "Start", "").out)
			require.Empty(t, by(8, "Prompt", "p1").out)
			select {
			case r.streams(hookKey, 8) <- "prompt":
				t.Error("a foreign stream is read")
			case <-time.After(time.Second):
			}
			require.Contains(t, string(by(7, "Prompt", "p2").out), "remember")
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		require.Equal(t, 42, callers.launched)
		prompts := 0
		for _, line := range r.receipts() {
			if strings.Contains(line, "frame.opening") {
				prompts++
			}
		}
		require.Equal(t, 1, prompts)
	})
}

// The log lists the calls and streams that were ignored as foreign to the launch.
func TestTheLogSaysWhatWasIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t)
		r.options.Log = zerolog.New(&log)
		r.launcher.asks, r.launcher.asking = &fakeRequests{}, foreignAsking{}
		r.launcher.play = func(func(input.Input)) {
			<-r.door.ready
			synctest.Wait()
			r.streams("another", 7)
			synctest.Wait()
			for range 2 {
				r.door.s.hook(r.door.ctx, control.Hook{Key: "another", Event: "Start"}, &fakeCaller{rig: r})
			}
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		var said []string
		for line := range strings.Lines(log.String()) {
			var entry struct {
				Event, Message string
				SoFar          int `json:"ignored_so_far"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			said = append(said, fmt.Sprintf("%d %s: %s", entry.SoFar, entry.Event, entry.Message))
		}
		require.Equal(t, []string{
			"1 instructions: a request for the instructions that does not belong to this launch was ignored",
			"2 plugin: a plugin's stream that does not belong to this launch was ignored",
			"4 Start: a hook call that does not belong to this launch was ignored",
		}, said)
	})
}

// foreignAsking receives one question, from another process.
type foreignAsking struct{}

func (foreignAsking) Serve(_ context.Context, _ int, _ func(context.Context, *instructions.Reading), foreign func()) error {
	foreign()
	return nil
}

// At the end of a launch, everything that the plugin has sent is still read.
func TestTheStreamIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.answers["notes"] = quick
		r.launcher.asks = &fakeRequests{}
		r.launcher.play = func(func(input.Input)) {
			r.hook("Start", "")
			plugin := r.streams(hookKey, 7)
			plugin <- "begins"
			r.launcher.child.end(input.ChildExited{})
			time.Sleep(time.Second)
			r.note("plugin ends")
			close(plugin)
		}
		_, err := r.run()
		require.NoError(t, err)
		trace := strings.Join(r.trace, "\n")
		require.Less(t, strings.Index(trace, "plugin ends"), strings.Index(trace, "sources read"), trace)
	})
}

// unnamedRequests decodes the events of a harness. Each question is treated as two hook
// calls without a session.
type unnamedRequests struct {
	fakeRequests
	waits bool // for events, which do not come
}

func (d *unnamedRequests) Request(late bool) (telemetry.Request, bool) {
	if d.waits && !late {
		return telemetry.Request{}, false
	}
	start, _ := decodeHook("Start", nil)
	prompt, _ := decodeHook("Prompt", []byte("p1"))
	start.Signals[0].Session, prompt.Signals[0].Session = "", ""
	return telemetry.Request{Calls: []telemetry.HookCall{start, prompt}}, true
}

// silentSources do not show which session got a prompt, and take all the time that they get.
type silentSources struct{ *fakeSources }

func (silentSources) Prompted(ctx context.Context) string {
	<-ctx.Done()
	return ""
}

// The clients have time to answer a question, even if no source shows the events and the
// session of the question.
func TestAQuestionLeavesTimeForItsClients(t *testing.T) {
	for name, tc := range map[string]struct {
		waits bool
		after time.Duration
	}{
		"its session is not shown":      {false, eventTime},
		"its events do not come either": {true, 5*time.Second - hookMargin - clientTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.answers["notes"] = brings("remember")
				r.launcher.asks, r.launcher.silent = &unnamedRequests{waits: tc.waits}, true
				r.launcher.play = func(func(input.Input)) {
					c := r.asks()
					r.launcher.child.end(input.ChildExited{})
					require.Equal(t, tc.after, c.after.Truncate(100*time.Millisecond))
					require.Contains(t, string(c.out), "remember")
				}
				_, err := r.run()
				require.NoError(t, err)
				require.Equal(t, []string{"delivered"}, r.settled())
			})
		})
	}
}

var _ control.Follower = (*supervisor)(nil)

// A report is made if a plugin does not connect, and a second one when the plugin
// connects later.
func TestAPluginIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, func(r *rig) {
			if c := r.asks(); c.after != eventTime || len(c.out) > 0 {
				t.Errorf("after %v: %q", c.after, c.out)
			}
			r.asks()
			close(r.streams(hookKey, 7))
			synctest.Wait()
		})
		var troubles []string
		for _, f := range r.ledger.facts {
			if f, ok := f.(kernel.SourceTroubled); ok {
				troubles = append(troubles, f.Source+" "+f.What)
			}
		}
		require.Equal(t, []string{"plugin unreadable", "plugin recovered"}, troubles)
	})
}

// A released hook already has an empty answer. If the kernel's answer comes later, the
// loop drops the kernel's answer and does not wait for the hook.
func TestAReleasedHookIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &supervisor{requests: newRequests()}
		answered, done := await(&s.requests, s.requests.hooks, "h1")
		defer done()
		s.requests.releaseHooks()
		s.answerHook(effect.HookAnswer{Hook: "h1"})
		require.Empty(t, s.results)
		s.answerHook(effect.HookAnswer{Hook: "h1", Clear: true})
		require.Equal(t, []input.Input{input.HookClosed{Hook: "h1"}}, s.results)
		require.Equal(t, answer{}, <-answered)
	})
}
